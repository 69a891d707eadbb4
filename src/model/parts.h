/* Where the time of a call goes, for benches: a clock that the forward pass is given, or none.
 *
 * The calling thread marks which part of the model begins; what lies between two marks belongs to the first one's part.
 * Where one loop over the pool works on several parts, the loop's body tells what it is at, and the time between the
 * marks is shared out by what the threads spent in each. So the parts of a call always sum up to the whole of it.
 *
 * Every function does nothing when the clock is NULL. A clock belongs to one thread at a time; enter and leave belong
 * to the worker they name. */
#ifndef QN_MODEL_PARTS_H
#define QN_MODEL_PARTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef enum qn_model_part {
    QN_PART_REST,        /* embedding, norms, residual additions */
    QN_PART_PROJECTIONS, /* attention's q_a, kv_a, q_b and o, the indexer's wk, weights_proj and wq_b in the same loops,
                            with their norms, rotations and packing, and rows written to the cache */
    QN_PART_ABSORB,      /* q_nope W_k */
    QN_PART_ATTEND,      /* the core: queries over cached latent rows */
    QN_PART_EXPAND,      /* W_v */
    QN_PART_INDEX_SCORES,
    QN_PART_INDEX_CHOICE,
    QN_PART_ROUTER, /* scores and choice, and the rows grouped by expert */
    QN_PART_EXPERTS,
    QN_PART_SHARED, /* the shared experts */
    QN_PART_DENSE,  /* the MLP of a dense layer */
    QN_PART_HEAD,   /* lm_head */
    QN_PARTS
} qn_model_part;

/* As JSON and tables spell it: "projections", "index_scores". */
const char *qn_part_name(qn_model_part part);

typedef struct qn_part_clock qn_part_clock;

/* threads: of the pool that the loops run on. */
qn_status qn_part_clock_new(size_t threads, qn_part_clock **out, qn_error *err);
void qn_part_clock_free(qn_part_clock *clock); /* NULL is fine */

/* All at 0; the part is REST from now on. */
void qn_part_clock_start(qn_part_clock *clock);
/* Nanoseconds up to the last mark. */
uint64_t qn_part_clock_ns(const qn_part_clock *clock, qn_model_part part);
/* Experts that were read since the start: of each sparse layer of each call, those that any row took. */
size_t qn_part_clock_experts(const qn_part_clock *clock);

/* `part` begins now. Between loops of the pool. */
void qn_part_mark(qn_part_clock *clock, qn_model_part part);
/* In a loop's body: the worker is at `part` from now on, until it enters another one or leaves. */
void qn_part_enter(qn_part_clock *clock, size_t worker, qn_model_part part);
void qn_part_leave(qn_part_clock *clock, size_t worker);
void qn_part_count_experts(qn_part_clock *clock, size_t count);

#endif
