/* Folders are polled: a download may come over a network file system, which tells nobody of its changes. */
#include "convert/arrival.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "checkpoint/index.h"

enum { JSON_LIMIT_BYTES = QN_INDEX_LIMIT_BYTES };
static const uint64_t LINE_INTERVAL_US = 60000000, NAP_US = 100000;

struct qn_arrivals {
    const qn_job *job;
    bool *whole; /* [files of the source] seen to be */
    uint64_t told_us;
};

uint64_t qn_watch_interval_us(const qn_convert_options *options)
{
    static const uint64_t DEFAULT_US = 5000000;
    return options->watch_interval_us > 0 ? options->watch_interval_us : DEFAULT_US;
}

const char *qn_arrival_marker(const char *path)
{
    static const char *const markers[] = {".aria2", ".incomplete", ".part"};
    size_t bytes = strlen(path) + QN_MARKER_BYTES;
    char *name = qn_alloc(bytes, 1);
    const char *found = NULL;
    for (size_t i = 0; name && i < sizeof markers / sizeof *markers && !found; i++) {
        snprintf(name, bytes, "%s%s", path, markers[i]);
        if (access(name, F_OK) == 0)
            found = markers[i];
    }
    qn_free(name);
    return found;
}

bool qn_arrival_is_whole(const char *path)
{
    qn_safetensors *header = NULL;
    qn_error ignored; /* what is wrong may be that it is not all there yet */
    bool whole = access(path, R_OK) == 0 && !qn_arrival_marker(path) &&
                 qn_safetensors_open_fp8_header(path, &header, &ignored) == QN_OK;
    qn_safetensors_close(header);
    return whole;
}

static bool is_whole_json(const char *path)
{
    json_t *root = NULL;
    qn_error ignored;
    bool whole = access(path, R_OK) == 0 && !qn_arrival_marker(path) &&
                 qn_json_parse_file(path, JSON_LIMIT_BYTES, &root, &ignored) == QN_OK;
    json_decref(root);
    return whole;
}

static qn_status fail_stopped(qn_error *err)
{
    return qn_fail(err, QN_CANCELLED, "convert: stopped: run the same command again to go on");
}

/* In naps, so that a signal need not be waited for. */
static qn_status sleep_unless_stopped(uint64_t us, const atomic_bool *stop, qn_error *err)
{
    for (uint64_t end_us = qn_now_us() + us;;) {
        uint64_t now_us = qn_now_us();
        if (atomic_load(stop))
            return fail_stopped(err);
        if (now_us >= end_us)
            return QN_OK;
        uint64_t nap_us = end_us - now_us < NAP_US ? end_us - now_us : NAP_US;
        const struct timespec nap = {.tv_sec = 0, .tv_nsec = (long)nap_us * 1000};
        nanosleep(&nap, NULL);
    }
}

/* Whether a line is due, which counts as told then. */
static bool is_due(uint64_t *told_us)
{
    uint64_t now_us = qn_now_us();
    if (*told_us != 0 && now_us - *told_us < LINE_INTERVAL_US)
        return false;
    *told_us = now_us;
    return true;
}

/* What of the three is missing, NULL when nothing is. */
static const char *missing_of(const char *config, const char *index, const char *single)
{
    if (!is_whole_json(config))
        return config;
    return is_whole_json(index) || qn_arrival_is_whole(single) ? NULL : index;
}

qn_status qn_arrival_wait_for_index(const char *dir, uint64_t interval_us, const atomic_bool *stop, qn_error *err)
{
    struct stat info;
    if (stat(dir, &info) != 0 || !S_ISDIR(info.st_mode))
        return qn_fail(err, QN_BAD_INPUT, "%s: is no folder: give the one that is downloaded to", dir);
    char *config = qn_path_join(dir, "config.json"), *index = qn_path_join(dir, "model.safetensors.index.json");
    char *single = qn_path_join(dir, "model.safetensors");
    qn_status status = config && index && single ? QN_OK : qn_fail_memory(err, dir, strlen(dir));
    uint64_t told_us = 0;
    for (const char *missing; status == QN_OK && (missing = missing_of(config, index, single)) != NULL;) {
        if (is_due(&told_us))
            qn_log("convert: waiting for %s", missing);
        status = sleep_unless_stopped(interval_us, stop, err);
    }
    qn_free(single);
    qn_free(index);
    qn_free(config);
    return status;
}

qn_status qn_arrivals_new(const qn_job *job, qn_arrivals **out, qn_error *err)
{
    qn_arrivals *a = qn_alloc_zero(1, sizeof *a);
    size_t files = qn_source_file_count(job->source);
    if (a)
        a->whole = qn_alloc_zero(files, sizeof *a->whole);
    if (!a || !a->whole) {
        qn_arrivals_free(a);
        return qn_fail_memory(err, "list of files", files * sizeof *a->whole);
    }
    a->job = job;
    *out = a;
    return QN_OK;
}

void qn_arrivals_free(qn_arrivals *a)
{
    if (!a)
        return;
    qn_free(a->whole);
    qn_free(a);
}

static bool has_file(qn_arrivals *a, size_t file)
{
    if (!a->whole[file])
        a->whole[file] = qn_arrival_is_whole(qn_source_file_path(a->job->source, file));
    return a->whole[file];
}

/* The first file of the source that this one of the plan lacks; QN_NO_INDEX: none. */
static size_t first_missing(qn_arrivals *a, size_t shard)
{
    const qn_planned_shard *s = qn_shard_plan_at(a->job->plan, shard);
    for (size_t k = 0; k < s->count; k++) {
        const qn_source_tensor *t = qn_source_at(a->job->source, s->tensors[k]);
        if (!has_file(a, t->file))
            return t->file;
        if (!has_file(a, t->scale_file))
            return t->scale_file;
    }
    return QN_NO_INDEX;
}

bool qn_arrivals_has_all(qn_arrivals *a, size_t shard)
{
    return first_missing(a, shard) == QN_NO_INDEX;
}

static void tell(qn_arrivals *a)
{
    const qn_job *job = a->job;
    size_t waiting = 0, first = QN_NO_INDEX, missing = 0;
    for (size_t i = 0; i < qn_shard_plan_count(job->plan); i++) {
        if (!job->selected[i] || job->state[i] != QN_SHARD_OPEN)
            continue;
        waiting++;
        if (first == QN_NO_INDEX)
            first = first_missing(a, i);
    }
    for (size_t file = 0; file < qn_source_file_count(job->source); file++)
        missing += !a->whole[file];
    if (first != QN_NO_INDEX)
        qn_log("convert: waiting for %s; %zu files of the source are not there or were not needed yet, %zu of the "
               "output are open",
               qn_source_file_path(job->source, first), missing, waiting);
}

qn_status qn_arrivals_wait(qn_arrivals *a, qn_error *err)
{
    const qn_convert_options *o = a->job->options;
    if (is_due(&a->told_us))
        tell(a);
    return sleep_unless_stopped(qn_watch_interval_us(o), a->job->encoding.stop, err);
}
