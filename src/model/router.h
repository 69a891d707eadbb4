/* The router: which experts a token goes to, and with which weights (DeepSeek-V3's `noaux_tc`, arXiv:2412.19437,
 * section 2.1.2).
 *
 *     score = sigmoid(gate h), choice = score + e_score_correction_bias
 *     a group counts as the sum of its two best choices; the best topk_group groups stay
 *     the num_experts_per_tok best choices within them are taken, ties towards the lower id
 *     weight = score of the taken, / (their sum + 1e-20) if norm_topk_prob, * routed_scaling_factor
 *
 * gate h is never rounded: the choice is discrete. */
#ifndef QN_MODEL_ROUTER_H
#define QN_MODEL_ROUTER_H

#include <stdint.h>

#include "checkpoint/config.h"

typedef struct qn_router_scratch { /* [n_routed_experts] each */
    float *choice, *group_score;
    int32_t *groups;
    uint32_t *order;
} qn_router_scratch;

/* One token. logits [n_routed_experts]: gate h, replaced by the scores. experts and weights [num_experts_per_tok], ids
 * ascending. Returns the gap between the last taken and the first left, groups included; infinity when none was left.
 */
float qn_route(const qn_config *config, const float *bias, float *logits, int32_t *experts, float *weights,
               const qn_router_scratch *scratch);

#endif
