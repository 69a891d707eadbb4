/* The header's parser checks each tensor by itself; here they are checked against each other (the data section is
 * covered exactly once, no name twice) and indexed by name. */
#include "checkpoint/safetensors.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/memory.h"
#include "checkpoint/safetensors_header.h"

struct qn_safetensors {
    qn_mapping mapping; /* {0} when the bytes are the caller's */
    qn_arena *names;
    qn_tensor *tensors; /* ascending data */
    const qn_tensor **by_name;
    size_t count;
};

const char *qn_tensor_describe(qn_dtype dtype, size_t dims, const size_t *shape, char out[QN_TENSOR_DESCRIPTION_BYTES])
{
    /* the longest, 8 dimensions of 20 digits, fits */
    int at = snprintf(out, QN_TENSOR_DESCRIPTION_BYTES, "%s [", qn_dtype_name(dtype));
    for (size_t i = 0; i < dims; i++)
        at += snprintf(out + at, QN_TENSOR_DESCRIPTION_BYTES - (size_t)at, "%s%zu", i ? ", " : "", shape[i]);
    snprintf(out + at, QN_TENSOR_DESCRIPTION_BYTES - (size_t)at, "]");
    return out;
}

static int compare_data(const void *a, const void *b)
{
    const qn_tensor *x = a, *y = b;
    if (x->data != y->data)
        return x->data < y->data ? -1 : 1;
    if (x->bytes != y->bytes) /* an empty tensor stands before the one that starts where it stands */
        return x->bytes < y->bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

static int compare_names(const void *a, const void *b)
{
    const qn_tensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static qn_status check_cover(const qn_safetensors *file, const qn_header_text *header, qn_error *err)
{
    const uint8_t *at = header->data, *end = header->data + header->data_bytes;
    for (size_t i = 0; i < file->count; i++) {
        const qn_tensor *t = &file->tensors[i];
        if (t->data != at)
            return qn_fail(err, QN_BAD_INPUT,
                           "%s: tensor %s: its data begin at byte %zu of the data section, %s byte %zu: fetch or "
                           "write the file again",
                           header->what, t->name, (size_t)(t->data - header->data),
                           t->data < at ? "inside the tensor that ends at" : "leaving a hole behind",
                           (size_t)(at - header->data));
        at += t->bytes;
    }
    if (at != end)
        return qn_fail(err, QN_BAD_INPUT,
                       "%s: has %zu bytes that belong to no tensor behind the last one: fetch or write the file again",
                       header->what, (size_t)(end - at));
    return QN_OK;
}

static qn_status index_names(qn_safetensors *file, const char *what, qn_error *err)
{
    file->by_name = qn_alloc(file->count, sizeof *file->by_name);
    if (!file->by_name)
        return qn_fail_memory(err, what, file->count * sizeof *file->by_name);
    for (size_t i = 0; i < file->count; i++)
        file->by_name[i] = &file->tensors[i];
    qsort(file->by_name, file->count, sizeof *file->by_name, compare_names);
    for (size_t i = 1; i < file->count; i++) {
        if (strcmp(file->by_name[i - 1]->name, file->by_name[i]->name) == 0)
            return qn_fail(err, QN_BAD_INPUT,
                           "%s: tensor %s: stands twice in the header: fetch or write the file again", what,
                           file->by_name[i]->name);
    }
    return QN_OK;
}

/* Where header and data lie, from the eight bytes in front. */
static qn_status split(const uint8_t *data, size_t bytes, const char *what, qn_header_text *out, qn_error *err)
{
    if (bytes < 8)
        return qn_fail(err, QN_BAD_INPUT,
                       "%s: has %zu bytes, too few for a safetensors file: it is truncated, fetch it again", what,
                       bytes);
    uint64_t header_bytes = 0;
    for (int i = 7; i >= 0; i--)
        header_bytes = header_bytes << 8 | data[i];
    if (header_bytes > bytes - 8)
        return qn_fail(err, QN_BAD_INPUT,
                       "%s: claims a header of %llu bytes, but %zu follow: it is truncated or no safetensors file, "
                       "fetch it again",
                       what, (unsigned long long)header_bytes, bytes - 8);
    if (header_bytes > QN_SAFETENSORS_MAX_HEADER_BYTES)
        return qn_fail(err, QN_BAD_INPUT,
                       "%s: claims a header of %llu bytes, more than the %d that are allowed: split "
                       "the file",
                       what, (unsigned long long)header_bytes, QN_SAFETENSORS_MAX_HEADER_BYTES);
    *out = (qn_header_text){.text = (const char *)data + 8,
                            .bytes = (size_t)header_bytes,
                            .data = data + 8 + header_bytes,
                            .data_bytes = bytes - 8 - (size_t)header_bytes,
                            .what = what};
    return QN_OK;
}

qn_status qn_safetensors_parse(const uint8_t *data, size_t bytes, const char *what, qn_safetensors **out, qn_error *err)
{
    enum { ARENA_SLACK_BYTES = 1 << 20 };
    qn_header_text header;
    qn_status status = split(data, bytes, what, &header, err);
    if (status != QN_OK)
        return status;
    qn_safetensors *file = qn_alloc_zero(1, sizeof *file);
    if (!file)
        return qn_fail_memory(err, what, sizeof *file);
    /* a name takes less room, rounded up, than its whole entry in the header */
    file->names = qn_arena_new(header.bytes + ARENA_SLACK_BYTES);
    if (!file->names)
        status = qn_fail_memory(err, what, header.bytes);
    if (status == QN_OK)
        status = qn_safetensors_header_parse(&header, file->names, &file->tensors, &file->count, err);
    if (status == QN_OK && file->count > 0) {
        qsort(file->tensors, file->count, sizeof *file->tensors, compare_data);
        status = index_names(file, what, err);
    }
    if (status == QN_OK)
        status = check_cover(file, &header, err);
    if (status != QN_OK) {
        qn_safetensors_close(file);
        return status;
    }
    *out = file;
    return QN_OK;
}

qn_status qn_safetensors_open(const char *path, qn_safetensors **out, qn_error *err)
{
    qn_mapping mapping = {0};
    qn_status status = qn_file_map(path, &mapping, err);
    if (status != QN_OK)
        return status;
    status = qn_safetensors_parse(mapping.data, mapping.bytes, path, out, err);
    if (status != QN_OK) {
        qn_file_unmap(&mapping);
        return status;
    }
    (*out)->mapping = mapping;
    return QN_OK;
}

void qn_safetensors_close(qn_safetensors *file)
{
    if (!file)
        return;
    qn_free(file->by_name);
    qn_free(file->tensors);
    qn_arena_free(file->names);
    qn_file_unmap(&file->mapping);
    qn_free(file);
}

size_t qn_safetensors_count(const qn_safetensors *file)
{
    return file->count;
}

const qn_tensor *qn_safetensors_at(const qn_safetensors *file, size_t i)
{
    assert(i < file->count);
    return &file->tensors[i];
}

const qn_tensor *qn_safetensors_find(const qn_safetensors *file, const char *name)
{
    size_t low = 0, high = file->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(name, file->by_name[middle]->name);
        if (order == 0)
            return file->by_name[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}
