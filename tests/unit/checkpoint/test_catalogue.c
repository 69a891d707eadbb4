#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/fault.h"
#include "base/json.h"
#include "checkpoint/catalogue.h"
#include "checkpoint/checkpoint.h"

/* GLM-5.3's dimensions. */
static qn_config glm(void)
{
    qn_config c = {.vocab_size = 154880,
                   .hidden_size = 6144,
                   .intermediate_size = 12288,
                   .moe_intermediate_size = 2048,
                   .num_hidden_layers = 78,
                   .num_nextn_predict_layers = 1,
                   .num_attention_heads = 64,
                   .q_lora_rank = 2048,
                   .kv_lora_rank = 512,
                   .qk_nope_head_dim = 192,
                   .qk_rope_head_dim = 64,
                   .v_head_dim = 256,
                   .index_n_heads = 32,
                   .index_head_dim = 128,
                   .n_routed_experts = 256,
                   .n_shared_experts = 1,
                   .num_experts_per_tok = 8};
    for (size_t i = 0; i < c.num_hidden_layers; i++) {
        c.layer_is_sparse[i] = i >= 3;
        c.layer_has_indexer[i] = i < 3 || (i - 2) % 4 == 0;
    }
    return c;
}

static void test_counts_of_the_release(void **state)
{
    (void)state;
    const qn_config config = glm();
    qn_catalogue *catalogue = NULL;
    qn_error err;
    assert_int_equal(qn_catalogue_new(&config, &catalogue, &err), QN_OK);
    uint64_t weights = 0, biases = 0, mxfp4_bytes = 0;
    for (size_t i = 0; i < qn_catalogue_count(catalogue); i++) {
        const qn_catalogue_tensor *t = qn_catalogue_at(catalogue, i);
        *(t->dtype == QN_DTYPE_F32 ? &biases : &weights) += qn_catalogue_elements(t);
        mxfp4_bytes += t->kind == QN_KIND_ROUTED_EXPERTS ? qn_catalogue_mxfp4_bytes(t) : qn_catalogue_bytes(t);
    }
    assert_true(weights == 753329921024);
    assert_true(biases == 19456);
    assert_int_equal((mxfp4_bytes + (1 << 29)) >> 30, 399);
    assert_int_equal(qn_catalogue_count(catalogue), 76 * 256 * 3 + 79 * 9 + 22 * 5 + 76 * 5 + 3 * 3 + 4 + 3);
    const qn_catalogue_tensor *last = qn_catalogue_find(catalogue, "model.layers.78.mlp.experts.255.down_proj.weight");
    assert_non_null(last);
    assert_true(last->layer == 78 && last->expert == 255 && last->kind == QN_KIND_ROUTED_EXPERTS);
    assert_true(last->shape[0] == 6144 && last->shape[1] == 2048 && last->dims == 2);
    assert_int_equal(qn_catalogue_mxfp4_bytes(last), 6144 * 2048 / 2 + 6144 * 2048 / 32);
    assert_null(qn_catalogue_find(catalogue, "model.layers.78.mlp.experts.256.down_proj.weight"));
    assert_null(qn_catalogue_find(catalogue, "model.layers.3.self_attn.indexer.wk.weight"));
    qn_catalogue_free(catalogue);
}

static void same_tensors(const char *dir)
{
    qn_checkpoint *checkpoint = NULL;
    qn_catalogue *catalogue = NULL;
    qn_error err;
    assert_int_equal(qn_checkpoint_open(dir, &checkpoint, &err), QN_OK);
    assert_int_equal(qn_catalogue_new(qn_checkpoint_config(checkpoint), &catalogue, &err), QN_OK);
    assert_int_equal(qn_catalogue_count(catalogue), qn_checkpoint_tensor_count(checkpoint));
    for (size_t i = 0; i < qn_checkpoint_tensor_count(checkpoint); i++) {
        const char *file;
        const qn_tensor *t = qn_checkpoint_tensor(checkpoint, i, &file);
        const qn_catalogue_tensor *listed = qn_catalogue_find(catalogue, t->name);
        assert_non_null(listed);
        assert_int_equal(listed->dims, t->dims);
        for (size_t k = 0; k < t->dims; k++)
            assert_int_equal(listed->shape[k], t->shape[k]);
        assert_int_equal(listed->dtype, t->dtype);
        assert_int_equal(qn_catalogue_bytes(listed), t->bytes);
        qn_tensor_kind kind = qn_tensor_kind_of(qn_checkpoint_config(checkpoint), t->name);
        assert_true(listed->kind == kind || kind == QN_KIND_MTP);
    }
    qn_catalogue_free(catalogue);
    qn_checkpoint_close(checkpoint);
}

static void test_lists_what_checkpoints_hold(void **state)
{
    (void)state;
    same_tensors("tests/data/oracle/tiny-dense");
    same_tensors("tests/data/oracle/tiny-sparse");
    same_tensors("tests/data/oracle/tiny-grouped");
    same_tensors("tests/data/oracle/tiny-sharded");
    same_tensors("models/quern-tiny");
}

static void test_leaves_out_what_the_config_has_not(void **state)
{
    (void)state;
    qn_config config = glm();
    config.num_hidden_layers = 4;
    config.num_nextn_predict_layers = 0;
    config.n_shared_experts = 0;
    config.tie_word_embeddings = true;
    qn_catalogue *catalogue = NULL;
    qn_error err;
    assert_int_equal(qn_catalogue_new(&config, &catalogue, &err), QN_OK);
    assert_null(qn_catalogue_find(catalogue, "lm_head.weight"));
    assert_null(qn_catalogue_find(catalogue, "model.layers.3.mlp.shared_experts.up_proj.weight"));
    assert_null(qn_catalogue_find(catalogue, "model.layers.4.eh_proj.weight"));
    assert_string_equal(qn_catalogue_at(catalogue, 0)->name, "model.embed_tokens.weight");
    assert_string_equal(qn_catalogue_at(catalogue, qn_catalogue_count(catalogue) - 1)->name, "model.norm.weight");
    qn_catalogue_free(catalogue);
}

static void test_bounds_the_number_of_tensors(void **state)
{
    (void)state;
    qn_config config = glm();
    config.num_hidden_layers = QN_MAX_LAYERS;
    config.n_routed_experts = 1 << 14;
    for (size_t i = 0; i < config.num_hidden_layers; i++)
        config.layer_is_sparse[i] = true;
    qn_catalogue *catalogue = NULL;
    qn_error err;
    assert_int_equal(qn_catalogue_new(&config, &catalogue, &err), QN_BAD_INPUT);
    assert_non_null(strstr(err.message, "more than"));
}

static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    const qn_config config = glm();
    for (long nth = 1;; nth++) {
        qn_catalogue *catalogue = NULL;
        qn_error err;
        qn_fault_arm(QN_FAULT_ALLOC, nth);
        qn_status status = qn_catalogue_new(&config, &catalogue, &err);
        bool reached = qn_fault_seen(QN_FAULT_ALLOC) >= nth;
        qn_fault_disarm();
        qn_catalogue_free(catalogue);
        if (!reached)
            break;
        assert_int_equal(status, QN_RESOURCE);
    }
}

int main(void)
{
    qn_json_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts_of_the_release),
        cmocka_unit_test(test_lists_what_checkpoints_hold),
        cmocka_unit_test(test_leaves_out_what_the_config_has_not),
        cmocka_unit_test(test_bounds_the_number_of_tensors),
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
