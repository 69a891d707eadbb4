/* The plan as JSON: what programs read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "configs.h"
#include "plan/plan.h"

static qn_plan plan;
static qn_hardware hardware;

static json_t *plan_of(const char *path, size_t max_model_len, bool predict)
{
    qn_plan_options o = {.path = path,
                         .root = "",
                         .memory_bytes = (uint64_t)512 << 30,
                         .threads = 2,
                         .max_model_len = max_model_len,
                         .max_num_batched_tokens = 512,
                         .acceptance = 0.8};
    qn_error err;
    make_hardware(20, &hardware);
    o.hardware = predict ? &hardware : NULL;
    assert_int_equal(qn_kernels_select(NULL, &o.kernels, &err), QN_OK);
    assert_int_equal(qn_plan_make(&o, &plan, &err), QN_OK);
    json_t *root = qn_plan_to_json(&plan);
    assert_non_null(root);
    return root;
}

static void figures_of_glm_5_3(void **state)
{
    (void)state;
    json_t *root = plan_of(GLM_CONFIG, 0, true), *mtp;
    json_int_t weights, biases, values, with_mtp, ranks;
    double rate, seconds;
    assert_int_equal(json_unpack(root, "{s:{s:I, s:I}, s:{s:I, s:I}, s:{s:I, s:{s:o}}}", "sizes", "weights", &weights,
                                 "router_biases", &biases, "kv", "values_per_token", &values,
                                 "values_per_token_with_mtp", &with_mtp, "mxfp4", "smallest_ranks", &ranks, "speed",
                                 "mtp", &mtp),
                     0);
    assert_int_equal(weights, 753329921024);
    assert_int_equal(biases, 19456);
    assert_int_equal(values, 47616);
    assert_int_equal(with_mtp, 48320);
    assert_int_equal(ranks, 1);
    assert_int_equal(json_unpack(mtp, "{s:F, s:F}", "tokens_per_second", &rate, "seconds", &seconds), 0);
    assert_true(rate * seconds > 1.79 && rate * seconds < 1.81);
    const json_t *speed = json_object_get(json_object_get(root, "bf16"), "speed");
    assert_int_equal(json_array_size(json_object_get(speed, "decode")), 4);
    assert_int_equal(json_array_size(json_object_get(speed, "prefill")), 3);
    json_decref(root);
}

static void contexts_beyond_the_request_are_left_out(void **state)
{
    (void)state;
    json_t *root = plan_of(GLM_CONFIG, 8192, true);
    const json_t *speed = json_object_get(json_object_get(root, "mxfp4"), "speed");
    assert_int_equal(json_array_size(json_object_get(speed, "decode")), 2);
    json_decref(root);
}

static void without_measurement_there_is_no_speed(void **state)
{
    (void)state;
    json_t *root = plan_of(GLM_CONFIG, 0, false);
    assert_true(json_is_null(json_object_get(json_object_get(root, "mxfp4"), "speed")));
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_of_glm_5_3),
        cmocka_unit_test(contexts_beyond_the_request_are_left_out),
        cmocka_unit_test(without_measurement_there_is_no_speed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
