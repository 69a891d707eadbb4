/* Multi-head latent attention, absorbed: the cache holds one latent row (c, then the rotated k_r) per token, shared by
 * all heads (DeepSeek-V2, arXiv:2405.04434, section 2.1 and appendix C).
 *
 *     q_resid = RMSNorm(q_a_proj h)               q = q_b_proj q_resid, per head [nope, rope]
 *     [c, k_r] = kv_a_proj_with_mqa h             c = RMSNorm(c); k_r and q's rope part rotated
 *     kv_b_proj = per head W_k [nope, latent], W_v [v, latent]
 *     p = softmax over the selected s of (q_nope W_k . c_s + q_rope . k_r,s) * scale
 *     out = o_proj [per head: W_v sum_s p_s c_s]
 *
 * One form for prompts and decoding. Of rows that end in this layer only what is cached is computed. */
#ifndef QN_MODEL_ATTENTION_H
#define QN_MODEL_ATTENTION_H

#include "model/step.h"
#include "model/weights.h"

/* ws->x is the residual stream. Norms it into ws->h, caches the rows' keys, selects (layers with an indexer) or reuses
 * ws->selection (others), attends and leaves the result of o_proj in ws->branch; of the wanted rows, where
 * qn_step_drops_rows. */
void qn_attention(qn_step *step, const qn_layer_weights *weights, size_t layer);

#endif
