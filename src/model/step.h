/* One call's rows on their way through the layers: what every part of the forward pass is given.
 *
 * Rows may belong to several sequences and are in the order of the call's segments. All of it is owned by the call. */
#ifndef QN_MODEL_STEP_H
#define QN_MODEL_STEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/pool.h"
#include "checkpoint/config.h"
#include "kernels/kernels.h"
#include "model/expert_cache.h"
#include "model/model.h"
#include "model/parts.h"
#include "model/rope.h"
#include "model/weights.h"
#include "model/workspace.h"

typedef struct qn_step {
    const qn_config *config;
    const qn_kernels *kernels;
    qn_pool *pool;
    const qn_rope *rope;
    qn_workspace *ws;
    qn_expert_cache *expert_cache; /* NULL: all experts are in memory */
    struct qn_expert_forecast *expert_forecast;
    const qn_layer_weights *next_layer; /* what comes behind the layer that runs; NULL: nothing, or not known */
    bool is_last;                       /* nothing but the final norm comes behind the layer that runs */
    float mla_norm_eps;
    size_t rows;
    size_t first_slot; /* the slot of position 0: 0, in the MTP layer 1 */
    const qn_observer *observer;
    qn_part_clock *clock; /* NULL: nobody asks */
} qn_step;

/* Where a value that is not finite first showed up in a row. */
typedef enum qn_nonfinite {
    QN_NONFINITE_NONE,
    QN_NONFINITE_EMBEDDING,
    QN_NONFINITE_LATENT,
    QN_NONFINITE_INDEX_KEY,
    QN_NONFINITE_INDEX_QUERY,
    QN_NONFINITE_ATTENTION,
    QN_NONFINITE_ROUTER,
    QN_NONFINITE_MLP,
    QN_NONFINITE_HIDDEN,
    QN_NONFINITE_MTP_INPUT
} qn_nonfinite;

/* Notes `place` for the row unless x is finite or an earlier fault is noted. */
void qn_step_check(const qn_step *step, size_t row, qn_nonfinite place, const float *x, size_t count);

/* QN_OK, or QN_FAILED with the first row's fault. */
qn_status qn_step_status(const qn_step *step, size_t layer, qn_error *err);

/* In the last layer, whether rows end there whose output is not wanted: not while an observer wants to see all. */
bool qn_step_drops_rows(const qn_step *step);

/* The step goes on with the wanted rows alone, which take the places of the others: for the last layer's attention,
 * when all rows are in the caches and before their queries are computed. Rows with a fault stay, to be told of. */
void qn_step_keep_wanted(qn_step *step);

void qn_step_observe(const qn_step *step, qn_observed what, size_t layer, const void *data, size_t width);

#endif
