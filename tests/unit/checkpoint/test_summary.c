#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/json.h"
#include "checkpoint/summary.h"

static void test_kinds_by_name(void **state)
{
    (void)state;
    static const qn_config config = {.num_hidden_layers = 78};
    static const struct {
        const char *name;
        qn_tensor_kind kind;
    } rows[] = {
        {"model.embed_tokens.weight", QN_KIND_EMBEDDING},
        {"model.norm.weight", QN_KIND_NORMS},
        {"lm_head.weight", QN_KIND_HEAD},
        {"model.layers.0.input_layernorm.weight", QN_KIND_NORMS},
        {"model.layers.0.post_attention_layernorm.weight", QN_KIND_NORMS},
        {"model.layers.12.self_attn.q_a_layernorm.weight", QN_KIND_ATTENTION},
        {"model.layers.12.self_attn.indexer.k_norm.bias", QN_KIND_INDEXER},
        {"model.layers.2.mlp.gate_proj.weight", QN_KIND_DENSE_MLP},
        {"model.layers.3.mlp.gate.weight", QN_KIND_ROUTER},
        {"model.layers.3.mlp.gate.e_score_correction_bias", QN_KIND_ROUTER},
        {"model.layers.3.mlp.experts.0.up_proj.weight_packed", QN_KIND_ROUTED_EXPERTS},
        {"model.layers.3.mlp.experts.gate_up_proj_blocks", QN_KIND_ROUTED_EXPERTS},
        {"model.layers.3.mlp.shared_experts.up_proj.weight", QN_KIND_SHARED_EXPERTS},
        {"model.layers.77.other", QN_KIND_OTHER},
        {"model.layers.78.mlp.experts.0.up_proj.weight", QN_KIND_MTP},
        {"model.layers.x.mlp.gate.weight", QN_KIND_OTHER},
        {"model.layers.3", QN_KIND_OTHER},
        {"", QN_KIND_OTHER},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(qn_tensor_kind_of(&config, rows[i].name), rows[i].kind);
    for (qn_tensor_kind kind = 0; kind < QN_TENSOR_KINDS; kind++)
        assert_non_null(qn_tensor_kind_name(kind));
}

static void summarise(const char *dir, qn_checkpoint_summary *out)
{
    qn_checkpoint *checkpoint = NULL;
    qn_error err;
    assert_int_equal(qn_checkpoint_open(dir, &checkpoint, &err), QN_OK);
    qn_checkpoint_summarise(checkpoint, out);
    qn_checkpoint_close(checkpoint);
}

static void test_layouts_have_the_same_parameters(void **state)
{
    (void)state;
    static qn_checkpoint_summary plain, ct, fused, quark;
    summarise("tests/data/oracle/tiny-sparse", &plain);
    summarise("tests/data/oracle/tiny-sparse-mxfp4-ct", &ct);
    summarise("tests/data/oracle/tiny-sparse-mxfp4-fused", &fused);
    summarise("tests/data/oracle/tiny-sparse-mxfp4-quark", &quark);
    for (qn_tensor_kind kind = 0; kind < QN_TENSOR_KINDS; kind++) {
        assert_int_equal(ct.kind[kind].parameters, plain.kind[kind].parameters);
        assert_int_equal(fused.kind[kind].parameters, plain.kind[kind].parameters);
        assert_int_equal(quark.kind[kind].bytes, ct.kind[kind].bytes);
    }
    uint64_t experts = 5u * 16 * 3 * 96 * 32; /* layers, experts, projections, shape */
    assert_int_equal(plain.kind[QN_KIND_ROUTED_EXPERTS].tensors, 5 * 16 * 3);
    assert_int_equal(plain.kind[QN_KIND_ROUTED_EXPERTS].parameters, experts);
    assert_int_equal(plain.kind[QN_KIND_ROUTED_EXPERTS].bytes, 2 * experts);
    assert_int_equal(ct.kind[QN_KIND_ROUTED_EXPERTS].dtype[QN_DTYPE_MXFP4], experts / 2 + experts / 32);
    assert_int_equal(ct.kind[QN_KIND_ROUTED_EXPERTS].bytes, experts / 2 + experts / 32);
    assert_int_equal(fused.kind[QN_KIND_ROUTED_EXPERTS].tensors, 5 * 4);
    assert_int_equal(plain.kind[QN_KIND_OTHER].tensors, 0);
    assert_int_equal(plain.kind[QN_KIND_EMBEDDING].parameters, 512 * 96);
    assert_int_equal(plain.kind[QN_KIND_ROUTER].dtype[QN_DTYPE_F32], 5 * 16 * 4);
    /* 8 layers and MTP of latent 96 and RoPE 32; 4 layers and MTP of 64 index keys */
    assert_int_equal(plain.latent_bytes_per_token, 9 * (96 + 32) * 2);
    assert_int_equal(plain.index_bytes_per_token, 5 * 64 * 2);
    assert_int_equal(plain.files, 1);
}

static void test_total_is_the_sum(void **state)
{
    (void)state;
    static qn_checkpoint_summary s;
    summarise("tests/data/oracle/tiny-sharded", &s);
    qn_kind_summary sum = {0};
    for (qn_tensor_kind kind = 0; kind < QN_TENSOR_KINDS; kind++) {
        sum.tensors += s.kind[kind].tensors;
        sum.parameters += s.kind[kind].parameters;
        sum.bytes += s.kind[kind].bytes;
        for (qn_dtype dtype = 0; dtype < QN_DTYPE_COUNT; dtype++)
            sum.dtype[dtype] += s.kind[kind].dtype[dtype];
    }
    assert_memory_equal(&sum, &s.total, sizeof sum);
    assert_int_equal(s.files, 3);
}

int main(void)
{
    qn_json_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds_by_name),
        cmocka_unit_test(test_layouts_have_the_same_parameters),
        cmocka_unit_test(test_total_is_the_sum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
