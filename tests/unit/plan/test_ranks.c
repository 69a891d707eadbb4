/* Cutting a model over ranks: one rank has everything, more have their shares and what is replicated. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "configs.h"
#include "plan/ranks.h"

static qn_config config;

static void one_rank_holds_the_whole_model(void **state)
{
    (void)state;
    static const char *const paths[] = {GLM_CONFIG, TINY_MODEL "/config.json",
                                        "tests/data/oracle/tiny-dense/config.json",
                                        "tests/data/oracle/tiny-grouped/config.json"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        qn_plan_sizes sizes;
        qn_rank_layout layout;
        qn_error err;
        read_config(paths[i], &config);
        assert_int_equal(qn_plan_count(&config, &sizes, &err), QN_OK);
        for (qn_plan_form form = 0; form < QN_PLAN_FORMS; form++) {
            assert_true(qn_rank_layout_of(&config, form, 1, 1, &layout));
            assert_int_equal(layout.bytes, sizes.total.bytes[form]);
        }
    }
}

static void shares_add_up(void **state)
{
    (void)state;
    qn_plan_sizes sizes;
    qn_error err;
    read_config(GLM_CONFIG, &config);
    assert_int_equal(qn_plan_count(&config, &sizes, &err), QN_OK);
    for (size_t ranks = 1; ranks <= 64; ranks *= 2) {
        for (size_t parts = 1; parts <= 2 && parts <= ranks; parts++) {
            qn_rank_layout l;
            assert_true(qn_rank_layout_of(&config, QN_PLAN_MXFP4, ranks, parts, &l));
            assert_int_equal(l.expert_groups * l.expert_parts, ranks);
            /* all sizes divide evenly, so that the ranks together hold the model and the replicas */
            uint64_t all = (l.bytes - l.replicated_bytes) * ranks + l.replicated_bytes;
            assert_int_equal(all, sizes.total.bytes[QN_PLAN_MXFP4]);
        }
    }
}

static void uneven_shares_count_the_largest(void **state)
{
    (void)state;
    qn_rank_layout three, four;
    read_config(GLM_CONFIG, &config);
    assert_true(qn_rank_layout_of(&config, QN_PLAN_BF16, 3, 1, &three));
    assert_true(qn_rank_layout_of(&config, QN_PLAN_BF16, 4, 1, &four));
    assert_true(three.bytes > four.bytes);
    assert_int_equal(three.replicated_bytes, four.replicated_bytes);
}

static void what_cannot_be_cut(void **state)
{
    (void)state;
    qn_rank_layout l;
    read_config(GLM_CONFIG, &config);
    assert_false(qn_rank_layout_of(&config, QN_PLAN_BF16, 0, 1, &l));
    assert_false(qn_rank_layout_of(&config, QN_PLAN_BF16, 4, 0, &l));
    assert_false(qn_rank_layout_of(&config, QN_PLAN_BF16, 3, 2, &l));
    assert_false(qn_rank_layout_of(&config, QN_PLAN_BF16, 65, 1, &l));
    config.moe_intermediate_size = 96;
    assert_true(qn_rank_layout_of(&config, QN_PLAN_BF16, 3, 3, &l));
    assert_false(qn_rank_layout_of(&config, QN_PLAN_BF16, 2, 2, &l));
    config.n_routed_experts = 8;
    assert_false(qn_rank_layout_of(&config, QN_PLAN_BF16, 16, 1, &l));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_holds_the_whole_model),
        cmocka_unit_test(shares_add_up),
        cmocka_unit_test(uneven_shares_count_the_largest),
        cmocka_unit_test(what_cannot_be_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
