/* Every buffer that a call writes to, allocated once when the model is opened.
 *
 * Row buffers hold one row per row of the call. Worker buffers belong to one thread of the pool while it runs an item
 * of a loop; between loops their contents mean nothing, apart from `scores` (see indexer.h). */
#ifndef QN_MODEL_WORKSPACE_H
#define QN_MODEL_WORKSPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"
#include "kv/sequence.h"
#include "model/expert_cache.h"
#include "model/router.h"
#include "model/weights.h"

enum {
    QN_MAX_STEP_ROWS = 1 << 16,
    QN_ATTENTION_ROWS = QN_MATMUL_MAX_ROWS, /* rows that go through attention's loops together */
    QN_ATTENTION_HEADS = 64,                /* heads of one row that an item works on */
    QN_INDEX_QUERIES = 4                    /* rows of a sequence that an item of the indexer scores together */
};

/* [max_rows, width] float32 and a pointer to each row. */
typedef struct qn_row_buffer {
    size_t width;
    float *data;
    float **rows;
} qn_row_buffer;

/* The keys that one row attends to. */
typedef struct qn_selection {
    size_t count;
    const int32_t *positions; /* ascending; NULL: 0 .. count - 1 */
} qn_selection;

typedef struct qn_row {
    const qn_kv_sequence *sequence;
    size_t position;
    bool keeps_selection; /* its selection is the caller's: the indexer leaves it alone */
    bool unwanted;        /* its output is: it need not go beyond the caches of the last layer */
    size_t call_row;      /* among the call's rows: where its output goes */
} qn_row;

typedef struct qn_worker {
    float *tile;            /* [QN_MATMUL_MAX_ROWS, QN_TILE_OUTPUTS] */
    uint8_t *packed_values; /* latent_values of a head, for kv_b_proj */
    void *attend;           /* the kernel's scratch */
    const void **keys;      /* [max_keys] */
    float *scores;          /* [QN_INDEX_QUERIES, max_context_tokens], when queries may have to choose */
    uint32_t *order;        /* [max_context_tokens], the same */
    uint8_t *index_q;       /* [QN_INDEX_QUERIES] packed queries, index_q_bytes apart */
    void *index_scratch;    /* the kernel's */
    qn_router_scratch router;
} qn_worker;

/* A run of rows that one gated MLP works on (mlp.h). */
typedef struct qn_mlp_group qn_mlp_group;

typedef struct qn_workspace {
    size_t max_rows, max_context_tokens;
    size_t max_keys;       /* of one query */
    size_t selected_width; /* min(index_topk, max_context_tokens) */
    size_t index_q_bytes;
    size_t dense_keys; /* a query with at most so many keys attends to all of them */

    qn_row *row;
    qn_selection *selection;
    int32_t *selected;      /* [max_rows, index_topk] */
    int32_t *choosing;      /* [max_rows]: rows whose indexer has to choose */
    uint8_t *nonfinite;     /* [max_rows]: qn_nonfinite (step.h) */
    float *margin;          /* [max_rows] */
    float *cosines, *sines; /* [max_rows, qk_rope_head_dim / 2] */

    qn_row_buffer x, h, branch;         /* hidden_size: residual stream, normed, what a branch adds */
    qn_row_buffer q_a, kv_a, q, values; /* values: heads * v_head_dim */
    qn_row_buffer index_q, index_k, index_weights;
    qn_row_buffer router;    /* n_routed_experts */
    qn_row_buffer mtp_input; /* 2 * hidden_size */

    /* of a block of min(max_rows, QN_ATTENTION_ROWS) rows */
    float *latent_queries; /* [rows, heads, kv_lora_rank + qk_rope_head_dim] */
    float *latent_values;  /* [rows, heads, kv_lora_rank] */

    int32_t *experts; /* [max_rows, num_experts_per_tok], ascending */
    float *expert_weights;
    int32_t *pair_row; /* [max_rows * num_experts_per_tok], grouped by expert */
    float *pair_weight;
    size_t *expert_first;          /* [n_routed_experts + 1]: each expert's first pair */
    qn_mlp_group *groups;          /* [n_routed_experts + 1] */
    int32_t *group_expert;         /* [n_routed_experts + 1]: of each group */
    int32_t *group_batch;          /* [n_routed_experts + 1]: groups that the first phase works on together */
    qn_expert_views *expert_views; /* [n_routed_experts], of a wave's experts in the cache */
    float *activations;            /* of a layer's MLPs, after silu and product */

    uint8_t *packed_in, *packed_down,
        *packed_shared_down; /* packed rows: a branch's input, and what enters down_proj */
    void **packed_in_rows, **packed_down_rows, **packed_shared_down_rows;

    qn_worker *worker; /* [threads] */

    size_t bytes; /* of all of the above */
    void **owned; /* what to free */
    size_t owned_count;
} qn_workspace;

typedef struct qn_workspace_sizes {
    size_t threads, max_rows, max_context_tokens, dsa_dense_below;
} qn_workspace_sizes;

qn_status qn_workspace_make(const qn_config *config, const qn_weights *weights, const qn_kernels *kernels,
                            qn_workspace_sizes sizes, qn_workspace *out, qn_error *err);
void qn_workspace_free(qn_workspace *ws); /* {0} is fine */

/* The bytes that qn_workspace_make would allocate. */
size_t qn_workspace_measure(const qn_config *config, const qn_weights *weights, const qn_kernels *kernels,
                            qn_workspace_sizes sizes);

#endif
