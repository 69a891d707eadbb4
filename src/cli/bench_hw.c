/* `quern bench hw`: what this machine and quern's kernels on it reach (bench/hardware.h). */
#include <stdio.h>

#include "base/amounts.h"
#include "bench/hardware.h"
#include "cli/bench.h"
#include "cli/command.h"
#include "cli/json_result.h"
#include "cli/options.h"

enum { BAR_CELLS = 24, LABEL_BYTES = 64 };

typedef struct arguments {
    const char *disk, *out;
    double seconds;
    bool json;
} arguments;

/* `most` 0: no bar. */
static void print_line(const char *label, const qn_statistic *s, double most)
{
    char bar[BAR_CELLS + 1] = "";
    if (most > 0) {
        int full = (int)(s->median / most * BAR_CELLS + 0.5);
        for (int i = 0; i < BAR_CELLS; i++) {
            bar[i] = i < full ? '#' : '.';
        }
        bar[BAR_CELLS] = '\0';
    }
    printf("  %-44s %9.2f %9.2f %9.2f  %s\n", label, s->min, s->median, s->max, bar);
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* The figures of a group that were measured, under a title; their bars are shares of `most` and of the group. */
static void print_figures(const qn_hardware *h, const char *title, const qn_figure *figures, size_t count, double most,
                          bool bars)
{
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        most = larger(most, h->figure[figures[i]].median);
        any = any || h->figure[figures[i]].samples > 0;
    }
    if (any && title != NULL) {
        printf("\n%-46s %9s %9s %9s\n", title, "min", "median", "max");
    }
    for (size_t i = 0; i < count; i++) {
        if (h->figure[figures[i]].samples > 0) {
            print_line(qn_figure_describe(figures[i]).label, &h->figure[figures[i]], bars ? most : 0);
        }
    }
}

static void print_memory(const qn_hardware *h)
{
    static const qn_figure cold[] = {QN_FIGURE_MXFP4_ROWS, QN_FIGURE_BF16_ROWS, QN_FIGURE_TRANSPOSED_1};
    double most = 0;
    for (size_t i = 0; i < h->read_count; i++) {
        most = larger(most, larger(h->read[i].huge_pages.median, h->read[i].small_pages.median));
    }
    printf("\n%-46s %9s %9s %9s\n", "memory, GB/s", "min", "median", "max");
    for (size_t i = 0; i < h->read_count; i++) {
        char label[LABEL_BYTES];
        const char *plural = h->read[i].threads > 1 ? "s" : "";
        snprintf(label, sizeof label, "plain read, %zu thread%s, 2 MiB pages", h->read[i].threads, plural);
        print_line(label, &h->read[i].huge_pages, most);
        snprintf(label, sizeof label, "plain read, %zu thread%s, 4 KiB pages", h->read[i].threads, plural);
        print_line(label, &h->read[i].small_pages, most);
    }
    print_figures(h, NULL, cold, sizeof cold / sizeof *cold, most, true);
}

static void print_table(const qn_hardware *h)
{
    static const qn_figure arithmetic[] = {
        QN_FIGURE_FP32_ONE_THREAD, QN_FIGURE_FP32,           QN_FIGURE_BF16_ONE_THREAD, QN_FIGURE_BF16,
        QN_FIGURE_MXFP4_ROWS + 1,  QN_FIGURE_MXFP4_ROWS + 2, QN_FIGURE_MXFP4_ROWS + 3,  QN_FIGURE_MXFP4_ROWS + 4,
        QN_FIGURE_MXFP4_ROWS + 5,  QN_FIGURE_MXFP4_ROWS + 6, QN_FIGURE_BF16_ROWS + 1,   QN_FIGURE_BF16_ROWS + 2,
        QN_FIGURE_BF16_ROWS + 3,   QN_FIGURE_BF16_ROWS + 4,  QN_FIGURE_BF16_ROWS + 5,   QN_FIGURE_BF16_ROWS + 6,
        QN_FIGURE_TRANSPOSED_8,    QN_FIGURE_ATTENTION_FEW,  QN_FIGURE_ATTENTION,       QN_FIGURE_INDEXER};
    static const qn_figure rates[] = {QN_FIGURE_TOPK, QN_FIGURE_ROW_WORK}, time[] = {QN_FIGURE_LOOP};
    static const qn_figure disk[] = {QN_FIGURE_DISK_SEQUENTIAL, QN_FIGURE_DISK_RANDOM, QN_FIGURE_DISK_WRITE};
    char text[QN_MEMORY_TEXT_BYTES];
    printf("%s, %zu threads, kernels %s; weights read from %s\n", h->cpu, h->threads, h->isa,
           qn_memory_text(h->region_bytes, text));
    print_memory(h);
    print_figures(h, "arithmetic, GFLOP/s", arithmetic, sizeof arithmetic / sizeof *arithmetic, 0, true);
    print_figures(h, "other work, millions a second", rates, sizeof rates / sizeof *rates, 0, false);
    print_figures(h, "time, microseconds", time, sizeof time / sizeof *time, 0, false);
    print_figures(h, "disk, GB/s", disk, sizeof disk / sizeof *disk, 0, true);
}

static qn_status run(const arguments *a, qn_error *err)
{
    qn_hardware_options options = {.disk = a->disk, .seconds = a->seconds, .show_progress = true};
    qn_hardware hardware;
    qn_status status = qn_kernels_from_environment(&options.kernels, err);
    if (status == QN_OK) {
        status = qn_hardware_measure(&options, &hardware, err);
    }
    if (status == QN_OK && !a->json) {
        print_table(&hardware);
    }
    if (status == QN_OK && (a->json || a->out != NULL)) {
        status = qn_tell_figures(qn_hardware_to_json(&hardware), a->json, a->out, err);
    }
    return status;
}

int qn_bench_hw(int argc, char **argv)
{
    arguments a = {.seconds = 20};
    const qn_option options[] = {
        {.name = "disk",
         .kind = QN_OPTION_STRING,
         .value = &a.disk,
         .value_name = "DIR",
         .help = "also measures the disk of this folder, with an unnamed file of up to 1 GiB (default: no disk)"},
        {.name = "seconds",
         .kind = QN_OPTION_NUMBER,
         .value = &a.seconds,
         .value_name = "S",
         .help = "what to take, about; each figure gets 3 samples at least (default: 20)",
         .number_min = 0.1,
         .number_max = 3600},
        {.name = "out",
         .kind = QN_OPTION_STRING,
         .value = &a.out,
         .value_name = "FILE",
         .help = "saves the figures as JSON, for quern plan --hw FILE"},
        {.name = "json", .kind = QN_OPTION_FLAG, .value = &a.json, .help = "prints one JSON object"},
    };
    qn_option_table table = {.command = "bench hw",
                             .arguments = "",
                             .summary = "Measures this machine: reading memory by number of threads, arithmetic, what "
                                        "quern's kernels reach with cold weights, and a disk. Best on a machine that "
                                        "has nothing else to do."};
    qn_error err;
    qn_options_add(&table, options, sizeof options / sizeof *options);
    qn_status status = qn_options_parse(&table, argc, argv, &err);
    if (status == QN_OK && !table.help_shown) {
        status = run(&a, &err);
    }
    return status == QN_OK ? QN_OK : qn_command_fail(&err);
}
