/* Groups and experts are chosen by the same selection as the indexer's keys. */
#include "model/router.h"

#include <math.h>

#include "kernels/topk.h"

/* The sum of the two largest of `count` >= 2 values. */
static float two_best(const float *values, size_t count)
{
    float best = -INFINITY, second = -INFINITY;
    for (size_t i = 0; i < count; i++) {
        if (values[i] > best) {
            second = best;
            best = values[i];
        } else if (values[i] > second) {
            second = values[i];
        }
    }
    return best + second;
}

/* Excludes the experts of all but the best groups from scratch->choice; returns the margin. */
static float keep_best_groups(const qn_config *config, const qn_router_scratch *scratch)
{
    float *choice = scratch->choice;
    size_t group_size = config->n_routed_experts / config->n_group, next = 0;
    float margin;
    for (size_t g = 0; g < config->n_group; g++)
        scratch->group_score[g] = two_best(choice + g * group_size, group_size);
    size_t kept = qn_topk(scratch->group_score, config->n_group, config->topk_group, scratch->groups, scratch->order,
                          &margin);
    for (size_t g = 0; g < config->n_group; g++) {
        if (next < kept && (size_t)scratch->groups[next] == g) {
            next++;
            continue;
        }
        for (size_t e = g * group_size; e < (g + 1) * group_size; e++)
            choice[e] = -INFINITY;
    }
    return margin;
}

float qn_route(const qn_config *config, const float *bias, float *logits, int32_t *experts, float *weights,
               const qn_router_scratch *scratch)
{
    size_t count = config->n_routed_experts, taken = config->num_experts_per_tok;
    float group_margin = INFINITY, margin, sum = 0.0f;
    for (size_t e = 0; e < count; e++) {
        logits[e] = 1.0f / (1.0f + expf(-logits[e]));
        scratch->choice[e] = logits[e] + bias[e];
    }
    if (config->n_group > 1)
        group_margin = keep_best_groups(config, scratch);
    qn_topk(scratch->choice, count, taken, experts, scratch->order, &margin);
    for (size_t i = 0; i < taken; i++) {
        weights[i] = logits[experts[i]];
        sum += weights[i];
    }
    for (size_t i = 0; i < taken; i++) {
        if (config->norm_topk_prob)
            weights[i] /= sum + 1e-20f;
        weights[i] *= config->routed_scaling_factor;
    }
    return fminf(margin, group_margin);
}
