/* Which prompts get how many rows in the next step, who leaves the queue first, and who is preempted first.
 *
 * Every step computes all decode rows. What may be added to it from prompts is bounded by
 *
 * - rows: max_num_batched_tokens, and long_prefill_token_threshold for a single prompt while others run (vLLM caps
 *   every request so in every step; here a prompt that is alone goes on unhindered);
 * - time: while requests decode, the predicted step stays within nine tenths of max_decode_gap_us, after what the
 *   longest-waiting request has waited already, what a step takes outside of the model, and a factor of caution. The
 *   factor is what the prediction was last wrong by: it rises at once when a step takes longer than predicted (at most
 *   to 4) and falls slowly. Where the cost model has no evidence, a step at most doubles the rows seen so far; the
 *   first chunk has 16;
 * - share: while requests decode, prompts of more than long_prefill_min_tokens take at most the share
 *   long_prefill_share of the time. Counted is measured time: what their rows add to a step, as the cost model divides
 *   it, against all time that goes by. It is a bucket: they go ahead when it isn't in debt, and half a second may be
 *   saved up.
 *
 * Minimal progress: where decode steps leave less than a quarter of the gap for prompts (or are longer than the gap
 * themselves), every fourth step may take one and a half times the gap, or the decode step's time, whichever is longer.
 * So prompts never starve, and the gap stays below twice its bound if a decode step fits in it.
 *
 * Who gets the rows: first by priority (with by_priority), then the shorter, by what remains of them in octaves (up to
 * 511 tokens count as equally short), then the earlier. So short prompts pass long ones. Against starvation the
 * earliest of those with the foremost priority that may go ahead gets at least a quarter of the step's prompt rows.
 * Every prompt becomes the earliest at some time; only a lower priority can wait without bound.
 *
 * Plain structs, no allocation, one thread (the engine's). */
#ifndef QN_SCHEDULE_FAIRNESS_H
#define QN_SCHEDULE_FAIRNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schedule/cost.h"

typedef struct qn_fairness_limits {
    size_t max_num_batched_tokens;       /* rows of a step; > 0 and more than the decode rows, or prompts get none */
    size_t long_prefill_token_threshold; /* most rows of one prompt in a step while others run; 0: off */
    double long_prefill_share;           /* of the time, below 1; 0 or 1: off */
    size_t long_prefill_min_tokens;      /* prompts of more tokens are long to the share */
    uint64_t max_decode_gap_us;          /* bound of the time between a running request's tokens; 0: off */
    bool by_priority;
} qn_fairness_limits;

/* A plain struct without pointers; its members are the policy's own. */
typedef struct qn_fairness {
    qn_fairness_limits limits;
    double caution;        /* >= 1: predictions are multiplied by it */
    double overhead_us;    /* of a step outside of the model, by the worst of late */
    double long_credit_us; /* of the share's bucket */
    uint64_t last_plan_us; /* 0: none yet */
    bool decoding;         /* requests decoded at the last plan */
    unsigned tight_steps;  /* with prompts waiting and little room for them, in a row */
} qn_fairness;

/* A prompt that could be computed now. remaining > 0. */
typedef struct qn_prefill {
    int32_t priority;
    uint64_t arrival;     /* any clock or counter; the lower came first */
    size_t prompt_tokens; /* in all: with recompute after a preemption, what was generated counts as well */
    size_t computed;      /* of it, or found cached */
    size_t remaining;
    size_t rows; /* out: to compute in this step; 0: not now */
    int turn;    /* the planner's own */
} qn_prefill;

/* limits are copied. Of a zeroed struct only max_num_batched_tokens must be set: the rest is off. */
void qn_fairness_start(qn_fairness *fairness, const qn_fairness_limits *limits);

/* Sets the rows of every prompt of the list, which stays in its order. decode: the decode rows of this step and their
 * scan (prefill_rows 0). oldest_gap_us: how long the longest-waiting decoding request waits since its last token. */
void qn_fairness_plan(qn_fairness *fairness, const qn_cost *cost, uint64_t now_us, const qn_step_shape *decode,
                      uint64_t oldest_gap_us, qn_prefill *prefills, size_t count);

/* The whole step: decode and the rows of the prompts, at their positions. */
qn_step_shape qn_fairness_shape(const qn_step_shape *decode, const qn_prefill *prefills, size_t count);

/* After the step, before qn_cost_learn of it. The arguments of the plan, with the rows that were computed in fact where
 * those are fewer. model_us is what qn_cost_learn gets, step_us all the time from the plan until the tokens were handed
 * out. */
void qn_fairness_learn(qn_fairness *fairness, const qn_cost *cost, const qn_step_shape *decode,
                       const qn_prefill *prefills, size_t count, uint64_t model_us, uint64_t step_us);

/* A request in the eyes of the queue. */
typedef struct qn_place {
    int32_t priority; /* lower goes first, as vLLM has it */
    uint64_t arrival;
} qn_place;

/* Which of two waiting requests is taken first: below 0: a. Priority (with by_priority), then arrival. */
int qn_waiting_order(const qn_place *a, const qn_place *b, bool by_priority);

/* Which of two running requests is preempted first when blocks run out, below 0: a. The highest priority value (with
 * by_priority), then the latest arrival: the reverse of the waiting order. */
int qn_victim_order(const qn_place *a, const qn_place *b, bool by_priority);

#endif
