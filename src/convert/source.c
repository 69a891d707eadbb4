/* The index says which file has a tensor, the file's header where in it. Only the first is needed to plan, which is why
 * headers are read as late as they are. */
#include "convert/source_internal.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "checkpoint/checkpoint.h"

static const char SINGLE_NAME[] = "model.safetensors", INDEX_NAME[] = "model.safetensors.index.json";
static const size_t NAMES_LIMIT_BYTES = (size_t)512 << 20;

static char *join_or_fail(const char *dir, const char *name, qn_error *err)
{
    char *path = qn_path_join(dir, name);
    if (!path)
        qn_fail_memory(err, dir, strlen(dir) + strlen(name) + 2);
    return path;
}

static bool exists(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0 || errno != ENOENT;
}

/* MXFP4 has nothing left to convert; anything else has lost what MXFP4 made from it would lose once more. */
static qn_status check_quantization(const json_t *quantization, const char *path, bool allow_lossy, qn_error *err)
{
    if (!quantization || json_is_null(quantization))
        return QN_OK;
    const char *method = json_string_value(json_object_get(quantization, "quant_method"));
    if (!method)
        return qn_fail(err, QN_BAD_INPUT,
                       "%s: its quantization_config has no quant_method: convert the BF16 release, which has neither",
                       path);
    if (strcmp(method, "fp8") != 0)
        return qn_fail(err, QN_BAD_INPUT,
                       "%s: the checkpoint is quantised already (%s): convert the BF16 release, or use this one as it "
                       "is if `quern inspect` takes it",
                       path, method);
    if (!allow_lossy)
        return qn_fail(
            err, QN_BAD_INPUT,
            "%s: the checkpoint is FP8, a lossy quantisation of the BF16 release, and MXFP4 made from it has "
            "a larger error than MXFP4 made from that: convert the BF16 release, or give "
            "--allow-lossy-source",
            path);
    return QN_OK;
}

/* Scales for blocks of 128 by 128, as every FP8 release of the family has them. */
static qn_status check_blocks(const json_t *quantization, const char *path, qn_error *err)
{
    const json_t *size = json_object_get(quantization, "weight_block_size");
    if (json_array_size(size) == 2 && json_integer_value(json_array_get(size, 0)) == QN_FP8_BLOCK &&
        json_integer_value(json_array_get(size, 1)) == QN_FP8_BLOCK)
        return QN_OK;
    return qn_fail(err, QN_BAD_INPUT,
                   "%s: quantization_config.weight_block_size is not [128, 128], the only one that is read for FP8: "
                   "convert the BF16 release",
                   path);
}

/* The config without its quantization_config, which is not the model's. */
static qn_status parse_config(qn_source *source, const char *path, qn_error *err)
{
    json_t *plain = json_copy(source->config_json);
    char *text = NULL;
    if (!plain)
        return qn_fail_memory(err, path, QN_CONFIG_LIMIT_BYTES);
    json_object_del(plain, "quantization_config");
    qn_status status = qn_json_text(plain, path, &text, err);
    json_decref(plain);
    if (status == QN_OK)
        status = qn_config_parse(text, strlen(text), path, &source->config, err);
    qn_free(text);
    return status;
}

static qn_status read_config(qn_source *source, const char *path, bool allow_lossy, qn_error *err)
{
    char *text = NULL;
    size_t bytes = 0;
    qn_status status = qn_file_read(path, QN_CONFIG_LIMIT_BYTES, &text, &bytes, err);
    if (status == QN_OK) {
        qn_hash_text(qn_hash_bytes(text, bytes), source->config_hash);
        status = qn_json_parse(text, bytes, path, &source->config_json, err);
    }
    qn_free(text);
    if (status == QN_OK)
        status = check_quantization(json_object_get(source->config_json, "quantization_config"), path, allow_lossy,
                                    err);
    const json_t *quantization = json_object_get(source->config_json, "quantization_config");
    source->fp8 = quantization && !json_is_null(quantization);
    if (status == QN_OK && source->fp8)
        status = check_blocks(quantization, path, err);
    return status == QN_OK ? parse_config(source, path, err) : status;
}

static qn_status open_config(qn_source *source, bool allow_lossy, qn_error *err)
{
    qn_status status = qn_checkpoint_check_folder(source->dir, err);
    char *path = status == QN_OK ? join_or_fail(source->dir, "config.json", err) : NULL;
    status = path ? read_config(source, path, allow_lossy, err) : err->status;
    qn_free(path);
    return status == QN_OK ? qn_catalogue_new(&source->config, &source->catalogue, err) : status;
}

static qn_status list_files(qn_source *source, const char *const *names, size_t count, qn_error *err)
{
    source->files = qn_alloc_zero(count, sizeof *source->files);
    if (!source->files)
        return qn_fail_memory(err, source->dir, count * sizeof *source->files);
    for (size_t i = 0; i < count; i++) {
        qn_source_file *f = &source->files[source->file_count++];
        f->path = join_or_fail(source->dir, names[i], err);
        if (!f->path)
            return err->status;
        f->name = f->path + strlen(f->path) - strlen(names[i]);
    }
    return QN_OK;
}

static qn_status open_index(qn_source *source, const char *path, qn_error *err)
{
    char *text = NULL;
    size_t bytes = 0;
    qn_status status = qn_file_read(path, QN_INDEX_LIMIT_BYTES, &text, &bytes, err);
    if (status == QN_OK)
        qn_hash_text(qn_hash_bytes(text, bytes), source->index_hash);
    qn_free(text);
    if (status == QN_OK)
        status = qn_index_open(path, &source->index, err);
    return status == QN_OK ? list_files(source, source->index.files, source->index.file_count, err) : status;
}

static qn_status open_single(qn_source *source, qn_error *err)
{
    const char *const names[] = {SINGLE_NAME};
    qn_status status = list_files(source, names, 1, err);
    if (status == QN_OK)
        status = qn_source_open_header(source, &source->files[0], err);
    if (status == QN_OK)
        qn_hash_text(qn_safetensors_header_hash(source->files[0].header), source->index_hash);
    return status;
}

static qn_status open_files(qn_source *source, qn_error *err)
{
    char *single = join_or_fail(source->dir, SINGLE_NAME, err);
    char *index = single ? join_or_fail(source->dir, INDEX_NAME, err) : NULL;
    qn_status status;
    if (!index)
        status = err->status;
    else if (exists(single) && exists(index))
        status = qn_fail(err, QN_BAD_INPUT, "%s: has both %s and %s: remove the one that is not meant", source->dir,
                         SINGLE_NAME, INDEX_NAME);
    else if (exists(index))
        status = open_index(source, index, err);
    else if (exists(single))
        status = open_single(source, err);
    else
        status = qn_fail(err, QN_BAD_INPUT, "%s: has neither %s nor %s: name a checkpoint's folder", source->dir,
                         SINGLE_NAME, INDEX_NAME);
    qn_free(index);
    qn_free(single);
    return status;
}

static int compare_file(const void *key, const void *element)
{
    const qn_source_file *f = element;
    return strcmp(key, f->name);
}

/* The file that has a tensor; QN_NO_INDEX: no file has it. */
static size_t file_of(const qn_source *source, const char *stored_as)
{
    if (!source->index.root)
        return qn_safetensors_find(source->files[0].header, stored_as) ? 0 : QN_NO_INDEX;
    const char *name = qn_index_file_of(&source->index, stored_as);
    if (!name)
        return QN_NO_INDEX;
    const qn_source_file *f = bsearch(name, source->files, source->file_count, sizeof *f, compare_file);
    assert(f); /* the index lists the files of its own map */
    return (size_t)(f - source->files);
}

static qn_status fail_missing(const qn_source *source, const char *name, qn_error *err)
{
    return qn_fail(err, QN_BAD_INPUT,
                   "%s: tensor %s: is in no file of the %s, and config.json asks for it: fetch config "
                   "and index of one release",
                   source->dir, name, source->index.root ? "index" : "checkpoint");
}

/* Expert and projection of a layer that keeps them in two tensors, which the name tells. */
static qn_status find_fused(qn_source *source, qn_source_tensor *t, qn_error *err)
{
    const char *experts = strstr(t->name, ".experts.");
    assert(experts); /* the catalogue's names of experts have it */
    size_t prefix_bytes = (size_t)(experts - t->name) + strlen(".experts");
    char stored[QN_TENSOR_NAME_BYTES + 1];
    bool down = strstr(experts, ".down_proj.") != NULL;
    snprintf(stored, sizeof stored, "%.*s.%s", (int)prefix_bytes, t->name, down ? "down_proj" : "gate_up_proj");
    t->file = file_of(source, stored);
    if (t->file == QN_NO_INDEX)
        return fail_missing(source, t->name, err);
    t->scale_file = t->file;
    t->layout = down ? QN_SOURCE_FUSED_DOWN : QN_SOURCE_FUSED_GATE_UP;
    t->stored_as = qn_arena_strndup(source->names, stored, strlen(stored));
    return t->stored_as ? QN_OK : qn_fail_memory(err, source->dir, strlen(stored));
}

/* "NAME.weight_scale_inv" beside "NAME.weight". */
static qn_status find_scale(qn_source *source, qn_source_tensor *t, qn_error *err)
{
    t->scale_file = t->file;
    if (!source->fp8 || t->dims != 2)
        return QN_OK;
    char name[QN_TENSOR_NAME_BYTES + 16];
    size_t bytes = (size_t)snprintf(name, sizeof name, "%s_scale_inv", t->stored_as), file = file_of(source, name);
    if (file == QN_NO_INDEX)
        return QN_OK;
    t->scale_file = file;
    t->scale = qn_arena_strndup(source->names, name, bytes);
    return t->scale ? QN_OK : qn_fail_memory(err, source->dir, bytes);
}

static qn_status add_tensor(qn_source *source, const qn_catalogue_tensor *c, qn_error *err)
{
    qn_source_tensor *t = &source->tensors[source->count];
    *t = (qn_source_tensor){.name = c->name,
                            .stored_as = c->name,
                            .layout = QN_SOURCE_WHOLE,
                            .kind = c->kind,
                            .layer = c->layer,
                            .expert = c->expert,
                            .dims = c->dims,
                            .shape = {c->shape[0], c->shape[1]},
                            .dtype = c->dtype,
                            .file = file_of(source, c->name)};
    qn_status status = QN_OK;
    if (t->file != QN_NO_INDEX)
        status = find_scale(source, t, err);
    else
        status = c->expert != QN_NO_INDEX ? find_fused(source, t, err) : fail_missing(source, c->name, err);
    source->count += status == QN_OK;
    return status;
}

/* What an MTP layer may have of its own. */
static qn_status add_extras(qn_source *source, qn_error *err)
{
    static const char *const suffixes[] = {"embed_tokens.weight", "shared_head.head.weight"};
    const qn_config *config = &source->config;
    for (size_t i = 0; i < 2 && config->num_nextn_predict_layers > 0; i++) {
        char name[QN_TENSOR_NAME_BYTES + 1];
        snprintf(name, sizeof name, "model.layers.%zu.%s", config->num_hidden_layers, suffixes[i]);
        if (file_of(source, name) == QN_NO_INDEX)
            continue;
        qn_catalogue_tensor extra = {.name = qn_arena_strndup(source->names, name, strlen(name)),
                                     .dtype = QN_DTYPE_BF16,
                                     .dims = 2,
                                     .shape = {config->vocab_size, config->hidden_size},
                                     .kind = QN_KIND_MTP,
                                     .layer = config->num_hidden_layers,
                                     .expert = QN_NO_INDEX};
        qn_status status = extra.name ? add_tensor(source, &extra, err) : qn_fail_memory(err, name, strlen(name));
        if (status != QN_OK)
            return status;
    }
    return QN_OK;
}

static int compare_strings(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;
    return strcmp(*x, *y);
}

static qn_status check_known(const qn_source *source, const char *const *known, size_t count, const char *name,
                             qn_error *err)
{
    if (bsearch(&name, known, count, sizeof *known, compare_strings))
        return QN_OK;
    return qn_fail(err, QN_BAD_INPUT,
                   "%s: tensor %s: has no place in the model of config.json: use the config.json that came with the "
                   "weights",
                   source->dir, name);
}

/* No tensor is left out of the output. */
static qn_status refuse_unknown(const qn_source *source, qn_error *err)
{
    size_t count = 0;
    const char **known = qn_alloc(2 * source->count, sizeof *known);
    if (!known)
        return qn_fail_memory(err, source->dir, 2 * source->count * sizeof *known);
    for (size_t i = 0; i < source->count; i++) {
        known[count++] = source->tensors[i].stored_as;
        if (source->tensors[i].scale)
            known[count++] = source->tensors[i].scale;
    }
    qsort(known, count, sizeof *known, compare_strings);
    qn_status status = QN_OK;
    if (source->index.root) {
        const char *name;
        json_t *file;
        json_object_foreach(source->index.weight_map, name, file)
        {
            status = check_known(source, known, count, name, err);
            if (status != QN_OK)
                break;
        }
    }
    const qn_safetensors *single = source->index.root ? NULL : source->files[0].header;
    for (size_t i = 0; single && i < qn_safetensors_count(single) && status == QN_OK; i++)
        status = check_known(source, known, count, qn_safetensors_at(single, i)->name, err);
    qn_free(known);
    return status;
}

static qn_status list_tensors(qn_source *source, qn_error *err)
{
    enum { EXTRAS = 2 };
    size_t listed = qn_catalogue_count(source->catalogue);
    source->names = qn_arena_new(NAMES_LIMIT_BYTES);
    source->tensors = qn_alloc(listed + EXTRAS, sizeof *source->tensors);
    if (!source->names || !source->tensors)
        return qn_fail_memory(err, source->dir, (listed + EXTRAS) * sizeof *source->tensors);
    qn_status status = QN_OK;
    for (size_t i = 0; i < listed && status == QN_OK; i++)
        status = add_tensor(source, qn_catalogue_at(source->catalogue, i), err);
    if (status == QN_OK)
        status = add_extras(source, err);
    return status == QN_OK ? refuse_unknown(source, err) : status;
}

qn_status qn_source_open(const char *dir, bool allow_lossy, qn_source **out, qn_error *err)
{
    qn_source *source = qn_alloc_zero(1, sizeof *source);
    if (!source)
        return qn_fail_memory(err, dir, sizeof *source);
    pthread_mutex_init(&source->lock, NULL);
    source->dir = qn_strdup(dir);
    qn_status status = source->dir ? open_config(source, allow_lossy, err) : qn_fail_memory(err, dir, strlen(dir) + 1);
    if (status == QN_OK)
        status = open_files(source, err);
    if (status == QN_OK)
        status = list_tensors(source, err);
    if (status != QN_OK) {
        qn_source_close(source);
        return status;
    }
    *out = source;
    return QN_OK;
}

void qn_source_close(qn_source *source)
{
    if (!source)
        return;
    for (size_t i = 0; i < source->file_count; i++) {
        qn_direct_reader_close(source->files[i].reader);
        qn_safetensors_close(source->files[i].header);
        qn_free(source->files[i].path);
    }
    qn_free(source->files);
    qn_free(source->tensors);
    qn_arena_free(source->names);
    qn_index_close(&source->index);
    qn_catalogue_free(source->catalogue);
    json_decref(source->config_json);
    pthread_mutex_destroy(&source->lock);
    qn_free(source->dir);
    qn_free(source);
}

const char *qn_source_dir(const qn_source *source)
{
    return source->dir;
}

const qn_config *qn_source_config(const qn_source *source)
{
    return &source->config;
}

const json_t *qn_source_config_json(const qn_source *source)
{
    return source->config_json;
}

const char *qn_source_config_hash(const qn_source *source)
{
    return source->config_hash;
}

const char *qn_source_index_hash(const qn_source *source)
{
    return source->index_hash;
}

size_t qn_source_count(const qn_source *source)
{
    return source->count;
}

const qn_source_tensor *qn_source_at(const qn_source *source, size_t i)
{
    assert(i < source->count);
    return &source->tensors[i];
}

bool qn_source_has_index(const qn_source *source)
{
    return source->index.root != NULL;
}

size_t qn_source_file_count(const qn_source *source)
{
    return source->file_count;
}

const char *qn_source_file_name(const qn_source *source, size_t file)
{
    return source->files[file].name;
}

const char *qn_source_file_path(const qn_source *source, size_t file)
{
    return source->files[file].path;
}
