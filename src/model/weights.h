/* The checkpoint's tensors, taken by their released names into one struct per layer.
 *
 * Matrices are views into the checkpoint; vectors (norms, biases) are float32 copies owned here. */
#ifndef QN_MODEL_WEIGHTS_H
#define QN_MODEL_WEIGHTS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/matrix.h"
#include "checkpoint/checkpoint.h"
#include "model/packed.h"

/* Of the layers with an indexer of their own ("full"). */
typedef struct qn_indexer_weights {
    qn_matrix wq_b;              /* [index_n_heads * index_head_dim, q_lora_rank] */
    qn_matrix wk;                /* [index_head_dim, hidden_size] */
    qn_matrix weights_proj;      /* [index_n_heads, hidden_size] */
    float *k_norm, *k_norm_bias; /* [index_head_dim] */
} qn_indexer_weights;

typedef struct qn_attention_weights {
    qn_matrix q_a_proj;          /* [q_lora_rank, hidden_size] */
    qn_matrix q_b_proj;          /* [heads * (qk_nope + qk_rope), q_lora_rank] */
    qn_matrix kv_a_proj;         /* [kv_lora_rank + qk_rope, hidden_size] */
    qn_matrix kv_b_proj;         /* [heads * (qk_nope + v_head), kv_lora_rank] */
    qn_matrix o_proj;            /* [hidden_size, heads * v_head] */
    float *q_a_norm, *kv_a_norm; /* [q_lora_rank], [kv_lora_rank] */
    bool has_indexer;
    qn_indexer_weights indexer;
} qn_attention_weights;

/* What a layer's h, and its q_resid, have to be packed for. */
qn_dtype_set qn_attention_in_dtypes(const qn_attention_weights *w);
qn_dtype_set qn_attention_query_dtypes(const qn_attention_weights *w);

/* Gated MLPs: all routed experts, or the one dense or shared MLP. gate and up are [inner, hidden_size], down
 * [hidden_size, inner]. */
typedef struct qn_mlp_weights {
    size_t count, inner;         /* count 0: there is none */
    qn_matrix *gate, *up, *down; /* [count] */
    qn_dtype_set in_dtypes, down_dtypes;
} qn_mlp_weights;

typedef struct qn_layer_weights {
    float *input_norm, *post_attention_norm; /* [hidden_size] */
    qn_attention_weights attention;
    bool is_sparse;
    qn_mlp_weights dense;   /* of a dense layer, or the shared experts as one */
    qn_mlp_weights experts; /* of a sparse layer */
    qn_matrix router;       /* [n_routed_experts, hidden_size] */
    float *router_bias;     /* [n_routed_experts]: e_score_correction_bias */
} qn_layer_weights;

typedef struct qn_mtp_weights {
    float *enorm, *hnorm, *head_norm; /* [hidden_size] */
    qn_matrix eh_proj;                /* [hidden_size, 2 * hidden_size] */
    qn_matrix embed_tokens, head;     /* of its own, or the model's */
} qn_mtp_weights;

typedef struct qn_weights {
    qn_matrix embed_tokens, lm_head; /* [vocab_size, hidden_size] */
    float *norm;                     /* [hidden_size] */
    qn_layer_weights *layers;        /* [layer_count]; the MTP layer's block is the last */
    size_t layer_count;
    bool has_mtp;
    qn_mtp_weights mtp;
    size_t bytes; /* mapped matrices and owned vectors */
} qn_weights;

/* Takes every tensor and finishes the checkpoint. On failure *out holds nothing. */
qn_status qn_weights_take(qn_checkpoint *checkpoint, qn_weights *out, qn_error *err);
void qn_weights_free(qn_weights *weights); /* {0} is fine */

/* Calls `visit` for every matrix, in the order of the forward pass; two of them may be views of the same tensor. */
typedef enum qn_matrix_kind { QN_MATRIX_EMBEDDING, QN_MATRIX_DENSE, QN_MATRIX_EXPERT } qn_matrix_kind;
typedef void (*qn_matrix_visit)(void *context, qn_matrix *matrix, qn_matrix_kind kind);
void qn_weights_each_matrix(qn_weights *weights, qn_matrix_visit visit, void *context);

#endif
