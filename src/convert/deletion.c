/* What is done is asked of the disk each time, never of what this run believes, since other runs finish files too. One
 * lock holds it all: reading back is bound by the disk, and a second thread at it would gain nothing. */
#include "convert/deletion.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "checkpoint/verify.h"
#include "convert/shard_file.h"

struct qn_deletion {
    const qn_job *job;
    size_t files, shards;
    bool *needs;    /* [files * shards] does the output's file have tensors of the source's? */
    bool *gone;     /* [files] removed, now or before */
    bool *verified; /* [shards] read back by this run */
    pthread_mutex_t lock;
};

static qn_status fail_link(const char *path, qn_error *err)
{
    return qn_fail_field(err, QN_USAGE, "delete-source-shards",
                         "--delete-source-shards: %s is a symbolic link, as in the Hugging Face cache, and removing it "
                         "would free nothing: download to a folder of its own (hf download REPO --local-dir DIR) and "
                         "convert that",
                         path);
}

static qn_status check_files(const qn_job *job, qn_error *err)
{
    for (size_t i = 0; i < qn_source_file_count(job->source); i++) {
        struct stat info;
        const char *path = qn_source_file_path(job->source, i);
        if (lstat(path, &info) == 0 && S_ISLNK(info.st_mode))
            return fail_link(path, err);
    }
    return QN_OK;
}

static qn_status check(const qn_job *job, qn_error *err)
{
    const char *dir = qn_source_dir(job->source);
    if (!qn_source_has_index(job->source))
        return qn_fail_field(err, QN_USAGE, "delete-source-shards",
                             "--delete-source-shards: %s is one file without an index, which is needed to the end: "
                             "remove it by hand when the conversion is complete",
                             dir);
    if (access(dir, W_OK | X_OK) != 0)
        return qn_fail_field(err, QN_USAGE, "delete-source-shards",
                             "--delete-source-shards: %s may not be changed (%s): correct its permissions", dir,
                             strerror(errno));
    return check_files(job, err);
}

static void find_needs(qn_deletion *d)
{
    for (size_t i = 0; i < d->shards; i++) {
        const qn_planned_shard *s = qn_shard_plan_at(d->job->plan, i);
        for (size_t k = 0; k < s->count; k++) {
            const qn_source_tensor *t = qn_source_at(d->job->source, s->tensors[k]);
            d->needs[t->file * d->shards + i] = d->needs[t->scale_file * d->shards + i] = true;
        }
    }
}

qn_status qn_deletion_new(const qn_job *job, qn_deletion **out, qn_error *err)
{
    qn_status status = check(job, err);
    if (status != QN_OK)
        return status;
    qn_deletion *d = qn_alloc_zero(1, sizeof *d);
    if (!d)
        return qn_fail_memory(err, "deletion", sizeof *d);
    pthread_mutex_init(&d->lock, NULL);
    d->job = job;
    d->files = qn_source_file_count(job->source);
    d->shards = qn_shard_plan_count(job->plan);
    d->needs = qn_alloc_zero(d->files * d->shards, sizeof *d->needs); /* both at most QN_MAX_SHARDS */
    d->gone = qn_alloc_zero(d->files, sizeof *d->gone);
    d->verified = qn_alloc_zero(d->shards, sizeof *d->verified);
    if (!d->needs || !d->gone || !d->verified) {
        qn_deletion_free(d);
        return qn_fail_memory(err, "deletion", d->files * d->shards);
    }
    find_needs(d);
    *out = d;
    return QN_OK;
}

void qn_deletion_free(qn_deletion *d)
{
    if (!d)
        return;
    pthread_mutex_destroy(&d->lock);
    qn_free(d->verified);
    qn_free(d->gone);
    qn_free(d->needs);
    qn_free(d);
}

/* Holds a finished file against its entry, every byte of it. */
static qn_status verify_shard(qn_deletion *d, size_t shard, qn_error *err)
{
    if (d->verified[shard])
        return QN_OK;
    const char *dst = d->job->options->destination, *name = qn_shard_plan_at(d->job->plan, shard)->name;
    char *path = qn_path_join(dst, name), *entry = qn_convert_state_path(dst, name, ".json");
    qn_manifest *manifest = NULL;
    qn_status status = path && entry ? qn_manifest_new(&manifest, err) : qn_fail_memory(err, name, strlen(dst));
    if (status == QN_OK)
        status = qn_manifest_entry_read(entry, manifest, err);
    const qn_manifest_file *file = status == QN_OK ? qn_manifest_find(manifest, name) : NULL;
    if (status == QN_OK && !file)
        status = qn_fail(err, QN_BAD_INPUT, "%s: is of another file: remove the file %s, and it will be made anew",
                         entry, path);
    if (status == QN_OK) {
        qn_sync_folder_of(entry); /* another run may have ended between its rename and its sync */
        qn_sync_folder_of(path);
        status = qn_verify_weights(path, file, d->job->encoding.stop, err);
    }
    d->verified[shard] = status == QN_OK;
    qn_manifest_free(manifest);
    qn_free(entry);
    qn_free(path);
    return status;
}

/* *ready: all files of the output that have tensors of this one are in their places. */
static qn_status is_ready(const qn_deletion *d, size_t file, bool *ready, qn_error *err)
{
    *ready = true;
    for (size_t i = 0; i < d->shards && *ready; i++) {
        if (!d->needs[file * d->shards + i] || d->verified[i])
            continue;
        qn_status status = qn_shard_file_done(d->job->options->destination, qn_shard_plan_at(d->job->plan, i)->name,
                                              ready, err);
        if (status != QN_OK)
            return status;
    }
    return QN_OK;
}

static qn_status remove_file(qn_deletion *d, size_t file, qn_error *err)
{
    const char *path = qn_source_file_path(d->job->source, file);
    for (size_t i = 0; i < d->shards; i++) {
        qn_status status = d->needs[file * d->shards + i] ? verify_shard(d, i, err) : QN_OK;
        if (status != QN_OK)
            return status;
    }
    /* the header may have a tensor that the index does not know, and so the output has not */
    qn_status status = qn_source_check_file(d->job->source, file, err);
    if (status == QN_OK && unlink(path) != 0 && errno != ENOENT)
        status = qn_fail_errno(err, path, "remove", errno);
    struct stat info;
    d->gone[file] = lstat(path, &info) != 0 && errno == ENOENT;
    if (status != QN_OK) /* what has just been removed by another run cannot be opened, which is no fault */
        return d->gone[file] ? QN_OK : status;
    qn_log("%s: removed: all its tensors lie in %s, read back and found whole", path, d->job->options->destination);
    return QN_OK;
}

/* With the lock held. */
static qn_status consider(qn_deletion *d, size_t file, qn_error *err)
{
    struct stat info;
    bool ready = false;
    const char *path = qn_source_file_path(d->job->source, file);
    if (d->gone[file])
        return QN_OK;
    if (lstat(path, &info) != 0) /* not there yet, or removed before */
        return errno == ENOENT ? QN_OK : qn_fail_errno(err, path, "examine", errno);
    qn_status status = is_ready(d, file, &ready, err);
    if (status != QN_OK || !ready)
        return status;
    return S_ISLNK(info.st_mode) ? fail_link(path, err) : remove_file(d, file, err);
}

qn_status qn_deletion_after(void *deletion, size_t shard, qn_error *err)
{
    qn_deletion *d = deletion;
    qn_status status = QN_OK;
    pthread_mutex_lock(&d->lock);
    for (size_t file = 0; file < d->files && status == QN_OK; file++) {
        if (d->needs[file * d->shards + shard])
            status = consider(d, file, err);
    }
    pthread_mutex_unlock(&d->lock);
    return status;
}

qn_status qn_deletion_sweep(qn_deletion *d, qn_error *err)
{
    qn_status status = QN_OK;
    pthread_mutex_lock(&d->lock);
    for (size_t file = 0; file < d->files && status == QN_OK; file++)
        status = consider(d, file, err);
    pthread_mutex_unlock(&d->lock);
    return status;
}
