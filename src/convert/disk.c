/* A plan of the space over time, file by file in the order of the work: with deletion the need is greatest somewhere on
 * the way, not at the end. */
#include "convert/disk.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/amounts.h"
#include "base/file.h"
#include "base/memory.h"
#include "convert/shard_file.h"

/* Headers, journals, entries, and the files that finalize writes. */
enum { BYTES_PER_TENSOR = 1024, FILES_LAG = 2 };
static const uint64_t SMALL_FILES_BYTES = UINT64_C(1) << 20;

/* What a file of the plan still needs: its size less what its part has already. */
static qn_status bytes_left(const qn_job *job, const qn_planned_shard *s, uint64_t *out, qn_error *err)
{
    char *part = qn_convert_state_path(job->options->destination, s->name, ".part");
    if (!part)
        return qn_fail_memory(err, s->name, strlen(s->name));
    struct stat info;
    uint64_t has = stat(part, &info) == 0 ? (uint64_t)info.st_blocks * 512 : 0;
    uint64_t needs = s->bytes + (uint64_t)s->count * BYTES_PER_TENSOR;
    *out = needs > has ? needs - has : 0;
    qn_free(part);
    return QN_OK;
}

/* freed[i]: bytes that come free before file i of the plan is begun. Only files whose every need this run sees to. */
static void plan_deletion(const qn_job *job, uint64_t *freed)
{
    size_t shards = qn_shard_plan_count(job->plan);
    for (size_t file = 0; file < qn_source_file_count(job->source); file++) {
        struct stat info;
        bool is_there = lstat(qn_source_file_path(job->source, file), &info) == 0, known = true, needed = false;
        size_t last = 0;
        for (size_t i = 0; i < shards && is_there; i++) {
            const qn_planned_shard *s = qn_shard_plan_at(job->plan, i);
            if (job->state[i] == QN_SHARD_DONE)
                continue;
            for (size_t k = 0; k < s->count; k++) {
                const qn_source_tensor *t = qn_source_at(job->source, s->tensors[k]);
                if (t->file != file && t->scale_file != file)
                    continue;
                needed = true;
                known = known && job->selected[i];
                last = i;
                break;
            }
        }
        if (is_there && needed && known && last + FILES_LAG < shards)
            freed[last + FILES_LAG] += (uint64_t)info.st_blocks * 512;
    }
}

static bool same_file_system(const qn_job *job)
{
    struct stat source, destination;
    return stat(qn_source_dir(job->source), &source) == 0 && stat(job->options->destination, &destination) == 0 &&
           source.st_dev == destination.st_dev;
}

/* The greatest sum of what is written less what has come free, over the order of the work. */
static qn_status greatest_need(const qn_job *job, const uint64_t *freed, uint64_t *need, qn_error *err)
{
    uint64_t written = SMALL_FILES_BYTES, free_again = 0;
    *need = 0;
    for (size_t i = 0; i < qn_shard_plan_count(job->plan); i++) {
        uint64_t bytes = 0;
        free_again += freed[i];
        if (!job->selected[i] || job->state[i] == QN_SHARD_DONE)
            continue;
        qn_status status = bytes_left(job, qn_shard_plan_at(job->plan, i), &bytes, err);
        if (status != QN_OK)
            return status;
        written += bytes;
        if (written > free_again && written - free_again > *need)
            *need = written - free_again;
    }
    return QN_OK;
}

static qn_status compare(const qn_job *job, uint64_t need, qn_error *err)
{
    const char *dst = job->options->destination;
    struct statvfs info;
    if (statvfs(dst, &info) != 0)
        return qn_fail_errno(err, dst, "ask its file system for free space", errno);
    uint64_t has = (uint64_t)info.f_bavail * info.f_frsize;
    if (need <= has)
        return QN_OK;
    bool may_delete = !job->options->delete_source_shards && same_file_system(job);
    char need_text[QN_MEMORY_TEXT_BYTES], has_text[QN_MEMORY_TEXT_BYTES];
    return qn_fail(err, QN_RESOURCE,
                   "%s: %s are still to be written, and its disk has %s free: free disk space, or take another disk%s",
                   dst, qn_memory_text(need, need_text), qn_memory_text(has, has_text),
                   may_delete ? ", or give --delete-source-shards to make room on the way" : "");
}

qn_status qn_disk_check(const qn_job *job, qn_error *err)
{
    size_t shards = qn_shard_plan_count(job->plan);
    uint64_t need = 0, *freed = qn_alloc_zero(shards, sizeof *freed);
    if (!freed)
        return qn_fail_memory(err, "plan of space", shards * sizeof *freed);
    if (job->options->delete_source_shards && same_file_system(job))
        plan_deletion(job, freed);
    qn_status status = greatest_need(job, freed, &need, err);
    qn_free(freed);
    return status == QN_OK && need > SMALL_FILES_BYTES ? compare(job, need, err) : status;
}
