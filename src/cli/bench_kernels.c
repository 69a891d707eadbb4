/* `quern bench kernels`: how near quern's kernels come to this machine's limits (bench/kernel_speed.h). */
#include <stdio.h>
#include <string.h>

#include "base/amounts.h"
#include "base/pool.h"
#include "bench/kernel_speed.h"
#include "cli/bench.h"
#include "cli/chart.h"
#include "cli/command.h"
#include "cli/json_result.h"
#include "cli/options.h"
#include "cli/size_list.h"
#include "cli/stop.h"

enum { BAR_CELLS = 20, SHAPE_BYTES = 64 };

static const double SAMPLE_MS = 20;

typedef struct arguments {
    qn_option_table table;
    const char *isa, *rows, *out;
    qn_string_list kinds;
    size_t row[QN_KERNEL_MAX_ROW_POINTS];
    qn_kernel_speed_options speed;
    bool json;
} arguments;

static void print_rate(const qn_statistic *rate, const qn_statistic *share)
{
    if (rate->samples > 0)
        printf(" %8.1f %4.0f %%", rate->median, 100 * share->median);
    else
        printf(" %8s %6s", "-", "-");
}

static const char *shape_text(const qn_kernel_case *c, char out[SHAPE_BYTES])
{
    if (c->kind == QN_KERNEL_TOPK)
        snprintf(out, SHAPE_BYTES, "2048 of %zu", c->keys);
    else if (c->keys > 0 && c->rows > 1)
        snprintf(out, SHAPE_BYTES, "%zu x %zu heads, %zu keys", c->rows, c->outputs, c->keys);
    else if (c->keys > 0)
        snprintf(out, SHAPE_BYTES, "%zu heads, %zu keys", c->outputs, c->keys);
    else
        snprintf(out, SHAPE_BYTES, "%zu x %zu, %zu row%s", c->cols, c->outputs, c->rows, c->rows == 1 ? "" : "s");
    return out;
}

/* The bar is the share of the limit that is nearer. */
static void print_figure(const qn_kernel_figure *f, bool blocks)
{
    char shape[SHAPE_BYTES], bar[QN_BAR_BYTES];
    double read = f->read_share.median, peak = f->peak_share.median;
    printf("%-13s %-26s", qn_kernel_kind_name(f->which.kind), shape_text(&f->which, shape));
    print_rate(&f->gbps, &f->read_share);
    print_rate(&f->gflops, &f->peak_share);
    if (f->mkeys.samples > 0)
        printf(" %.0f million keys/s, one thread", f->mkeys.median);
    else
        printf(" %s", qn_chart_bar(read > peak ? read : peak, BAR_CELLS, blocks, bar));
    printf("\n");
}

static void print_limit(const char *what, const qn_statistic *s, const char *unit)
{
    if (s->samples > 0)
        printf("  %-44s %8.1f %s (%.1f to %.1f)\n", what, s->median, unit, s->min, s->max);
}

static void print_table(const qn_kernel_speed *s)
{
    char text[QN_MEMORY_TEXT_BYTES];
    bool blocks = qn_locale_has_utf8();
    printf("%s, %zu thread%s; cold weights from %s\n", s->cpu, s->threads, s->threads == 1 ? "" : "s",
           qn_memory_text(s->region_bytes, text));
    print_limit("plain read, 4 KiB pages", &s->read_small, "GB/s");
    print_limit("plain read, 2 MiB pages, as the weights have", &s->read_huge, "GB/s");
    print_limit("float32 multiply-adds out of registers", &s->fp32, "GFLOP/s");
    print_limit("BF16 dot products out of registers", &s->bf16, "GFLOP/s");
    for (size_t i = 0; i < s->count; i++) {
        if (i == 0 || s->figures[i].kernels != s->figures[i - 1].kernels)
            printf("\n%-13s %-26s %8s %6s %8s %6s\n", s->figures[i].kernels->name, "", "GB/s", "read", "GFLOP/s",
                   "peak");
        print_figure(&s->figures[i], blocks);
    }
}

static qn_status choose_kind(arguments *a, const char *name, qn_error *err)
{
    for (qn_kernel_kind k = 0; k < QN_KERNEL_KINDS; k++) {
        if (strcmp(name, qn_kernel_kind_name(k)) == 0) {
            a->speed.kinds[k] = true;
            return QN_OK;
        }
    }
    return qn_fail_field(err, QN_USAGE, "kernel",
                         "--kernel: '%.100s': give matmul_mxfp4, matmul_bf16, matmul_packed, transposed, attend, "
                         "index_scores or topk",
                         name);
}

static qn_status choose(arguments *a, qn_error *err)
{
    qn_status status = qn_size_list_read("rows", a->rows, 1, QN_KERNEL_MAX_ROWS, QN_KERNEL_MAX_ROW_POINTS, a->row,
                                         &a->speed.row_count, err);
    a->speed.rows = a->row;
    for (qn_kernel_kind k = 0; k < QN_KERNEL_KINDS; k++)
        a->speed.kinds[k] = a->kinds.count == 0;
    for (size_t i = 0; i < a->kinds.count && status == QN_OK; i++)
        status = choose_kind(a, a->kinds.items[i], err);
    if (status == QN_OK && a->isa)
        status = qn_kernels_select(a->isa, &a->speed.kernels, err);
    return status;
}

static qn_status run(arguments *a, qn_error *err)
{
    qn_kernel_speed speed;
    qn_status status = choose(a, err);
    if (status != QN_OK)
        return status;
    a->speed.stop = qn_stop_on_signals();
    status = qn_kernel_speed_measure(&a->speed, &speed, err);
    if (status != QN_OK)
        return status;
    if (!a->json)
        print_table(&speed);
    if (a->json || a->out)
        status = qn_tell_figures(qn_kernel_speed_to_json(&speed), a->json, a->out, err);
    qn_kernel_speed_free(&speed);
    return status;
}

static void add_options(arguments *a)
{
    const qn_option options[] = {
        {.name = "isa",
         .kind = QN_OPTION_STRING,
         .value = &a->isa,
         .value_name = "NAME",
         .help = "scalar, avx2 or avx512bf16 (default: each that this CPU runs)"},
        {.name = "kernel",
         .kind = QN_OPTION_REPEATED,
         .value = &a->kinds,
         .value_name = "NAME",
         .help =
             "matmul_mxfp4, matmul_bf16, matmul_packed, transposed, attend, index_scores or topk; may be given several "
             "times (default: all)"},
        {.name = "rows",
         .kind = QN_OPTION_STRING,
         .value = &a->rows,
         .value_name = "LIST",
         .help = "rows of activations of the products (default: 1,2,4,8,16,32,64,128)"},
        {.name = "repeats",
         .kind = QN_OPTION_SIZE,
         .value = &a->speed.repeats,
         .value_name = "N",
         .help = "samples of each (default: 5)",
         .min = 1,
         .max = QN_KERNEL_MAX_REPEATS},
        {.name = "threads",
         .kind = QN_OPTION_SIZE,
         .value = &a->speed.threads,
         .value_name = "N",
         .help = "threads that compute (default: all CPUs, or what a CPU quota pays for)",
         .min = 1,
         .max = QN_POOL_MAX_THREADS},
        {.name = "out",
         .kind = QN_OPTION_STRING,
         .value = &a->out,
         .value_name = "FILE",
         .help = "saves the figures as JSON"},
        {.name = "json", .kind = QN_OPTION_FLAG, .value = &a->json, .help = "prints one JSON object"},
    };
    qn_options_add(&a->table, options, sizeof options / sizeof *options);
}

int qn_bench_kernels(int argc, char **argv)
{
    arguments a = {.rows = "1,2,4,8,16,32,64,128",
                   .speed = {.repeats = 5, .sample_ms = SAMPLE_MS, .show_progress = true},
                   .table = {.command = "bench kernels",
                             .arguments = "",
                             .summary = "Measures quern's kernels on the shapes of GLM-5.3 with cold weights, each "
                                        "sample right behind a plain read of the same memory and arithmetic out of "
                                        "registers. Best on a machine that has nothing else to do."}};
    qn_error err;
    add_options(&a);
    qn_status status = qn_options_parse(&a.table, argc, argv, &err);
    if (status == QN_OK && !a.table.help_shown)
        status = run(&a, &err);
    return status == QN_OK ? QN_OK : qn_command_fail(&err);
}
