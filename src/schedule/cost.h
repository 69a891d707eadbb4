/* What a step of the model costs, learned from this machine's own steps.
 *
 * The time of a step is modelled as
 *
 *     c + slope_0 r_0 + slope_1 r_1 + ... + d decode_rows + s scanned_keys
 *
 * where r_k is how much of the step's rows lies between 2^k and 2^(k+1): a piecewise linear curve over the rows that
 * may bend either way (few rows share the reading of the weights, more rows touch more experts, many rows are
 * arithmetic), a surcharge of decode rows (their logits and sampling) and the indexer's scan. No coefficient is
 * negative, so that the prediction never falls when any part of the shape grows.
 *
 * Steps are remembered by kind: one slot for each quarter of an octave of rows, for decode-only, mixed and prompt-only
 * steps, and for each range of mean positions. A slot forgets only by steps of its own kind, so that hours of decode
 * steps don't erase what a prompt costs; slots not seen for long count less. The coefficients are fitted to the slots
 * by non-negative least squares of relative errors; where steps tell nothing (only one batch size seen so far) the
 * slopes follow their neighbours. A step that takes more than thrice what its kind takes is ignored
 * until three of its kind in a row say the same: a page-fault storm or a suspended machine is not the cost of a step. A
 * step that is as much faster is believed at once. Where the median of the last five steps is off by more than 30 %,
 * the machine itself has become slower or faster, and all slots follow.
 *
 * All functions are deterministic and allocate nothing; each takes some tens of microseconds at most. One thread at a
 * time. */
#ifndef QN_SCHEDULE_COST_H
#define QN_SCHEDULE_COST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The work of one step. */
typedef struct qn_step_shape {
    size_t decode_rows;  /* rows of requests that decode, their drafts' verify rows among them */
    size_t prefill_rows; /* rows of prompts */
    double scanned_keys; /* the sum over all rows of the keys before them, which is their position */
} qn_step_shape;

enum {
    QN_COST_OCTAVES = 17, /* of rows: 1, 2-3, 4-7, ... 65536 and more */
    QN_COST_PARTS = 4,    /* of an octave */
    QN_COST_KINDS = 3,    /* decode only, mixed, prompts only */
    QN_COST_DEPTHS = 6,   /* of the mean position: below 1K, 4K, 16K, 64K, 256K, and more */
    QN_COST_TERMS = QN_COST_OCTAVES + 3,
    QN_COST_RATIOS = 5, /* steps that tell the machine's speed */
};

typedef struct qn_cost_slot {
    double rows, decode_rows, scanned_keys, us; /* forgetful means of the steps of this kind */
    uint64_t count, last_step;
    unsigned slow_streak; /* steps of this kind in a row that were too slow to believe */
} qn_cost_slot;

/* A plain struct without pointers, to be read through the functions below. */
typedef struct qn_cost {
    qn_cost_slot slots[QN_COST_KINDS][QN_COST_OCTAVES][QN_COST_PARTS][QN_COST_DEPTHS];
    double terms[QN_COST_TERMS];   /* microseconds: constant, per row in each octave, per decode row, per scanned key */
    double ratios[QN_COST_RATIOS]; /* of the last steps: their time by what their kind took before */
    uint64_t steps;                /* learned so far */
    size_t most_rows;              /* of any step learned */
    double most_scanned_keys;
} qn_cost;

void qn_cost_start(qn_cost *cost);

/* A step of this shape took us microseconds: the forward pass and what else grows with its rows (sampling, the MTP
 * layer's entries), without the chain of drafts (schedule/drafts.h has its cost). Steps without rows are ignored. */
void qn_cost_learn(qn_cost *cost, const qn_step_shape *shape, uint64_t us);

/* 0 while nothing is learned. Grows with each member of the shape. */
double qn_cost_predict_us(const qn_cost *cost, const qn_step_shape *shape);

/* Whether a prediction for the shape stands on evidence: steps of at least half its rows and half its scan were seen.
 */
bool qn_cost_known(const qn_cost *cost, const qn_step_shape *shape);

/* How many steps of about this shape (its part of an octave of rows, decode-only or not) were learned; those that are
 * followed by 256 steps of other shapes count half. */
double qn_cost_evidence(const qn_cost *cost, const qn_step_shape *shape);

#endif
