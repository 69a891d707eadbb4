/* A worker's sums lie in cache lines of its own: an item of a loop may be a few microseconds long. */
#include "model/parts.h"

#include <stdalign.h>
#include <stdbool.h>

#include "base/clock.h"
#include "base/memory.h"

enum { CACHE_LINE = 64 };

typedef struct part_worker {
    alignas(CACHE_LINE) uint64_t since;
    qn_model_part part;
    bool inside;
    uint64_t ns[QN_PARTS]; /* since the caller's last mark */
} part_worker;

struct qn_part_clock {
    qn_model_part part;
    uint64_t since, ns[QN_PARTS];
    size_t experts, threads;
    part_worker *worker; /* [threads] */
};

const char *qn_part_name(qn_model_part part)
{
    static const char *const names[QN_PARTS] = {
        [QN_PART_REST] = "rest",
        [QN_PART_PROJECTIONS] = "projections",
        [QN_PART_ABSORB] = "absorb",
        [QN_PART_ATTEND] = "attend",
        [QN_PART_EXPAND] = "expand",
        [QN_PART_INDEX_SCORES] = "index_scores",
        [QN_PART_INDEX_CHOICE] = "index_choice",
        [QN_PART_ROUTER] = "router",
        [QN_PART_EXPERTS] = "experts",
        [QN_PART_SHARED] = "shared",
        [QN_PART_DENSE] = "dense",
        [QN_PART_HEAD] = "head",
    };
    return names[part];
}

qn_status qn_part_clock_new(size_t threads, qn_part_clock **out, qn_error *err)
{
    qn_part_clock *clock = qn_alloc_zero(1, sizeof *clock);
    part_worker *worker = clock ? qn_alloc_aligned(threads, sizeof *worker) : NULL;
    if (!worker) {
        qn_free(clock);
        return qn_fail_memory(err, "clock of the model's parts", sizeof *clock + threads * sizeof *worker);
    }
    for (size_t i = 0; i < threads; i++)
        worker[i] = (part_worker){.inside = false};
    clock->threads = threads;
    clock->worker = worker;
    qn_part_clock_start(clock);
    *out = clock;
    return QN_OK;
}

void qn_part_clock_free(qn_part_clock *clock)
{
    if (!clock)
        return;
    qn_free(clock->worker);
    qn_free(clock);
}

void qn_part_clock_start(qn_part_clock *clock)
{
    for (qn_model_part p = 0; p < QN_PARTS; p++)
        clock->ns[p] = 0;
    clock->experts = 0;
    clock->part = QN_PART_REST;
    clock->since = qn_now_ns();
}

uint64_t qn_part_clock_ns(const qn_part_clock *clock, qn_model_part part)
{
    return clock->ns[part];
}

size_t qn_part_clock_experts(const qn_part_clock *clock)
{
    return clock->experts;
}

/* What the workers spent in each part since the last mark, taken from them. Returns the sum. */
static uint64_t take_worked(qn_part_clock *clock, uint64_t worked[QN_PARTS])
{
    uint64_t sum = 0;
    for (size_t i = 0; i < clock->threads; i++) {
        for (qn_model_part p = 0; p < QN_PARTS; p++) {
            worked[p] += clock->worker[i].ns[p];
            sum += clock->worker[i].ns[p];
            clock->worker[i].ns[p] = 0;
        }
    }
    return sum;
}

void qn_part_mark(qn_part_clock *clock, qn_model_part part)
{
    if (!clock)
        return;
    uint64_t now = qn_now_ns(), gone = now - clock->since, left = gone, worked[QN_PARTS] = {0};
    uint64_t sum = take_worked(clock, worked);
    for (qn_model_part p = 0; p < QN_PARTS && sum > 0; p++) {
        uint64_t share = (uint64_t)((double)gone * ((double)worked[p] / (double)sum));
        share = share < left ? share : left;
        clock->ns[p] += share;
        left -= share;
    }
    clock->ns[clock->part] += left; /* all of it, or what rounding left */
    clock->part = part;
    clock->since = now;
}

void qn_part_enter(qn_part_clock *clock, size_t worker, qn_model_part part)
{
    if (!clock)
        return;
    part_worker *w = &clock->worker[worker];
    uint64_t now = qn_now_ns();
    if (w->inside)
        w->ns[w->part] += now - w->since;
    w->inside = true;
    w->part = part;
    w->since = now;
}

void qn_part_leave(qn_part_clock *clock, size_t worker)
{
    if (!clock)
        return;
    part_worker *w = &clock->worker[worker];
    w->ns[w->part] += qn_now_ns() - w->since;
    w->inside = false;
}

void qn_part_count_experts(qn_part_clock *clock, size_t count)
{
    if (clock)
        clock->experts += count;
}
