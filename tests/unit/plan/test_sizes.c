/* Counts: the known ones of GLM-5.3, and those of a checkpoint that is there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "configs.h"
#include "plan/sizes.h"

static qn_config config;

static void glm_5_3_is_what_it_is_known_to_be(void **state)
{
    (void)state;
    qn_plan_sizes s;
    qn_error err;
    read_config(GLM_CONFIG, &config);
    assert_int_equal(qn_plan_count(&config, &s, &err), QN_OK);
    assert_int_equal(s.weights, 753329921024);
    assert_int_equal(s.router_biases, 19456);
    double gib = (double)s.total.bytes[QN_PLAN_MXFP4] / (1 << 30);
    assert_true(gib > 398.5 && gib < 399.5);
    assert_int_equal(s.total.bytes[QN_PLAN_BF16], 2 * 753329921024 + 4 * 19456);
    assert_int_equal(s.kv_values_per_token, 576 * 78 + 128 * 21);
    assert_int_equal(s.kv_values_per_token_with_mtp, 576 * 79 + 128 * 22);
    assert_int_equal(s.indexer_layers, 21);
    /* attention, indexer, dense, router, shared, 8 of 256 experts, norms, head: no embedding, no MTP */
    uint64_t active = s.kind[QN_KIND_ROUTED_EXPERTS].parameters / 32;
    for (qn_tensor_kind kind = 0; kind < QN_TENSOR_KINDS; kind++)
        if (kind != QN_KIND_EMBEDDING && kind != QN_KIND_ROUTED_EXPERTS && kind != QN_KIND_MTP)
            active += s.kind[kind].parameters;
    assert_int_equal(s.active_parameters, active);
}

static void without_an_mtp_layer_the_cache_is_the_smaller(void **state)
{
    (void)state;
    qn_plan_sizes s;
    qn_error err;
    read_config(GLM_CONFIG, &config);
    config.num_nextn_predict_layers = 0;
    assert_int_equal(qn_plan_count(&config, &s, &err), QN_OK);
    assert_int_equal(s.kv_values_per_token_with_mtp, s.kv_values_per_token);
    assert_int_equal(s.kind[QN_KIND_MTP].tensors, 0);
    assert_int_equal(s.router_biases, 75 * 256);
}

static void a_checkpoint_holds_what_its_config_counts(void **state)
{
    (void)state;
    qn_listing *listing;
    qn_summary summary = {0};
    qn_plan_sizes s;
    qn_error err;
    read_config(TINY_MODEL "/config.json", &config);
    assert_int_equal(qn_listing_open(TINY_MODEL, &listing, &err), QN_OK);
    assert_int_equal(qn_listing_summarise(listing, &summary, &err), QN_OK);
    assert_int_equal(qn_plan_count(&config, &s, &err), QN_OK);
    assert_int_equal(s.total.parameters, summary.total.parameters);
    assert_int_equal(2 * s.kv_values_per_token_with_mtp,
                     summary.latent_bytes_per_token + summary.index_bytes_per_token);
    for (qn_tensor_kind kind = 0; kind < QN_TENSOR_KINDS; kind++)
        assert_int_equal(s.kind[kind].parameters, summary.kind[kind].parameters);
    qn_summary_free(&summary);
    qn_listing_close(listing);
}

static void experts_that_are_no_multiple_of_a_block_are_refused(void **state)
{
    (void)state;
    qn_plan_sizes s;
    qn_error err;
    read_config(GLM_CONFIG, &config);
    config.moe_intermediate_size += 16;
    assert_int_equal(qn_plan_count(&config, &s, &err), QN_BAD_INPUT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(glm_5_3_is_what_it_is_known_to_be),
        cmocka_unit_test(without_an_mtp_layer_the_cache_is_the_smaller),
        cmocka_unit_test(a_checkpoint_holds_what_its_config_counts),
        cmocka_unit_test(experts_that_are_no_multiple_of_a_block_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
