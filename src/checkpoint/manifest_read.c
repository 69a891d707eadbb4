/* The reader of manifests. Each object must have exactly its fields: a field that this version does not know could
 * change what the others mean, and a verification that skips it would promise too much. */
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "checkpoint/manifest.h"

typedef struct reader {
    const char *what;
    qn_error *err;
} reader;

static qn_status fail(const reader *r, const char *place, const char *reason)
{
    return qn_fail(r->err, QN_BAD_INPUT, "%s: %s%s%s: convert the model again, or fetch the file again", r->what, place,
                   *place ? ": " : "", reason);
}

/* Exactly these fields and no other. */
static bool has_fields(const json_t *object, const char *const *names, size_t count)
{
    if (!json_is_object(object) || json_object_size(object) != count)
        return false;
    for (size_t i = 0; i < count; i++) {
        if (!json_object_get(object, names[i]))
            return false;
    }
    return true;
}

/* The text of a string without NULs in it; NULL for anything else. */
static const char *text_of(const json_t *value)
{
    const char *text = json_string_value(value);
    return text && strlen(text) == json_string_length(value) ? text : NULL;
}

static bool read_hash(const json_t *value, qn_hash *out)
{
    return json_is_string(value) && qn_hash_parse(json_string_value(value), json_string_length(value), out);
}

/* Fills out[json_object_size(tensors)]; the names stay the document's. */
static qn_status read_tensors(const reader *r, const char *file_name, json_t *tensors, qn_manifest_tensor *out)
{
    const char *name;
    size_t name_bytes, i = 0;
    json_t *value;
    json_object_keylen_foreach(tensors, name, name_bytes, value)
    {
        if (strlen(name) != name_bytes || !qn_manifest_check_tensor(name))
            return fail(r, file_name, "the name of one of its tensors is empty, too long or does not print");
        out[i].name = name;
        if (!read_hash(value, &out[i++].hash))
            return qn_fail(r->err, QN_BAD_INPUT,
                           "%s: %s: tensor %s: its hash is not 32 hexadecimal digits: convert the model again, or "
                           "fetch the file again",
                           r->what, file_name, name);
    }
    return QN_OK;
}

static qn_status add_weights(const reader *r, qn_manifest_file *file, json_t *tensors, qn_manifest *into)
{
    file->tensor_count = json_object_size(tensors);
    qn_manifest_tensor *list = qn_alloc(file->tensor_count, sizeof *list);
    if (!list)
        return qn_fail_memory(r->err, r->what, file->tensor_count * sizeof *list);
    qn_status status = read_tensors(r, file->name, tensors, list);
    file->tensors = list;
    if (status == QN_OK)
        status = qn_manifest_add(into, file, r->err);
    qn_free(list);
    return status;
}

static qn_status read_file(const reader *r, const json_t *entry, qn_manifest *into)
{
    static const char *const whole[] = {"name", "bytes", "hash"};
    static const char *const weights[] = {"name", "bytes", "header", "tensors"};
    const char *name = text_of(json_object_get(entry, "name"));
    if (!name)
        return fail(r, "", "a file's entry is no object with a name");
    json_t *tensors = json_object_get(entry, "tensors");
    if (tensors ? !has_fields(entry, weights, 4) : !has_fields(entry, whole, 3))
        return fail(r, name, "its entry has an unknown field or lacks one (name, bytes, hash or header and tensors)");
    const char *fault = qn_manifest_check_file(name, tensors != NULL);
    if (fault)
        return fail(r, name, fault);
    const json_t *bytes = json_object_get(entry, "bytes");
    qn_manifest_file file = {.name = name};
    if (!json_is_integer(bytes) || json_integer_value(bytes) < 0)
        return fail(r, name, "its bytes are not a whole number");
    file.bytes = (uint64_t)json_integer_value(bytes);
    if (!read_hash(json_object_get(entry, tensors ? "header" : "hash"), &file.hash))
        return fail(r, name, "its hash is not 32 hexadecimal digits");
    if (qn_manifest_find(into, name))
        return fail(r, name, "is listed twice");
    if (qn_manifest_count(into) == QN_MANIFEST_MAX_FILES)
        return fail(r, name, "there are more files than a manifest may list");
    if (!tensors)
        return qn_manifest_add(into, &file, r->err);
    if (!json_is_object(tensors) || json_object_size(tensors) > QN_MANIFEST_MAX_TENSORS)
        return fail(r, name, "its tensors are no object of hashes by name, or too many");
    return add_weights(r, &file, tensors, into);
}

static qn_status read_settings(const reader *r, json_t *settings, qn_manifest *into)
{
    if (!json_is_object(settings) || json_object_size(settings) > QN_MANIFEST_MAX_SETTINGS)
        return fail(r, "settings", "is no object of a few strings");
    const char *name;
    size_t name_bytes;
    json_t *value;
    json_object_keylen_foreach(settings, name, name_bytes, value)
    {
        const char *text = text_of(value);
        qn_error ignored;
        qn_status status = text && strlen(name) == name_bytes ? qn_manifest_set(into, name, text, &ignored)
                                                              : QN_BAD_INPUT;
        if (status == QN_RESOURCE) {
            *r->err = ignored;
            return status;
        }
        if (status != QN_OK)
            return fail(r, "settings", "has a name or a value that is no short text");
    }
    return QN_OK;
}

static qn_status read_document(const reader *r, const json_t *root, qn_manifest *into)
{
    static const char *const names[] = {"format", "version", "settings", "files"};
    const char *format = text_of(json_object_get(root, "format"));
    if (!format || strcmp(format, "quern-manifest") != 0)
        return fail(r, "", "is no manifest of quern (its format is not \"quern-manifest\")");
    const json_t *version = json_object_get(root, "version");
    if (!json_is_integer(version) || json_integer_value(version) != 1)
        return fail(r, "version", "is not 1, the one that this quern reads");
    json_t *files = json_object_get(root, "files");
    if (!has_fields(root, names, 4) || !json_is_array(files))
        return fail(r, "", "has an unknown field or lacks one (format, version, settings, files)");
    qn_status status = read_settings(r, json_object_get(root, "settings"), into);
    for (size_t i = 0; i < json_array_size(files) && status == QN_OK; i++)
        status = read_file(r, json_array_get(files, i), into);
    return status;
}

qn_status qn_manifest_parse(const char *text, size_t bytes, const char *what, qn_manifest **out, qn_error *err)
{
    reader r = {.what = what, .err = err};
    json_t *root = NULL;
    qn_manifest *manifest = NULL;
    qn_status status = qn_json_parse(text, bytes, what, &root, err);
    if (status == QN_OK)
        status = qn_manifest_new(&manifest, err);
    if (status == QN_OK)
        status = read_document(&r, root, manifest);
    json_decref(root);
    if (status != QN_OK) {
        qn_manifest_free(manifest);
        return status;
    }
    *out = manifest;
    return QN_OK;
}

qn_status qn_manifest_entry_parse(const char *text, size_t bytes, const char *what, qn_manifest *into, qn_error *err)
{
    reader r = {.what = what, .err = err};
    json_t *root = NULL;
    qn_status status = qn_json_parse(text, bytes, what, &root, err);
    if (status == QN_OK)
        status = read_file(&r, root, into);
    json_decref(root);
    return status;
}
