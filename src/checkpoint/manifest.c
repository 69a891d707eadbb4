/* Entries are kept sorted by name, so that the text does not depend on the order in which workers finished. */
#include "checkpoint/manifest.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "checkpoint/safetensors.h"

/* Text of a document, and the structures that stand for it. */
enum { ARENA_LIMIT_BYTES = 4 * QN_MANIFEST_LIMIT_BYTES };

typedef struct setting {
    const char *name, *value;
} setting;

struct qn_manifest {
    qn_arena *arena;
    qn_manifest_file *files; /* ascending names */
    size_t count, capacity;
    setting settings[QN_MANIFEST_MAX_SETTINGS]; /* in order of their arrival */
    size_t setting_count;
};

qn_status qn_manifest_new(qn_manifest **out, qn_error *err)
{
    qn_manifest *m = qn_alloc_zero(1, sizeof *m);
    if (!m || !(m->arena = qn_arena_new(ARENA_LIMIT_BYTES))) {
        qn_free(m);
        return qn_fail_memory(err, "manifest", sizeof *m);
    }
    *out = m;
    return QN_OK;
}

void qn_manifest_free(qn_manifest *m)
{
    if (!m)
        return;
    qn_free(m->files);
    qn_arena_free(m->arena);
    qn_free(m);
}

static bool prints(const char *text, size_t bytes, size_t limit)
{
    if (bytes == 0 || bytes > limit || !qn_utf8_valid(text, bytes))
        return false;
    for (size_t i = 0; i < bytes; i++) {
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            return false;
    }
    return true;
}

static bool is_weights_name(const char *name)
{
    static const char SUFFIX[] = ".safetensors";
    size_t bytes = strlen(name), suffix = sizeof SUFFIX - 1;
    return bytes > suffix && strcmp(name + bytes - suffix, SUFFIX) == 0;
}

const char *qn_manifest_check_file(const char *name, bool weights)
{
    if (!prints(name, strlen(name), QN_MANIFEST_FILE_NAME_BYTES) || strpbrk(name, "/\\") || name[0] == '.')
        return "its name is not a plain file name";
    if (is_weights_name(name) != weights)
        return weights ? "it has tensors and is no .safetensors file" : "it is a .safetensors file without tensors";
    return NULL;
}

bool qn_manifest_check_tensor(const char *name)
{
    return prints(name, strlen(name), QN_TENSOR_NAME_BYTES);
}

/* Where the name is, or the place where it belongs. */
static bool locate(const qn_manifest *m, const char *name, size_t *at)
{
    size_t low = 0, high = m->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(name, m->files[middle].name);
        if (order == 0) {
            *at = middle;
            return true;
        }
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    *at = low;
    return false;
}

static int compare_tensor_names(const void *a, const void *b)
{
    const qn_manifest_tensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

/* A document with a name twice could not be read again. */
static qn_status refuse_repeated(const qn_manifest_file *file, qn_error *err)
{
    const qn_manifest_tensor **sorted = qn_alloc(file->tensor_count, sizeof(const qn_manifest_tensor *));
    if (!sorted)
        return qn_fail_memory(err, file->name, file->tensor_count * sizeof(const qn_manifest_tensor *));
    for (size_t i = 0; i < file->tensor_count; i++)
        sorted[i] = &file->tensors[i];
    qsort(sorted, file->tensor_count, sizeof(const qn_manifest_tensor *), compare_tensor_names);
    qn_status status = QN_OK;
    for (size_t i = 1; i < file->tensor_count && status == QN_OK; i++) {
        if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
            status = qn_fail(err, QN_USAGE, "manifest: %s: tensor %s stands twice: list each tensor once", file->name,
                             sorted[i]->name);
    }
    qn_free(sorted);
    return status;
}

static qn_status check_file(const qn_manifest *m, const qn_manifest_file *file, qn_error *err)
{
    size_t at;
    const char *fault = qn_manifest_check_file(file->name, file->tensors != NULL);
    if (!fault && locate(m, file->name, &at))
        fault = "it is listed twice";
    if (!fault && m->count == QN_MANIFEST_MAX_FILES)
        fault = "there are more files than a manifest may list";
    if (!fault && file->bytes > INT64_MAX)
        fault = "it is larger than a file can be";
    if (!fault && file->tensor_count > QN_MANIFEST_MAX_TENSORS)
        fault = "it has more tensors than a file may";
    for (size_t i = 0; i < file->tensor_count && !fault; i++) {
        if (!qn_manifest_check_tensor(file->tensors[i].name))
            fault = "the name of one of its tensors is empty, too long or does not print";
    }
    if (fault)
        return qn_fail(err, QN_USAGE, "manifest: %s: %s: correct the list", file->name, fault);
    return refuse_repeated(file, err);
}

static qn_status grow(qn_manifest *m, qn_error *err)
{
    if (m->count < m->capacity)
        return QN_OK;
    size_t capacity = m->capacity ? 2 * m->capacity : 64;
    qn_manifest_file *grown = qn_realloc(m->files, capacity, sizeof *grown);
    if (!grown)
        return qn_fail_memory(err, "manifest", capacity * sizeof *grown);
    m->files = grown;
    m->capacity = capacity;
    return QN_OK;
}

static bool copy_file(qn_manifest *m, const qn_manifest_file *file, qn_manifest_file *out)
{
    *out = *file;
    out->name = qn_arena_strndup(m->arena, file->name, strlen(file->name));
    if (!out->name || !file->tensors)
        return out->name != NULL;
    qn_manifest_tensor *tensors = qn_arena_alloc(m->arena, file->tensor_count, sizeof *tensors);
    for (size_t i = 0; i < file->tensor_count && tensors; i++) {
        const char *name = file->tensors[i].name;
        tensors[i] = (qn_manifest_tensor){qn_arena_strndup(m->arena, name, strlen(name)), file->tensors[i].hash};
        if (!tensors[i].name)
            return false;
    }
    out->tensors = tensors;
    return tensors != NULL;
}

qn_status qn_manifest_add(qn_manifest *m, const qn_manifest_file *file, qn_error *err)
{
    qn_status status = check_file(m, file, err);
    if (status == QN_OK)
        status = grow(m, err);
    if (status != QN_OK)
        return status;
    qn_manifest_file copy;
    if (!copy_file(m, file, &copy))
        return qn_fail_memory(err, "manifest", file->tensor_count * sizeof *file->tensors);
    size_t at;
    locate(m, copy.name, &at);
    memmove(&m->files[at + 1], &m->files[at], (m->count - at) * sizeof *m->files);
    m->files[at] = copy;
    m->count++;
    return QN_OK;
}

qn_status qn_manifest_set(qn_manifest *m, const char *name, const char *value, qn_error *err)
{
    if (!prints(name, strlen(name), QN_MANIFEST_SETTING_BYTES) || !qn_utf8_valid(value, strlen(value)) ||
        strlen(value) > QN_MANIFEST_SETTING_BYTES)
        return qn_fail(err, QN_USAGE, "manifest: setting %s: is not text of at most %d bytes: shorten it", name,
                       QN_MANIFEST_SETTING_BYTES);
    size_t at = 0;
    while (at < m->setting_count && strcmp(m->settings[at].name, name) != 0)
        at++;
    if (at == QN_MANIFEST_MAX_SETTINGS)
        return qn_fail(err, QN_USAGE, "manifest: more than %d settings: leave some out", QN_MANIFEST_MAX_SETTINGS);
    setting copy = {qn_arena_strndup(m->arena, name, strlen(name)), qn_arena_strndup(m->arena, value, strlen(value))};
    if (!copy.name || !copy.value)
        return qn_fail_memory(err, "manifest", strlen(name) + strlen(value));
    m->settings[at] = copy;
    m->setting_count = m->setting_count > at ? m->setting_count : at + 1;
    return QN_OK;
}

size_t qn_manifest_count(const qn_manifest *m)
{
    return m->count;
}

const qn_manifest_file *qn_manifest_at(const qn_manifest *m, size_t i)
{
    assert(i < m->count);
    return &m->files[i];
}

const qn_manifest_file *qn_manifest_find(const qn_manifest *m, const char *name)
{
    size_t at;
    return locate(m, name, &at) ? &m->files[at] : NULL;
}

size_t qn_manifest_setting_count(const qn_manifest *m)
{
    return m->setting_count;
}

const char *qn_manifest_setting_at(const qn_manifest *m, size_t i, const char **value)
{
    assert(i < m->setting_count);
    *value = m->settings[i].value;
    return m->settings[i].name;
}

const char *qn_manifest_setting(const qn_manifest *m, const char *name)
{
    for (size_t i = 0; i < m->setting_count; i++) {
        if (strcmp(m->settings[i].name, name) == 0)
            return m->settings[i].value;
    }
    return NULL;
}

static void format_hash(qn_buffer *out, const char *before, qn_hash hash)
{
    char text[QN_HASH_TEXT_BYTES];
    qn_buffer_format(out, "%s\"%s\"", before, qn_hash_text(hash, text));
}

/* One line for the file, one for each tensor: a difference of two manifests reads well. */
static void format_file(const qn_manifest_file *file, qn_buffer *out)
{
    qn_buffer_text(out, "{\"name\": ");
    qn_buffer_json_string(out, file->name, strlen(file->name));
    qn_buffer_format(out, ", \"bytes\": %" PRIu64, file->bytes);
    if (!file->tensors) {
        format_hash(out, ", \"hash\": ", file->hash);
        qn_buffer_char(out, '}');
        return;
    }
    format_hash(out, ", \"header\": ", file->hash);
    qn_buffer_text(out, ", \"tensors\": {");
    for (size_t i = 0; i < file->tensor_count; i++) {
        qn_buffer_text(out, i ? ",\n  " : "\n  ");
        qn_buffer_json_string(out, file->tensors[i].name, strlen(file->tensors[i].name));
        format_hash(out, ": ", file->tensors[i].hash);
    }
    qn_buffer_text(out, "}}");
}

void qn_manifest_format(const qn_manifest *m, qn_buffer *out)
{
    qn_buffer_text(out, "{\"format\": \"quern-manifest\", \"version\": 1,\n \"settings\": {");
    for (size_t i = 0; i < m->setting_count; i++) {
        qn_buffer_text(out, i ? ",\n  " : "\n  ");
        qn_buffer_json_string(out, m->settings[i].name, strlen(m->settings[i].name));
        qn_buffer_text(out, ": ");
        qn_buffer_json_string(out, m->settings[i].value, strlen(m->settings[i].value));
    }
    qn_buffer_text(out, "},\n \"files\": [");
    for (size_t i = 0; i < m->count; i++) {
        qn_buffer_text(out, i ? ",\n " : "\n ");
        format_file(&m->files[i], out);
    }
    qn_buffer_text(out, "]}\n");
}

static qn_status write_text(const qn_buffer *text, const char *path, qn_error *err)
{
    if (text->failed)
        return qn_fail_memory(err, path, text->size);
    if (text->size > QN_MANIFEST_LIMIT_BYTES)
        return qn_fail(err, QN_USAGE, "%s: would have more than the %d bytes that are allowed: use fewer tensors", path,
                       QN_MANIFEST_LIMIT_BYTES);
    return qn_file_write(path, text->data, text->size, err);
}

qn_status qn_manifest_write(const qn_manifest *m, const char *path, qn_error *err)
{
    qn_buffer text = {0};
    qn_manifest_format(m, &text);
    qn_status status = write_text(&text, path, err);
    qn_buffer_free(&text);
    return status;
}

qn_status qn_manifest_entry_write(const qn_manifest_file *file, const char *path, qn_error *err)
{
    static const qn_manifest empty;
    qn_status status = check_file(&empty, file, err);
    if (status != QN_OK)
        return status;
    qn_buffer text = {0};
    format_file(file, &text);
    qn_buffer_char(&text, '\n');
    status = write_text(&text, path, err);
    qn_buffer_free(&text);
    return status;
}

qn_status qn_manifest_read(const char *path, qn_manifest **out, qn_error *err)
{
    char *text = NULL;
    size_t bytes = 0;
    qn_status status = qn_file_read(path, QN_MANIFEST_LIMIT_BYTES, &text, &bytes, err);
    if (status == QN_OK)
        status = qn_manifest_parse(text, bytes, path, out, err);
    qn_free(text);
    return status;
}

qn_status qn_manifest_entry_read(const char *path, qn_manifest *into, qn_error *err)
{
    char *text = NULL;
    size_t bytes = 0;
    qn_status status = qn_file_read(path, QN_MANIFEST_LIMIT_BYTES, &text, &bytes, err);
    if (status == QN_OK)
        status = qn_manifest_entry_parse(text, bytes, path, into, err);
    qn_free(text);
    return status;
}
