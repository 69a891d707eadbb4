/* The order of things: everything that can be known wrong without data is, before anything is written; then the files
 * of the plan; then, for a run that was asked for everything, the rest of a checkpoint. */
#include "convert/convert.h"

#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/pool.h"
#include "convert/arrival.h"
#include "convert/finalize.h"
#include "convert/job.h"
#include "convert/session.h"
#include "convert/shard_file.h"
#include "convert/state.h"
#include "convert/workers.h"

/* Raised with any change of the bytes that a source becomes. */
static const char ENCODER[] = "1";

size_t qn_job_count(const qn_job *job, qn_shard_state state)
{
    size_t count = 0;
    for (size_t i = 0; i < qn_shard_plan_count(job->plan); i++)
        count += job->state[i] == state;
    return count;
}

qn_status qn_job_look(qn_job *job, size_t shard, qn_error *err)
{
    bool done = false;
    qn_status status = qn_shard_file_done(job->options->destination, qn_shard_plan_at(job->plan, shard)->name, &done,
                                          err);
    if (status == QN_OK)
        job->state[shard] = done ? QN_SHARD_DONE : QN_SHARD_OPEN;
    return status;
}

qn_status qn_job_look_at_all(qn_job *job, qn_error *err)
{
    qn_status status = QN_OK;
    for (size_t i = 0; i < qn_shard_plan_count(job->plan) && status == QN_OK; i++)
        status = qn_job_look(job, i, err);
    return status;
}

/* The absolute path of a folder that may not exist yet, in a folder that does; libc's own allocation, NULL on failure.
 */
static char *resolve(const char *path)
{
    char *resolved = realpath(path, NULL);
    if (resolved)
        return resolved;
    char *copy = strdup(path), *name_copy = strdup(path);
    char *parent = copy && name_copy ? realpath(dirname(copy), NULL) : NULL;
    if (parent) {
        const char *name = basename(name_copy);
        size_t bytes = strlen(parent) + strlen(name) + 2;
        resolved = malloc(bytes);
        if (resolved)
            snprintf(resolved, bytes, "%s/%s", parent, name);
    }
    free(parent);
    free(name_copy);
    free(copy);
    return resolved;
}

static bool lies_in(const char *inner, const char *outer)
{
    size_t bytes = strlen(outer);
    return strncmp(inner, outer, bytes) == 0 &&
           (inner[bytes] == '/' || inner[bytes] == '\0' || strcmp(outer, "/") == 0);
}

/* Output inside of the input, or around it, would be read or carried along as part of it. */
static qn_status check_places(const qn_convert_options *o, qn_error *err)
{
    char *source = resolve(o->source), *destination = resolve(o->destination);
    qn_status status = QN_OK;
    if (source && destination && (lies_in(destination, source) || lies_in(source, destination)))
        status = qn_fail(err, QN_USAGE,
                         "%s: is the source's folder, or lies in it, or has it inside: give a folder beside "
                         "it for the output",
                         o->destination);
    free(destination);
    free(source);
    return status;
}

static qn_status check_options(const qn_convert_options *o, qn_error *err)
{
    if (o->finalize && (o->layers || o->rest))
        return qn_fail_field(err, QN_USAGE, "finalize",
                             "--finalize: does nothing else: give --layers and --rest to runs before it");
    if (o->finalize && (o->watch || o->delete_source_shards))
        return qn_fail_field(
            err, QN_USAGE, "finalize",
            "--finalize: does nothing else: give --watch and --delete-source-shards to runs before it");
    if (o->layers && o->first_layer > o->last_layer)
        return qn_fail_field(err, QN_USAGE, "layers", "--layers: %zu-%zu is no range: give the lower one first",
                             o->first_layer, o->last_layer);
    if (o->max_shard_bytes < QN_MIN_SHARD_BYTES)
        return qn_fail_field(err, QN_USAGE, "max-shard-size", "--max-shard-size: must be %" PRIu64 " at least",
                             QN_MIN_SHARD_BYTES);
    if (o->rule == QN_SCALE_OCP && o->importance)
        return qn_fail_field(err, QN_USAGE, "rtn", "--rtn: rounds without regard to --importance: give one of the two");
    return check_places(o, err);
}

static qn_status set_size(qn_manifest *settings, const char *name, uint64_t value, qn_error *err)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64, value);
    return qn_manifest_set(settings, name, text, err);
}

/* What decides the output's bytes. */
static qn_status make_settings(qn_job *job, qn_error *err)
{
    char importance[QN_HASH_TEXT_BYTES] = "none";
    if (job->importance)
        qn_hash_text(qn_importance_hash(job->importance), importance);
    const struct {
        const char *name, *value;
    } texts[] = {
        {"encoder", ENCODER},
        {"rule", job->options->rule == QN_SCALE_OCP ? "rtn" : "least-error"},
        {"importance", importance},
        {"source-config", qn_source_config_hash(job->source)},
        {"source-index", qn_source_index_hash(job->source)},
    };
    qn_status status = qn_manifest_new(&job->settings, err);
    for (size_t i = 0; i < sizeof texts / sizeof *texts && status == QN_OK; i++)
        status = qn_manifest_set(job->settings, texts[i].name, texts[i].value, err);
    return status == QN_OK ? set_size(job->settings, "max-shard-size", job->options->max_shard_bytes, err) : status;
}

static qn_status select_shards(qn_job *job, qn_error *err)
{
    const qn_convert_options *o = job->options;
    size_t count = qn_shard_plan_count(job->plan), found = 0;
    job->selected = qn_alloc_zero(count, sizeof *job->selected);
    job->state = qn_alloc_zero(count, sizeof *job->state);
    if (!job->selected || !job->state)
        return qn_fail_memory(err, "plan of shards", count * sizeof *job->state);
    for (size_t i = 0; i < count; i++) {
        size_t layer = qn_shard_plan_at(job->plan, i)->layer;
        bool in_range = o->layers && layer != QN_NO_INDEX && layer >= o->first_layer && layer <= o->last_layer;
        found += in_range;
        job->selected[i] = (!o->layers && !o->rest) || in_range || (o->rest && layer == QN_NO_INDEX);
    }
    if (o->layers && found == 0)
        return qn_fail_field(err, QN_USAGE, "layers",
                             "--layers: no layer of %zu to %zu has routed experts: `quern inspect` tells which have",
                             o->first_layer, o->last_layer);
    return QN_OK;
}

static qn_status open_source(qn_job *job, qn_error *err)
{
    const qn_convert_options *o = job->options;
    qn_status status = QN_OK;
    if (o->watch)
        status = qn_arrival_wait_for_index(o->source, qn_watch_interval_us(o), o->stop ? o->stop : &job->never, err);
    return status == QN_OK ? qn_source_open(o->source, o->allow_lossy_source, &job->source, err) : status;
}

static qn_status open_job(qn_job *job, qn_error *err)
{
    const qn_convert_options *o = job->options;
    qn_status status = open_source(job, err);
    if (status == QN_OK)
        status = qn_shard_plan_new(job->source, o->max_shard_bytes, &job->plan, err);
    if (status == QN_OK && o->importance)
        status = qn_importance_open(o->importance, qn_source_config(job->source), &job->importance, err);
    if (status == QN_OK)
        status = make_settings(job, err);
    if (status == QN_OK)
        status = select_shards(job, err);
    if (status != QN_OK)
        return status;
    size_t threads = o->threads > 0 ? o->threads : qn_cpu_count();
    job->workers = qn_workers_for(threads);
    job->encoding = (qn_encoding){.source = job->source,
                                  .rule = o->rule,
                                  .importance = job->importance,
                                  .piece_bytes = qn_piece_bytes_for(job->workers),
                                  .stop = o->stop ? o->stop : &job->never};
    return qn_kernels_from_environment(&job->encoding.kernels, err);
}

static void close_job(qn_job *job)
{
    qn_free(job->state);
    qn_free(job->selected);
    qn_manifest_free(job->settings);
    qn_importance_close(job->importance);
    qn_shard_plan_free(job->plan);
    qn_source_close(job->source);
}

/* Joins the session, unless the destination is complete. Another run may finalize between any two of these steps, and
 * with that remove what this one is about to join. */
static qn_status join(qn_job *job, qn_file_lock **session, bool *complete, qn_error *err)
{
    enum { TRIES = 100 }; /* that a folder is finalized more than once is no matter of chance */
    const char *dst = job->options->destination;
    qn_status status = QN_OK;
    for (int i = 0; i < TRIES; i++) {
        status = qn_finalize_is_complete(job, complete, err);
        if (status != QN_OK || *complete)
            return status;
        status = qn_state_join(dst, job->settings, job->encoding.stop, session, err);
        if (status == QN_OK || qn_state_exists(dst))
            break;
    }
    if (status == QN_OK)
        status = qn_finalize_is_complete(job, complete, err);
    return status;
}

static qn_status run_job(qn_job *job, qn_convert_result *out, qn_error *err)
{
    const qn_convert_options *o = job->options;
    bool everything = !o->layers && !o->rest;
    qn_file_lock *session = NULL;
    qn_status status = join(job, &session, &out->already_complete, err);
    if (status == QN_OK && !out->already_complete && !o->finalize)
        status = qn_session_run(job, err);
    qn_file_lock_release(session);
    if (status == QN_OK && !out->already_complete && everything) {
        status = qn_finalize(job, err);
        out->complete = status == QN_OK;
    }
    return status;
}

qn_status qn_convert(const qn_convert_options *options, qn_convert_result *out, qn_error *err)
{
    *out = (qn_convert_result){0};
    uint64_t started_us = qn_now_us();
    qn_job job = {.options = options};
    qn_status status = check_options(options, err);
    if (status == QN_OK)
        status = open_job(&job, err);
    if (status == QN_OK)
        status = run_job(&job, out, err);
    if (job.plan && job.state) {
        out->files_total = qn_shard_plan_count(job.plan);
        out->complete = out->complete || out->already_complete;
        out->files_done = out->complete ? out->files_total : qn_job_count(&job, QN_SHARD_DONE);
    }
    out->source_bytes = atomic_load(&job.read_bytes);
    out->output_bytes = atomic_load(&job.written_bytes);
    out->us = qn_now_us() - started_us;
    close_job(&job);
    return status;
}
