#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
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

/* With a listing that outlives what it gives names to. */
typedef struct counted {
    qn_listing *listing;
    qn_summary s;
} counted;

static void count(const char *dir, counted *out)
{
    qn_error err;
    assert_int_equal(qn_listing_open(dir, &out->listing, &err), QN_OK);
    assert_int_equal(qn_listing_summarise(out->listing, &out->s, &err), QN_OK);
}

static void discard(counted *c)
{
    qn_summary_free(&c->s);
    qn_listing_close(c->listing);
}

static const qn_dtype_share *share(const qn_kind_summary *k, const char *name)
{
    for (size_t i = 0; i < k->dtypes; i++) {
        if (strcmp(k->dtype[i].name, name) == 0)
            return &k->dtype[i];
    }
    fail_msg("no %s", name);
    return NULL;
}

static void test_layouts_have_the_same_parameters(void **state)
{
    (void)state;
    static counted plain, ct, fused, quark;
    count("tests/data/oracle/tiny-sparse", &plain);
    count("tests/data/oracle/tiny-sparse-mxfp4-ct", &ct);
    count("tests/data/oracle/tiny-sparse-mxfp4-fused", &fused);
    count("tests/data/oracle/tiny-sparse-mxfp4-quark", &quark);
    for (qn_tensor_kind kind = 0; kind < QN_TENSOR_KINDS; kind++) {
        assert_int_equal(ct.s.kind[kind].parameters, plain.s.kind[kind].parameters);
        assert_int_equal(fused.s.kind[kind].parameters, plain.s.kind[kind].parameters);
        assert_int_equal(quark.s.kind[kind].bytes, ct.s.kind[kind].bytes);
    }
    const qn_kind_summary *mine = &plain.s.kind[QN_KIND_ROUTED_EXPERTS], *packed = &ct.s.kind[QN_KIND_ROUTED_EXPERTS];
    uint64_t experts = 5u * 16 * 3 * 96 * 32; /* layers, experts, projections, shape */
    assert_int_equal(mine->tensors, 5 * 16 * 3);
    assert_int_equal(mine->parameters, experts);
    assert_int_equal(mine->bytes, 2 * experts);
    assert_int_equal(share(packed, "MXFP4")->bytes, experts / 2 + experts / 32);
    assert_int_equal(share(packed, "MXFP4")->parameters, experts);
    assert_int_equal(packed->bytes, experts / 2 + experts / 32);
    assert_int_equal(fused.s.kind[QN_KIND_ROUTED_EXPERTS].tensors, 5 * 4);
    assert_int_equal(plain.s.kind[QN_KIND_OTHER].tensors, 0);
    assert_int_equal(plain.s.kind[QN_KIND_EMBEDDING].parameters, 512 * 96);
    assert_int_equal(share(&plain.s.kind[QN_KIND_ROUTER], "F32")->bytes, 5 * 16 * 4);
    /* 8 layers and MTP of latent 96 and RoPE 32; 4 layers and MTP of 64 index keys */
    assert_int_equal(plain.s.latent_bytes_per_token, 9 * (96 + 32) * 2);
    assert_int_equal(plain.s.index_bytes_per_token, 5 * 64 * 2);
    assert_int_equal(plain.s.files, 1);
    assert_true(qn_mxfp4_share_of_bytes(&plain.s.total) == 0);
    assert_true(qn_mxfp4_share_of_bytes(packed) == 1 && qn_mxfp4_share_of_parameters(packed) == 1);
    assert_true(qn_mxfp4_share_of_bytes(&ct.s.total) < qn_mxfp4_share_of_parameters(&ct.s.total));
    discard(&plain);
    discard(&ct);
    discard(&fused);
    discard(&quark);
}

static void add(qn_kind_summary *to, const qn_kind_summary *k)
{
    to->tensors += k->tensors;
    to->parameters += k->parameters;
    to->bytes += k->bytes;
}

static void expect_equal(const qn_kind_summary *a, const qn_kind_summary *b)
{
    assert_int_equal(a->tensors, b->tensors);
    assert_int_equal(a->parameters, b->parameters);
    assert_int_equal(a->bytes, b->bytes);
}

static void test_total_is_the_sum_of_kinds_and_of_layers(void **state)
{
    (void)state;
    counted c;
    count("tests/data/oracle/tiny-sharded", &c);
    qn_kind_summary kinds = {0}, layers = {0}, experts = {0}, dtypes = {0};
    for (qn_tensor_kind kind = 0; kind < QN_TENSOR_KINDS; kind++)
        add(&kinds, &c.s.kind[kind]);
    expect_equal(&kinds, &c.s.total);
    assert_int_equal(c.s.layer_count, 6);
    for (size_t i = 0; i < c.s.layer_count; i++) {
        add(&layers, &c.s.layers[i].all);
        if (!c.s.layers[i].mtp)
            add(&experts, &c.s.layers[i].experts);
    }
    add(&layers, &c.s.kind[QN_KIND_EMBEDDING]);
    add(&layers, &c.s.kind[QN_KIND_HEAD]);
    layers.tensors++; /* the last norm */
    layers.parameters += 128;
    layers.bytes += 256;
    expect_equal(&layers, &c.s.total);
    expect_equal(&experts, &c.s.kind[QN_KIND_ROUTED_EXPERTS]);
    for (size_t i = 0; i < c.s.total.dtypes; i++) {
        assert_true(i == 0 || c.s.total.dtype[i].bytes <= c.s.total.dtype[i - 1].bytes);
        dtypes.bytes += c.s.total.dtype[i].bytes;
    }
    assert_int_equal(dtypes.bytes, c.s.total.bytes);
    assert_int_equal(c.s.files, 3);
    assert_true(c.s.layers[5].mtp && c.s.layers[5].sparse && !c.s.layers[0].sparse && c.s.layers[0].indexer);
    discard(&c);
}

/* A listing made by hand: tensors of which the headers tell nothing but name, dtype and size. */
static void count_by_hand(const char *quantization, const qn_config *config, qn_listed_tensor *tensors,
                          size_t tensor_count, qn_summary *out)
{
    qn_error err;
    qn_listed_file file = {.name = "a.safetensors", .tensors = tensor_count};
    qn_listing listing = {.quantization = quantization,
                          .path = "hand",
                          .files = &file,
                          .file_count = 1,
                          .tensors = tensors,
                          .tensor_count = tensor_count};
    if (config) {
        listing.has_config = true;
        listing.config = *config;
    }
    assert_int_equal(qn_listing_summarise(&listing, out, &err), QN_OK);
}

static void test_layers_by_name_without_a_config(void **state)
{
    (void)state;
    qn_listed_tensor tensors[] = {
        {.name = "model.layers.4.mlp.experts.0.up_proj.weight_packed", .dtype = "U8", .elements = 10, .bytes = 10},
        {.name = "model.layers.4.self_attn.indexer.wk.weight", .dtype = "BF16", .elements = 5, .bytes = 10},
        {.name = "model.layers.2.mlp.up_proj.weight", .dtype = "BF16", .elements = 5, .bytes = 10},
        {.name = "model.layers.99999999999.mlp.up_proj.weight", .dtype = "BF16", .elements = 5, .bytes = 10},
    };
    qn_summary s;
    count_by_hand("", NULL, tensors, 4, &s);
    assert_int_equal(s.layer_count, 5);
    assert_true(s.layers[4].sparse && s.layers[4].indexer && !s.layers[2].sparse && !s.layers[2].indexer);
    assert_int_equal(s.layers[4].experts.parameters, 20);
    assert_int_equal(s.layers[3].all.tensors, 0);
    assert_int_equal(s.total.tensors, 4);
    assert_int_equal(s.latent_bytes_per_token, 0);
    qn_summary_free(&s);
}

static void test_codes_of_other_formats_are_not_mxfp4(void **state)
{
    (void)state;
    qn_listed_tensor tensors[] = {
        {.name = "model.layers.0.mlp.experts.0.up_proj.weight", .dtype = "U8", .elements = 16, .bytes = 16},
        {.name = "model.layers.0.mlp.experts.0.up_proj.weight_scale", .dtype = "F8_E4M3", .elements = 1, .bytes = 1},
        {.name = "model.layers.0.mlp.experts.0.down_proj.weight_scale_inv", .dtype = "F32", .elements = 1, .bytes = 4},
    };
    qn_summary s;
    count_by_hand("modelopt nvfp4", NULL, tensors, 3, &s);
    assert_int_equal(share(&s.total, "U8")->bytes, 16);
    assert_int_equal(s.total.parameters, 16); /* scales are none */
    assert_true(qn_mxfp4_share_of_bytes(&s.total) == 0);
    qn_summary_free(&s);
}

static void test_many_dtypes_end_in_other(void **state)
{
    (void)state;
    enum { MANY = 15 };
    static char names[MANY][16];
    qn_listed_tensor tensors[MANY];
    for (size_t i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "T%zu", i);
        tensors[i] = (qn_listed_tensor){.name = "x", .dtype = names[i], .elements = 1, .bytes = 100 - i};
    }
    qn_summary s;
    count_by_hand("", NULL, tensors, MANY, &s);
    assert_int_equal(s.total.dtypes, QN_SUMMARY_DTYPES);
    assert_int_equal(share(&s.total, "other")->parameters, MANY - QN_SUMMARY_DTYPES + 1);
    qn_summary_free(&s);
}

int main(void)
{
    qn_json_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds_by_name),
        cmocka_unit_test(test_layouts_have_the_same_parameters),
        cmocka_unit_test(test_total_is_the_sum_of_kinds_and_of_layers),
        cmocka_unit_test(test_layers_by_name_without_a_config),
        cmocka_unit_test(test_codes_of_other_formats_are_not_mxfp4),
        cmocka_unit_test(test_many_dtypes_end_in_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
