/* How many drafts each request makes for the next step.
 *
 * A draft is worth the probability that it is accepted: the product of the acceptances of all depths up to its own. It
 * costs a verify row in the next step and a row of the chain of drafts; the deepest draft of all makes the chain longer
 * by a call. The counts are chosen for the whole batch so that the expected tokens per unit of time are most: for each
 * length of the chain, drafts are added in the order of their worth, and the best of all sets seen on the way is taken,
 * the empty one among them. At a batch size where rows are dear nobody drafts.
 *
 * Acceptance is estimated per request and depth as a forgetful mean that starts optimistic; a depth never tried counts
 * as the one before it. What isn't drafted isn't learned, so a request that could draw profit from a deeper draft, were
 * it accepted always, tries one now and then: so often that the tokens expected to be lost by it are half a percent,
 * but at least in every 64th step. The longer a depth was not drafted, the more the outcome of the next try counts.
 * What rows cost is tried likewise: a batch size whose steps with full drafts, or without any, the cost model hasn't
 * seen, or not for long, gets a few of them.
 *
 * Choices depend on measured times; the tokens of a request do not depend on them. Plain structs, no allocation, one
 * thread. */
#ifndef QN_SCHEDULE_DRAFTS_H
#define QN_SCHEDULE_DRAFTS_H

#include <stddef.h>
#include <stdint.h>

#include "schedule/cost.h"

enum { QN_MAX_DRAFT_DEPTH = 16 }; /* ceilings above it count as it */

/* Of one request. */
typedef struct qn_draft_history {
    float acceptance[QN_MAX_DRAFT_DEPTH]; /* of the draft at this depth, given that the one before was accepted */
    float tried[QN_MAX_DRAFT_DEPTH];      /* tries that the acceptance rests on; fewer with time that it goes untried */
    uint32_t idle;                        /* choices since its last try of a draft more than pays */
} qn_draft_history;

void qn_draft_history_start(qn_draft_history *history);

/* A step verified `drafted` drafts of the request and accepted the first `accepted` of them. */
void qn_draft_history_learn(qn_draft_history *history, size_t drafted, size_t accepted);

/* What the chain of drafts costs: us = call calls + row rows, fitted with forgetting, never negative. */
typedef struct qn_draft_costs {
    double call_us, row_us;
    double calls_calls, calls_rows, rows_rows, calls_us, rows_us; /* weighted sums of products */
    uint64_t count;
    unsigned slow_streak;
} qn_draft_costs;

void qn_draft_costs_start(qn_draft_costs *costs);

/* The chain of one step: `calls` calls of the MTP layer with `rows` rows together. */
void qn_draft_costs_learn(qn_draft_costs *costs, size_t calls, size_t rows, uint64_t us);
double qn_draft_costs_predict_us(const qn_draft_costs *costs, size_t calls, size_t rows);

/* A request that could draft. */
typedef struct qn_draft_slot {
    qn_draft_history *history;
    size_t ceiling;           /* num_speculative_tokens, or fewer near the end of the answer or the context */
    size_t position;          /* of its next row: the keys that a verify row scans */
    size_t drafts;            /* out */
    double worth, next_worth; /* the chooser's own: of its last draft, and of one more */
} qn_draft_slot;

/* Called once a step. base: the next step without any drafts, as far as it is known: one row for every request that
 * will decode (not the verify rows of the step before: those would be counted twice) with its position as its scan, and
 * the prompts' rows of the last step for want of better. */
void qn_drafts_choose(const qn_cost *cost, const qn_draft_costs *costs, const qn_step_shape *base, qn_draft_slot *slots,
                      size_t count);

#endif
