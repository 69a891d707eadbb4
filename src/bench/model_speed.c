/* Samples are kept as they come, point by point, and made into statistics at the end. */
#include "bench/model_speed.h"

#include <math.h>
#include <stdio.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/progress.h"
#include "base/size.h"
#include "base/system_memory.h"
#include "bench/expert_disk.h"
#include "bench/model_rig.h"
#include "bench/yardstick.h"

typedef struct series {
    double value[QN_SPEED_MAX_REPEATS];
    size_t count;
} series;

/* Of a whole call or of one part. */
typedef struct timed_series {
    series seconds, read_share, peak_share;
} timed_series;

typedef struct point_series {
    timed_series all, part[QN_PARTS];
    qn_part_work work[QN_PARTS]; /* of all samples */
    double experts;
    qn_pool_figures pool;
    qn_expert_counts expert_counts; /* of all samples */
    series disk_seconds, memory_seconds, over_longer;
    size_t memory_estimates;
} point_series;

typedef struct limit_series { /* a sample for each of each point's */
    double *small, *huge, *fp32, *bf16, *disk;
    size_t count;
} limit_series;

typedef struct bench {
    const qn_model_speed_options *options;
    qn_model_speed *out;
    qn_checkpoint *checkpoint;
    qn_model_rig *rig;
    qn_expert_disk *disk;                      /* NULL: all experts are in memory */
    qn_speed_point point[QN_SPEED_MAX_POINTS]; /* those that are measured */
    size_t point_count;
    qn_yardstick yardstick;
    uint64_t tokens;      /* what those of the sample that is measured are drawn from */
    point_series *points; /* [point_count] */
    limit_series limits;
} bench;

static size_t tokens_of(const qn_model_speed_options *o, const qn_speed_point *p)
{
    return p->context + (o->kind == QN_SPEED_DECODE ? 1 + o->drafts : p->count);
}

static qn_status choose_points(bench *b, qn_error *err)
{
    const qn_model_speed_options *o = b->options;
    size_t positions = qn_checkpoint_config(b->checkpoint)->max_position_embeddings, left_out = 0;
    for (size_t i = 0; i < o->point_count; i++) {
        size_t tokens = tokens_of(o, &o->points[i]);
        if (tokens <= positions)
            b->point[b->point_count++] = o->points[i];
        else if (!o->leaves_out || i == 0)
            return qn_fail_field(err, QN_USAGE, "context",
                                 "--context: %zu tokens and what follows them are %zu, and the model's context is %zu: "
                                 "give less",
                                 o->points[i].context, tokens, positions);
        else
            left_out++;
    }
    if (left_out > 0)
        qn_log("bench: %zu of %zu settings are left out: the model's context is %zu", left_out, o->point_count,
               positions);
    return QN_OK;
}

static qn_status open_rig(bench *b, qn_error *err)
{
    const qn_model_speed_options *o = b->options;
    qn_status status = qn_checkpoint_open(o->model_dir, &b->checkpoint, err);
    if (status == QN_OK)
        status = choose_points(b, err);
    if (status != QN_OK)
        return status;
    qn_model_rig_options rig = {.checkpoint = b->checkpoint,
                                .threads = o->threads,
                                .cpu_binding = o->cpu_binding,
                                .numa = o->numa,
                                .sequences = 1,
                                .max_rows = 1,
                                .expert_cache_bytes = o->expert_cache_bytes,
                                .load = o->load,
                                .pack_dense = o->pack_dense,
                                .seed = o->seed,
                                .stop = o->stop};
    for (size_t i = 0; i < b->point_count; i++) {
        size_t count = b->point[i].count;
        bool decode = o->kind == QN_SPEED_DECODE;
        rig.context_tokens = qn_max_size(rig.context_tokens, tokens_of(o, &b->point[i]));
        rig.sequences = qn_max_size(rig.sequences, decode ? count : 1);
        rig.max_rows = qn_max_size(rig.max_rows, decode ? count * (1 + o->drafts) : qn_min_size(count, o->max_rows));
    }
    rig.logit_rows = o->kind == QN_SPEED_DECODE ? rig.max_rows : 1;
    b->out->max_rows = rig.max_rows;
    status = qn_model_rig_open(&rig, &b->rig, err);
    if (status == QN_OK && o->expert_cache_bytes > 0)
        status = qn_expert_disk_open(b->checkpoint,
                                     qn_expert_cache_part_bytes(qn_model_expert_cache(qn_model_rig_model(b->rig))),
                                     o->seed, &b->disk, err);
    return status;
}

static qn_status open_series(bench *b, qn_error *err)
{
    const qn_model_speed_options *o = b->options;
    size_t samples = b->point_count * o->repeats;
    b->points = qn_alloc_zero(b->point_count, sizeof *b->points);
    b->limits.small = qn_alloc(samples, sizeof(double));
    b->limits.huge = qn_alloc(samples, sizeof(double));
    b->limits.fp32 = qn_alloc(samples, sizeof(double));
    b->limits.bf16 = qn_alloc(samples, sizeof(double));
    b->limits.disk = qn_alloc(samples, sizeof(double));
    if (!b->points || !b->limits.small || !b->limits.huge || !b->limits.fp32 || !b->limits.bf16 || !b->limits.disk)
        return qn_fail_memory(err, "samples of the bench", b->point_count * sizeof *b->points);
    return QN_OK;
}

static qn_status run_point(bench *b, const qn_speed_point *p, qn_call_times *times, qn_error *err)
{
    const qn_model_speed_options *o = b->options;
    if (o->kind == QN_SPEED_DECODE)
        return qn_model_rig_call(b->rig, p->count, p->context, 1 + o->drafts, QN_RIG_ALL_LOGITS, times, err);
    qn_status status = QN_OK;
    for (size_t done = 0; done < p->count && status == QN_OK;) {
        size_t rows = qn_min_size(o->max_rows, p->count - done);
        qn_rig_logits logits = done + rows == p->count ? QN_RIG_LAST_LOGITS : QN_RIG_NO_LOGITS;
        status = qn_model_rig_call(b->rig, 1, p->context + done, rows, logits, times, err);
        done += rows;
    }
    return status;
}

static void note(series *s, double value)
{
    s->value[s->count++] = value;
}

/* Of the pages that the weights are in. */
static double read_limit(const bench *b, const qn_limits *limits)
{
    return qn_model_rig_is_resident(b->rig) ? limits->read_huge : limits->read_small;
}

static void note_timed(timed_series *s, double seconds, const qn_part_work *work, double read, double peak)
{
    bool any = seconds > 0; /* a part that took no time did no work */
    note(&s->seconds, seconds);
    note(&s->read_share, any ? work->bytes / seconds / 1e9 / read : 0);
    note(&s->peak_share, any && peak > 0 ? work->flops / seconds / 1e9 / peak : 0);
}

static void note_sample(bench *b, point_series *s, const qn_call_times *times, const qn_limits *limits)
{
    const double read = read_limit(b, limits), peak = qn_limits_peak(limits);
    qn_part_work all = {0};
    for (qn_model_part p = 0; p < QN_PARTS; p++) {
        note_timed(&s->part[p], times->part_seconds[p], &times->work[p], read, peak);
        s->work[p].flops += times->work[p].flops;
        s->work[p].bytes += times->work[p].bytes;
        s->work[p].unpacked_bytes += times->work[p].unpacked_bytes;
        all.flops += times->work[p].flops;
        all.bytes += times->work[p].bytes;
    }
    s->experts += (double)times->experts;
    note_timed(&s->all, times->seconds, &all, read, peak);
    s->pool.loops += times->pool.loops;
    s->pool.loop_ns += times->pool.loop_ns;
    s->pool.worked_ns += times->pool.worked_ns;
    s->pool.sleeps += times->pool.sleeps;
    b->limits.small[b->limits.count] = limits->read_small;
    b->limits.huge[b->limits.count] = limits->read_huge;
    b->limits.fp32[b->limits.count] = limits->fp32;
    b->limits.bf16[b->limits.count++] = limits->bf16;
}

static qn_expert_counts count_experts(const bench *b)
{
    return qn_expert_counts_now(qn_model_rig_model(b->rig));
}

static qn_expert_counts experts_since(const bench *b, qn_expert_counts before)
{
    return qn_expert_counts_add(count_experts(b), -1, before);
}

static double seconds_waited(const qn_expert_counts *counts)
{
    return counts->of[QN_EXPERTS_WAITED_NS] / 1e9;
}

/* What a sample is held against where experts come from the disk. */
typedef struct expert_limits {
    double disk_gbps, memory_seconds;
    bool memory_is_estimate;
} expert_limits;

/* The sample once more, of the same tokens, until memory has all of its experts: that is the time from memory. What was
 * read last may have to go for what is read next where the cache is small or full of what is used more, so it may take
 * several times, and after some of them an estimate has to do. */
static qn_status time_from_memory(bench *b, const qn_speed_point *p, double estimate, expert_limits *out, qn_error *err)
{
    enum { MOST_TIMES = 4 };
    uint64_t behind = qn_model_rig_tokens(b->rig);
    qn_status status = QN_OK;
    *out = (expert_limits){.memory_seconds = estimate, .memory_is_estimate = true};
    for (size_t i = 0; i < MOST_TIMES && out->memory_is_estimate && status == QN_OK; i++) {
        qn_call_times times = {0};
        const qn_expert_counts before = count_experts(b);
        qn_model_rig_set_tokens(b->rig, b->tokens);
        status = run_point(b, p, &times, err);
        const qn_expert_counts did = experts_since(b, before);
        if (status == QN_OK && did.of[QN_EXPERTS_HIT] >= did.of[QN_EXPERTS_NEEDED])
            *out = (expert_limits){.memory_seconds = times.seconds};
    }
    qn_model_rig_set_tokens(b->rig, behind);
    return status;
}

static void note_experts(bench *b, point_series *s, const qn_expert_counts *did, const expert_limits *limits,
                         double seconds)
{
    const double disk = did->of[QN_EXPERTS_BYTES_MISSED] / limits->disk_gbps / 1e9;
    s->expert_counts = qn_expert_counts_add(s->expert_counts, 1, *did);
    s->memory_estimates += limits->memory_is_estimate;
    note(&s->disk_seconds, disk);
    note(&s->memory_seconds, limits->memory_seconds);
    note(&s->over_longer, seconds / fmax(disk, limits->memory_seconds));
    b->limits.disk[b->limits.count - 1] = limits->disk_gbps;
}

static void warn_of_memory(const bench *b)
{
    size_t weights = qn_model_weight_bytes(qn_model_rig_model(b->rig)), available = qn_memory_available("");
    if (!qn_model_rig_is_resident(b->rig) && available > 0 && weights > available)
        qn_log("bench: the weights are %zu MiB and %zu MiB of memory are available: reading the disk is in the figures",
               weights >> 20, available >> 20);
}

static qn_limits mean(qn_limits a, qn_limits b)
{
    return (qn_limits){.read_small = (a.read_small + b.read_small) / 2,
                       .read_huge = (a.read_huge + b.read_huge) / 2,
                       .fp32 = (a.fp32 + b.fp32) / 2,
                       .bf16 = (a.bf16 + b.bf16) / 2};
}

/* One sample, between two of the limits. */
static qn_status measure_point(bench *b, size_t i, bool counts, qn_error *err)
{
    const qn_kernels *kernels = qn_model_rig_kernels(b->rig);
    qn_call_times times = {0};
    expert_limits experts = {0};
    double gbps_before = 0, gbps_behind = 0;
    if (b->options->stop && atomic_load(b->options->stop))
        return qn_fail(err, QN_CANCELLED, "bench: stopped: nothing is told of what was measured");
    const qn_limits before = qn_yardstick_sample(&b->yardstick, kernels);
    qn_status status = b->disk ? qn_expert_disk_sample(b->disk, &gbps_before, err) : QN_OK;
    const qn_expert_counts counted = count_experts(b);
    b->tokens = qn_model_rig_tokens(b->rig);
    if (status == QN_OK)
        status = run_point(b, &b->point[i], &times, err);
    if (status != QN_OK || !counts)
        return status;
    const qn_expert_counts did = experts_since(b, counted);
    if (b->disk)
        status = time_from_memory(b, &b->point[i], times.seconds - seconds_waited(&did), &experts, err);
    if (status == QN_OK && b->disk)
        status = qn_expert_disk_sample(b->disk, &gbps_behind, err);
    if (status != QN_OK)
        return status;
    const qn_limits limits = mean(before, qn_yardstick_sample(&b->yardstick, kernels));
    note_sample(b, &b->points[i], &times, &limits);
    experts.disk_gbps = (gbps_before + gbps_behind) / 2;
    if (b->disk)
        note_experts(b, &b->points[i], &did, &experts, times.seconds);
    return QN_OK;
}

/* Steps that do not count, until the cache is as full as it gets: it holds as many as it has room for, or a while
 * goes by in which nothing is missed. */
static qn_status fill_cache(bench *b, qn_error *err)
{
    enum { QUIET_STEPS = 16, MOST_STEPS = 2000 };
    const qn_expert_cache *cache = qn_model_expert_cache(qn_model_rig_model(b->rig));
    if (!cache)
        return QN_OK;
    const qn_expert_cache_figures *figures = qn_expert_cache_figures_of(cache);
    qn_progress progress;
    qn_progress_begin(&progress,
                      &(qn_progress_setup){.label = "filling the expert cache",
                                           .unit = "experts",
                                           .total = qn_expert_cache_room(cache),
                                           .style = b->options->show_progress ? QN_PROGRESS_AUTO : QN_PROGRESS_OFF});
    qn_status status = QN_OK;
    for (size_t step = 0, quiet = 0; step < MOST_STEPS && quiet < QUIET_STEPS && status == QN_OK; step++) {
        uint64_t read = figures->misses + figures->ahead;
        if (read >= qn_expert_cache_room(cache))
            break;
        qn_call_times times = {0};
        status = qn_model_rig_call(b->rig, 1, b->point[0].context, 1, QN_RIG_NO_LOGITS, &times, err);
        quiet = figures->misses + figures->ahead == read ? quiet + 1 : 0;
        qn_progress_update(&progress, figures->misses + figures->ahead);
        if (status == QN_OK && b->options->stop && atomic_load(b->options->stop))
            status = qn_fail(err, QN_CANCELLED, "bench: stopped: nothing is told of what was measured");
    }
    qn_progress_finish(&progress);
    return status;
}

static qn_status run_rounds(bench *b, qn_error *err)
{
    const qn_model_speed_options *o = b->options;
    qn_progress progress;
    qn_progress_begin(&progress, &(qn_progress_setup){.label = "measuring",
                                                      .unit = "samples",
                                                      .total = (o->repeats + 1) * b->point_count,
                                                      .style = o->show_progress ? QN_PROGRESS_AUTO : QN_PROGRESS_OFF});
    qn_status status = QN_OK;
    for (size_t round = 0; round <= o->repeats && status == QN_OK; round++) {
        qn_model_rig_touch_weights(b->rig);
        for (size_t i = 0; i < b->point_count && status == QN_OK; i++) {
            status = measure_point(b, i, round > 0, err);
            qn_progress_add(&progress, 1);
        }
    }
    qn_progress_finish(&progress);
    return status;
}

static qn_statistic scaled(const series *s, double factor)
{
    double values[QN_SPEED_MAX_REPEATS];
    for (size_t i = 0; i < s->count; i++)
        values[i] = s->value[i] * factor;
    return qn_statistic_of(values, s->count);
}

static qn_statistic rates(const series *seconds, double amount)
{
    double values[QN_SPEED_MAX_REPEATS];
    for (size_t i = 0; i < seconds->count; i++)
        values[i] = amount / seconds->value[i];
    return qn_statistic_of(values, seconds->count);
}

static void summarise_pool(const bench *b, const point_series *s, qn_point_speed *out)
{
    double seconds = 0, steps = (double)(s->all.seconds.count * out->steps), loops = (double)s->pool.loop_ns;
    for (size_t i = 0; i < s->all.seconds.count; i++)
        seconds += s->all.seconds.value[i];
    double threads = (double)qn_pool_threads(qn_model_rig_pool(b->rig));
    out->loops = (double)s->pool.loops / steps;
    out->sleeps = (double)s->pool.sleeps / steps;
    out->alone_share = 1 - loops / 1e9 / seconds;
    out->idle_share = loops > 0 ? 1 - (double)s->pool.worked_ns / (loops * threads) : 0;
}

static void summarise_point(const bench *b, size_t i)
{
    const qn_speed_point *p = &b->point[i];
    const point_series *s = &b->points[i];
    qn_point_speed *out = &b->out->point[i];
    double samples = (double)s->all.seconds.count;
    *out = (qn_point_speed){.point = *p,
                            .steps = b->options->kind == QN_SPEED_DECODE ? 1
                                                                         : qn_ceil_div(p->count, b->options->max_rows),
                            .ms = scaled(&s->all.seconds, 1e3),
                            .tokens = rates(&s->all.seconds, (double)p->count),
                            .read_share = scaled(&s->all.read_share, 1),
                            .peak_share = scaled(&s->all.peak_share, 1)};
    for (qn_model_part part = 0; part < QN_PARTS; part++) {
        out->part[part] = (qn_part_speed){.ms = scaled(&s->part[part].seconds, 1e3),
                                          .read_share = scaled(&s->part[part].read_share, 1).median,
                                          .peak_share = scaled(&s->part[part].peak_share, 1).median,
                                          .flops = s->work[part].flops / samples,
                                          .bytes = s->work[part].bytes / samples};
        out->flops += out->part[part].flops;
        out->bytes += out->part[part].bytes;
        out->unpacked_bytes += s->work[part].unpacked_bytes / samples;
    }
    summarise_pool(b, s, out);
    out->experts_mean = qn_expert_counts_add((qn_expert_counts){{0}}, 1 / samples, s->expert_counts);
    out->disk_ms = scaled(&s->disk_seconds, 1e3);
    out->memory_ms = scaled(&s->memory_seconds, 1e3);
    out->over_longer = scaled(&s->over_longer, 1);
    out->memory_estimates = s->memory_estimates;
    if (b->out->sparse_layers > 0)
        out->experts = s->experts / samples / (double)(b->out->sparse_layers * out->steps);
}

static void summarise(bench *b)
{
    const qn_model_speed_options *o = b->options;
    const qn_config *c = qn_model_config(qn_model_rig_model(b->rig));
    qn_model_speed *out = b->out;
    out->kind = o->kind;
    out->drafts = o->drafts;
    qn_cpu_name(out->cpu);
    snprintf(out->isa, sizeof out->isa, "%s", qn_model_rig_kernels(b->rig)->name);
    out->threads = qn_pool_threads(qn_model_rig_pool(b->rig));
    out->layers = c->num_hidden_layers;
    for (size_t i = 0; i < c->num_hidden_layers; i++)
        out->sparse_layers += c->layer_is_sparse[i];
    const qn_expert_cache *cache = qn_model_expert_cache(qn_model_rig_model(b->rig));
    if (cache) {
        out->expert_room = qn_expert_cache_room(cache);
        out->experts = qn_expert_cache_count(cache);
    }
    out->resident = qn_model_rig_is_resident(b->rig);
    out->packed = qn_model_rig_is_packed(b->rig);
    out->weight_bytes = qn_model_weight_bytes(qn_model_rig_model(b->rig));
    out->cache_bytes = qn_model_rig_cache_bytes(b->rig);
    out->region_bytes = b->yardstick.small.bytes;
    out->read_small = qn_statistic_of(b->limits.small, b->limits.count);
    out->read_huge = qn_statistic_of(b->limits.huge, b->limits.count);
    out->fp32 = qn_statistic_of(b->limits.fp32, b->limits.count);
    out->bf16 = qn_statistic_of(b->limits.bf16, b->limits.count);
    out->bf16_peak = out->bf16.median > out->fp32.median;
    out->disk = qn_statistic_of(b->limits.disk, b->limits.count);
    out->point_count = b->point_count;
    for (size_t i = 0; i < b->point_count; i++)
        summarise_point(b, i);
}

qn_status qn_model_speed_measure(const qn_model_speed_options *options, qn_model_speed *out, qn_error *err)
{
    bench b = {.options = options, .out = out};
    *out = (qn_model_speed){.kind = options->kind};
    qn_status status = open_rig(&b, err);
    if (status == QN_OK)
        status = qn_yardstick_open(qn_model_rig_pool(b.rig), &b.yardstick, err);
    if (status == QN_OK)
        status = open_series(&b, err);
    if (status == QN_OK) {
        warn_of_memory(&b);
        status = fill_cache(&b, err);
    }
    if (status == QN_OK) {
        status = run_rounds(&b, err);
    }
    if (status == QN_OK)
        summarise(&b);
    qn_free(b.points);
    qn_free(b.limits.small);
    qn_free(b.limits.huge);
    qn_free(b.limits.fp32);
    qn_free(b.limits.bf16);
    qn_free(b.limits.disk);
    qn_expert_disk_close(b.disk);
    qn_yardstick_close(&b.yardstick);
    qn_model_rig_close(b.rig);
    qn_checkpoint_close(b.checkpoint);
    return status;
}
