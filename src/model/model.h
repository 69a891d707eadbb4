/* GLM-5: tokens and caches in, hidden states and logits out. Knows no request and no text.
 *
 * The forward pass is the one that docs/model.md spells out. A call takes rows of one or several sequences (prompt
 * chunks, decode rows, verify rows alike); each row's result is bit-identical whatever else is in the call
 * (docs/kernels.md). One thread calls; the work runs on the pool. All buffers of a call are allocated at open, from
 * max_rows and max_context_tokens, or by qn_model_reserve, once the context has been chosen by what the buffers
 * measure. */
#ifndef QN_MODEL_MODEL_H
#define QN_MODEL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/pool.h"
#include "checkpoint/checkpoint.h"
#include "kernels/kernels.h"
#include "kv/sequence.h"
#include "model/expert_cache.h"
#include "model/parts.h"
#include "model/residence.h"

typedef struct qn_model qn_model;
typedef struct qn_expert_forecast qn_expert_forecast; /* model/expert_forecast.h */

typedef struct qn_model_options {
    const qn_kernels *kernels;
    qn_pool *pool;             /* outlives the model */
    size_t max_rows;           /* rows of one call */
    size_t max_context_tokens; /* positions of one sequence; 0: not known yet, qn_model_reserve follows */
    float mla_norm_eps;        /* of q_a_layernorm and kv_a_layernorm; 0: the default 1e-6 */
    size_t dsa_dense_below;    /* a query with at most so many keys attends to all of them; 0: off */
    size_t expert_cache_bytes; /* routed experts stay on the disk, so much of them in memory (expert_cache.h); 0: off */
} qn_model_options;

/* Takes every tensor of the checkpoint (and finishes it); the checkpoint outlives the model. */
qn_status qn_model_open(qn_checkpoint *checkpoint, const qn_model_options *options, qn_model **out, qn_error *err);
void qn_model_close(qn_model *model); /* NULL is fine */

/* What the buffers of a call take for a context of so many tokens; any thread. */
size_t qn_model_measure(const qn_model *model, size_t max_context_tokens);
/* Allocates the buffers of a model opened with max_context_tokens 0; once, before the first call. */
qn_status qn_model_reserve(qn_model *model, size_t max_context_tokens, qn_error *err);

/* Begins to read the weights into memory of their own (model/residence.h), once, when no call runs; of a model with an
 * expert cache the others. */
qn_status qn_model_load(qn_model *model, const qn_residence_options *options, qn_error *err);
/* Takes over what has been read by now, on the thread that calls the model; cheap, and nothing without a load. */
void qn_model_settle(qn_model *model);
/* Waits until the load has ended, and takes over all that was read. */
void qn_model_await_load(qn_model *model);
/* Of a model without a load: nothing to read, ended. Any thread, once qn_model_load has returned. */
qn_residence_state qn_model_load_state(const qn_model *model);

const qn_config *qn_model_config(const qn_model *model);
bool qn_model_has_mtp(const qn_model *model);
/* Mapped and converted. With an expert cache: what that takes, in place of the experts that it serves. */
size_t qn_model_weight_bytes(const qn_model *model);
/* How many of them at least a load saves that packs dense matrices (qn_residence_options.pack_dense). Before the load.
 */
size_t qn_model_packing_saves(qn_model *model);
size_t qn_model_step_bytes(const qn_model *model); /* buffers of a call */

/* For its sizes and figures, by any thread; NULL: there is none. */
const qn_expert_cache *qn_model_expert_cache(const qn_model *model);
const qn_expert_forecast *qn_model_expert_forecast(const qn_model *model);

/* From now on calls tell the clock where their time goes; it outlives the model or is taken away with NULL. */
void qn_model_time_parts(qn_model *model, qn_part_clock *clock);

/* The cache layout that this model needs, MTP layer included, for blocks of block_tokens. */
qn_status qn_model_kv_layout(const qn_model *model, size_t block_tokens, qn_kv_layout *out, qn_error *err);

/* `count` tokens at positions start, start + 1, ... of a sequence, whose slots are reserved by the caller and whose
 * earlier positions have been computed. */
typedef struct qn_segment {
    qn_kv_sequence *sequence;
    const int32_t *ids; /* each in [0, vocab_size) */
    size_t start, count;
    size_t unwanted; /* of its first rows: what their caches need is computed, and no more; 0: all rows are wanted */
} qn_segment;

/* Sees intermediate values, for goldens and for eval; called on the calling thread, layers in order. Data are [rows,
 * width] (rows of the call in order) and live during the call only. */
typedef enum qn_observed {
    QN_OBSERVE_HIDDEN,         /* float: residual stream after the layer */
    QN_OBSERVE_ATTENTION,      /* float: after o_proj */
    QN_OBSERVE_TOPK,           /* int32: full layers; selected positions ascending, then -1; width min(index_topk,
                                  max_context_tokens). All -1 where dsa_dense_below selects more than that: all keys */
    QN_OBSERVE_TOPK_MARGIN,    /* float, width 1: last taken minus first left out, infinity if nothing was left out */
    QN_OBSERVE_ROUTER_EXPERTS, /* int32, ascending */
    QN_OBSERVE_ROUTER_WEIGHTS, /* float, in that order, scaling factor included */
    QN_OBSERVE_ROUTER_MARGIN   /* float, width 1 */
} qn_observed;

/* What enters a layer's routed experts, in float32 before any rounding to BF16. A pair is a row and an expert that it
 * takes: pairs of expert e are [first[e], first[e + 1]), rows ascending within. */
typedef struct qn_expert_inputs {
    const float *in;       /* [rows, hidden_size]: of gate and up; an expert takes those of its pairs' rows */
    const size_t *first;   /* [n_routed_experts + 1] */
    const int32_t *row;    /* [pairs] */
    const float *products; /* [pairs, moe_intermediate_size]: of down: silu(gate) * up, without the router's weight */
} qn_expert_inputs;

/* Either function may be NULL. layer: num_hidden_layers for the MTP layer (its HIDDEN is before shared_head.norm). */
typedef struct qn_observer {
    void *context;
    void (*observe)(void *context, qn_observed what, size_t layer, const void *data, size_t rows, size_t width);
    void (*observe_experts)(void *context, size_t layer, const qn_expert_inputs *inputs); /* after ROUTER_MARGIN */
} qn_observer;

/* hidden [rows, hidden_size]: the output of the final norm, rows of the segments in order; unwanted ones are left as
 * they are, or computed all the same if an observer is there, which sees all rows. Fails with QN_FAILED, naming
 * the layer, when a value is not finite, and with QN_RESOURCE or QN_BAD_INPUT when an expert can't be read from the
 * disk. observer may be NULL. */
qn_status qn_model_forward(qn_model *model, const qn_segment *segments, size_t segment_count, float *hidden,
                           const qn_observer *observer, qn_error *err);

/* logits[r] [vocab_size] = lm_head hidden[r], for rows <= max_rows chosen rows. */
void qn_model_logits(qn_model *model, const float *const *hidden, size_t rows, float *const *logits);

/* The indexer's choice of one MTP row, to be reused by the draft steps that follow (index_share_for_mtp_iteration). The
 * caller owns it; positions has room for index_topk. A count above index_topk (dsa_dense_below) means all positions
 * below count, and positions is not written. */
typedef struct qn_mtp_selection {
    int32_t *positions;
    size_t count;
} qn_mtp_selection;

/* `count` entries of the MTP layer at indices start...: next_ids[i] is the token after position start + i, hidden + i *
 * hidden_size the target's final norm there (or, in a chain of drafts, the layer's own output). */
typedef struct qn_mtp_segment {
    qn_kv_sequence *sequence; /* slots up to start + count reserved */
    const int32_t *next_ids;
    const float *hidden;
    size_t start, count;
    size_t unwanted;             /* of its first rows, as in qn_segment */
    qn_mtp_selection *selection; /* NULL: not wanted. Else the last row is wanted too */
    bool reuse_selection;        /* true: use *selection instead of running the indexer (keys are still cached);
                                    false: run it and store the last row's choice in *selection */
} qn_mtp_segment;

/* out [rows, hidden_size]: after shared_head.norm: what the next draft step takes as hidden, and what
 * qn_model_mtp_logits takes. Unwanted rows as in qn_model_forward. */
qn_status qn_model_mtp(qn_model *model, const qn_mtp_segment *segments, size_t segment_count, float *out,
                       const qn_observer *observer, qn_error *err);
void qn_model_mtp_logits(qn_model *model, const float *const *hidden, size_t rows, float *const *logits);

#endif
