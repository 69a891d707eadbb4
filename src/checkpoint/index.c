/* The index comes with the download, so its file names are held to plain names inside of the folder: one with a path in
 * it could make quern open anything. */
#include "checkpoint/index.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum { FILE_NAME_BYTES = 255 };

static bool is_plain_name(const json_t *value)
{
    static const char SUFFIX[] = ".safetensors";
    const char *text = json_string_value(value);
    size_t bytes = json_string_length(value);
    if (!text || bytes < sizeof SUFFIX || bytes > FILE_NAME_BYTES || bytes != strlen(text))
        return false;
    for (size_t i = 0; i < bytes; i++) {
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f || text[i] == '/' || text[i] == '\\')
            return false;
    }
    return strcmp(text + bytes - (sizeof SUFFIX - 1), SUFFIX) == 0;
}

static int compare_strings(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;
    return strcmp(*x, *y);
}

/* Every tensor's file, checked, then each once. */
static qn_status collect_files(const char *path, qn_index *out, qn_error *err)
{
    size_t count = json_object_size(out->weight_map), used = 0;
    out->files = qn_alloc(count, sizeof *out->files);
    if (!out->files)
        return qn_fail_memory(err, path, count * sizeof *out->files);
    const char *name;
    json_t *value;
    json_object_foreach(out->weight_map, name, value)
    {
        if (!is_plain_name(value))
            return qn_fail(err, QN_BAD_INPUT,
                           "%s: tensor %s: its file is %s, not the plain name of a .safetensors file in the same "
                           "folder: correct the index",
                           path, name, json_is_string(value) ? json_string_value(value) : "no string");
        out->files[used++] = json_string_value(value);
    }
    qsort(out->files, used, sizeof *out->files, compare_strings);
    for (size_t i = 0; i < used; i++) {
        if (out->file_count == 0 || strcmp(out->files[out->file_count - 1], out->files[i]) != 0)
            out->files[out->file_count++] = out->files[i];
    }
    if (out->file_count > QN_MAX_SHARDS)
        return qn_fail(err, QN_BAD_INPUT, "%s: names %zu files, more than the %d that are allowed: use larger shards",
                       path, out->file_count, QN_MAX_SHARDS);
    return QN_OK;
}

static qn_status read_total(const char *path, qn_index *out, qn_error *err)
{
    const json_t *metadata = json_object_get(out->root, "metadata");
    if (metadata && !json_is_object(metadata))
        return qn_fail(err, QN_BAD_INPUT, "%s: metadata is no object but %s: correct or remove it", path,
                       qn_json_type_name(metadata));
    const json_t *total = json_object_get(metadata, "total_size");
    if (!total)
        return QN_OK;
    /* some writers make it a float; whole numbers up to 2^53 lose nothing by that */
    double number = json_number_value(total);
    if (!json_is_number(total) || !(number >= 0 && number <= 0x1p53) || number != (double)(uint64_t)number)
        return qn_fail(err, QN_BAD_INPUT,
                       "%s: metadata.total_size is not a whole number of bytes: correct or remove it", path);
    out->has_total = true;
    out->total_size = json_is_integer(total) ? (uint64_t)json_integer_value(total) : (uint64_t)number;
    return QN_OK;
}

static qn_status read_index(const char *path, qn_index *out, qn_error *err)
{
    out->weight_map = json_object_get(out->root, "weight_map");
    if (!json_is_object(out->weight_map) || json_object_size(out->weight_map) == 0)
        return qn_fail(err, QN_BAD_INPUT,
                       "%s: has no weight_map, the object that names the file of each tensor: fetch it again", path);
    qn_status status = collect_files(path, out, err);
    return status == QN_OK ? read_total(path, out, err) : status;
}

qn_status qn_index_open(const char *path, qn_index *out, qn_error *err)
{
    *out = (qn_index){0};
    qn_status status = qn_json_parse_file(path, QN_INDEX_LIMIT_BYTES, &out->root, err);
    if (status == QN_OK)
        status = read_index(path, out, err);
    if (status != QN_OK)
        qn_index_close(out);
    return status;
}

void qn_index_close(qn_index *index)
{
    json_decref(index->root);
    qn_free(index->files);
    *index = (qn_index){0};
}

size_t qn_index_count(const qn_index *index)
{
    return json_object_size(index->weight_map);
}

const char *qn_index_file_of(const qn_index *index, const char *tensor_name)
{
    return json_string_value(json_object_get(index->weight_map, tensor_name));
}
