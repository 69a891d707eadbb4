/* One pass over what the folder holds: config.json, the index, then the header of each file that the checkpoint would
 * have, or of every .safetensors where nothing says which those are. A file that disappoints keeps its sentence, and
 * what its header told before that point. */
#include "checkpoint/listing.h"

#include <dirent.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/progress.h"
#include "base/size.h"
#include "base/utf8.h"
#include "checkpoint/index.h"
#include "checkpoint/safetensors_header.h"

enum { CONFIG_LIMIT_BYTES = 16 << 20, MAX_FOLDER_FILES = 1 << 16 };
static const size_t NAMES_LIMIT_BYTES = (size_t)4 << 30;

static const char CONFIG_NAME[] = "config.json", SINGLE_NAME[] = "model.safetensors",
                  INDEX_NAME[] = "model.safetensors.index.json", WEIGHTS_SUFFIX[] = ".safetensors",
                  WEIGHTS_PATTERN[] = "model*.safetensors", CONVERSION_NAME[] = ".quern-convert";

struct qn_listing_store {
    qn_listing listing;
    qn_arena *arena;
    qn_index index;
    size_t known_files; /* at the front of the list: the checkpoint's, as index or name tell */
    size_t file_capacity, tensor_capacity;
};

const char *qn_file_state_name(qn_file_state state)
{
    static const char *const names[] = {[QN_FILE_WHOLE] = "whole",
                                        [QN_FILE_CUT] = "cut off",
                                        [QN_FILE_MISSING] = "missing",
                                        [QN_FILE_UNREADABLE] = "unreadable",
                                        [QN_FILE_STRAY] = "stray"};
    return names[state];
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), end_length = strlen(end);
    return length > end_length && strcmp(text + length - end_length, end) == 0;
}

/* A copy in the arena, or NULL with err filled. */
static const char *keep(struct qn_listing_store *s, const char *text, qn_error *err)
{
    const char *kept = qn_arena_strndup(s->arena, text, strlen(text));
    if (!kept)
        qn_fail_memory(err, s->listing.path, strlen(text) + 1);
    return kept;
}

/* Turns a failure into a sentence that is kept, unless it is the lack of memory. */
static qn_status keep_problem(struct qn_listing_store *s, const char **problem, qn_status status, qn_error *err)
{
    if (status == QN_OK || status == QN_RESOURCE)
        return status;
    *problem = keep(s, err->message, err);
    return *problem ? QN_OK : err->status;
}

static char *join(struct qn_listing_store *s, const char *folder, const char *name, qn_error *err)
{
    char *path = qn_path_join(folder, name);
    if (!path)
        qn_fail_memory(err, s->listing.path, strlen(folder) + strlen(name) + 2);
    return path;
}

/* A dangling link counts as there: what is wrong with it shows when it is opened. */
static bool exists(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0;
}

static qn_status read_config(struct qn_listing_store *s, const char *path, qn_error *err)
{
    qn_listing *l = &s->listing;
    if (!exists(path))
        return QN_OK;
    char *text = NULL, quantization[QN_QUANTIZATION_TEXT_BYTES] = "";
    size_t bytes = 0;
    qn_status status = qn_file_read(path, CONFIG_LIMIT_BYTES, &text, &bytes, err);
    if (status == QN_OK)
        status = qn_config_peek(text, bytes, path, &l->config, quantization, err);
    qn_free(text);
    l->has_config = status == QN_OK;
    status = keep_problem(s, &l->config_problem, status, err);
    if (status != QN_OK)
        return status;
    l->quantization = keep(s, quantization, err);
    return l->quantization ? QN_OK : err->status;
}

static qn_status read_index(struct qn_listing_store *s, const char *path, qn_error *err)
{
    qn_listing *l = &s->listing;
    if (!exists(path))
        return QN_OK;
    qn_status status = qn_index_open(path, &s->index, err);
    l->has_index = status == QN_OK;
    l->has_index_bytes = l->has_index && s->index.has_total;
    l->index_bytes = l->has_index ? s->index.total_size : 0;
    return keep_problem(s, &l->index_problem, status, err);
}

static qn_status add_file(struct qn_listing_store *s, const char *name, qn_file_state state, qn_error *err)
{
    qn_listing *l = &s->listing;
    if (l->file_count == s->file_capacity) {
        size_t capacity = s->file_capacity ? 2 * s->file_capacity : 64;
        qn_listed_file *grown = qn_realloc(l->files, capacity, sizeof *grown);
        if (!grown)
            return qn_fail_memory(err, l->path, capacity * sizeof *grown);
        l->files = grown;
        s->file_capacity = capacity;
    }
    const char *kept = keep(s, name, err);
    if (!kept)
        return err->status;
    l->files[l->file_count++] = (qn_listed_file){.name = kept, .state = state};
    return QN_OK;
}

static bool is_listed(const qn_listing *l, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(l->files[i].name, name) == 0)
            return true;
    }
    return false;
}

static int compare_files(const void *a, const void *b)
{
    const qn_listed_file *x = a, *y = b;
    return strcmp(x->name, y->name);
}

/* Calls `visit` for the names in a folder; one that cannot be read has none. */
typedef qn_status (*name_visit)(struct qn_listing_store *s, const char *name, qn_error *err);

static qn_status each_name(struct qn_listing_store *s, const char *folder, name_visit visit, qn_error *err)
{
    DIR *dir = opendir(folder);
    qn_status status = QN_OK;
    size_t count = 0;
    for (struct dirent *at = dir ? readdir(dir) : NULL; at && status == QN_OK && count < MAX_FOLDER_FILES;
         at = readdir(dir)) {
        count++;
        status = visit(s, at->d_name, err);
    }
    if (dir)
        closedir(dir);
    return status;
}

/* Where something says which files are the checkpoint's, others with the names of weights are strays, and those of
 * other names no business of the checkpoint; where nothing does, all are its. */
static qn_status add_weights(struct qn_listing_store *s, const char *name, qn_error *err)
{
    if (!ends_with(name, WEIGHTS_SUFFIX) || is_listed(&s->listing, s->known_files, name))
        return QN_OK;
    if (s->known_files == 0)
        return add_file(s, name, QN_FILE_MISSING, err);
    return fnmatch(WEIGHTS_PATTERN, name, 0) == 0 ? add_file(s, name, QN_FILE_STRAY, err) : QN_OK;
}

/* The index's files, else the single one, else all of the folder. Missing, all of them, until they are opened. */
static qn_status find_files(struct qn_listing_store *s, qn_error *err)
{
    qn_listing *l = &s->listing;
    char *single = join(s, l->path, SINGLE_NAME, err);
    if (!single)
        return err->status;
    qn_status status = QN_OK;
    if (!l->has_index && exists(single))
        status = add_file(s, SINGLE_NAME, QN_FILE_MISSING, err);
    qn_free(single);
    for (size_t i = 0; i < s->index.file_count && status == QN_OK; i++)
        status = add_file(s, s->index.files[i], QN_FILE_MISSING, err);
    s->known_files = l->file_count;
    if (status == QN_OK)
        status = each_name(s, l->path, add_weights, err);
    if (status == QN_OK && l->file_count > s->known_files)
        qsort(l->files + s->known_files, l->file_count - s->known_files, sizeof *l->files, compare_files);
    return status;
}

/* ".part", ".json" (of a file that is written whole) and the state's own files of a conversion. */
static qn_status count_conversion(struct qn_listing_store *s, const char *name, qn_error *err)
{
    (void)err;
    qn_listing *l = &s->listing;
    if (ends_with(name, ".safetensors.part"))
        l->started_files++;
    if (ends_with(name, ".safetensors.json"))
        l->converted_files++;
    if (fnmatch("model-[0-9]*-of-[0-9]*.safetensors*", name, 0) == 0)
        l->planned_files = qn_max_size(l->planned_files, strtoul(strstr(name, "-of-") + 4, NULL, 10));
    return QN_OK;
}

static qn_status look_for_conversion(struct qn_listing_store *s, qn_error *err)
{
    struct stat info;
    char *folder = join(s, s->listing.path, CONVERSION_NAME, err);
    if (!folder)
        return err->status;
    qn_status status = QN_OK;
    s->listing.converting = stat(folder, &info) == 0 && S_ISDIR(info.st_mode);
    if (s->listing.converting)
        status = each_name(s, folder, count_conversion, err);
    qn_free(folder);
    return status;
}

/* The walk over one header. */
typedef struct scan {
    struct qn_listing_store *s;
    const qn_header_text *header;
    qn_listed_file *file;
    size_t index;
    const char *dtype; /* of the tensor before: most are alike */
} scan;

static qn_status grow_tensors(struct qn_listing_store *s, qn_error *err)
{
    qn_listing *l = &s->listing;
    if (l->tensor_count < s->tensor_capacity)
        return QN_OK;
    size_t capacity = s->tensor_capacity ? 2 * s->tensor_capacity : 256;
    qn_listed_tensor *grown = qn_realloc(l->tensors, capacity, sizeof *grown);
    if (!grown)
        return qn_fail_memory(err, l->path, capacity * sizeof *grown);
    l->tensors = grown;
    s->tensor_capacity = capacity;
    return QN_OK;
}

static const char *keep_dtype(scan *at, const char *spelled, qn_error *err)
{
    char printable[4 * QN_HEADER_DTYPE_BYTES];
    qn_utf8_printable(spelled, strlen(spelled), printable, sizeof printable);
    if (!at->dtype || strcmp(at->dtype, printable) != 0)
        at->dtype = keep(at->s, printable, err);
    return at->dtype;
}

static qn_status list_tensor(void *context, const qn_header_entry *e, qn_error *err)
{
    scan *at = context;
    qn_listing *l = &at->s->listing;
    size_t size = 0;
    uint64_t elements = 1;
    bool sound = e->dims <= QN_TENSOR_MAX_DIMS && e->offset_count == 2 && e->offsets[0] <= e->offsets[1];
    for (size_t i = 0; sound && i < e->dims; i++)
        sound = !__builtin_mul_overflow(elements, e->shape[i], &elements);
    if (!sound || !qn_size_add(e->offsets[1], at->header->data_offset, &size))
        return qn_fail(err, QN_BAD_INPUT,
                       "%s: tensor %s: its shape or data_offsets make no sense: fetch the file again", at->header->what,
                       e->name);
    qn_status status = grow_tensors(at->s, err);
    if (status != QN_OK)
        return status;
    qn_listed_tensor *t = &l->tensors[l->tensor_count];
    *t = (qn_listed_tensor){.name = qn_arena_strndup(at->s->arena, e->name, e->name_bytes),
                            .dtype = keep_dtype(at, e->dtype, err),
                            .dims = e->dims,
                            .elements = elements,
                            .offset = at->header->data_offset + e->offsets[0],
                            .bytes = e->offsets[1] - e->offsets[0],
                            .file = at->index,
                            .whole = size <= at->file->bytes};
    if (!t->name || !t->dtype)
        return qn_fail_memory(err, l->path, e->name_bytes);
    memcpy(t->shape, e->shape, e->dims * sizeof *t->shape);
    l->tensor_count++;
    at->file->tensors++;
    at->file->whole_bytes = size > at->file->whole_bytes ? size : at->file->whole_bytes;
    return QN_OK;
}

static qn_status list_header(void *context, const qn_header_text *header, qn_error *err)
{
    scan *at = context;
    at->header = header;
    at->file->bytes = header->data_offset + header->data_bytes;
    at->file->whole_bytes = at->file->header_bytes = header->data_offset;
    return qn_safetensors_header_walk(header, list_tensor, at, err);
}

static int compare_tensors(const void *a, const void *b)
{
    const qn_listed_tensor *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

static qn_status list_file(struct qn_listing_store *s, size_t index, qn_error *err)
{
    qn_listing *l = &s->listing;
    qn_listed_file *file = &l->files[index];
    struct stat info;
    char *path = qn_listing_file_path(l, index);
    if (!path)
        return qn_fail_memory(err, l->path, strlen(file->name));
    qn_status status = QN_OK;
    if (exists(path)) {
        file->bytes = stat(path, &info) == 0 ? (uint64_t)info.st_size : 0;
        file->first_tensor = l->tensor_count;
        scan at = {.s = s, .file = file, .index = index};
        status = qn_safetensors_header_of_file(path, list_header, &at, err);
        file->state = status != QN_OK                   ? QN_FILE_UNREADABLE
                      : file->bytes < file->whole_bytes ? QN_FILE_CUT
                                                        : QN_FILE_WHOLE;
        status = keep_problem(s, &file->problem, status, err);
        if (file->tensors > 0)
            qsort(l->tensors + file->first_tensor, file->tensors, sizeof *l->tensors, compare_tensors);
    }
    qn_free(path);
    return status;
}

static qn_status list_files(struct qn_listing_store *s, qn_error *err)
{
    qn_listing *l = &s->listing;
    qn_status status = QN_OK;
    qn_progress progress;
    qn_progress_start(&progress, "listing", "files", l->file_count);
    for (size_t i = 0; i < l->file_count && status == QN_OK; i++) {
        if (l->files[i].state != QN_FILE_STRAY)
            status = list_file(s, i, err);
        qn_progress_update(&progress, i + 1);
    }
    qn_progress_finish(&progress);
    return status;
}

/* Of a file of the index: those come first, in ascending order. */
static qn_file_state state_of(const struct qn_listing_store *s, const char *name)
{
    const qn_listed_file key = {.name = name};
    const qn_listed_file *found = bsearch(&key, s->listing.files, s->known_files, sizeof key, compare_files);
    return found ? found->state : QN_FILE_MISSING;
}

static qn_status list_missing(struct qn_listing_store *s, qn_error *err)
{
    qn_listing *l = &s->listing;
    if (!l->has_index)
        return QN_OK;
    l->missing = qn_alloc(qn_index_count(&s->index), sizeof *l->missing);
    if (!l->missing)
        return qn_fail_memory(err, l->path, qn_index_count(&s->index) * sizeof *l->missing);
    const char *name;
    json_t *value;
    json_object_foreach(s->index.weight_map, name, value)
    {
        qn_file_state state = state_of(s, json_string_value(value));
        if (state == QN_FILE_MISSING || state == QN_FILE_UNREADABLE)
            l->missing[l->missing_count++] = name;
    }
    return QN_OK;
}

static qn_status list_folder(struct qn_listing_store *s, qn_error *err)
{
    const char *folder = s->listing.path;
    char *config = join(s, folder, CONFIG_NAME, err), *index = config ? join(s, folder, INDEX_NAME, err) : NULL;
    qn_status status = index ? read_config(s, config, err) : err->status;
    if (status == QN_OK)
        status = read_index(s, index, err);
    qn_free(config);
    qn_free(index);
    if (status == QN_OK)
        status = find_files(s, err);
    if (status == QN_OK)
        status = look_for_conversion(s, err);
    if (status == QN_OK)
        status = list_files(s, err);
    return status == QN_OK ? list_missing(s, err) : status;
}

static qn_status list_path(struct qn_listing_store *s, qn_error *err)
{
    qn_listing *l = &s->listing;
    struct stat info;
    bool is_file = stat(l->path, &info) == 0 && !S_ISDIR(info.st_mode);
    const char *slash = strrchr(l->path, '/');
    if (is_file && ends_with(l->path, WEIGHTS_SUFFIX)) {
        l->kind = QN_LISTING_WEIGHTS;
        qn_status status = add_file(s, slash ? slash + 1 : l->path, QN_FILE_MISSING, err);
        return status == QN_OK ? list_files(s, err) : status;
    }
    if (is_file && ends_with(l->path, ".json")) {
        l->kind = QN_LISTING_CONFIG;
        return read_config(s, l->path, err);
    }
    return is_file ? QN_OK : list_folder(s, err);
}

qn_status qn_listing_open(const char *path, qn_listing **out, qn_error *err)
{
    struct qn_listing_store *s = qn_alloc_zero(1, sizeof *s);
    if (!s)
        return qn_fail_memory(err, path, sizeof *s);
    s->listing = (qn_listing){.store = s, .quantization = "", .path = path};
    s->arena = qn_arena_new(NAMES_LIMIT_BYTES);
    qn_status status = s->arena ? QN_OK : qn_fail_memory(err, path, sizeof *s);
    if (status == QN_OK) {
        s->listing.path = keep(s, path, err);
        status = s->listing.path ? list_path(s, err) : err->status;
    }
    if (status != QN_OK) {
        qn_listing_close(&s->listing);
        return status;
    }
    *out = &s->listing;
    return QN_OK;
}

void qn_listing_close(qn_listing *listing)
{
    if (!listing)
        return;
    struct qn_listing_store *s = listing->store;
    qn_free(listing->files);
    qn_free(listing->tensors);
    qn_free(listing->missing);
    qn_index_close(&s->index);
    qn_arena_free(s->arena);
    qn_free(s);
}

char *qn_listing_file_path(const qn_listing *listing, size_t file)
{
    return listing->kind == QN_LISTING_FOLDER ? qn_path_join(listing->path, listing->files[file].name)
                                              : qn_strdup(listing->path);
}
