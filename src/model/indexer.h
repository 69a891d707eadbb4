/* The DSA indexer: which keys a query attends to.
 *
 * A query with at most max(index_topk, dsa_dense_below) keys attends to all of them. One with more takes the
 * index_topk keys of largest
 *     I(t, s) = sum_h w_h(t) * relu(q_h(t) . k(s) * index_head_dim^-1/2),
 * ties towards the lower position, where w = weights_proj h * index_n_heads^-1/2 (never rounded), q = wq_b q_resid and
 * k = LayerNorm(wk h; eps 1e-6), both rotated in their first qk_rope_head_dim values. (DeepSeek-V3.2 report, section
 * 2.1; transformers' modeling_glm_moe_dsa.py for the rotation, the norm and the scales.) */
#ifndef QN_MODEL_INDEXER_H
#define QN_MODEL_INDEXER_H

#include "model/step.h"
#include "model/weights.h"

/* One row's k: ws->index_k (wk h) normed, rotated and stored in the cache; ws->index_weights scaled. */
void qn_indexer_store_key(const qn_step *step, const qn_indexer_weights *w, size_t layer, size_t row);

/* From ws->index_q (wq_b q_resid), ws->index_weights and the cached keys: ws->selection of every row that does not keep
 * the caller's. */
void qn_indexer_select(const qn_step *step, size_t layer);

#endif
