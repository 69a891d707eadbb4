/* What an open model holds; for model.c, forward.c, mtp.c and work.c alone. */
#ifndef QN_MODEL_STATE_H
#define QN_MODEL_STATE_H

#include "model/expert_cache.h"
#include "model/expert_forecast.h"
#include "model/model.h"
#include "model/rope.h"
#include "model/step.h"
#include "model/weights.h"
#include "model/workspace.h"

struct qn_model {
    const qn_checkpoint *checkpoint;
    const qn_config *config; /* the checkpoint's */
    const qn_kernels *kernels;
    qn_pool *pool;
    float mla_norm_eps;
    qn_rope rope;
    qn_weights weights;
    qn_expert_cache *expert_cache; /* NULL: all experts are in memory, and there is no forecast */
    qn_expert_forecast *expert_forecast;
    qn_residence *residence;  /* NULL: the weights are used where they are mapped */
    qn_workspace_sizes sizes; /* max_context_tokens 0: the workspace is not there yet */
    qn_workspace workspace;
    qn_part_clock *clock; /* of qn_model_time_parts */
};

/* What a segment of either kind says of its rows. */
typedef struct qn_row_list {
    const qn_kv_sequence *sequence;
    const int32_t *ids;
    size_t start, count, unwanted;
    size_t slots; /* how many its sequence has to have */
} qn_row_list;

/* Checks the list and adds its rows from ws->row[*rows] on. */
qn_status qn_model_add_rows(qn_model *model, const qn_row_list *list, size_t *rows, qn_error *err);

qn_step qn_model_step(qn_model *model, size_t rows, const qn_observer *observer);

#endif
