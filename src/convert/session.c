/* Files that another run has are looked at again when this run has nothing else to do: the other one may have died. */
#include "convert/session.h"

#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "convert/arrival.h"
#include "convert/deletion.h"
#include "convert/disk.h"
#include "convert/state.h"
#include "convert/workers.h"

static qn_status check_source(const char *path, qn_error *err)
{
    const char *marker = qn_arrival_marker(path);
    if (marker)
        return qn_fail(err, QN_BAD_INPUT,
                       "%s: is being downloaded, as %s%s beside it tells: wait for its end, or give --watch", path,
                       path, marker);
    if (access(path, R_OK) != 0)
        return qn_fail(err, QN_BAD_INPUT,
                       "%s: is missing or unreadable, and tensors of it are still to be converted: fetch the file, or "
                       "give --watch when it is on its way",
                       path);
    return QN_OK;
}

/* Of an open file of the output. */
static qn_status check_sources_of(const qn_job *job, const qn_planned_shard *s, qn_error *err)
{
    size_t last = QN_NO_INDEX;
    for (size_t k = 0; k < s->count; k++) {
        const qn_source_tensor *t = qn_source_at(job->source, s->tensors[k]);
        if (t->file == last && t->scale_file == last)
            continue;
        last = t->file;
        qn_status status = check_source(qn_source_file_path(job->source, t->file), err);
        if (status == QN_OK && t->scale_file != t->file)
            status = check_source(qn_source_file_path(job->source, t->scale_file), err);
        if (status != QN_OK)
            return status;
    }
    return QN_OK;
}

/* Before any work, since a file that is missing would show only when its turn comes. */
static qn_status check_sources(qn_job *job, qn_error *err)
{
    for (size_t i = 0; i < qn_shard_plan_count(job->plan); i++) {
        if (!job->selected[i] || job->state[i] != QN_SHARD_OPEN)
            continue;
        qn_error missing;
        qn_status status = check_sources_of(job, qn_shard_plan_at(job->plan, i), &missing);
        if (status == QN_OK)
            continue;
        /* another run may have finished the file, and removed its sources, since it was looked at */
        if (qn_job_look(job, i, err) != QN_OK)
            return err->status;
        if (job->state[i] == QN_SHARD_OPEN) {
            *err = missing;
            return status;
        }
    }
    return QN_OK;
}

static void begin_progress(qn_job *job)
{
    qn_progress_setup setup = {.label = "converting", .unit = "bytes", .json = job->options->progress_json};
    for (size_t i = 0; i < qn_shard_plan_count(job->plan); i++) {
        if (!job->selected[i])
            continue;
        setup.total += qn_shard_plan_at(job->plan, i)->source_bytes;
        setup.done += job->state[i] == QN_SHARD_DONE ? qn_shard_plan_at(job->plan, i)->source_bytes : 0;
    }
    qn_progress_begin(&job->progress, &setup);
}

/* Files that another run had and has no longer are open again; whether one was found. */
static qn_status reopen_busy(qn_job *job, bool *found, qn_error *err)
{
    *found = false;
    for (size_t i = 0; i < qn_shard_plan_count(job->plan); i++) {
        if (job->state[i] != QN_SHARD_BUSY)
            continue;
        qn_file_lock *lock = NULL;
        qn_status status = qn_state_lock_file(job->options->destination, qn_shard_plan_at(job->plan, i)->name, &lock,
                                              job->holder, err);
        if (status != QN_OK)
            return status;
        if (lock) {
            job->state[i] = QN_SHARD_OPEN;
            *found = true;
        }
        qn_file_lock_release(lock);
    }
    return QN_OK;
}

/* While files are waited for: their sources may be gone because another run has done them. */
static qn_status notice_all_done(qn_job *job, qn_error *err)
{
    for (size_t i = 0; i < qn_shard_plan_count(job->plan); i++) {
        if (!job->selected[i] || job->state[i] != QN_SHARD_OPEN)
            continue;
        qn_status status = qn_job_look(job, i, err);
        if (status != QN_OK)
            return status;
        if (job->state[i] == QN_SHARD_DONE)
            qn_progress_add(&job->progress, qn_shard_plan_at(job->plan, i)->source_bytes);
    }
    return QN_OK;
}

/* The open files of the plan that can be done now. */
static size_t gather(const qn_job *job, qn_arrivals *arrivals, size_t *list)
{
    size_t count = 0;
    for (size_t i = 0; i < qn_shard_plan_count(job->plan); i++) {
        if (job->selected[i] && job->state[i] == QN_SHARD_OPEN && (!arrivals || qn_arrivals_has_all(arrivals, i)))
            list[count++] = i;
    }
    return count;
}

static bool has_open(const qn_job *job)
{
    for (size_t i = 0; i < qn_shard_plan_count(job->plan); i++) {
        if (job->selected[i] && job->state[i] == QN_SHARD_OPEN)
            return true;
    }
    return false;
}

static qn_status fail_busy(const qn_job *job, size_t busy, qn_error *err)
{
    return qn_fail(err, QN_FAILED, "%s: %zu file%s being written by %s: run the same command again when it is done",
                   job->options->destination, busy, busy == 1 ? " is" : "s are", job->holder);
}

/* Every selected file, as long as there are some that no other run has; with `arrivals`, those whose sources are there,
 * until all were. */
static qn_status convert_shards(qn_job *job, qn_arrivals *arrivals, qn_deletion *deletion, size_t *list, qn_error *err)
{
    for (;;) {
        bool again = false;
        size_t count = gather(job, arrivals, list);
        qn_status status = QN_OK;
        if (count > 0)
            status = qn_workers_run(job, list, count, deletion ? qn_deletion_after : NULL, deletion, err);
        if (status == QN_OK)
            status = reopen_busy(job, &again, err);
        if (status == QN_OK && deletion)
            status = qn_deletion_sweep(deletion, err); /* what other runs have finished */
        if (status == QN_OK && !again && !has_open(job))
            break;
        if (status == QN_OK && count == 0 && arrivals)
            status = notice_all_done(job, err);
        if (status == QN_OK && count == 0 && arrivals && has_open(job))
            status = qn_arrivals_wait(arrivals, err);
        if (status != QN_OK)
            return status;
    }
    size_t busy = qn_job_count(job, QN_SHARD_BUSY);
    return busy > 0 ? fail_busy(job, busy, err) : QN_OK;
}

static qn_status run(qn_job *job, qn_arrivals *arrivals, qn_deletion *deletion, qn_error *err)
{
    size_t *list = qn_alloc(qn_shard_plan_count(job->plan), sizeof *list);
    if (!list)
        return qn_fail_memory(err, "plan of shards", qn_shard_plan_count(job->plan) * sizeof *list);
    begin_progress(job);
    qn_status status = convert_shards(job, arrivals, deletion, list, err);
    qn_progress_finish(&job->progress);
    qn_free(list);
    return status;
}

qn_status qn_session_run(qn_job *job, qn_error *err)
{
    const qn_convert_options *o = job->options;
    qn_arrivals *arrivals = NULL;
    qn_deletion *deletion = NULL;
    qn_status status = qn_job_look_at_all(job, err);
    if (status == QN_OK)
        status = o->watch ? qn_arrivals_new(job, &arrivals, err) : check_sources(job, err);
    if (status == QN_OK && o->delete_source_shards)
        status = qn_deletion_new(job, &deletion, err);
    if (status == QN_OK && deletion)
        status = qn_deletion_sweep(deletion, err); /* what an end between finishing and removing left */
    if (status == QN_OK)
        status = qn_disk_check(job, err);
    if (status == QN_OK)
        status = run(job, arrivals, deletion, err);
    qn_deletion_free(deletion);
    qn_arrivals_free(arrivals);
    return status;
}
