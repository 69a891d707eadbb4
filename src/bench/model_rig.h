/* A model with caches as long as wanted, to run single calls of and see where their time goes.
 *
 * The caches are filled with random rows in place of those of a true prompt, which would take minutes for 32K tokens:
 * a call reads and computes the same with them, since nothing in it depends on what the values are, but for which
 * experts and keys are chosen. Not for the scores of anything. One thread at a time. */
#ifndef QN_BENCH_MODEL_RIG_H
#define QN_BENCH_MODEL_RIG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/numa.h"
#include "base/pool.h"
#include "model/model.h"
#include "model/work.h"

typedef struct qn_model_rig qn_model_rig;

typedef struct qn_model_rig_options {
    qn_checkpoint *checkpoint; /* nothing was taken of it yet; it outlives the rig */
    size_t threads;            /* 0: all CPUs, or those of cpu_binding */
    const char *cpu_binding;   /* base/cpu_binding.h; NULL: "none". Whoever opens is bound too, until the end */
    qn_numa numa;              /* of weights and caches, and what else this thread touches until the end */
    size_t sequences;          /* caches, each of context_tokens */
    size_t context_tokens;     /* positions of a sequence; the model has as many */
    size_t max_rows;           /* of a call */
    size_t logit_rows;         /* for which a call computes logits at most */
    size_t expert_cache_bytes; /* 0: all experts in memory */
    qn_load load;              /* as a server has them, when all else is there: AUTO may take nine tenths of the rest */
    qn_pack_dense pack_dense;
    uint64_t seed;
    const atomic_bool *stop; /* ends the load of the weights when set; NULL: never set */
} qn_model_rig_options;

/* For which rows of each sequence a call computes logits. */
typedef enum qn_rig_logits { QN_RIG_NO_LOGITS, QN_RIG_LAST_LOGITS, QN_RIG_ALL_LOGITS } qn_rig_logits;

/* One call, measured. */
typedef struct qn_call_times {
    double seconds;                /* qn_model_forward and qn_model_logits */
    double part_seconds[QN_PARTS]; /* together no more than seconds */
    qn_pool_figures pool;          /* of the loops in it; sleeps: those between its calls too */
    qn_part_work work[QN_PARTS];
    size_t experts; /* read in it, of all sparse layers together */
} qn_call_times;

/* Returns when resident weights are there, with a line that tells where weights are. QN_RESOURCE when the caches do not
 * fit, or the weights that are to be resident; QN_USAGE: mapped weights can't be packed (field "pack-dense");
 * QN_CANCELLED: stopped while the weights were loaded. */
qn_status qn_model_rig_open(const qn_model_rig_options *options, qn_model_rig **out, qn_error *err);
void qn_model_rig_close(qn_model_rig *rig); /* NULL is fine */

const qn_model *qn_model_rig_model(const qn_model_rig *rig);
qn_pool *qn_model_rig_pool(qn_model_rig *rig);
const qn_kernels *qn_model_rig_kernels(const qn_model_rig *rig);
bool qn_model_rig_is_resident(const qn_model_rig *rig);
bool qn_model_rig_is_packed(const qn_model_rig *rig); /* dense weights, as far as that pays */
size_t qn_model_rig_cache_bytes(const qn_model_rig *rig);

/* Touches every page of the weights, so that calls find them in memory and mapped: what the system has dropped of the
 * files since is read again. Does nothing for resident weights, or with an expert cache, for a model larger than the
 * memory. */
void qn_model_rig_touch_weights(qn_model_rig *rig);

/* What the tokens of the next calls are drawn from: with an earlier state, they are those of the calls that followed.
 */
uint64_t qn_model_rig_tokens(const qn_model_rig *rig);
void qn_model_rig_set_tokens(qn_model_rig *rig, uint64_t state);

/* The first `sequences` sequences, each with `rows` random tokens at positions from `start` on. Adds to *times. */
qn_status qn_model_rig_call(qn_model_rig *rig, size_t sequences, size_t start, size_t rows, qn_rig_logits logits,
                            qn_call_times *times, qn_error *err);

#endif
