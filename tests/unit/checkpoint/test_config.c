#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "checkpoint/config.h"
#include "log_lines.h"

static const char BASE[] = "tests/data/oracle/tiny-sparse/config.json";

static json_t *base_config(void)
{
    json_t *root = NULL;
    qn_error err;
    assert_int_equal(qn_json_parse_file(BASE, 1 << 20, &root, &err), QN_OK);
    return root;
}

/* Applies "name=JSON; other=; ..." to the object: an empty value removes the field, a dot descends into one. */
static void edit(json_t *root, const char *edits)
{
    char *copy = qn_strdup(edits), *state = NULL;
    assert_non_null(copy);
    for (char *part = strtok_r(copy, ";", &state); part; part = strtok_r(NULL, ";", &state)) {
        char *equals = strchr(part, '='), *name = part + strspn(part, " "), *dot;
        assert_non_null(equals);
        *equals = '\0';
        json_t *object = root;
        while ((dot = strchr(name, '.')) != NULL) {
            *dot = '\0';
            if (!json_object_get(object, name))
                json_object_set_new(object, name, json_object());
            object = json_object_get(object, name);
            name = dot + 1;
        }
        if (equals[1] == '\0') {
            json_object_del(object, name);
        } else {
            json_t *value = json_loads(equals + 1, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
            if (!value)
                fail_msg("%s is no JSON", equals + 1);
            json_object_set_new(object, name, value);
        }
    }
    qn_free(copy);
}

static qn_status parse_edited(const char *edits, qn_config *out, qn_error *err)
{
    json_t *root = base_config();
    edit(root, edits);
    char *text = NULL;
    assert_int_equal(qn_json_text(root, "document", &text, err), QN_OK);
    qn_status status = qn_config_parse(text, strlen(text), "config.json", out, err);
    qn_free(text);
    json_decref(root);
    return status;
}

static void parse_good(const char *edits, qn_config *out)
{
    qn_error err;
    if (parse_edited(edits, out, &err) != QN_OK)
        fail_msg("%s: %s", edits, err.message);
}

static void test_reads_every_field(void **state)
{
    (void)state;
    qn_config c;
    log_lines_start();
    parse_good("", &c);
    assert_int_equal(log_lines_stop(), 0); /* nothing in it is unknown */
    assert_int_equal(c.vocab_size, 512);
    assert_int_equal(c.hidden_size, 96);
    assert_int_equal(c.intermediate_size, 192);
    assert_int_equal(c.moe_intermediate_size, 32);
    assert_int_equal(c.num_hidden_layers, 8);
    assert_int_equal(c.num_nextn_predict_layers, 1);
    assert_int_equal(c.num_attention_heads, 4);
    assert_int_equal(c.q_lora_rank, 64);
    assert_int_equal(c.kv_lora_rank, 96);
    assert_int_equal(c.qk_nope_head_dim, 64);
    assert_int_equal(c.qk_rope_head_dim, 32);
    assert_int_equal(c.v_head_dim, 32);
    assert_int_equal(c.index_topk, 32);
    assert_int_equal(c.index_n_heads, 16);
    assert_int_equal(c.index_head_dim, 64);
    assert_true(c.index_share_for_mtp_iteration);
    assert_int_equal(c.n_routed_experts, 16);
    assert_int_equal(c.n_shared_experts, 1);
    assert_int_equal(c.num_experts_per_tok, 4);
    assert_int_equal(c.n_group, 1);
    assert_int_equal(c.topk_group, 1);
    assert_true(c.norm_topk_prob);
    assert_true(c.routed_scaling_factor == 2.5f);
    assert_true(c.rms_norm_eps == 1e-5f);
    assert_int_equal(c.max_position_embeddings, 16384);
    assert_false(c.tie_word_embeddings);
    assert_int_equal(c.rope.rope_type, QN_ROPE_DEFAULT);
    assert_true(c.rope.rope_theta == 8e6);
    static const char sparse[] = "00011111", indexer[] = "11100010";
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(c.layer_is_sparse[i], sparse[i] == '1');
        assert_int_equal(c.layer_has_indexer[i], indexer[i] == '1');
    }
    assert_int_equal(c.eos_count, 3);
    assert_int_equal(c.eos_token_id[0], 500);
    assert_int_equal(c.eos_token_id[2], 509);
    assert_int_equal(c.expert_format, QN_EXPERTS_PLAIN);
}

/* Every checkpoint of the tree, and a release's sizes. */
static void test_reads_all_checkpoints(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        qn_expert_format format;
    } rows[] = {
        {"tests/data/oracle/tiny-dense/config.json", QN_EXPERTS_PLAIN},
        {"tests/data/oracle/tiny-grouped/config.json", QN_EXPERTS_PLAIN},
        {"tests/data/oracle/tiny-long/config.json", QN_EXPERTS_PLAIN},
        {"tests/data/oracle/tiny-mtp/config.json", QN_EXPERTS_PLAIN},
        {"tests/data/oracle/tiny-sharded/config.json", QN_EXPERTS_PLAIN},
        {"tests/data/oracle/tiny-sparse-mxfp4-ct/config.json", QN_EXPERTS_COMPRESSED_TENSORS},
        {"tests/data/oracle/tiny-sparse-mxfp4-quark/config.json", QN_EXPERTS_QUARK},
        {"tests/data/oracle/tiny-sparse-mxfp4-fused/config.json", QN_EXPERTS_GPT_OSS},
        {"models/quern-tiny/config.json", QN_EXPERTS_PLAIN},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *text = NULL;
        size_t bytes = 0;
        qn_error err;
        qn_config c;
        assert_int_equal(qn_file_read(rows[i].path, 1 << 20, &text, &bytes, &err), QN_OK);
        log_lines_start();
        if (qn_config_parse(text, bytes, rows[i].path, &c, &err) != QN_OK)
            fail_msg("%s", err.message);
        assert_int_equal(log_lines_stop(), 0);
        assert_int_equal(c.expert_format, rows[i].format);
        qn_free(text);
    }
    qn_config c;
    parse_good(
        "vocab_size=154880; hidden_size=6144; intermediate_size=12288; moe_intermediate_size=2048;"
        "num_attention_heads=64; num_key_value_heads=64; q_lora_rank=2048; kv_lora_rank=512; qk_nope_head_dim=192;"
        "qk_rope_head_dim=64; qk_head_dim=256; v_head_dim=256; index_topk=2048; index_n_heads=32;"
        "index_head_dim=128; n_routed_experts=256; num_experts_per_tok=8; num_hidden_layers=78;"
        "max_position_embeddings=1048576; indexer_types=; mlp_layer_types=; eos_token_id=[154820,154827,154829]",
        &c);
    size_t full = 0;
    for (size_t i = 0; i < 78; i++)
        full += c.layer_has_indexer[i];
    assert_int_equal(full, 21); /* as GLM-5.3 has them */
    assert_true(c.layer_has_indexer[74] && !c.layer_is_sparse[2] && c.layer_is_sparse[3]);
}

static void expect_indexers(const char *edits, const char *expected)
{
    qn_config c;
    parse_good(edits, &c);
    for (size_t i = 0; expected[i]; i++) {
        if (c.layer_has_indexer[i] != (expected[i] == 'F'))
            fail_msg("%s: layer %zu is not %c", edits, i, expected[i]);
    }
}

static void test_layer_types_by_precedence(void **state)
{
    (void)state;
    expect_indexers("index_topk_freq=1; index_topk_pattern=\"FFFFFFFF\"", "FFFSSSFS"); /* the list wins */
    expect_indexers("indexer_types=; index_topk_pattern=\"FSSSFSSF\"", "FSSSFSSF");
    expect_indexers("indexer_types=null; index_topk_pattern=[\"full\",\"full\",\"shared\",\"shared\",\"shared\","
                    "\"full\",\"shared\",\"full\"]",
                    "FFSSSFSF");
    expect_indexers("indexer_types=", "FFFSSSFS");
    expect_indexers("indexer_types=; index_topk_freq=2; index_skip_topk_offset=2", "FFSFSFSF");
    expect_indexers("indexer_types=; index_topk_freq=; index_skip_topk_offset=", "FFFFFFFF"); /* GLM-5, 5.1 */
    expect_indexers("indexer_types=; index_topk_freq=0", "FFFFFFFF");
    qn_config c;
    parse_good("mlp_layer_types=", &c);
    assert_true(!c.layer_is_sparse[2] && c.layer_is_sparse[3]);
    parse_good("mlp_layer_types=; first_k_dense_replace=8", &c);
    assert_false(c.layer_is_sparse[7]);
    parse_good("first_k_dense_replace=", &c);
    assert_true(!c.layer_is_sparse[2] && c.layer_is_sparse[3]);
    parse_good("layer_types=[\"deepseek_sparse_attention\",\"deepseek_sparse_attention\",\"deepseek_sparse_attention\","
               "\"deepseek_sparse_attention\",\"deepseek_sparse_attention\",\"deepseek_sparse_attention\","
               "\"deepseek_sparse_attention\",\"deepseek_sparse_attention\"]",
               &c);
}

static void test_defaults(void **state)
{
    (void)state;
    qn_config c;
    parse_good("n_group=; topk_group=; norm_topk_prob=; num_nextn_predict_layers=; index_share_for_mtp_iteration=;"
               "tie_word_embeddings=; eos_token_id=null; qk_head_dim=; num_key_value_heads=; scoring_func=;"
               "topk_method=; hidden_act=; moe_router_dtype=; architectures=; attention_bias=",
               &c);
    assert_int_equal(c.n_group, 1);
    assert_int_equal(c.topk_group, 1);
    assert_true(c.norm_topk_prob);
    assert_int_equal(c.num_nextn_predict_layers, 0);
    assert_false(c.index_share_for_mtp_iteration);
    assert_int_equal(c.eos_count, 0);
    parse_good("eos_token_id=7; tie_word_embeddings=true; norm_topk_prob=false; num_experts=16; num_local_experts=16",
               &c);
    assert_int_equal(c.eos_count, 1);
    assert_int_equal(c.eos_token_id[0], 7);
    assert_true(c.tie_word_embeddings);
    assert_false(c.norm_topk_prob);
}

static void test_rope(void **state)
{
    (void)state;
    qn_config c;
    parse_good("rope_parameters={\"rope_theta\":10000,\"rope_type\":\"yarn\",\"factor\":4,"
               "\"original_max_position_embeddings\":4096,\"mscale\":1.0,\"mscale_all_dim\":0.5,\"beta_fast\":16,"
               "\"beta_slow\":2,\"attention_factor\":1.25,\"truncate\":false}",
               &c);
    assert_int_equal(c.rope.rope_type, QN_ROPE_YARN);
    assert_true(c.rope.rope_theta == 10000 && c.rope.factor == 4 && c.rope.beta_fast == 16 && c.rope.beta_slow == 2);
    assert_true(c.rope.mscale == 1 && c.rope.mscale_all_dim == 0.5 && c.rope.attention_factor == 1.25);
    assert_int_equal(c.rope.original_max_position_embeddings, 4096);
    assert_false(c.rope.truncate);
    parse_good("rope_parameters={\"rope_theta\":10000,\"rope_type\":\"yarn\","
               "\"original_max_position_embeddings\":4096,\"beta_fast\":0}",
               &c);
    assert_true(c.rope.factor == 4 && c.rope.beta_fast == 32 && c.rope.beta_slow == 1 && c.rope.attention_factor < 0);
    assert_true(c.rope.truncate && c.rope.mscale == 0 && c.rope.mscale_all_dim == 0);
    parse_good("rope_parameters={\"rope_theta\":10000,\"rope_type\":\"yarn\",\"factor\":2.5}", &c);
    assert_int_equal(c.rope.original_max_position_embeddings, 16384);
    /* the form before transformers 5 */
    parse_good("rope_parameters=; rope_theta=5e5; rope_scaling=null", &c);
    assert_true(c.rope.rope_type == QN_ROPE_DEFAULT && c.rope.rope_theta == 5e5);
    parse_good("rope_parameters=; rope_theta=5e5; rope_scaling={\"type\":\"yarn\",\"factor\":8}", &c);
    assert_true(c.rope.rope_type == QN_ROPE_YARN && c.rope.rope_theta == 5e5 && c.rope.factor == 8);
    parse_good("rope_theta=8000000", &c);
    parse_good("rope_parameters={\"rope_theta\":10000}; partial_rotary_factor=1.0", &c);
}

static void test_unknown_fields_get_a_line_each(void **state)
{
    (void)state;
    qn_config c;
    log_lines_start();
    parse_good("brand_new=1; rope_parameters.twist=2", &c);
    assert_int_equal(log_lines_stop(), 2);
    assert_non_null(strstr(log_lines_text(), "config.json: quern knows no field brand_new, it has no effect"));
    assert_non_null(strstr(log_lines_text(), "config.json: quern knows no field rope_parameters.twist"));
    log_lines_start();
    parse_good("a0=1; a1=1; a2=1; a3=1; a4=1; a5=1; a6=1; a7=1; a8=1; a9=1", &c);
    assert_int_equal(log_lines_stop(), 9);
    assert_non_null(strstr(log_lines_text(), "does not know 2 more fields"));
    log_lines_start();
    parse_good("rope_interleave=; indexer_rope_interleave=", &c);
    assert_int_equal(log_lines_stop(), 2);
    assert_non_null(strstr(log_lines_text(), "indexer_rope_interleave is absent: taken as true"));
}

static void test_refuses_what_it_does_not_support(void **state)
{
    (void)state;
    static const struct {
        const char *edits, *message;
    } rows[] = {
        {"model_type=", "config.json: model_type is absent: quern supports \"glm_moe_dsa\" only, use"},
        {"model_type=\"deepseek_v32\"", "model_type is \"deepseek_v32\": quern supports \"glm_moe_dsa\" only"},
        {"model_type=\"glm_moe_dsa\\u0000x\"", "model_type is \"glm_moe_dsa\""},
        {"architectures=[\"DeepseekV32ForCausalLM\"]", "architectures is \"DeepseekV32ForCausalLM\""},
        {"architectures=[]", "architectures is a list of 0"},
        {"architectures=\"GlmMoeDsaForCausalLM\"", "architectures is \"GlmMoeDsaForCausalLM\""},
        {"architectures=[\"GlmMoeDsaForCausalLM\",\"X\"]", "architectures is a list of 2"},
        {"hidden_act=\"gelu\"", "hidden_act is \"gelu\": quern supports \"silu\" only"},
        {"scoring_func=\"softmax\"", "scoring_func is \"softmax\""},
        {"topk_method=\"greedy\"", "topk_method is \"greedy\""},
        {"moe_router_dtype=\"bfloat16\"", "moe_router_dtype is \"bfloat16\": quern supports \"float32\" only, its"},
        {"attention_bias=true", "attention_bias is true: quern supports false only"},
        {"mlp_bias=true", "mlp_bias is true"},
        {"rope_interleave=false", "rope_interleave is false: quern supports true only"},
        {"indexer_rope_interleave=false", "indexer_rope_interleave is false"},
        {"moe_layer_freq=2", "moe_layer_freq is 2: quern supports 1 only"},
        {"num_nextn_predict_layers=2", "num_nextn_predict_layers is 2: quern supports 0 or 1 MTP layers"},
        {"num_nextn_predict_layers=-1", "num_nextn_predict_layers is -1"},
        {"num_nextn_predict_layers=1.0", "num_nextn_predict_layers is 1.0:"},
        {"q_lora_rank=null", "q_lora_rank is absent: it must be an integer"},
        {"n_shared_experts=0", "n_shared_experts is 0: quern takes an integer from 1 to 64"},
        {"sliding_window=4096", "sliding_window is 4096"},
        {"swiglu_limit=10.0", "swiglu_limit is 10.0"},
        {"index_kpool=4", "index_kpool is 4"},
        {"linear_attn_config={}", "linear_attn_config is an object"},
        {"use_qk_norm=true", "use_qk_norm is true"},
        {"mla_use_nope=true", "mla_use_nope is true"},
        {"partial_rotary_factor=0.5", "partial_rotary_factor is below 1"},
        /* sizes */
        {"hidden_size=", "hidden_size is absent: it must be an integer, use the config.json that came with"},
        {"hidden_size=96.0", "hidden_size is 96.0: quern takes an integer from 1 to 65536"},
        {"hidden_size=\"96\"", "hidden_size is \"96\": quern takes an integer"},
        {"hidden_size=0", "hidden_size is 0"},
        {"hidden_size=-96", "hidden_size is -96"},
        {"hidden_size=65537", "hidden_size is 65537"},
        {"hidden_size=9223372036854775807", "hidden_size is 9223372036854775807"},
        {"hidden_size=[96]", "hidden_size is a list of 1"},
        {"vocab_size=4194305", "vocab_size is 4194305"},
        {"num_hidden_layers=1025", "num_hidden_layers is 1025: quern takes an integer from 1 to 1024"},
        {"num_hidden_layers=9", "mlp_layer_types is a list of 8: it must be a list of num_hidden_layers (9) strings"},
        {"max_position_embeddings=16777217", "max_position_embeddings is 16777217"},
        {"qk_rope_head_dim=33; qk_head_dim=97", "qk_rope_head_dim is odd"},
        {"qk_head_dim=64", "qk_head_dim is 64: quern supports 96 only (qk_nope_head_dim + qk_rope_head_dim)"},
        {"num_key_value_heads=2", "num_key_value_heads is 2: quern supports 4 only (num_attention_heads)"},
        {"index_head_dim=16", "index_head_dim is below qk_rope_head_dim (32)"},
        {"n_group=3", "n_group is 3: it must cut n_routed_experts (16) into equal groups"},
        {"n_group=16; topk_group=16", "n_group is 16: it must cut"},
        {"n_group=0", "n_group is 0"},
        {"n_group=2; topk_group=3", "topk_group is 3: that is more than n_group (2)"},
        {"n_group=4; topk_group=1; num_experts_per_tok=5", "num_experts_per_tok is 5: that is more than the experts"},
        {"num_experts_per_tok=17", "num_experts_per_tok is 17: that is more"},
        {"num_experts=8", "num_experts is 8: quern supports 16 only (n_routed_experts)"},
        {"rms_norm_eps=0", "rms_norm_eps is 0: quern takes a number from 1e-30 to 1"},
        {"rms_norm_eps=true", "rms_norm_eps is true"},
        {"routed_scaling_factor=\"2\"", "routed_scaling_factor is \"2\""},
        {"norm_topk_prob=1", "norm_topk_prob is 1: it must be true or false"},
        {"eos_token_id=512", "eos_token_id is 512: a token id is an integer below vocab_size (512)"},
        {"eos_token_id=[1,-1]", "eos_token_id is -1"},
        {"eos_token_id=\"1\"", "eos_token_id is \"1\""},
        {"eos_token_id=[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]",
         "eos_token_id is a list of 17: quern takes at most"},
        /* layers */
        {"indexer_types=[\"full\"]", "indexer_types is a list of 1"},
        {"indexer_types=\"full\"", "indexer_types is \"full\""},
        {"indexer_types=[\"full\",\"full\",\"full\",\"half\",\"full\",\"full\",\"full\",\"full\"]",
         "indexer_types is \"half\": in the entry of layer 3, quern knows \"full\" and \"shared\""},
        {"indexer_types=[\"shared\",\"full\",\"full\",\"full\",\"full\",\"full\",\"full\",\"full\"]",
         "indexer_types makes the first layer a shared one"},
        {"indexer_types=; index_topk_pattern=\"SFFFFFFF\"", "index_topk_pattern makes the first layer a shared one"},
        {"indexer_types=; index_skip_topk_offset=0", "index_skip_topk_offset makes the first layer a shared one"},
        {"indexer_types=; index_topk_pattern=\"FSX\"", "index_topk_pattern is \"FSX\": it must have an F or an S"},
        {"indexer_types=; index_topk_pattern=\"FFFFFFFX\"", "index_topk_pattern is \"FFFFFFFX\""},
        {"indexer_types=; index_topk_pattern=7", "index_topk_pattern is 7"},
        {"indexer_types=; index_topk_pattern=[\"F\"]", "index_topk_pattern is a list of 1"},
        {"first_k_dense_replace=0", "first_k_dense_replace is 0, and mlp_layer_types has layer 0 as a dense one"},
        {"first_k_dense_replace=4", "first_k_dense_replace is 4, and mlp_layer_types has layer 3 as a sparse one"},
        {"index_topk_freq=1.5", "index_topk_freq is 1.5"},
        {"mlp_layer_types=; first_k_dense_replace=", "first_k_dense_replace is absent"},
        {"layer_types=[\"sliding\"]", "layer_types is a list of 1"},
        /* rope */
        {"rope_parameters=", "rope_parameters is absent"},
        {"rope_parameters=[]", "rope_parameters is a list of 0: it must be an object"},
        {"rope_parameters.rope_type=\"linear\"",
         "rope_parameters.rope_type is \"linear\": quern supports \"default\" and"},
        {"rope_parameters.rope_type=3", "rope_parameters.rope_type is 3"},
        {"rope_parameters.type=\"yarn\"", "rope_parameters.type is \"yarn\": it disagrees with rope_type"},
        {"rope_parameters.rope_theta=", "rope_parameters.rope_theta is absent"},
        {"rope_parameters.rope_theta=0", "rope_parameters.rope_theta is 0"},
        {"rope_parameters.partial_rotary_factor=0.5", "rope_parameters.partial_rotary_factor is below 1"},
        {"rope_theta=10000", "rope_parameters.rope_theta is 8e+06: the rope_theta outside of it is 10000"},
        {"rope_scaling={\"type\":\"yarn\",\"factor\":4}", "rope_scaling is an object: it disagrees"},
        {"rope_parameters.rope_type=\"yarn\"; rope_parameters.factor=0.5", "rope_parameters.factor is 0.5"},
        {"rope_parameters.rope_type=\"yarn\"; rope_parameters.factor=\"4\"", "rope_parameters.factor is \"4\""},
        {"rope_parameters.rope_type=\"yarn\"; rope_parameters.original_max_position_embeddings=32768",
         "rope_parameters.factor is absent"},
        {"rope_parameters.rope_type=\"yarn\"; rope_parameters.truncate=1", "rope_parameters.truncate is 1"},
        /* quantisation */
        {"quantization_config=\"mxfp4\"", "quantization_config is \"mxfp4\": it must be an object"},
        {"quantization_config={}", "quantization_config.quant_method is absent"},
        {"quantization_config.quant_method=\"fp8\"",
         "quantization_config.quant_method is \"fp8\": quern reads \"compressed-tensors\", \"quark\" and \"mxfp4\", "
         "all "
         "with MXFP4 experts, use the BF16 release or one with MXFP4 experts"},
        {"quantization_config.quant_method=\"modelopt\"", "is \"modelopt\""},
        {"quantization_config.quant_method=\"compressed-tensors\"", "quantization_config.format is absent"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        qn_config c;
        qn_error err;
        qn_status status = parse_edited(rows[i].edits, &c, &err);
        if (status != QN_BAD_INPUT || !strstr(err.message, rows[i].message))
            fail_msg("%s: %s, not \"%s\"", rows[i].edits, status == QN_OK ? "accepted" : err.message, rows[i].message);
        assert_int_equal(strncmp(err.message, "config.json: ", 13), 0);
    }
}

static void test_refuses_what_is_no_config(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"", "invalid JSON"},
        {"{", "invalid JSON"},
        {"[]", "holds array, not an object"},
        {"null", "holds null, not an object"},
        {"{\"a\":1,\"a\":2}", "duplicate"},
        {"{}", "model_type is absent"},
        {"{\"model_type\":\"glm_moe_dsa\"}", "vocab_size is absent"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        qn_config c;
        qn_error err;
        assert_int_equal(qn_config_parse(rows[i].text, strlen(rows[i].text), "config.json", &c, &err), QN_BAD_INPUT);
        if (!strstr(err.message, rows[i].message))
            fail_msg("%s: %s, not \"%s\"", rows[i].text, err.message, rows[i].message);
    }
}

static void test_quantization(void **state)
{
    (void)state;
    static const char CT[] = "quantization_config.quant_method=\"compressed-tensors\";"
                             "quantization_config.format=\"mxfp4-pack-quantized\"";
    static const char QUARK[] = "quantization_config.quant_method=\"quark\";"
                                "quantization_config.global_quant_config={\"weight\":{\"dtype\":\"fp4\",\"qscheme\":"
                                "\"per_group\",\"group_size\":32,\"scale_format\":\"e8m0\",\"is_dynamic\":false}}";
    static const char GROUP[] = "quantization_config.config_groups.g.weights.";
    static const struct {
        const char *base, *path, *edits, *message; /* message NULL: accepted */
    } rows[] = {
        {CT, "", "", NULL},
        {CT, "quantization_config.", "format=\"nvfp4-pack-quantized\"", "format is \"nvfp4-pack-quantized\""},
        {CT, "quantization_config.", "config_groups=7", "quantization_config.config_groups is 7"},
        {CT, "quantization_config.", "config_groups={\"g\":7}", "config_groups.g is 7"},
        {CT, "quantization_config.", "config_groups={\"g\":{\"format\":\"float-quantized\"}}",
         "config_groups.*.format is \"float-quantized\""},
        {CT, GROUP, "num_bits=8", "config_groups.*.weights.num_bits is 8: quern supports 4 only"},
        {CT, GROUP, "type=\"int\"", "weights.type is \"int\""},
        {CT, GROUP, "group_size=16", "weights.group_size is 16: quern supports 32 only"},
        {CT, GROUP, "strategy=\"tensor_group\"", "weights.strategy is"},
        {CT, GROUP, "symmetric=false", "weights.symmetric is false"},
        {CT, GROUP, "dynamic=true", "weights.dynamic is true"},
        {CT, GROUP, "scale_dtype=\"torch.float8_e4m3fn\"", "weights.scale_dtype is"},
        {CT, GROUP, "num_bits=4", NULL},
        {CT, "quantization_config.", "kv_cache_scheme={\"num_bits\":8}", "does not support a quantised KV cache"},
        {CT, "quantization_config.", "sparsity_config={\"format\":\"x\"}", "does not support sparse weights"},
        {CT, "quantization_config.", "transform_config={\"a\":{}}", "transforms of weights"},
        {CT, "quantization_config.", "transform_config={}", NULL},
        {QUARK, "", "", NULL},
        {QUARK, "quantization_config.global_quant_config.weight.", "dtype=\"int4\"", "weight.dtype is \"int4\""},
        {QUARK, "quantization_config.global_quant_config.weight.", "dtype=", "weight.dtype is absent"},
        {QUARK, "quantization_config.global_quant_config.weight.", "group_size=16", "weight.group_size is 16"},
        {QUARK, "quantization_config.global_quant_config.weight.", "scale_format=\"float\"", "weight.scale_format"},
        {QUARK, "quantization_config.global_quant_config.", "weight=[]", "global_quant_config.weight is a list"},
        {QUARK, "quantization_config.global_quant_config.", "bias={\"dtype\":\"x\"}", "quantised biases"},
        {QUARK, "quantization_config.", "global_quant_config={}", "global_quant_config has no weight"},
        {QUARK, "quantization_config.layer_quant_config.", "x={\"weight\":{\"dtype\":\"fp8_e4m3\"}}",
         "weight.dtype is \"fp8_e4m3\""},
        {QUARK, "quantization_config.layer_quant_config.", "x=1", "layer_quant_config.x is 1"},
        {QUARK, "quantization_config.export.", "weight_format=\"fake_quantized\"", "export.weight_format is"},
        {QUARK, "quantization_config.", "kv_cache_quant_config={\"a\":1}", "a quantised KV cache"},
        {QUARK, "quantization_config.", "softmax_quant_spec={\"a\":1}", "a quantised softmax"},
        {QUARK, "quantization_config.",
         "global_quant_config={}; "
         "quantization_config.layer_quant_config={\"*experts*\":{\"weight\":{\"dtype\":\"fp4\"}}}",
         NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char edits[1024];
        snprintf(edits, sizeof edits, "%s%s%s%s", rows[i].base, *rows[i].edits ? ";" : "", rows[i].path, rows[i].edits);
        qn_config c;
        qn_error err;
        qn_status status = parse_edited(edits, &c, &err);
        if (!rows[i].message) {
            if (status != QN_OK)
                fail_msg("%s: %s", edits, err.message);
            assert_int_equal(c.expert_format, rows[i].base == CT ? QN_EXPERTS_COMPRESSED_TENSORS : QN_EXPERTS_QUARK);
        } else if (status != QN_BAD_INPUT || !strstr(err.message, rows[i].message)) {
            fail_msg("%s: %s, not \"%s\"", edits, status == QN_OK ? "accepted" : err.message, rows[i].message);
        }
    }
}

static void test_quantised_activations_are_told(void **state)
{
    (void)state;
    qn_config c;
    log_lines_start();
    parse_good("quantization_config.quant_method=\"compressed-tensors\";"
               "quantization_config.format=\"mxfp4-pack-quantized\";"
               "quantization_config.config_groups.a.input_activations={\"num_bits\":4};"
               "quantization_config.config_groups.b.input_activations={\"num_bits\":4}",
               &c);
    assert_int_equal(log_lines_stop(), 1);
    assert_non_null(strstr(log_lines_text(), "asks for quantised activations: quern computes them in BF16 or better"));
}

static void test_each_failing_allocation(void **state)
{
    (void)state;
    char *text = NULL;
    size_t bytes = 0;
    qn_error err;
    assert_int_equal(qn_file_read("tests/data/oracle/tiny-sparse-mxfp4-ct/config.json", 1 << 20, &text, &bytes, &err),
                     QN_OK);
    qn_status status = QN_RESOURCE;
    for (long nth = 1; status != QN_OK; nth++) {
        qn_config c;
        qn_fault_arm(QN_FAULT_ALLOC, nth);
        status = qn_config_parse(text, bytes, "config.json", &c, &err);
        qn_fault_disarm();
        if (status != QN_OK)
            assert_int_equal(status, QN_RESOURCE);
    }
    qn_free(text);
}

int main(void)
{
    qn_json_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_every_field),
        cmocka_unit_test(test_reads_all_checkpoints),
        cmocka_unit_test(test_layer_types_by_precedence),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_rope),
        cmocka_unit_test(test_unknown_fields_get_a_line_each),
        cmocka_unit_test(test_refuses_what_it_does_not_support),
        cmocka_unit_test(test_refuses_what_is_no_config),
        cmocka_unit_test(test_quantization),
        cmocka_unit_test(test_quantised_activations_are_told),
        cmocka_unit_test(test_each_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
