/* What fits, for machines that are given; and the errors on the way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/fault.h"
#include "configs.h"
#include "plan/plan.h"

static qn_plan plan;
static qn_hardware hardware;
static const uint64_t GIB = (uint64_t)1 << 30;

static qn_plan_options options_for(uint64_t memory_bytes)
{
    qn_plan_options o = {.path = GLM_CONFIG,
                         .root = "",
                         .memory_bytes = memory_bytes,
                         .threads = 2,
                         .max_model_len = 131072,
                         .max_num_batched_tokens = 512,
                         .acceptance = 0.8};
    qn_error err;
    assert_int_equal(qn_kernels_select("scalar", &o.kernels, &err), QN_OK);
    return o;
}

static void a_machine_of_512_gib_holds_mxfp4_and_not_bf16(void **state)
{
    (void)state;
    qn_plan_options o = options_for(512 * GIB);
    qn_error err;
    assert_int_equal(qn_plan_make(&o, &plan, &err), QN_OK);
    const qn_plan_fit *mxfp4 = &plan.fit[QN_PLAN_MXFP4], *bf16 = &plan.fit[QN_PLAN_BF16];
    assert_true(mxfp4->fits && !bf16->fits);
    assert_true(bf16->kv_tokens == 0 && bf16->resident_share > 0.2 && bf16->resident_share < 0.3);
    /* with one row of final norms */
    assert_int_equal(plan.kv_block_bytes,
                     128 * 2 * plan.sizes.kv_values_per_token_with_mtp + 4 * plan.config.hidden_size);
    uint64_t left = plan.usable_bytes - mxfp4->weight_bytes - mxfp4->step_bytes;
    assert_int_equal(mxfp4->kv_tokens, left / plan.kv_block_bytes * 128);
    assert_true(mxfp4->requests * 131072 == (double)mxfp4->kv_tokens);
    size_t smallest = qn_plan_smallest(&plan, QN_PLAN_BF16);
    assert_int_equal(plan.layout[QN_PLAN_BF16][smallest].ranks, 4);
    assert_int_equal(plan.layout[QN_PLAN_MXFP4][qn_plan_smallest(&plan, QN_PLAN_MXFP4)].ranks, 1);
    assert_false(plan.predicts);
}

static void a_small_machine_fits_no_layout(void **state)
{
    (void)state;
    qn_plan_options o = options_for(4 * GIB);
    qn_error err;
    assert_int_equal(qn_plan_make(&o, &plan, &err), QN_OK);
    assert_true(qn_plan_smallest(&plan, QN_PLAN_BF16) == SIZE_MAX);
    assert_true(qn_plan_smallest(&plan, QN_PLAN_MXFP4) == SIZE_MAX);
}

static void ranks_restrict_the_layouts(void **state)
{
    (void)state;
    qn_plan_options o = options_for(64 * GIB);
    qn_error err;
    o.ranks = 8;
    assert_int_equal(qn_plan_make(&o, &plan, &err), QN_OK);
    assert_int_equal(plan.layout_count[QN_PLAN_MXFP4], 4); /* parts of 1, 2, 4 and 8 */
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(plan.layout[QN_PLAN_MXFP4][i].ranks, 8);
    o.ranks = 65;
    assert_int_equal(qn_plan_make(&o, &plan, &err), QN_USAGE);
    assert_string_equal(err.field, "ranks");
}

static void predictions_need_all_figures(void **state)
{
    (void)state;
    qn_plan_options o = options_for(64 * GIB);
    qn_error err;
    make_hardware(20, &hardware);
    hardware.figure[QN_FIGURE_DISK_RANDOM] = (qn_statistic){.min = 2, .median = 2, .max = 2, .samples = 3};
    o.hardware = &hardware;
    assert_int_equal(qn_plan_make(&o, &plan, &err), QN_OK);
    assert_true(plan.predicts);
    const qn_plan_speed *s = &plan.speed[QN_PLAN_MXFP4];
    for (size_t i = 1; i < QN_PLAN_CONTEXTS; i++)
        assert_true(s->decode[i].total > s->decode[i - 1].total);
    double missing = (double)plan.sizes.active_bytes[QN_PLAN_MXFP4] * (1 - plan.fit[QN_PLAN_MXFP4].resident_share);
    assert_true(s->disk_bound_tokens == 2e9 / missing);
    hardware.figure[QN_FIGURE_TOPK].samples = 0;
    assert_int_equal(qn_plan_make(&o, &plan, &err), QN_BAD_INPUT);
    assert_non_null(strstr(err.message, "topk is missing"));
}

static void a_folder_stands_for_its_config(void **state)
{
    (void)state;
    qn_plan_options o = options_for(GIB);
    qn_error err;
    o.path = "tests/data/glm-5.3";
    assert_int_equal(qn_plan_make(&o, &plan, &err), QN_OK);
    assert_string_equal(plan.disk_folder, "tests/data/glm-5.3");
    assert_int_equal(plan.sizes.weights, 753329921024);
    o.path = "tests/data";
    assert_true(qn_plan_make(&o, &plan, &err) != QN_OK);
    assert_non_null(strstr(err.message, "tests/data/config.json"));
}

static void what_cannot_be_planned(void **state)
{
    (void)state;
    qn_plan_options o = options_for(GIB);
    qn_error err;
    o.max_model_len = 1 << 21;
    assert_int_equal(qn_plan_make(&o, &plan, &err), QN_USAGE);
    assert_string_equal(err.field, "max-model-len");
    o = options_for(GIB);
    o.disk = "no/such/folder";
    assert_int_equal(qn_plan_make(&o, &plan, &err), QN_BAD_INPUT);
    o = options_for(GIB);
    o.path = "README.md";
    assert_int_equal(qn_plan_make(&o, &plan, &err), QN_BAD_INPUT);
}

static void every_failing_allocation_is_an_error(void **state)
{
    (void)state;
    qn_plan_options o = options_for(GIB);
    o.path = TINY_MODEL;
    o.max_model_len = 512;
    qn_error err;
    qn_status status = QN_RESOURCE;
    qn_fault_arm(QN_FAULT_ALLOC, 1000000);
    assert_int_equal(qn_plan_make(&o, &plan, &err), QN_OK);
    long all = qn_fault_seen(QN_FAULT_ALLOC);
    for (long nth = 1; nth <= all; nth++) {
        qn_fault_arm(QN_FAULT_ALLOC, nth);
        status = qn_plan_make(&o, &plan, &err);
        qn_fault_disarm();
        /* files of /proc and /sys that can't be read are done without */
        assert_true(status == QN_OK || status == QN_RESOURCE || status == QN_BAD_INPUT);
    }
    qn_fault_disarm();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_machine_of_512_gib_holds_mxfp4_and_not_bf16),
        cmocka_unit_test(a_small_machine_fits_no_layout),
        cmocka_unit_test(ranks_restrict_the_layouts),
        cmocka_unit_test(predictions_need_all_figures),
        cmocka_unit_test(a_folder_stands_for_its_config),
        cmocka_unit_test(what_cannot_be_planned),
        cmocka_unit_test(every_failing_allocation_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
