/* The choice of experts on small cases worked by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model/router.h"

enum { EXPERTS = 8 };

static float sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

typedef struct routed {
    int32_t experts[EXPERTS];
    float weights[EXPERTS];
    float margin;
} routed;

static routed route(const qn_config *config, const float *bias, const float *logits)
{
    float copy[EXPERTS], choice[EXPERTS], group_score[EXPERTS];
    int32_t groups[EXPERTS];
    uint32_t order[EXPERTS];
    qn_router_scratch scratch = {choice, group_score, groups, order};
    routed out = {0};
    memcpy(copy, logits, sizeof copy);
    out.margin = qn_route(config, bias, copy, out.experts, out.weights, &scratch);
    return out;
}

static qn_config base_config(void)
{
    return (qn_config){.n_routed_experts = EXPERTS,
                       .num_experts_per_tok = 2,
                       .n_group = 1,
                       .topk_group = 1,
                       .norm_topk_prob = true,
                       .routed_scaling_factor = 2.5f};
}

static void test_bias_chooses_and_does_not_weigh(void **state)
{
    (void)state;
    qn_config config = base_config();
    const float logits[EXPERTS] = {0, 1, 2, -1, 0.5f, -2, 0, 0}, bias[EXPERTS] = {0, 0, 0, 0, 0, 0.9f, 0, 0};
    routed r = route(&config, bias, logits);
    assert_int_equal(r.experts[0], 2);
    assert_int_equal(r.experts[1], 5);
    float sum = sigmoid(2) + sigmoid(-2);
    assert_true(fabsf(r.weights[0] - 2.5f * sigmoid(2) / sum) < 1e-6f);
    assert_true(fabsf(r.weights[1] - 2.5f * sigmoid(-2) / sum) < 1e-6f);
    assert_true(fabsf(r.margin - (sigmoid(2) - sigmoid(1))) < 1e-6f ||
                fabsf(r.margin - (sigmoid(-2) + 0.9f - sigmoid(1))) < 1e-6f);
}

static void test_weights_without_norm(void **state)
{
    (void)state;
    qn_config config = base_config();
    config.norm_topk_prob = false;
    const float logits[EXPERTS] = {3, 1, 2}, bias[EXPERTS] = {0};
    routed r = route(&config, bias, logits);
    assert_true(r.weights[0] == sigmoid(3) * 2.5f && r.weights[1] == sigmoid(2) * 2.5f);
}

static void test_ties_go_to_the_lower_id(void **state)
{
    (void)state;
    qn_config config = base_config();
    const float logits[EXPERTS] = {0, 1, 1, 1, 1, 1, 0, 0}, bias[EXPERTS] = {0};
    routed r = route(&config, bias, logits);
    assert_int_equal(r.experts[0], 1);
    assert_int_equal(r.experts[1], 2);
    assert_true(r.margin == 0.0f);
}

/* Groups {0..3} and {4..7}: the best single expert is in the group whose two best are the worse pair. */
static void test_groups(void **state)
{
    (void)state;
    qn_config config = base_config();
    config.n_group = 2;
    config.num_experts_per_tok = 3;
    const float logits[EXPERTS] = {-3, 4, -3, -3, 2, 1, 0, -4}, bias[EXPERTS] = {0};
    routed r = route(&config, bias, logits);
    assert_int_equal(r.experts[0], 4);
    assert_int_equal(r.experts[1], 5);
    assert_int_equal(r.experts[2], 6);
    float groups = sigmoid(2) + sigmoid(1) - (sigmoid(4) + sigmoid(-3));
    assert_true(fabsf(r.margin - fminf(groups, sigmoid(0) - sigmoid(-4))) < 1e-6f);

    /* all groups stay: as if there were none */
    config.topk_group = 2;
    r = route(&config, bias, logits);
    assert_int_equal(r.experts[0], 1);
    assert_int_equal(r.experts[1], 4);
    assert_int_equal(r.experts[2], 5);
}

/* More groups stay than experts are taken. */
static void test_many_groups_few_experts(void **state)
{
    (void)state;
    qn_config config = base_config();
    config.n_group = 4;
    config.topk_group = 3;
    config.num_experts_per_tok = 1;
    const float logits[EXPERTS] = {0, 0, 1, 1, 2, 2, 3, -9}, bias[EXPERTS] = {0};
    routed r = route(&config, bias, logits);
    assert_int_equal(r.experts[0], 4); /* group 3 sums to sigmoid(3), the least of all: 6 is out */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bias_chooses_and_does_not_weigh), cmocka_unit_test(test_weights_without_norm),
        cmocka_unit_test(test_ties_go_to_the_lower_id),         cmocka_unit_test(test_groups),
        cmocka_unit_test(test_many_groups_few_experts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
