#include <stdio.h>

#include "base/amounts.h"
#include "cli/bench_model.h"
#include "cli/chart.h"

enum { BAR_CELLS = 16 };

static const char *label_of(qn_model_part part)
{
    static const char *const labels[QN_PARTS] = {
        [QN_PART_REST] = "norms and the rest",
        [QN_PART_PROJECTIONS] = "attention's projections",
        [QN_PART_ABSORB] = "  queries absorbed",
        [QN_PART_ATTEND] = "  attention core",
        [QN_PART_EXPAND] = "  values expanded",
        [QN_PART_INDEX_SCORES] = "indexer, scores",
        [QN_PART_INDEX_CHOICE] = "indexer, choice",
        [QN_PART_ROUTER] = "router",
        [QN_PART_EXPERTS] = "experts",
        [QN_PART_SHARED] = "shared experts",
        [QN_PART_DENSE] = "dense MLP",
        [QN_PART_HEAD] = "head",
    };
    return labels[part];
}

/* A rate and its share of a limit; neither where there is no such work. */
static void print_rate(double work, double ms, double share)
{
    if (work > 0 && ms > 0)
        printf(" %8.1f %4.0f %%", work / ms / 1e6, 100 * share);
    else
        printf(" %8s %6s", "-", "-");
}

static void print_part(const qn_point_speed *p, qn_model_part part, bool blocks)
{
    const qn_part_speed *t = &p->part[part];
    char bar[QN_BAR_BYTES];
    double share = t->ms.median / p->ms.median;
    printf("  %-24s %9.3f %9.3f %9.3f %4.0f %% %s", label_of(part), t->ms.min, t->ms.median, t->ms.max, 100 * share,
           qn_chart_bar(share, BAR_CELLS, blocks, bar));
    print_rate(t->flops, t->ms.median, t->peak_share);
    print_rate(t->bytes, t->ms.median, t->read_share);
    printf("\n");
}

static void print_disk(const qn_point_speed *p)
{
    const double *of = p->experts_mean.of, missed = of[QN_EXPERTS_BYTES_MISSED] / 1e6;
    printf("\n  %.1f experts needed, %.1f %% of them in memory; %.1f MB missed, %.1f MB more read; %.2f ms waited",
           of[QN_EXPERTS_NEEDED], of[QN_EXPERTS_NEEDED] > 0 ? 100 * of[QN_EXPERTS_HIT] / of[QN_EXPERTS_NEEDED] : 0,
           missed, of[QN_EXPERTS_BYTES_READ] / 1e6 - missed, of[QN_EXPERTS_WAITED_NS] / 1e6);
    printf("\n  %.1f experts guessed, %.1f right and %.1f wrong; %.1f read ahead, %.1f of that then needed",
           of[QN_EXPERTS_GUESSED], of[QN_EXPERTS_RIGHT], of[QN_EXPERTS_GUESSED] - of[QN_EXPERTS_RIGHT],
           of[QN_EXPERTS_AHEAD], of[QN_EXPERTS_AHEAD_USED]);
    printf("\n  %.2f (%.2f to %.2f) times the longer of %.1f ms, in which the disk gives what was missed, and %.1f ms",
           p->over_longer.median, p->over_longer.min, p->over_longer.max, p->disk_ms.median, p->memory_ms.median);
    if (p->memory_estimates == 0)
        printf(" from memory: the same tokens again");
    else
        printf(" from memory: an estimate, the time without waiting, in %zu of %zu samples", p->memory_estimates,
               p->memory_ms.samples);
}

static void print_point(const qn_model_speed *s, const qn_point_speed *p, bool blocks)
{
    static const qn_model_part order[] = {QN_PART_PROJECTIONS,  QN_PART_ABSORB,       QN_PART_ATTEND, QN_PART_EXPAND,
                                          QN_PART_INDEX_SCORES, QN_PART_INDEX_CHOICE, QN_PART_ROUTER, QN_PART_EXPERTS,
                                          QN_PART_SHARED,       QN_PART_DENSE,        QN_PART_HEAD,   QN_PART_REST};
    if (s->kind == QN_SPEED_DECODE)
        printf("\ndecode, %zu at once, after %zu tokens, %zu draft%s each", p->point.count, p->point.context, s->drafts,
               s->drafts == 1 ? "" : "s");
    else
        printf("\nprompt of %zu tokens, after %zu, in %zu step%s", p->point.count, p->point.context, p->steps,
               p->steps == 1 ? "" : "s");
    printf(": %.2f tokens/s (%.2f to %.2f)", p->tokens.median, p->tokens.min, p->tokens.max);
    if (s->drafts > 0)
        printf(" and up to %.2f with drafts that are taken", p->tokens.median * (double)(1 + s->drafts));
    printf("\n");
    printf("  %.2f GB needed", p->bytes / 1e9);
    if (s->packed)
        printf(" (%.2f as BF16)", p->unpacked_bytes / 1e9);
    printf(", %.1f %% of the plain read (%.1f to %.1f); %.1f GFLOP, %.1f %% of the peak (%.1f to %.1f)",
           100 * p->read_share.median, 100 * p->read_share.min, 100 * p->read_share.max, p->flops / 1e9,
           100 * p->peak_share.median, 100 * p->peak_share.min, 100 * p->peak_share.max);
    if (p->experts > 0)
        printf("; %.1f experts read in a layer", p->experts);
    if (s->experts > 0)
        print_disk(p);
    if (s->threads > 1)
        printf(
            "\n  %.0f loops a step on %zu threads, idle for %.1f %% of them; %.1f %% of the time is one thread's; %.1f "
            "sleeps",
            p->loops, s->threads, 100 * p->idle_share, 100 * p->alone_share, p->sleeps);
    printf("\n  %-24s %9s %9s %9s %6s %*s %8s %6s %8s %6s\n", "part, ms", "min", "median", "max", "share", BAR_CELLS,
           "", "GFLOP/s", "peak", "GB/s", "read");
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        if (p->part[order[i]].ms.max > 0 && (p->part[order[i]].flops > 0 || p->part[order[i]].ms.median > 0))
            print_part(p, order[i], blocks);
    printf("  %-24s %9.3f %9.3f %9.3f\n", "all", p->ms.min, p->ms.median, p->ms.max);
}

void qn_bench_model_print(const qn_model_speed *s, const char *model)
{
    bool blocks = qn_locale_has_utf8();
    char weights[QN_MEMORY_TEXT_BYTES], caches[QN_MEMORY_TEXT_BYTES], region[QN_MEMORY_TEXT_BYTES];
    printf("%s: %zu layer%s, %zu of them sparse; %s of weights; caches of %s with random rows in place of a prompt's\n",
           model, s->layers, s->layers == 1 ? "" : "s", s->sparse_layers, qn_memory_text(s->weight_bytes, weights),
           qn_memory_text(s->cache_bytes, caches));
    printf("weights %s\n", s->packed     ? "resident in 2 MiB pages, dense ones packed to 12 bits"
                           : s->resident ? "resident in 2 MiB pages"
                                         : "mapped, in 4 KiB pages");
    if (s->experts > 0)
        printf(
            "an expert cache for %zu of %zu routed experts; the disk in between, at random places: %.2f GB/s (%.2f to "
            "%.2f)\n",
            s->expert_room, s->experts, s->disk.median, s->disk.min, s->disk.max);
    printf("%s, %zu thread%s, kernels %s\n", s->cpu, s->threads, s->threads == 1 ? "" : "s", s->isa);
    printf("plain read of %s in between: 4 KiB pages%s %.1f GB/s (%.1f to %.1f), 2 MiB pages%s %.1f (%.1f to %.1f)\n",
           qn_memory_text(s->region_bytes, region), s->resident ? "" : ", as the weights have,", s->read_small.median,
           s->read_small.min, s->read_small.max, s->resident ? ", as the weights have," : "", s->read_huge.median,
           s->read_huge.min, s->read_huge.max);
    printf("arithmetic out of registers in between, GFLOP/s: float32 multiply-adds %.1f (%.1f to %.1f)", s->fp32.median,
           s->fp32.min, s->fp32.max);
    if (s->bf16.median > 0)
        printf(", BF16 dot products %.1f (%.1f to %.1f): the peak is the %s's", s->bf16.median, s->bf16.min,
               s->bf16.max, s->bf16_peak ? "latter" : "former");
    putchar('\n');
    for (size_t i = 0; i < s->point_count; i++)
        print_point(s, &s->point[i], blocks);
}
