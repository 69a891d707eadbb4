#include <stdio.h>
#include <string.h>

#include "base/amounts.h"
#include "base/clock.h"
#include "cli/bench_serve.h"
#include "cli/chart.h"

enum { CELL_BYTES = 24, BAR_CELLS = 32 };

const char *qn_bench_setting_text(const qn_serve_setting *s, char out[QN_SETTING_TEXT_BYTES])
{
    char drafts[32] = "";
    if (s->speculation != QN_SETTING_DEFAULT)
        snprintf(drafts, sizeof drafts, "%d draft%s", s->speculation, s->speculation == 1 ? "" : "s");
    if (s->prefix_caching == QN_SETTING_DEFAULT)
        snprintf(out, QN_SETTING_TEXT_BYTES, "%s", drafts[0] ? drafts : "the server's defaults");
    else
        snprintf(out, QN_SETTING_TEXT_BYTES, "prefix caching %s%s%s", s->prefix_caching ? "on" : "off",
                 drafts[0] ? ", " : "", drafts);
    return out;
}

void qn_bench_print_workload(const qn_serve_bench *b, const qn_serve_target *target)
{
    const qn_serve_workload *w = &b->workload;
    printf("%s, model %s: prompts of %zu tokens, %zu of them shared; answers of %zu; temperature %g, seed %llu\n",
           target->url, target->model, w->prompt_tokens, w->shared_prefix_tokens, w->max_tokens, w->temperature,
           (unsigned long long)w->seed);
}

/* "12 %", or "-" of nothing. */
static const char *share_text(size_t part, size_t whole, char out[CELL_BYTES])
{
    if (whole == 0)
        snprintf(out, CELL_BYTES, "-");
    else
        snprintf(out, CELL_BYTES, "%.1f %%", 100 * (double)part / (double)whole);
    return out;
}

void qn_bench_print_head(void)
{
    printf("%7s %5s %8s %8s %19s %19s %8s %8s %8s %7s %6s\n", "", "", "output", "", "first token, ms", "token, ms",
           "longest", "drafts", "cached", "", "");
    printf("%7s %5s %8s %8s %9s %9s %9s %9s %8s %8s %8s %7s %6s\n", "clients", "done", "tok/s", "req/s", "p50", "p99",
           "p50", "p99", "gap, ms", "accepted", "prompt", "refused", "failed");
}

static void print_failures(const qn_serve_tally *t)
{
    if (t->failed > 0)
        printf("  %zu failed, the first: %s\n", t->failed, t->first_error.message);
    if (t->cut_off > 0)
        printf("  %zu cut off\n", t->cut_off);
    size_t dropped = t->first_ms.dropped + t->gap_ms.dropped + t->token_ms.dropped + t->whole_ms.dropped;
    if (dropped > 0)
        printf("  %zu samples had no room and are missing in the percentiles\n", dropped);
}

void qn_bench_print_cell(size_t clients, qn_serve_tally *t)
{
    char accepted[CELL_BYTES], cached[CELL_BYTES];
    uint64_t us = t->end_us - t->begin_us;
    printf("%7zu %5zu %8.1f %8.2f %9.1f %9.1f %9.2f %9.2f %8.1f %8s %8s %7zu %6zu\n", clients, t->finished,
           qn_per_second(t->completion_tokens, us), qn_per_second(t->finished, us),
           qn_samples_percentile(&t->first_ms, 50), qn_samples_percentile(&t->first_ms, 99),
           qn_samples_percentile(&t->token_ms, 50), qn_samples_percentile(&t->token_ms, 99), qn_samples_max(&t->gap_ms),
           share_text(t->drafts_accepted, t->drafts, accepted),
           share_text(t->cached_tokens, t->cached_of_tokens, cached), t->refusals, t->failed);
    print_failures(t);
    fflush(stdout);
}

/* From the first bound that any gap stays below to the last that one needs. */
static void print_histogram(const qn_histogram *h)
{
    char bar[QN_BAR_BYTES];
    bool blocks = qn_locale_has_utf8();
    uint64_t most = 0;
    size_t first = h->bound_count, last = 0;
    for (size_t i = 0; i <= h->bound_count; i++) {
        most = h->counts[i] > most ? h->counts[i] : most;
        first = h->counts[i] > 0 && i < first ? i : first;
        last = h->counts[i] > 0 ? i : last;
    }
    for (size_t i = first; i <= last && most > 0; i++) {
        if (i < h->bound_count)
            printf("  up to %7.0f ms", h->bounds[i]);
        else
            printf("  %16s", "longer");
        printf(" %9llu  %s\n", (unsigned long long)h->counts[i],
               qn_chart_bar((double)h->counts[i] / (double)most, BAR_CELLS, blocks, bar));
    }
}

static void print_gaps(const char *label, qn_samples *s)
{
    printf("  %-28s %8zu %9.1f %9.1f %9.1f %9.1f\n", label, s->count, qn_samples_percentile(s, 50),
           qn_samples_percentile(s, 90), qn_samples_percentile(s, 99), qn_samples_max(s));
}

void qn_bench_print_stress(const qn_serve_bench *b, qn_stress_result *r)
{
    static const char *const outcomes[] = {"finished", "refused", "failed", "cut off"};
    printf("long prompts\n  %10s %10s %10s %14s %10s\n", "asked", "tokens", "", "first token, s", "whole, s");
    for (size_t i = 0; i < b->stress.long_count; i++) {
        const qn_stress_long *e = &r->each[i];
        printf("  %10zu %10zu %10s %14.1f %10.1f\n", b->stress.long_tokens[i], e->prompt_tokens,
               e->whole_ms > 0 ? outcomes[e->outcome] : "not sent", e->first_ms / 1e3, e->whole_ms / 1e3);
    }
    print_failures(&r->longs);
    qn_serve_tally *d = &r->decodes;
    printf("decodes: %zu clients, %zu answers, %.1f tok/s, first token p50 %.0f ms, p99 %.0f ms, longest %.0f ms\n",
           b->stress.decodes, d->finished, qn_per_second(d->completion_tokens, d->end_us - d->begin_us),
           qn_samples_percentile(&d->first_ms, 50), qn_samples_percentile(&d->first_ms, 99),
           qn_samples_max(&d->first_ms));
    print_failures(d);
    printf("  %-28s %8s %9s %9s %9s %9s\n", "gaps between chunks, ms", "", "p50", "p90", "p99", "longest");
    print_gaps("all", &d->gap_ms);
    print_gaps("while long prompts ran", &r->long_gap_ms);
    print_histogram(&r->gaps);
    if (d->has_longest_gap)
        printf("  longest gap between tokens, with text or without, by the server's count: %.1f ms\n",
               d->longest_gap_ms);
}

void qn_bench_print_overload(const qn_serve_bench *b, qn_overload_result *r)
{
    qn_serve_tally *t = &r->tally;
    printf("%zu clients for %.1f s: %zu answered, %zu refused (%zu of them without Retry-After), %zu failed\n",
           b->overload.clients, qn_serve_tally_seconds(t), t->finished, t->refused, t->refusals_untimed, t->failed);
    printf("  first token p50 %.0f ms, p99 %.0f ms; %.1f requests/s, %.1f tok/s\n",
           qn_samples_percentile(&t->first_ms, 50), qn_samples_percentile(&t->first_ms, 99),
           qn_per_second(t->finished, t->end_us - t->begin_us),
           qn_per_second(t->completion_tokens, t->end_us - t->begin_us));
    if (r->early_bytes > 0 && r->late_bytes > 0) {
        char early[QN_MEMORY_TEXT_BYTES], late[QN_MEMORY_TEXT_BYTES];
        printf("  the server's resident memory: %s at a quarter of the time, %s at the end\n",
               qn_memory_text(r->early_bytes, early), qn_memory_text(r->late_bytes, late));
    }
    print_failures(t);
}
