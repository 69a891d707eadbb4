/* The header's parser checks each tensor by itself; here they are checked against each other (the data section is
 * covered exactly once, no name twice) and indexed by name. */
#include "checkpoint/safetensors.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/direct_reader.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/size.h"
#include "checkpoint/safetensors_header.h"

enum { LENGTH_BYTES = 8 };

struct qn_safetensors {
    qn_mapping mapping; /* {0} when the bytes are the caller's */
    qn_arena *names;
    qn_hash header_hash;
    qn_tensor *tensors; /* ascending offsets */
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

static int compare_offsets(const void *a, const void *b)
{
    const qn_tensor *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
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
    size_t at = header->data_offset, end = header->data_offset + header->data_bytes;
    for (size_t i = 0; i < file->count; i++) {
        const qn_tensor *t = &file->tensors[i];
        if (t->offset != at)
            return qn_fail(err, QN_BAD_INPUT,
                           "%s: tensor %s: its data begin at byte %zu of the data section, %s byte %zu: fetch or "
                           "write the file again",
                           header->what, t->name, t->offset - header->data_offset,
                           t->offset < at ? "inside the tensor that ends at" : "leaving a hole behind",
                           at - header->data_offset);
        at += t->bytes;
    }
    if (at != end)
        return qn_fail(err, QN_BAD_INPUT,
                       "%s: has %zu bytes that belong to no tensor behind the last one: fetch or write the file again",
                       header->what, end - at);
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

/* The header's length, from the eight bytes in front of a file of `bytes` bytes. */
static qn_status read_length(const uint8_t *data, size_t bytes, const char *what, size_t *out, qn_error *err)
{
    if (bytes < LENGTH_BYTES)
        return qn_fail(err, QN_BAD_INPUT,
                       "%s: has %zu bytes, too few for a safetensors file: it is truncated, fetch it again", what,
                       bytes);
    uint64_t header_bytes = 0;
    for (int i = LENGTH_BYTES - 1; i >= 0; i--)
        header_bytes = header_bytes << 8 | data[i];
    if (header_bytes > bytes - LENGTH_BYTES)
        return qn_fail(err, QN_BAD_INPUT,
                       "%s: claims a header of %llu bytes, but %zu follow: it is truncated or no safetensors file, "
                       "fetch it again",
                       what, (unsigned long long)header_bytes, bytes - LENGTH_BYTES);
    if (header_bytes > QN_SAFETENSORS_MAX_HEADER_BYTES)
        return qn_fail(err, QN_BAD_INPUT,
                       "%s: claims a header of %llu bytes, more than the %d that are allowed: split "
                       "the file",
                       what, (unsigned long long)header_bytes, QN_SAFETENSORS_MAX_HEADER_BYTES);
    *out = (size_t)header_bytes;
    return QN_OK;
}

static qn_status parse(const qn_header_text *header, qn_safetensors **out, qn_error *err)
{
    enum { ARENA_SLACK_BYTES = 1 << 20 };
    qn_status status = QN_OK;
    qn_safetensors *file = qn_alloc_zero(1, sizeof *file);
    if (!file)
        return qn_fail_memory(err, header->what, sizeof *file);
    file->header_hash = qn_hash_bytes(header->text - LENGTH_BYTES, LENGTH_BYTES + header->bytes);
    /* a name takes less room, rounded up, than its whole entry in the header */
    file->names = qn_arena_new(header->bytes + ARENA_SLACK_BYTES);
    if (!file->names)
        status = qn_fail_memory(err, header->what, header->bytes);
    if (status == QN_OK)
        status = qn_safetensors_header_parse(header, file->names, &file->tensors, &file->count, err);
    if (status == QN_OK && file->count > 0) {
        qsort(file->tensors, file->count, sizeof *file->tensors, compare_offsets);
        status = index_names(file, header->what, err);
    }
    if (status == QN_OK)
        status = check_cover(file, header, err);
    if (status != QN_OK) {
        qn_safetensors_close(file);
        return status;
    }
    *out = file;
    return QN_OK;
}

/* `front`: the length and the header of a file of `bytes` bytes. */
static qn_header_text header_of(const uint8_t *front, size_t header_bytes, size_t bytes, const char *what)
{
    return (qn_header_text){.text = (const char *)front + LENGTH_BYTES,
                            .bytes = header_bytes,
                            .data_bytes = bytes - LENGTH_BYTES - header_bytes,
                            .data_offset = LENGTH_BYTES + header_bytes,
                            .what = what};
}

qn_status qn_safetensors_parse(const uint8_t *data, size_t bytes, const char *what, qn_safetensors **out, qn_error *err)
{
    size_t header_bytes = 0;
    qn_status status = read_length(data, bytes, what, &header_bytes, err);
    if (status != QN_OK)
        return status;
    qn_header_text header = header_of(data, header_bytes, bytes, what);
    header.data = data + header.data_offset;
    return parse(&header, out, err);
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

/* Reads the first `wanted` bytes into a buffer made for them, in *buffer of *buffer_bytes. */
static qn_status read_front(qn_direct_reader *reader, size_t wanted, void **buffer, size_t *buffer_bytes,
                            const uint8_t **front, const char *path, qn_error *err)
{
    *buffer_bytes = qn_direct_buffer_bytes(wanted);
    *buffer = qn_direct_buffer_new(*buffer_bytes);
    if (!*buffer)
        return qn_fail_memory(err, path, *buffer_bytes);
    return qn_direct_read(reader, 0, wanted, *buffer, front, err);
}

static qn_status use_header(qn_direct_reader *reader, const char *path, qn_header_use use, void *context, qn_error *err)
{
    size_t bytes = (size_t)qn_direct_reader_bytes(reader), header_bytes = 0, buffer_bytes = 0;
    void *buffer = NULL;
    const uint8_t *front = NULL;
    qn_status status = read_front(reader, qn_min_size(bytes, LENGTH_BYTES), &buffer, &buffer_bytes, &front, path, err);
    if (status == QN_OK)
        status = read_length(front, bytes, path, &header_bytes, err);
    qn_direct_buffer_free(buffer, buffer_bytes);
    if (status != QN_OK)
        return status;
    status = read_front(reader, LENGTH_BYTES + header_bytes, &buffer, &buffer_bytes, &front, path, err);
    if (status == QN_OK) {
        qn_header_text header = header_of(front, header_bytes, bytes, path);
        status = use(context, &header, err);
    }
    qn_direct_buffer_free(buffer, buffer_bytes);
    return status;
}

qn_status qn_safetensors_header_of_file(const char *path, qn_header_use use, void *context, qn_error *err)
{
    qn_direct_reader *reader = NULL;
    qn_status status = qn_direct_reader_open(path, &reader, err);
    if (status == QN_OK)
        status = use_header(reader, path, use, context, err);
    qn_direct_reader_close(reader);
    return status;
}

static qn_status parse_into(void *context, const qn_header_text *header, qn_error *err)
{
    return parse(header, context, err);
}

static qn_status parse_fp8_into(void *context, const qn_header_text *header, qn_error *err)
{
    qn_header_text taking = *header;
    taking.takes_fp8 = true;
    return parse(&taking, context, err);
}

qn_status qn_safetensors_open_fp8_header(const char *path, qn_safetensors **out, qn_error *err)
{
    return qn_safetensors_header_of_file(path, parse_fp8_into, out, err);
}

qn_status qn_safetensors_open_header(const char *path, qn_safetensors **out, qn_error *err)
{
    return qn_safetensors_header_of_file(path, parse_into, out, err);
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

const qn_file_identity *qn_safetensors_identity(const qn_safetensors *file)
{
    return &file->mapping.identity;
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

qn_hash qn_safetensors_header_hash(const qn_safetensors *file)
{
    return file->header_hash;
}
