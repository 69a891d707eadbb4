/* The worth of a request's drafts falls with their depth, so that taking the most valuable draft left, again and again,
 * takes each request's drafts in order. A row costs the same wherever it is drafted, but a call of the chain is paid by
 * the first request that is so deep: hence the sets are looked through once for each length of the chain. */
#include "schedule/drafts.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/size.h"

enum {
    MEMORY = 40, /* tries that an acceptance reaches back */
    PRIOR = 2,   /* tries that the optimistic start counts as */
    STREAK = 3,  /* slow calls in a row that are believed */
    LONGEST_IDLE = 64,
    LEAST_POOL = 4,   /* requests whose acceptance is compared */
    COST_MEMORY = 64, /* chains that the costs reach back */
};

static const double OPTIMISM = 0.8;
static const double OUTLIER = 3;
static const double EVIDENCE = 6; /* steps that are to be known of a batch size, with full drafts and without */
static const float LEAST_TRIES = 2, FADING = 0.25f; /* of an acceptance's tries, per choice that it goes untried */
static const double EVENING = 1.5;    /* a forgetful mean of n tries is as good as one of so many times n */
static const double TRY_LOSS = 0.005; /* tokens that tries may cost a step */

void qn_draft_history_start(qn_draft_history *history)
{
    memset(history, 0, sizeof *history);
    for (size_t d = 0; d < QN_MAX_DRAFT_DEPTH; d++)
        history->acceptance[d] = (float)OPTIMISM;
}

static void learn_depth(qn_draft_history *history, size_t depth, bool accepted)
{
    /* A first try starts from what stood in for it until now. */
    if (depth > 0 && history->tried[depth] <= 0)
        history->acceptance[depth] = history->acceptance[depth - 1];
    history->tried[depth] = fminf(history->tried[depth] + 1, MEMORY);
    float part = 1.0f / (history->tried[depth] + PRIOR);
    history->acceptance[depth] += ((accepted ? 1.0f : 0.0f) - history->acceptance[depth]) * part;
}

static double acceptance_at(const qn_draft_history *history, size_t depth)
{
    while (depth > 0 && history->tried[depth] <= 0)
        depth--;
    return history->acceptance[depth];
}

void qn_draft_history_learn(qn_draft_history *history, size_t drafted, size_t accepted)
{
    drafted = qn_min_size(drafted, QN_MAX_DRAFT_DEPTH);
    accepted = qn_min_size(accepted, drafted);
    for (size_t d = 0; d < drafted && d <= accepted; d++)
        learn_depth(history, d, d < accepted);
}

void qn_draft_costs_start(qn_draft_costs *costs)
{
    memset(costs, 0, sizeof *costs);
}

double qn_draft_costs_predict_us(const qn_draft_costs *costs, size_t calls, size_t rows)
{
    return costs->call_us * (double)calls + costs->row_us * (double)rows;
}

/* Non-negative least squares of relative errors in two unknowns: the free solution, or the better of the two edges. The
 * ridge ties what one shape of chains leaves open to a split in halves. */
static void fit(qn_draft_costs *costs)
{
    double cc = costs->calls_calls, cr = costs->calls_rows, rr = costs->rows_rows;
    double determinant = cc * rr - cr * cr;
    double call = 0, row = 0;
    if (determinant > 1e-6 * cc * rr) {
        call = (costs->calls_us * rr - costs->rows_us * cr) / determinant;
        row = (costs->rows_us * cc - costs->calls_us * cr) / determinant;
    } else {
        call = 0.5 * costs->calls_us / cc;
        row = 0.5 * costs->rows_us / rr;
    }
    if (call < 0) {
        call = 0;
        row = costs->rows_us / rr;
    } else if (row < 0) {
        row = 0;
        call = costs->calls_us / cc;
    }
    costs->call_us = call;
    costs->row_us = row;
}

void qn_draft_costs_learn(qn_draft_costs *costs, size_t calls, size_t rows, uint64_t us)
{
    if (calls == 0 || rows < calls || us == 0)
        return;
    double time = (double)us, predicted = qn_draft_costs_predict_us(costs, calls, rows);
    bool slow = costs->count > STREAK && time > OUTLIER * predicted;
    bool fast = costs->count > 0 && time * OUTLIER < predicted;
    costs->slow_streak = slow ? costs->slow_streak + 1 : 0;
    if (slow && costs->slow_streak < STREAK)
        return;
    if (slow || fast)
        qn_draft_costs_start(costs);
    costs->count++;
    double keep = 1 - 1.0 / COST_MEMORY, c = (double)calls / time, r = (double)rows / time;
    costs->calls_calls = keep * costs->calls_calls + c * c;
    costs->calls_rows = keep * costs->calls_rows + c * r;
    costs->rows_rows = keep * costs->rows_rows + r * r;
    costs->calls_us = keep * costs->calls_us + c;
    costs->rows_us = keep * costs->rows_us + r;
    fit(costs);
}

/* A set of drafts and the step that verifies them. */
typedef struct draft_set {
    qn_step_shape shape;
    size_t rows, calls; /* of the chain */
    double tokens;      /* expected of the step */
} draft_set;

typedef struct chooser {
    const qn_cost *cost;
    const qn_draft_costs *costs;
    qn_draft_slot *slots;
    size_t count;
    draft_set empty;
    double mean[QN_MAX_DRAFT_DEPTH], own[QN_MAX_DRAFT_DEPTH]; /* see pool_acceptance */
} chooser;

static size_t ceiling_of(const qn_draft_slot *slot, size_t chain)
{
    return qn_min_size(qn_min_size(slot->ceiling, chain), QN_MAX_DRAFT_DEPTH);
}

/* One draft more of the slot, which is accepted with the probability `worth`. */
static draft_set with_draft(const draft_set *set, const qn_draft_slot *slot, double worth)
{
    draft_set sum = *set;
    sum.shape.decode_rows++;
    sum.shape.scanned_keys += (double)slot->position + (double)slot->drafts + 1;
    sum.rows++;
    sum.calls = qn_max_size(sum.calls, slot->drafts + 1);
    sum.tokens += worth;
    return sum;
}

static double set_us(const chooser *choose, const draft_set *set)
{
    return qn_cost_predict_us(choose->cost, &set->shape) +
           qn_draft_costs_predict_us(choose->costs, set->calls, set->rows);
}

static double tokens_per_us(const chooser *choose, const draft_set *set)
{
    return set->tokens / set_us(choose, set);
}

/* How far the requests' estimates at this depth are their own. Estimates differ by chance as well, and choosing the
 * best of many by chance chooses wrongly: as much of their differences as chance alone would make is taken off (Efron
 * and Morris, "Stein's paradox in statistics", 1977), all of it where requests are alike. */
static void pool_acceptance(chooser *choose, size_t depth)
{
    double count = (double)choose->count, mean = 0, chance = 0, spread = 0;
    for (size_t i = 0; i < choose->count; i++)
        mean += acceptance_at(choose->slots[i].history, depth) / count;
    for (size_t i = 0; i < choose->count; i++) {
        const qn_draft_history *history = choose->slots[i].history;
        double other = acceptance_at(history, depth) - mean;
        spread += other * other / (count - 1);
        chance += mean * (1 - mean) / (EVENING * (history->tried[depth] + PRIOR)) / count;
    }
    choose->mean[depth] = mean;
    choose->own[depth] = choose->count < LEAST_POOL ? 1 : spread > chance ? 1 - chance / spread : 0;
}

/* Sets the slot to so many drafts, the last of which is accepted with the probability `worth`. */
static void set_drafts(const chooser *choose, qn_draft_slot *slot, size_t drafts, double worth)
{
    slot->drafts = drafts;
    slot->worth = worth;
    if (drafts < ceiling_of(slot, QN_MAX_DRAFT_DEPTH))
        slot->next_worth = worth * (choose->mean[drafts] + choose->own[drafts] * (acceptance_at(slot->history, drafts) -
                                                                                  choose->mean[drafts]));
}

static draft_set start_set(const chooser *choose)
{
    for (size_t i = 0; i < choose->count; i++)
        set_drafts(choose, &choose->slots[i], 0, 1);
    return choose->empty;
}

/* Adds the most valuable draft that is left to chains of this length; false: none is. */
static bool add_best(const chooser *choose, draft_set *set, size_t chain)
{
    qn_draft_slot *best = NULL;
    for (size_t i = 0; i < choose->count; i++) {
        qn_draft_slot *slot = &choose->slots[i];
        if (slot->drafts < ceiling_of(slot, chain) && (!best || slot->next_worth > best->next_worth))
            best = slot;
    }
    if (!best)
        return false;
    *set = with_draft(set, best, best->next_worth);
    set_drafts(choose, best, best->drafts + 1, best->next_worth);
    return true;
}

static draft_set choose_best(const chooser *choose, size_t longest)
{
    size_t best_chain = 0, best_rows = 0;
    double best = tokens_per_us(choose, &choose->empty);
    for (size_t chain = 1; chain <= longest; chain++) {
        draft_set set = start_set(choose);
        while (add_best(choose, &set, chain)) {
            double rate = tokens_per_us(choose, &set);
            if (rate > best) {
                best = rate;
                best_chain = chain;
                best_rows = set.rows;
            }
        }
    }
    draft_set set = start_set(choose);
    while (set.rows < best_rows && add_best(choose, &set, best_chain)) {
    }
    return set;
}

/* Whether it is time for the slot to try a draft more than pays, which would make the set `more`. */
static bool is_due(const chooser *choose, const qn_draft_slot *slot, const draft_set *set, const draft_set *more)
{
    double rate = tokens_per_us(choose, set);
    if (tokens_per_us(choose, more) <= rate) /* not even if accepted */
        return false;
    double cost = rate * (set_us(choose, more) - set_us(choose, set)), loss = cost - slot->next_worth;
    uint32_t idle = slot->history->idle;
    return idle >= LONGEST_IDLE || loss <= TRY_LOSS * idle;
}

static void add_tries(const chooser *choose, draft_set *set)
{
    for (size_t i = 0; i < choose->count; i++) {
        qn_draft_slot *slot = &choose->slots[i];
        qn_draft_history *history = slot->history;
        size_t depth = slot->drafts;
        if (depth >= ceiling_of(slot, QN_MAX_DRAFT_DEPTH))
            continue;
        history->idle = (uint32_t)qn_min_size(history->idle + 1, LONGEST_IDLE);
        if (history->tried[depth] > LEAST_TRIES)
            history->tried[depth] = fmaxf(history->tried[depth] - FADING, LEAST_TRIES);
        draft_set more = with_draft(set, slot, slot->worth);
        if (!is_due(choose, slot, set, &more))
            continue;
        more.tokens += slot->next_worth - slot->worth; /* what is expected of it in truth */
        history->idle = 0;
        set_drafts(choose, slot, depth + 1, slot->next_worth);
        *set = more;
    }
}

/* Whether the cost model has to see steps of this many decode rows, or see them again. */
static bool is_unseen(const chooser *choose, const draft_set *set)
{
    return set->shape.prefill_rows == 0 && qn_cost_evidence(choose->cost, &set->shape) < EVIDENCE;
}

void qn_drafts_choose(const qn_cost *cost, const qn_draft_costs *costs, const qn_step_shape *base, qn_draft_slot *slots,
                      size_t count)
{
    chooser choose = {.cost = cost, .costs = costs, .slots = slots, .count = count};
    choose.empty = (draft_set){.shape = *base, .tokens = (double)qn_max_size(base->decode_rows, 1)};
    size_t longest = 0;
    for (size_t i = 0; i < count; i++)
        longest = qn_max_size(longest, ceiling_of(&slots[i], QN_MAX_DRAFT_DEPTH));
    for (size_t d = 0; d < longest; d++)
        pool_acceptance(&choose, d);
    draft_set set = start_set(&choose);
    while (add_best(&choose, &set, longest)) {
    }
    if (set.rows == 0 || cost->steps == 0 || is_unseen(&choose, &set))
        return;
    if (is_unseen(&choose, &choose.empty)) {
        start_set(&choose);
        return;
    }
    set = choose_best(&choose, longest);
    add_tries(&choose, &set);
}
