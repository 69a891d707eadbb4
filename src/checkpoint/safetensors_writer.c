/* The header is known in full before any data, since offsets follow from the declarations: so it is written first and
 * the data go straight through to the file. */
#include "checkpoint/safetensors_writer.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "checkpoint/safetensors.h"

enum { DATA_ALIGNMENT = 64, LENGTH_BYTES = 8 };

struct qn_safetensors_writer {
    qn_arena *names;
    qn_tensor_declaration *tensors;
    size_t count, capacity;
    size_t total_bytes, written_bytes; /* of data */
    char *path;                        /* NULL before begin */
    qn_file_writer *file;
};

qn_status qn_safetensors_writer_new(qn_safetensors_writer **out, qn_error *err)
{
    qn_safetensors_writer *w = qn_alloc_zero(1, sizeof *w);
    if (!w || !(w->names = qn_arena_new(QN_SAFETENSORS_MAX_HEADER_BYTES))) {
        qn_free(w);
        return qn_fail_memory(err, "safetensors writer", sizeof *w);
    }
    *out = w;
    return QN_OK;
}

void qn_safetensors_writer_free(qn_safetensors_writer *w)
{
    if (!w)
        return;
    qn_file_writer_close(w->file);
    qn_free(w->path);
    qn_free(w->tensors);
    qn_arena_free(w->names);
    qn_free(w);
}

static qn_status grow(qn_safetensors_writer *w, qn_error *err)
{
    if (w->count < w->capacity)
        return QN_OK;
    if (w->count == QN_SAFETENSORS_MAX_TENSORS)
        return qn_fail(err, QN_USAGE, "safetensors writer: more than %d tensors: write several files",
                       QN_SAFETENSORS_MAX_TENSORS);
    size_t capacity = w->capacity ? 2 * w->capacity : 64;
    qn_tensor_declaration *grown = qn_realloc(w->tensors, capacity, sizeof *grown);
    if (!grown)
        return qn_fail_memory(err, "safetensors writer", capacity * sizeof *grown);
    w->tensors = grown;
    w->capacity = capacity;
    return QN_OK;
}

static bool is_good_name(const char *name)
{
    size_t bytes = strlen(name);
    if (bytes == 0 || bytes > QN_TENSOR_NAME_BYTES || strcmp(name, "__metadata__") == 0 || !qn_utf8_valid(name, bytes))
        return false;
    for (size_t i = 0; i < bytes; i++) {
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f)
            return false;
    }
    return true;
}

qn_status qn_tensor_declare(qn_tensor_declaration *tensor, qn_error *err)
{
    if (!is_good_name(tensor->name) || tensor->dims > QN_TENSOR_MAX_DIMS || tensor->dtype >= QN_DTYPE_MXFP4)
        return qn_fail(err, QN_USAGE,
                       "tensor %s: its name, dtype or number of dimensions has no place in a safetensors file: correct "
                       "the declaration",
                       tensor->name);
    bool fits = true;
    tensor->bytes = qn_dtype_bits(tensor->dtype) / 8;
    for (size_t i = 0; i < tensor->dims; i++)
        fits = fits && qn_size_mul(tensor->bytes, tensor->shape[i], &tensor->bytes);
    if (!fits)
        return qn_fail(err, QN_USAGE, "tensor %s: has more bytes than a file can: correct its shape", tensor->name);
    return QN_OK;
}

qn_status qn_safetensors_writer_declare(qn_safetensors_writer *w, const char *name, qn_dtype dtype, size_t dims,
                                        const size_t *shape, qn_error *err)
{
    if (w->path)
        return qn_fail(err, QN_USAGE, "tensor %s: declared after the file was begun: declare all tensors first", name);
    qn_tensor_declaration d = {.name = name, .dtype = dtype, .dims = dims};
    if (dims > 0 &&
        dims <= QN_TENSOR_MAX_DIMS) /* else the caller's shape may be shorter than dims says, and is refused unread */
        memcpy(d.shape, shape, dims * sizeof *shape);
    qn_status status = qn_tensor_declare(&d, err);
    if (status == QN_OK)
        status = grow(w, err);
    if (status != QN_OK)
        return status;
    size_t total;
    if (!qn_size_add(w->total_bytes, d.bytes, &total))
        return qn_fail(err, QN_USAGE, "tensor %s: has more bytes than a file can: correct its shape", name);
    d.name = qn_arena_strndup(w->names, name, strlen(name));
    if (!d.name)
        return qn_fail_memory(err, name, strlen(name) + 1);
    w->tensors[w->count++] = d;
    w->total_bytes = total;
    return QN_OK;
}

static int compare_names(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;
    return strcmp(*x, *y);
}

static qn_status refuse_repeated_names(const qn_safetensors_writer *w, qn_error *err)
{
    const char **names = qn_alloc(w->count, sizeof *names);
    if (!names)
        return qn_fail_memory(err, w->path, w->count * sizeof *names);
    for (size_t i = 0; i < w->count; i++)
        names[i] = w->tensors[i].name;
    qsort(names, w->count, sizeof *names, compare_names);
    qn_status status = QN_OK;
    for (size_t i = 1; i < w->count && status == QN_OK; i++) {
        if (strcmp(names[i - 1], names[i]) == 0)
            status = qn_fail(err, QN_USAGE, "%s: tensor %s: declared twice: declare each tensor once", w->path,
                             names[i]);
    }
    qn_free(names);
    return status;
}

qn_status qn_safetensors_format_header(const qn_tensor_declaration *tensors, size_t count, size_t alignment,
                                       const char *what, qn_buffer *out, qn_error *err)
{
    static const uint8_t no_length[LENGTH_BYTES];
    size_t at = 0, start = out->size;
    qn_buffer_append(out, no_length, sizeof no_length);
    qn_buffer_text(out, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (size_t i = 0; i < count; i++) {
        const qn_tensor_declaration *d = &tensors[i];
        qn_buffer_char(out, ',');
        qn_buffer_json_string(out, d->name, strlen(d->name));
        qn_buffer_format(out, ":{\"dtype\":\"%s\",\"shape\":[", qn_dtype_name(d->dtype));
        for (size_t k = 0; k < d->dims; k++)
            qn_buffer_format(out, "%s%zu", k ? "," : "", d->shape[k]);
        qn_buffer_format(out, "],\"data_offsets\":[%zu,%zu]}", at, at + d->bytes);
        at += d->bytes;
    }
    qn_buffer_char(out, '}');
    while (!out->failed && (out->size - start) % alignment != 0)
        qn_buffer_char(out, ' ');
    if (out->failed)
        return qn_fail_memory(err, what, out->size);
    uint64_t header_bytes = out->size - start - LENGTH_BYTES;
    if (header_bytes > QN_SAFETENSORS_MAX_HEADER_BYTES)
        return qn_fail(err, QN_USAGE, "%s: its header has more than %d bytes: write several files", what,
                       QN_SAFETENSORS_MAX_HEADER_BYTES);
    for (size_t i = 0; i < LENGTH_BYTES; i++)
        out->data[start + i] = (char)(uint8_t)(header_bytes >> (8 * i));
    return QN_OK;
}

static qn_status write_header(qn_safetensors_writer *w, qn_error *err)
{
    qn_buffer text = {0};
    qn_status status = qn_safetensors_format_header(w->tensors, w->count, DATA_ALIGNMENT, w->path, &text, err);
    if (status == QN_OK)
        status = qn_file_writer_append(w->file, text.data, text.size, err);
    qn_buffer_free(&text);
    return status;
}

qn_status qn_safetensors_writer_begin(qn_safetensors_writer *w, const char *path, qn_error *err)
{
    if (w->path)
        return qn_fail(err, QN_USAGE, "%s: begun twice: use a writer for each file", path);
    w->path = qn_strdup(path);
    if (!w->path)
        return qn_fail_memory(err, path, strlen(path) + 1);
    qn_status status = refuse_repeated_names(w, err);
    if (status == QN_OK)
        status = qn_file_writer_open(path, &w->file, err);
    return status == QN_OK ? write_header(w, err) : status;
}

qn_status qn_safetensors_writer_append(qn_safetensors_writer *w, const void *data, size_t bytes, qn_error *err)
{
    if (!w->file)
        return qn_fail(err, QN_USAGE, "safetensors writer: data before the file was begun: begin it first");
    if (bytes > w->total_bytes - w->written_bytes)
        return qn_fail(err, QN_USAGE, "%s: got more than the %zu bytes that were declared: write each tensor once",
                       w->path, w->total_bytes);
    qn_status status = qn_file_writer_append(w->file, data, bytes, err);
    if (status == QN_OK)
        w->written_bytes += bytes;
    return status;
}

qn_status qn_safetensors_writer_finish(qn_safetensors_writer *w, qn_error *err)
{
    if (!w->file || w->written_bytes != w->total_bytes)
        return qn_fail(err, QN_USAGE, "%s: got %zu of the %zu bytes that were declared: write every tensor",
                       w->path ? w->path : "safetensors writer", w->written_bytes, w->total_bytes);
    return qn_file_writer_commit(w->file, err);
}
