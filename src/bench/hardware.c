/* Rounds: every figure gives one sample, then the next round begins. */
#include "bench/hardware.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/progress.h"
#include "base/size.h"
#include "base/system_memory.h"
#include "bench/arithmetic.h"
#include "bench/disk.h"
#include "bench/kernel_rates.h"
#include "bench/region.h"

enum {
    MAX_SAMPLES = 64,
    LEAST_ROUNDS = 3,
    SHORTEST_ROUNDS = 4, /* as many rounds as a short measurement is cut for */
    SAMPLES_A_ROUND = 32,
    CPU_INFO_LIMIT = 16 << 20,
    MEBIBYTE = 1 << 20,
    BUFFERS_BYTES = 96 << 20, /* of the kernels, beside the regions */
    LEAST_REGION_BYTES = 16 << 20
};

static const size_t MOST_MEMORY = (size_t)1536 << 20;
static const double DISK_SHARE = 0.25, LONGEST_SAMPLE_MS = 20;

typedef struct series {
    double value[MAX_SAMPLES];
    size_t count;
} series;

typedef struct rig {
    const qn_hardware_options *options;
    qn_hardware *out;
    qn_pool *pool[QN_THREAD_COUNTS]; /* of out->read[i].threads */
    qn_pool *all;                    /* the last of them */
    qn_region huge, small;
    qn_kernel_rates *kernels;
    double sample_ms;
    series figure[QN_FIGURES], read_huge[QN_THREAD_COUNTS], read_small[QN_THREAD_COUNTS];
} rig;

static void note(series *s, double value)
{
    if (s->count < MAX_SAMPLES)
        s->value[s->count++] = value;
}

void qn_cpu_name(char out[QN_CPU_NAME_BYTES])
{
    char *text;
    size_t bytes;
    qn_error err;
    snprintf(out, QN_CPU_NAME_BYTES, "unknown");
    if (qn_file_read("/proc/cpuinfo", CPU_INFO_LIMIT, &text, &bytes, &err) != QN_OK)
        return;
    const char *name = strstr(text, "model name");
    name = name ? strchr(name, ':') : NULL;
    if (name) {
        name += strspn(name, ": \t");
        size_t length = qn_min_size(strcspn(name, "\n"), QN_CPU_NAME_BYTES - 1);
        memcpy(out, name, length);
        out[length] = '\0';
    }
    qn_free(text);
}

/* 1, 2, 4, ... and all. */
static qn_status make_pools(rig *r, qn_error *err)
{
    qn_hardware *out = r->out;
    qn_status status = qn_pool_new(0, &r->all, err);
    if (status != QN_OK)
        return status;
    out->threads = qn_pool_threads(r->all);
    for (size_t threads = 1; threads < out->threads; threads *= 2)
        out->read[out->read_count++].threads = threads;
    out->read[out->read_count++].threads = out->threads;
    for (size_t i = 0; i + 1 < out->read_count && status == QN_OK; i++)
        status = qn_pool_new(out->read[i].threads, &r->pool[i], err);
    r->pool[out->read_count - 1] = r->all;
    return status;
}

static qn_status make_regions(rig *r, qn_error *err)
{
    size_t available = qn_memory_available(""), limit = r->options->memory_bytes;
    if (limit == 0)
        limit = available > 0 ? qn_min_size(MOST_MEMORY, available / 4) : MOST_MEMORY;
    size_t bytes = limit > BUFFERS_BYTES ? (limit - BUFFERS_BYTES) / 2 / MEBIBYTE * MEBIBYTE : 0;
    if (bytes < LEAST_REGION_BYTES)
        return qn_fail(err, QN_RESOURCE,
                       "measuring the machine: %zu MiB of memory are free for it and %d MiB are the least: close other "
                       "programs",
                       limit / MEBIBYTE, (BUFFERS_BYTES + 2 * LEAST_REGION_BYTES) / MEBIBYTE);
    qn_status status = qn_region_new(bytes, true, r->all, &r->huge, err);
    if (status == QN_OK)
        status = qn_region_new(bytes, false, r->all, &r->small, err);
    r->out->region_bytes = r->small.bytes;
    return status;
}

static double read_rate(const rig *r, const qn_region *region, qn_pool *pool)
{
    double seconds = 0, bytes = 0;
    do {
        seconds += qn_region_read(region, pool);
        bytes += (double)region->bytes;
    } while (seconds * 1e3 < r->sample_ms);
    return bytes / seconds / 1e9;
}

static void arithmetic_round(rig *r)
{
    static const struct {
        qn_arithmetic kind;
        qn_figure one, all;
    } kinds[] = {{QN_ARITHMETIC_FP32, QN_FIGURE_FP32_ONE_THREAD, QN_FIGURE_FP32},
                 {QN_ARITHMETIC_BF16, QN_FIGURE_BF16_ONE_THREAD, QN_FIGURE_BF16}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!qn_arithmetic_supported(kinds[i].kind))
            continue;
        note(&r->figure[kinds[i].one], qn_arithmetic_run(kinds[i].kind, r->pool[0], r->sample_ms));
        note(&r->figure[kinds[i].all], qn_arithmetic_run(kinds[i].kind, r->all, r->sample_ms));
    }
}

static void run_round(rig *r)
{
    for (size_t i = 0; i < r->out->read_count; i++) {
        note(&r->read_huge[i], read_rate(r, &r->huge, r->pool[i]));
        note(&r->read_small[i], read_rate(r, &r->small, r->pool[i]));
    }
    arithmetic_round(r);
    for (qn_figure figure = QN_FIGURE_MXFP4_ROWS; figure <= QN_FIGURE_LOOP; figure++)
        note(&r->figure[figure], qn_kernel_rates_sample(r->kernels, figure, r->sample_ms));
}

/* The first round also finds out how many there will be. */
static void run_rounds(rig *r, double seconds)
{
    qn_progress progress;
    uint64_t started = qn_now_us(), wanted_us = (uint64_t)(seconds * 1e6);
    run_round(r);
    uint64_t gone = qn_now_us() - started, expected = wanted_us / (gone > 0 ? gone : 1) + 1;
    if (r->options->show_progress)
        qn_progress_start(&progress, "measuring", "rounds", qn_max_size(expected, LEAST_ROUNDS));
    for (size_t round = 1; round < MAX_SAMPLES && (round < LEAST_ROUNDS || gone < wanted_us); round++) {
        run_round(r);
        gone = qn_now_us() - started;
        if (r->options->show_progress)
            qn_progress_update(&progress, round + 1);
    }
    if (r->options->show_progress)
        qn_progress_finish(&progress);
}

static void summarise(rig *r)
{
    for (size_t i = 0; i < QN_FIGURES; i++)
        r->out->figure[i] = qn_statistic_of(r->figure[i].value, r->figure[i].count);
    for (size_t i = 0; i < r->out->read_count; i++) {
        r->out->read[i].huge_pages = qn_statistic_of(r->read_huge[i].value, r->read_huge[i].count);
        r->out->read[i].small_pages = qn_statistic_of(r->read_small[i].value, r->read_small[i].count);
    }
}

static qn_status measure_disk(const qn_hardware_options *options, qn_hardware *out, qn_error *err)
{
    qn_disk_rates rates;
    qn_status status = qn_disk_measure(options->disk, options->seconds * DISK_SHARE, &rates, err);
    if (status == QN_OK) {
        out->figure[QN_FIGURE_DISK_SEQUENTIAL] = rates.sequential;
        out->figure[QN_FIGURE_DISK_RANDOM] = rates.random;
        out->figure[QN_FIGURE_DISK_WRITE] = rates.write;
    }
    return status;
}

qn_status qn_hardware_measure(const qn_hardware_options *options, qn_hardware *out, qn_error *err)
{
    rig *r = qn_alloc_zero(1, sizeof *r);
    if (!r)
        return qn_fail_memory(err, "measuring the machine", sizeof *r);
    *r = (rig){.options = options, .out = out};
    *out = (qn_hardware){0};
    r->sample_ms = options->seconds * 1e3 / (SHORTEST_ROUNDS * SAMPLES_A_ROUND);
    if (r->sample_ms > LONGEST_SAMPLE_MS)
        r->sample_ms = LONGEST_SAMPLE_MS;
    snprintf(out->isa, sizeof out->isa, "%s", options->kernels->name);
    qn_status status = make_pools(r, err);
    if (status == QN_OK)
        status = make_regions(r, err);
    if (status == QN_OK)
        status = qn_kernel_rates_new(options->kernels, r->all, &r->small, &r->kernels, err);
    if (status == QN_OK && options->disk) /* first: a folder that is no good is told at once */
        status = measure_disk(options, out, err);
    if (status == QN_OK) {
        run_rounds(r, options->seconds * (options->disk ? 1 - DISK_SHARE : 1));
        summarise(r);
        qn_cpu_name(out->cpu);
    }
    qn_kernel_rates_free(r->kernels);
    qn_region_free(&r->huge);
    qn_region_free(&r->small);
    for (size_t i = 0; i < QN_THREAD_COUNTS; i++)
        if (r->pool[i] != r->all)
            qn_pool_free(r->pool[i]);
    qn_pool_free(r->all);
    qn_free(r);
    return status;
}
