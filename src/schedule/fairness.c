/* The rows are handed out greedily in the order of the policy, each prompt taking what still fits: a bisection, since a
 * prediction only grows. Then it is seen whether the earliest prompt got its quarter; if not, it gets that first and
 * the others are served again from the start. */
#include "schedule/fairness.h"

#include <math.h>

#include "base/size.h"

enum {
    FIRST_CHUNK = 16, /* rows that may be tried without evidence */
    SHORT_TOKENS = 256,
    GUARANTEED_PART = 4, /* the earliest prompt's: one part of so many */
    TIGHT_TURN = 4,      /* minimal progress in every so many'th step */
};

static const double AIM = 0.9;            /* of the gap */
static const double TIGHT_ROOM = 0.25;    /* of the gap: less is little room */
static const double STRETCH = 1.5;        /* of the gap, for minimal progress */
static const double MOST_CAUTION = 4;     /* a rare outlier must not stop prompts for long */
static const double CALMING = 0.8;        /* what a step that was predicted well leaves of the caution above 1 */
static const double SAVED_US = 500000;    /* most of the share that is saved up */
static const double MOST_OVERHEAD = 0.25; /* of the gap */
static const double OVERHEAD_DECAY = 0.95;

void qn_fairness_start(qn_fairness *fairness, const qn_fairness_limits *limits)
{
    *fairness = (qn_fairness){.limits = *limits, .caution = 1};
    if (limits->long_prefill_share <= 0)
        fairness->limits.long_prefill_share = 1;
}

static int compare_arrival(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

int qn_waiting_order(const qn_place *a, const qn_place *b, bool by_priority)
{
    if (by_priority && a->priority != b->priority)
        return a->priority < b->priority ? -1 : 1;
    return compare_arrival(a->arrival, b->arrival);
}

int qn_victim_order(const qn_place *a, const qn_place *b, bool by_priority)
{
    return qn_waiting_order(b, a, by_priority);
}

static int length_class(const qn_prefill *prefill)
{
    return ilogb((double)qn_max_size(prefill->remaining, SHORT_TOKENS));
}

static bool goes_before(const qn_prefill *a, const qn_prefill *b, bool by_priority)
{
    if (by_priority && a->priority != b->priority)
        return a->priority < b->priority;
    int class_a = length_class(a), class_b = length_class(b);
    return class_a != class_b ? class_a < class_b : a->arrival < b->arrival;
}

typedef struct step_room {
    const qn_fairness_limits *limits;
    const qn_cost *cost;
    qn_step_shape shape; /* of what is in the step so far */
    double limit_us;     /* predicted, caution taken off; INFINITY: no bound */
    size_t prompt_cap;   /* most rows of one prompt */
} step_room;

/* Keys before `rows` rows that start at position `start`. */
static double scan_of(size_t start, size_t rows)
{
    return (double)rows * (double)start + (double)rows * ((double)rows - 1) / 2;
}

static qn_step_shape with_rows(const qn_step_shape *shape, const qn_prefill *prefill, size_t rows)
{
    qn_step_shape sum = *shape;
    sum.prefill_rows += rows;
    sum.scanned_keys += scan_of(prefill->computed + prefill->rows, rows);
    return sum;
}

static bool fits(const step_room *room, const qn_prefill *prefill, size_t rows)
{
    if (isinf(room->limit_us))
        return true;
    qn_step_shape shape = with_rows(&room->shape, prefill, rows);
    if (shape.prefill_rows > FIRST_CHUNK && !qn_cost_known(room->cost, &shape))
        return false;
    return qn_cost_predict_us(room->cost, &shape) <= room->limit_us;
}

/* Gives the prompt as many further rows as fit, up to most in this step. */
static void give_rows(step_room *room, qn_prefill *prefill, size_t most)
{
    size_t taken = room->shape.decode_rows + room->shape.prefill_rows;
    size_t high = qn_min_size(most, qn_min_size(prefill->remaining, room->prompt_cap));
    high = high > prefill->rows ? high - prefill->rows : 0;
    high = qn_min_size(high, room->limits->max_num_batched_tokens - taken);
    size_t low = 0;
    if (high > 0 && fits(room, prefill, high))
        low = high;
    while (low < high) {
        size_t middle = low + (high - low + 1) / 2;
        if (fits(room, prefill, middle))
            low = middle;
        else
            high = middle - 1;
    }
    room->shape = with_rows(&room->shape, prefill, low);
    prefill->rows += low;
}

/* qn_prefill.turn */
enum { WAITS, SERVED, BARRED };

static bool is_long(const qn_fairness *fairness, const qn_prefill *prefill)
{
    return fairness->limits.long_prefill_share < 1 && prefill->prompt_tokens > fairness->limits.long_prefill_min_tokens;
}

/* The first in order that waits for its turn; NULL: none. */
static qn_prefill *next_in_order(const step_room *room, qn_prefill *prefills, size_t count)
{
    qn_prefill *next = NULL;
    for (size_t i = 0; i < count; i++)
        if (prefills[i].turn == WAITS && (!next || goes_before(&prefills[i], next, room->limits->by_priority)))
            next = &prefills[i];
    return next;
}

/* The one that came first of those that go ahead with the foremost priority. */
static qn_prefill *earliest(const step_room *room, qn_prefill *prefills, size_t count)
{
    qn_prefill *first = NULL;
    for (size_t i = 0; i < count; i++) {
        qn_prefill *other = &prefills[i];
        if (other->turn == BARRED)
            continue;
        bool foremost = room->limits->by_priority && first && other->priority != first->priority
                            ? other->priority < first->priority
                            : !first || other->arrival < first->arrival;
        first = foremost ? other : first;
    }
    return first;
}

static void serve_in_order(step_room *room, qn_prefill *prefills, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (prefills[i].turn == SERVED)
            prefills[i].turn = WAITS;
    for (qn_prefill *next; (next = next_in_order(room, prefills, count)) != NULL; next->turn = SERVED)
        give_rows(room, next, SIZE_MAX);
}

static void serve_with_guarantee(const step_room *empty, qn_prefill *prefills, size_t count)
{
    step_room room = *empty;
    serve_in_order(&room, prefills, count);
    qn_prefill *first = earliest(&room, prefills, count);
    size_t guaranteed = qn_ceil_div(room.shape.prefill_rows, GUARANTEED_PART);
    if (first->rows >= qn_min_size(guaranteed, first->remaining))
        return;
    for (size_t i = 0; i < count; i++)
        prefills[i].rows = 0;
    room = *empty;
    give_rows(&room, first, guaranteed);
    serve_in_order(&room, prefills, count);
}

/* Puts the turn of every prompt and returns how many may go ahead. */
static size_t bar_long_ones(const qn_fairness *fairness, qn_prefill *prefills, size_t count)
{
    bool in_debt = fairness->decoding && fairness->long_credit_us < 0;
    size_t open = 0;
    for (size_t i = 0; i < count; i++) {
        prefills[i].rows = 0;
        prefills[i].turn = in_debt && is_long(fairness, &prefills[i]) ? BARRED : WAITS;
        open += prefills[i].turn == WAITS;
    }
    return open;
}

/* The predicted time that the step may have. minimal: it is the turn of minimal progress. */
static double time_limit(qn_fairness *fairness, const qn_cost *cost, const qn_step_shape *decode,
                         uint64_t oldest_gap_us, bool *minimal)
{
    double gap = (double)fairness->limits.max_decode_gap_us;
    *minimal = false;
    if (gap <= 0 || decode->decode_rows == 0)
        return INFINITY;
    double outside = fairness->overhead_us + (double)oldest_gap_us;
    double decode_us = fairness->caution * qn_cost_predict_us(cost, decode);
    double limit = AIM * gap - outside;
    fairness->tight_steps = limit - decode_us < TIGHT_ROOM * gap ? fairness->tight_steps + 1 : 0;
    if (fairness->tight_steps == TIGHT_TURN) {
        fairness->tight_steps = 0;
        *minimal = true;
        limit = fmax(STRETCH * gap - outside, STRETCH * decode_us);
    }
    return limit / fairness->caution;
}

static void earn(qn_fairness *fairness, uint64_t now_us)
{
    double elapsed = fairness->last_plan_us && now_us > fairness->last_plan_us
                         ? (double)(now_us - fairness->last_plan_us)
                         : 0;
    double part = fairness->decoding ? fairness->limits.long_prefill_share : 1;
    fairness->long_credit_us = fmin(fairness->long_credit_us + part * elapsed, SAVED_US);
    fairness->last_plan_us = now_us;
}

void qn_fairness_plan(qn_fairness *fairness, const qn_cost *cost, uint64_t now_us, const qn_step_shape *decode,
                      uint64_t oldest_gap_us, qn_prefill *prefills, size_t count)
{
    const qn_fairness_limits *limits = &fairness->limits;
    earn(fairness, now_us);
    fairness->decoding = decode->decode_rows > 0;
    if (bar_long_ones(fairness, prefills, count) == 0 || decode->decode_rows >= limits->max_num_batched_tokens)
        return;
    bool others = decode->decode_rows > 0 || count > 1, minimal;
    step_room room = {.limits = limits, .cost = cost, .shape = *decode};
    room.prompt_cap = others && limits->long_prefill_token_threshold ? limits->long_prefill_token_threshold : SIZE_MAX;
    room.limit_us = time_limit(fairness, cost, decode, oldest_gap_us, &minimal);
    serve_with_guarantee(&room, prefills, count);
    if (minimal && qn_fairness_shape(decode, prefills, count).prefill_rows == 0)
        earliest(&room, prefills, count)->rows = 1;
}

qn_step_shape qn_fairness_shape(const qn_step_shape *decode, const qn_prefill *prefills, size_t count)
{
    qn_step_shape shape = *decode;
    for (size_t i = 0; i < count; i++) {
        shape.prefill_rows += prefills[i].rows;
        shape.scanned_keys += scan_of(prefills[i].computed, prefills[i].rows);
    }
    return shape;
}

/* What the long prompts' rows added to the step. A suspended machine isn't put on their bill. */
static double long_part_us(const qn_fairness *fairness, const qn_cost *cost, const qn_step_shape *decode,
                           const qn_prefill *prefills, size_t count, double step_us)
{
    qn_step_shape without = *decode, all = qn_fairness_shape(decode, prefills, count);
    for (size_t i = 0; i < count; i++) {
        if (is_long(fairness, &prefills[i]))
            continue;
        without.prefill_rows += prefills[i].rows;
        without.scanned_keys += scan_of(prefills[i].computed, prefills[i].rows);
    }
    if (without.prefill_rows == all.prefill_rows)
        return 0;
    double predicted = qn_cost_predict_us(cost, &all);
    if (predicted <= 0)
        return step_us;
    double part = 1 - qn_cost_predict_us(cost, &without) / predicted;
    return part * fmin(step_us, MOST_CAUTION * MOST_CAUTION * predicted);
}

void qn_fairness_learn(qn_fairness *fairness, const qn_cost *cost, const qn_step_shape *decode,
                       const qn_prefill *prefills, size_t count, uint64_t model_us, uint64_t step_us)
{
    qn_step_shape shape = qn_fairness_shape(decode, prefills, count);
    double predicted = qn_cost_predict_us(cost, &shape);
    double wrong_by = predicted > 0 ? fmin((double)model_us / predicted, MOST_CAUTION) : 1;
    if (wrong_by > fairness->caution)
        fairness->caution = wrong_by;
    else if (shape.prefill_rows > 0)
        fairness->caution = fmax(1 + (fairness->caution - 1) * CALMING, wrong_by);
    double outside = step_us > model_us ? (double)(step_us - model_us) : 0;
    outside = fmin(outside, MOST_OVERHEAD * (double)fairness->limits.max_decode_gap_us);
    fairness->overhead_us = fmax(outside, fairness->overhead_us * OVERHEAD_DECAY);
    if (decode->decode_rows > 0)
        fairness->long_credit_us -= long_part_us(fairness, cost, decode, prefills, count, (double)step_us);
}
