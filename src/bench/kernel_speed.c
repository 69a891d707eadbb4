#include "bench/kernel_speed.h"

#include "base/memory.h"
#include "base/progress.h"
#include "bench/yardstick.h"

typedef struct bench {
    const qn_kernel_speed_options *options;
    qn_kernel_speed *out;
    qn_pool *pool;
    qn_yardstick yardstick;
    qn_kernel_rig *rig;
    double *small, *huge, *fp32, *bf16; /* [samples] */
    size_t reads, bf16s;
    qn_progress progress;
} bench;

/* Of one case. */
typedef struct rates {
    double gflops[QN_KERNEL_MAX_REPEATS], gbps[QN_KERNEL_MAX_REPEATS], mkeys[QN_KERNEL_MAX_REPEATS];
    double peak_share[QN_KERNEL_MAX_REPEATS], read_share[QN_KERNEL_MAX_REPEATS];
} rates;

static qn_status list_figures(bench *b, qn_error *err)
{
    const qn_kernel_speed_options *o = b->options;
    qn_kernel_case cases[QN_KERNEL_MAX_CASES];
    size_t tables, count = qn_kernel_cases(o->rows, o->row_count, cases);
    const qn_kernels *const *all = qn_kernels_all(&tables);
    b->out->figures = qn_alloc_zero(tables * count, sizeof *b->out->figures);
    if (!b->out->figures)
        return qn_fail_memory(err, "figures of the bench", tables * count * sizeof *b->out->figures);
    for (size_t t = 0; t < tables; t++) {
        if (!qn_kernels_supported(all[t]) || (o->kernels && o->kernels != all[t]))
            continue;
        for (size_t i = 0; i < count; i++)
            if (o->kinds[cases[i].kind])
                b->out->figures[b->out->count++] = (qn_kernel_figure){.kernels = all[t], .which = cases[i]};
    }
    return QN_OK;
}

static qn_status open_bench(bench *b, qn_error *err)
{
    qn_status status = list_figures(b, err);
    if (status == QN_OK)
        status = qn_pool_new(b->options->threads, &b->pool, err);
    if (status == QN_OK)
        status = qn_yardstick_open(b->pool, &b->yardstick, err);
    if (status == QN_OK)
        status = qn_kernel_rig_new(b->pool, &b->yardstick.huge, &b->rig, err);
    size_t samples = b->out->count * b->options->repeats;
    double **const series[] = {&b->small, &b->huge, &b->fp32, &b->bf16};
    for (size_t i = 0; i < sizeof series / sizeof *series && status == QN_OK; i++) {
        *series[i] = qn_alloc(samples, sizeof **series[i]);
        if (!*series[i])
            status = qn_fail_memory(err, "samples of the bench", samples * sizeof **series[i]);
    }
    return status;
}

static void note(bench *b, rates *r, size_t i, const qn_kernel_sample *s, const qn_limits *limits)
{
    r->gflops[i] = s->flops / s->seconds / 1e9;
    r->gbps[i] = s->bytes / s->seconds / 1e9;
    r->mkeys[i] = s->keys / s->seconds / 1e6;
    r->read_share[i] = r->gbps[i] / limits->read_huge;
    const double peak = qn_limits_peak(limits);
    r->peak_share[i] = peak > 0 ? r->gflops[i] / peak : 0;
    b->small[b->reads] = limits->read_small;
    b->huge[b->reads] = limits->read_huge;
    b->fp32[b->reads++] = limits->fp32;
    if (limits->bf16 > 0)
        b->bf16[b->bf16s++] = limits->bf16;
}

static void summarise(qn_kernel_figure *f, rates *r, size_t count, const qn_kernel_sample *sample)
{
    size_t flops = sample->flops > 0 ? count : 0, bytes = sample->bytes > 0 ? count : 0;
    f->gflops = qn_statistic_of(r->gflops, flops);
    f->gbps = qn_statistic_of(r->gbps, bytes);
    f->mkeys = qn_statistic_of(r->mkeys, sample->keys > 0 ? count : 0);
    f->peak_share = qn_statistic_of(r->peak_share, flops);
    f->read_share = qn_statistic_of(r->read_share, bytes);
}

static qn_status measure_figure(bench *b, qn_kernel_figure *f, qn_error *err)
{
    const qn_kernel_speed_options *o = b->options;
    rates r;
    qn_kernel_sample sample = {0};
    size_t units = 0;
    qn_kernel_rig_use(b->rig, f->kernels, &f->which, o->sample_ms, &units);
    for (size_t i = 0; i < o->repeats; i++) {
        const qn_limits limits = qn_yardstick_sample(&b->yardstick, f->kernels);
        if (o->stop && atomic_load(o->stop))
            return qn_fail(err, QN_CANCELLED, "bench: stopped: nothing is told of what was measured");
        sample = qn_kernel_rig_sample(b->rig);
        note(b, &r, i, &sample, &limits);
    }
    summarise(f, &r, o->repeats, &sample);
    return QN_OK;
}

static qn_status measure_all(bench *b, qn_error *err)
{
    qn_status status = QN_OK;
    qn_progress_begin(&b->progress,
                      &(qn_progress_setup){.label = "measuring",
                                           .unit = "cases",
                                           .total = b->out->count,
                                           .style = b->options->show_progress ? QN_PROGRESS_AUTO : QN_PROGRESS_OFF});
    for (size_t i = 0; i < b->out->count && status == QN_OK; i++) {
        status = measure_figure(b, &b->out->figures[i], err);
        qn_progress_add(&b->progress, 1);
    }
    qn_progress_finish(&b->progress);
    return status;
}

qn_status qn_kernel_speed_measure(const qn_kernel_speed_options *options, qn_kernel_speed *out, qn_error *err)
{
    *out = (qn_kernel_speed){0};
    bench b = {.options = options, .out = out};
    qn_status status = open_bench(&b, err);
    if (status == QN_OK)
        status = measure_all(&b, err);
    if (status == QN_OK) {
        qn_cpu_name(out->cpu);
        out->threads = qn_pool_threads(b.pool);
        out->region_bytes = b.yardstick.huge.bytes;
        out->read_small = qn_statistic_of(b.small, b.reads);
        out->read_huge = qn_statistic_of(b.huge, b.reads);
        out->fp32 = qn_statistic_of(b.fp32, b.reads);
        out->bf16 = qn_statistic_of(b.bf16, b.bf16s);
    } else {
        qn_kernel_speed_free(out);
    }
    double *const series[] = {b.small, b.huge, b.fp32, b.bf16};
    for (size_t i = 0; i < sizeof series / sizeof *series; i++)
        qn_free(series[i]);
    qn_kernel_rig_free(b.rig);
    qn_yardstick_close(&b.yardstick);
    qn_pool_free(b.pool);
    return status;
}

void qn_kernel_speed_free(qn_kernel_speed *speed)
{
    qn_free(speed->figures);
    *speed = (qn_kernel_speed){0};
}

/* Not measured: null. */
static json_t *statistic(const qn_statistic *s)
{
    if (s->samples == 0)
        return json_null();
    return json_pack("{s:f, s:f, s:f, s:I}", "min", s->min, "median", s->median, "max", s->max, "samples",
                     (json_int_t)s->samples);
}

static json_t *figure_json(const qn_kernel_figure *f)
{
    const qn_kernel_case *c = &f->which;
    return json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o}", "isa", f->kernels->name, "kernel",
                     qn_kernel_kind_name(c->kind), "cols", (json_int_t)c->cols, "outputs", (json_int_t)c->outputs,
                     "rows", (json_int_t)c->rows, "keys", (json_int_t)c->keys, "gbps", statistic(&f->gbps),
                     "read_share", statistic(&f->read_share), "gflops", statistic(&f->gflops), "peak_share",
                     statistic(&f->peak_share), "mkeys", statistic(&f->mkeys));
}

json_t *qn_kernel_speed_to_json(const qn_kernel_speed *s)
{
    bool failed = false;
    json_t *figures = json_array();
    for (size_t i = 0; i < s->count; i++)
        failed |= json_array_append_new(figures, figure_json(&s->figures[i])) != 0;
    json_t *root = json_pack("{s:s, s:s, s:I, s:{s:o, s:o, s:I, s:o, s:o}, s:o}", "form", "quern-kernel-speed-1", "cpu",
                             s->cpu, "threads", (json_int_t)s->threads, "limits", "read_small_pages_gbps",
                             statistic(&s->read_small), "read_huge_pages_gbps", statistic(&s->read_huge), "read_bytes",
                             (json_int_t)s->region_bytes, "fp32_gflops", statistic(&s->fp32), "bf16_gflops",
                             statistic(&s->bf16), "kernels", figures);
    if (failed) {
        json_decref(root);
        return NULL;
    }
    return root;
}
