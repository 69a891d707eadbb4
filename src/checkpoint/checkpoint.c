/* Opening: config, files, index and scales, each checked before anything is taken (checkpoint_take.c). */
#include "checkpoint/checkpoint.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/progress.h"
#include "checkpoint/checkpoint_parts.h"
#include "checkpoint/index.h"
#include "checkpoint/layout.h"
#include "checkpoint/mxfp4.h"

static const char SINGLE_NAME[] = "model.safetensors", INDEX_NAME[] = "model.safetensors.index.json";

static char *join_or_fail(const char *dir, const char *name, qn_error *err)
{
    char *path = qn_path_join(dir, name);
    if (!path)
        qn_fail_memory(err, dir, strlen(dir) + strlen(name) + 2);
    return path;
}

static qn_status read_config(qn_checkpoint *checkpoint, qn_error *err)
{
    char *path = join_or_fail(checkpoint->dir, "config.json", err), *text = NULL;
    if (!path)
        return err->status;
    size_t bytes = 0;
    qn_status status = qn_file_read(path, QN_CONFIG_LIMIT_BYTES, &text, &bytes, err);
    if (status == QN_OK)
        status = qn_config_parse(text, bytes, path, &checkpoint->config, err);
    qn_free(text);
    qn_free(path);
    return status;
}

/* A dangling link counts as there, so that opening it tells what is wrong. */
static bool exists(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0 || errno != ENOENT;
}

static qn_status open_shards(qn_checkpoint *checkpoint, const char *const *names, size_t count, qn_error *err)
{
    checkpoint->shards = qn_alloc_zero(count, sizeof *checkpoint->shards);
    if (!checkpoint->shards)
        return qn_fail_memory(err, checkpoint->dir, count * sizeof *checkpoint->shards);
    qn_progress progress;
    qn_progress_start(&progress, "opening", "files", count);
    qn_status status = QN_OK;
    for (size_t i = 0; i < count && status == QN_OK; i++) {
        qn_shard *s = &checkpoint->shards[checkpoint->shard_count++];
        s->path = join_or_fail(checkpoint->dir, names[i], err);
        if (s->path) {
            s->name = s->path + strlen(s->path) - strlen(names[i]);
            status = qn_safetensors_open(s->path, &s->file, err);
        } else {
            status = err->status;
        }
        qn_progress_update(&progress, i + 1);
    }
    qn_progress_finish(&progress);
    return status;
}

static int compare_names(const void *a, const void *b)
{
    const qn_entry *const *x = a, *const *y = b;
    return strcmp((*x)->tensor->name, (*y)->tensor->name);
}

static qn_status list_tensors(qn_checkpoint *checkpoint, qn_error *err)
{
    size_t count = 0, filled = 0;
    for (size_t i = 0; i < checkpoint->shard_count; i++)
        count += qn_safetensors_count(checkpoint->shards[i].file);
    checkpoint->entries = qn_alloc_zero(count, sizeof *checkpoint->entries);
    checkpoint->by_name = qn_alloc(count, sizeof *checkpoint->by_name);
    if (!checkpoint->entries || !checkpoint->by_name)
        return qn_fail_memory(err, checkpoint->dir, count * (sizeof(qn_entry) + sizeof(qn_entry *)));
    for (size_t i = 0; i < checkpoint->shard_count; i++) {
        const qn_shard *s = &checkpoint->shards[i];
        for (size_t k = 0; k < qn_safetensors_count(s->file); k++) {
            checkpoint->entries[filled] = (qn_entry){.tensor = qn_safetensors_at(s->file, k), .shard = s};
            checkpoint->by_name[filled] = &checkpoint->entries[filled];
            filled++;
        }
    }
    checkpoint->count = count;
    qsort(checkpoint->by_name, count, sizeof *checkpoint->by_name, compare_names);
    return QN_OK;
}

qn_entry *qn_entry_find(const qn_checkpoint *checkpoint, const char *name)
{
    size_t low = 0, high = checkpoint->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(name, checkpoint->by_name[middle]->tensor->name);
        if (order == 0)
            return checkpoint->by_name[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

qn_status qn_entry_fail(qn_error *err, const qn_entry *e, const char *reason)
{
    return qn_fail(err, QN_BAD_INPUT, "%s: tensor %s: %s", e->shard->path, e->tensor->name, reason);
}

/* The index lists every tensor of its files, in the file that has it, and no other. A name in two files is caught here
 * too, since the index can place it in one of them only. */
static qn_status check_index(const qn_checkpoint *checkpoint, const qn_index *index, const char *path, qn_error *err)
{
    uint64_t total = 0;
    for (size_t i = 0; i < checkpoint->count; i++) {
        const qn_entry *e = &checkpoint->entries[i];
        const char *file = qn_index_file_of(index, e->tensor->name);
        if (!file)
            return qn_entry_fail(err, e, "the index does not list it: fetch file and index of one release");
        if (strcmp(file, e->shard->name) != 0)
            return qn_fail(err, QN_BAD_INPUT,
                           "%s: tensor %s: the index places it in %s: fetch file and index of one release",
                           e->shard->path, e->tensor->name, file);
        total += e->tensor->bytes;
    }
    const char *name;
    json_t *value;
    json_object_foreach(index->weight_map, name, value)
    {
        if (!qn_entry_find(checkpoint, name))
            return qn_fail(err, QN_BAD_INPUT,
                           "%s/%s: tensor %s: is missing, though the index places it there: fetch "
                           "the file again",
                           checkpoint->dir, json_string_value(value), name);
    }
    if (index->has_total && index->total_size != total)
        return qn_fail(err, QN_BAD_INPUT,
                       "%s: metadata.total_size is %llu, and the tensors have %llu bytes: fetch files and index of one "
                       "release",
                       path, (unsigned long long)index->total_size, (unsigned long long)total);
    return QN_OK;
}

/* Before any is opened, since a shard that is not there yet is the common case of a download that goes on. */
static qn_status check_shards_exist(const qn_checkpoint *checkpoint, const qn_index *index, qn_error *err)
{
    for (size_t i = 0; i < index->file_count; i++) {
        char *path = join_or_fail(checkpoint->dir, index->files[i], err);
        if (!path)
            return err->status;
        qn_status status = QN_OK;
        if (!exists(path))
            status = qn_fail(err, QN_BAD_INPUT, "%s: is missing, though the index names it: fetch the file", path);
        qn_free(path);
        if (status != QN_OK)
            return status;
    }
    return QN_OK;
}

static qn_status open_indexed(qn_checkpoint *checkpoint, const char *path, qn_error *err)
{
    qn_index index;
    qn_status status = qn_index_open(path, &index, err);
    if (status != QN_OK)
        return status;
    status = check_shards_exist(checkpoint, &index, err);
    if (status == QN_OK)
        status = open_shards(checkpoint, index.files, index.file_count, err);
    if (status == QN_OK)
        status = list_tensors(checkpoint, err);
    if (status == QN_OK)
        status = check_index(checkpoint, &index, path, err);
    qn_index_close(&index);
    return status;
}

static qn_status open_single(qn_checkpoint *checkpoint, qn_error *err)
{
    const char *const names[] = {SINGLE_NAME};
    qn_status status = open_shards(checkpoint, names, 1, err);
    return status == QN_OK ? list_tensors(checkpoint, err) : status;
}

static qn_status open_files(qn_checkpoint *checkpoint, qn_error *err)
{
    char *single = join_or_fail(checkpoint->dir, SINGLE_NAME, err);
    char *index = single ? join_or_fail(checkpoint->dir, INDEX_NAME, err) : NULL;
    qn_status status;
    if (!index)
        status = err->status;
    else if (exists(single) && exists(index))
        status = qn_fail(err, QN_BAD_INPUT, "%s: has both %s and %s: remove the one that is not meant", checkpoint->dir,
                         SINGLE_NAME, INDEX_NAME);
    else if (exists(index))
        status = open_indexed(checkpoint, index, err);
    else if (exists(single))
        status = open_single(checkpoint, err);
    else
        status = qn_fail(err, QN_BAD_INPUT,
                         "%s: has neither %s nor %s: name a checkpoint's folder, or see quern plan for a config alone",
                         checkpoint->dir, SINGLE_NAME, INDEX_NAME);
    qn_free(index);
    qn_free(single);
    return status;
}

static bool is_opened(const qn_checkpoint *checkpoint, const char *name)
{
    for (size_t i = 0; i < checkpoint->shard_count; i++) {
        if (strcmp(checkpoint->shards[i].name, name) == 0)
            return true;
    }
    return false;
}

/* Weights that lie in the folder and are not read, as an aborted download or a conversion leaves them. */
static void tell_strays(const qn_checkpoint *checkpoint)
{
    enum { LINES = 4 };
    DIR *dir = opendir(checkpoint->dir);
    size_t found = 0;
    for (struct dirent *at = dir ? readdir(dir) : NULL; at; at = readdir(dir)) {
        if (fnmatch("model*.safetensors", at->d_name, 0) != 0 || is_opened(checkpoint, at->d_name))
            continue;
        if (found++ < LINES)
            qn_log("%s/%s: is not part of the checkpoint and is not read", checkpoint->dir, at->d_name);
    }
    if (found > LINES)
        qn_log("%s: %zu more files of weights are not part of the checkpoint", checkpoint->dir, found - LINES);
    if (dir)
        closedir(dir);
}

/* Reads every scale once: a large checkpoint has some 20 GB of them, hence the bar. */
static qn_status check_scales(const qn_checkpoint *checkpoint, qn_error *err)
{
    uint64_t total = 0, done = 0;
    for (size_t i = 0; i < checkpoint->count; i++)
        total += qn_mxfp4_is_scales(checkpoint->entries[i].tensor) ? checkpoint->entries[i].tensor->bytes : 0;
    qn_progress progress;
    qn_progress_start(&progress, "checking scales", "bytes", total);
    qn_status status = QN_OK;
    for (size_t i = 0; i < checkpoint->count && status == QN_OK; i++) {
        const qn_entry *e = &checkpoint->entries[i];
        if (!qn_mxfp4_is_scales(e->tensor))
            continue;
        status = qn_mxfp4_check_scales(e->shard->path, e->tensor, err);
        done += e->tensor->bytes;
        qn_progress_update(&progress, done);
    }
    qn_progress_finish(&progress);
    return status;
}

/* `hf download` makes such a folder in its cache: the model lies in one of its snapshots. */
static qn_status refuse_cached_repository(const char *dir, qn_error *err)
{
    struct stat info;
    char *config = join_or_fail(dir, "config.json", err);
    char *snapshots = config ? join_or_fail(dir, "snapshots", err) : NULL;
    qn_status status = snapshots ? QN_OK : err->status;
    if (status == QN_OK && !exists(config) && stat(snapshots, &info) == 0 && S_ISDIR(info.st_mode))
        status = qn_fail(err, QN_BAD_INPUT,
                         "%s: is a repository of the Hugging Face cache: name one of the folders in its snapshots",
                         dir);
    qn_free(config);
    qn_free(snapshots);
    return status;
}

qn_status qn_checkpoint_check_folder(const char *dir, qn_error *err)
{
    struct stat info;
    int rc = stat(dir, &info);
    if (rc != 0 && errno == ENOENT && dir[0] != '\0')
        return qn_fail(err, QN_BAD_INPUT,
                       "%s: no such folder: check the path (nothing is downloaded: hf download REPO --local-dir FOLDER "
                       "fetches a model)",
                       dir);
    if (rc == 0 && !S_ISDIR(info.st_mode))
        return qn_fail(err, QN_BAD_INPUT, "%s: is not a folder: name the folder with config.json and the weights", dir);
    /* what else is wrong shows when config.json is opened */
    return rc == 0 ? refuse_cached_repository(dir, err) : QN_OK;
}

qn_status qn_checkpoint_open(const char *dir, qn_checkpoint **out, qn_error *err)
{
    qn_status status = qn_checkpoint_check_folder(dir, err);
    if (status != QN_OK)
        return status;
    qn_checkpoint *checkpoint = qn_alloc_zero(1, sizeof *checkpoint);
    if (!checkpoint || !(checkpoint->dir = qn_strdup(dir))) {
        qn_free(checkpoint);
        return qn_fail_memory(err, dir, sizeof *checkpoint);
    }
    status = read_config(checkpoint, err);
    if (status == QN_OK)
        status = open_files(checkpoint, err);
    if (status == QN_OK)
        status = check_scales(checkpoint, err);
    if (status != QN_OK) {
        qn_checkpoint_close(checkpoint);
        return status;
    }
    tell_strays(checkpoint);
    *out = checkpoint;
    return QN_OK;
}

void qn_checkpoint_close(qn_checkpoint *checkpoint)
{
    if (!checkpoint)
        return;
    for (size_t i = 0; i < checkpoint->shard_count; i++) {
        qn_safetensors_close(checkpoint->shards[i].file);
        qn_free(checkpoint->shards[i].path);
    }
    qn_free(checkpoint->shards);
    qn_free(checkpoint->entries);
    qn_free(checkpoint->by_name);
    qn_free(checkpoint->dir);
    qn_free(checkpoint);
}

const qn_config *qn_checkpoint_config(const qn_checkpoint *checkpoint)
{
    return &checkpoint->config;
}

const char *qn_checkpoint_dir(const qn_checkpoint *checkpoint)
{
    return checkpoint->dir;
}

size_t qn_checkpoint_tensor_count(const qn_checkpoint *checkpoint)
{
    return checkpoint->count;
}

const qn_tensor *qn_checkpoint_tensor(const qn_checkpoint *checkpoint, size_t i, const char **file_name)
{
    assert(i < checkpoint->count);
    *file_name = checkpoint->entries[i].shard->name;
    return checkpoint->entries[i].tensor;
}

const qn_file_identity *qn_checkpoint_identity(const qn_checkpoint *checkpoint, size_t i)
{
    assert(i < checkpoint->count);
    return qn_safetensors_identity(checkpoint->entries[i].shard->file);
}

const qn_tensor *qn_checkpoint_find(const qn_checkpoint *checkpoint, const char *name)
{
    const qn_entry *e = qn_entry_find(checkpoint, name);
    return e ? e->tensor : NULL;
}

bool qn_checkpoint_has(const qn_checkpoint *checkpoint, const char *name)
{
    return qn_entry_find(checkpoint, name) != NULL;
}
