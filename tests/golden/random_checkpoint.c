/* Two passes over the same list of tensors: one declares them, one writes their bytes. See random_checkpoint.h. */
#include "golden/random_checkpoint.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/random.h"
#include "checkpoint/safetensors_writer.h"

random_shape random_shape_small(void)
{
    return (random_shape){.vocab_size = 96,
                          .hidden_size = 96,
                          .intermediate_size = 160,
                          .moe_intermediate_size = 32,
                          .num_attention_heads = 3,
                          .q_lora_rank = 40,
                          .kv_lora_rank = 48,
                          .qk_nope_head_dim = 24,
                          .qk_rope_head_dim = 16,
                          .v_head_dim = 20,
                          .index_topk = 24,
                          .index_n_heads = 4,
                          .index_head_dim = 32,
                          .n_routed_experts = 8,
                          .n_shared_experts = 1,
                          .num_experts_per_tok = 3,
                          .n_group = 1,
                          .topk_group = 1,
                          .max_position_embeddings = 4096,
                          .layers = "Ffs",
                          .has_mtp = true,
                          .dtype = QN_DTYPE_BF16};
}

typedef struct pass {
    const random_shape *shape;
    qn_safetensors_writer *writer;
    bool writes; /* the second pass */
    uint64_t seed;
    uint32_t tensor;
} pass;

#define must(call)                       \
    do {                                 \
        qn_error err;                    \
        if ((call) != QN_OK)             \
            fail_msg("%s", err.message); \
    } while (0)

enum { BATCH = 8 };

/* The i-th eight 16-bit draws of a tensor. */
static void draw_batch(const pass *p, size_t i, uint16_t out[BATCH])
{
    uint32_t counter[4] = {(uint32_t)i, (uint32_t)(i >> 32), p->tensor, 0}, words[4];
    uint32_t key[2] = {(uint32_t)p->seed, (uint32_t)(p->seed >> 32)};
    qn_philox4x32_10(counter, key, words);
    for (size_t k = 0; k < 4; k++) {
        out[2 * k] = (uint16_t)words[k];
        out[2 * k + 1] = (uint16_t)(words[k] >> 16);
    }
}

/* Truncation of a value that is neither subnormal nor large in F16. */
static uint16_t f32_to_f16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    int exponent = (int)(bits >> 23 & 255) - 127 + 15;
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    if (exponent <= 0)
        return sign;
    return (uint16_t)(sign | (exponent >= 31 ? 0x7c00 : exponent << 10 | (int)(bits >> 13 & 0x3ff)));
}

static size_t put_value(uint8_t *out, qn_dtype dtype, float value)
{
    uint16_t half = dtype == QN_DTYPE_F16 ? f32_to_f16(value) : qn_f32_to_bf16(value);
    if (dtype == QN_DTYPE_F32)
        memcpy(out, &value, sizeof value);
    else
        memcpy(out, &half, sizeof half);
    return dtype == QN_DTYPE_F32 ? 4 : 2;
}

/* Uniform values of the given mean and standard deviation. */
static void write_values(pass *p, size_t count, qn_dtype dtype, float mean, float deviation)
{
    uint8_t bytes[BATCH * 4];
    for (size_t at = 0; at < count; at += BATCH) {
        uint16_t draws[BATCH];
        size_t used = 0;
        draw_batch(p, at / BATCH, draws);
        for (size_t i = 0; i < BATCH && at + i < count; i++) {
            float uniform = ((float)draws[i] + 0.5f) / 65536.0f - 0.5f;
            used += put_value(bytes + used, dtype, mean + deviation * 3.4641016f * uniform);
        }
        must(qn_safetensors_writer_append(p->writer, bytes, used, &err));
    }
}

static void add_tensor(pass *p, const char *name, qn_dtype dtype, size_t dims, const size_t *shape, float mean,
                       float deviation)
{
    if (!p->writes) {
        must(qn_safetensors_writer_declare(p->writer, name, dtype, dims, shape, &err));
        return;
    }
    p->tensor++;
    write_values(p, shape[0] * (dims == 2 ? shape[1] : 1), dtype, mean, deviation);
}

static void add_matrix(pass *p, const char *prefix, const char *suffix, size_t rows, size_t cols, float gain)
{
    char name[160];
    snprintf(name, sizeof name, "%.90s%.60s", prefix, suffix);
    bool infinite = p->shape->infinite && strcmp(p->shape->infinite, name) == 0;
    add_tensor(p, name, p->shape->dtype, 2, (const size_t[]){rows, cols}, infinite ? INFINITY : 0,
               gain / sqrtf((float)cols));
}

static void add_vector(pass *p, const char *prefix, const char *suffix, size_t count, float mean, float deviation)
{
    char name[160];
    snprintf(name, sizeof name, "%.90s%.60s", prefix, suffix);
    add_tensor(p, name, QN_DTYPE_F32, 1, &count, mean, deviation);
}

static void write_codes(pass *p, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += 2 * BATCH) {
        uint16_t draws[BATCH];
        draw_batch(p, at / (2 * BATCH), draws);
        must(qn_safetensors_writer_append(p->writer, draws, bytes - at < 2 * BATCH ? bytes - at : 2 * BATCH, &err));
    }
}

/* Scales one power of two around the one that gives the gain. */
static void write_scales(pass *p, size_t count, size_t cols, float gain)
{
    int middle = 127 - 2 + (int)lroundf(log2f(gain / sqrtf((float)cols)));
    for (size_t at = 0; at < count; at += BATCH) {
        uint16_t draws[BATCH];
        uint8_t scales[BATCH];
        draw_batch(p, at / BATCH, draws);
        for (size_t i = 0; i < BATCH; i++)
            scales[i] = (uint8_t)(middle - 1 + draws[i] % 3);
        must(qn_safetensors_writer_append(p->writer, scales, count - at < BATCH ? count - at : BATCH, &err));
    }
}

static void add_mxfp4(pass *p, const char *prefix, const char *suffix, size_t rows, size_t cols, float gain)
{
    char packed[160], scale[160];
    snprintf(packed, sizeof packed, "%s%s_packed", prefix, suffix);
    snprintf(scale, sizeof scale, "%s%s_scale", prefix, suffix);
    if (!p->writes) {
        must(qn_safetensors_writer_declare(p->writer, packed, QN_DTYPE_U8, 2, (const size_t[]){rows, cols / 2}, &err));
        must(qn_safetensors_writer_declare(p->writer, scale, QN_DTYPE_U8, 2, (const size_t[]){rows, cols / 32}, &err));
        return;
    }
    p->tensor++;
    write_codes(p, rows * cols / 2);
    p->tensor++;
    write_scales(p, rows * cols / 32, cols, gain);
}

static void add_mlp(pass *p, const char *prefix, size_t inner, bool mxfp4)
{
    size_t hidden = p->shape->hidden_size;
    void (*add)(pass *, const char *, const char *, size_t, size_t, float) = mxfp4 ? add_mxfp4 : add_matrix;
    add(p, prefix, "gate_proj.weight", inner, hidden, 1);
    add(p, prefix, "up_proj.weight", inner, hidden, 1);
    add(p, prefix, "down_proj.weight", hidden, inner, 0.3f);
}

static void add_attention(pass *p, const char *prefix, bool has_indexer)
{
    const random_shape *s = p->shape;
    size_t heads = s->num_attention_heads;
    add_matrix(p, prefix, "q_a_proj.weight", s->q_lora_rank, s->hidden_size, 1);
    add_vector(p, prefix, "q_a_layernorm.weight", s->q_lora_rank, 1, 0.2f);
    add_matrix(p, prefix, "q_b_proj.weight", heads * (s->qk_nope_head_dim + s->qk_rope_head_dim), s->q_lora_rank, 1);
    add_matrix(p, prefix, "kv_a_proj_with_mqa.weight", s->kv_lora_rank + s->qk_rope_head_dim, s->hidden_size, 1);
    add_vector(p, prefix, "kv_a_layernorm.weight", s->kv_lora_rank, 1, 0.2f);
    add_matrix(p, prefix, "kv_b_proj.weight", heads * (s->qk_nope_head_dim + s->v_head_dim), s->kv_lora_rank, 1.1f);
    add_matrix(p, prefix, "o_proj.weight", s->hidden_size, heads * s->v_head_dim, 0.8f);
    if (!has_indexer)
        return;
    add_matrix(p, prefix, "indexer.wq_b.weight", s->index_n_heads * s->index_head_dim, s->q_lora_rank, 1.5f);
    add_matrix(p, prefix, "indexer.wk.weight", s->index_head_dim, s->hidden_size, 1.5f);
    add_vector(p, prefix, "indexer.k_norm.weight", s->index_head_dim, 1, 0.2f);
    add_vector(p, prefix, "indexer.k_norm.bias", s->index_head_dim, 0, 0.3f);
    add_matrix(p, prefix, "indexer.weights_proj.weight", s->index_n_heads, s->hidden_size, 1.5f);
}

static void add_layer(pass *p, size_t layer, bool has_indexer, bool is_sparse)
{
    const random_shape *s = p->shape;
    char prefix[96], inner[160];
    snprintf(prefix, sizeof prefix, "model.layers.%zu.", layer);
    add_vector(p, prefix, "input_layernorm.weight", s->hidden_size, 1, 0.2f);
    add_vector(p, prefix, "post_attention_layernorm.weight", s->hidden_size, 1, 0.2f);
    snprintf(inner, sizeof inner, "%sself_attn.", prefix);
    add_attention(p, inner, has_indexer);
    snprintf(inner, sizeof inner, "%smlp.", prefix);
    if (!is_sparse) {
        add_mlp(p, inner, s->intermediate_size, false);
        return;
    }
    add_matrix(p, inner, "gate.weight", s->n_routed_experts, s->hidden_size, 1.5f);
    add_vector(p, inner, "gate.e_score_correction_bias", s->n_routed_experts, 0, 0.15f);
    for (size_t e = 0; e < s->n_routed_experts; e++) {
        snprintf(inner, sizeof inner, "%smlp.experts.%zu.", prefix, e);
        add_mlp(p, inner, s->moe_intermediate_size, s->mxfp4_experts);
    }
    snprintf(inner, sizeof inner, "%smlp.shared_experts.", prefix);
    add_mlp(p, inner, s->moe_intermediate_size * s->n_shared_experts, false);
}

static void add_mtp(pass *p, size_t layer)
{
    const random_shape *s = p->shape;
    char prefix[96];
    add_layer(p, layer, true, true);
    snprintf(prefix, sizeof prefix, "model.layers.%zu.", layer);
    add_vector(p, prefix, "enorm.weight", s->hidden_size, 1, 0.2f);
    add_vector(p, prefix, "hnorm.weight", s->hidden_size, 1, 0.2f);
    add_vector(p, prefix, "shared_head.norm.weight", s->hidden_size, 1, 0.2f);
    add_matrix(p, prefix, "eh_proj.weight", s->hidden_size, 2 * s->hidden_size, 1);
    if (s->mtp_has_own_head) {
        add_matrix(p, prefix, "embed_tokens.weight", s->vocab_size, s->hidden_size, 2);
        add_matrix(p, prefix, "shared_head.head.weight", s->vocab_size, s->hidden_size, 2);
    }
}

static void add_all(pass *p)
{
    const random_shape *s = p->shape;
    size_t layers = strlen(s->layers);
    add_matrix(p, "model.", "embed_tokens.weight", s->vocab_size, s->hidden_size, sqrtf((float)s->hidden_size));
    for (size_t i = 0; i < layers; i++)
        add_layer(p, i, strchr("Ff", s->layers[i]) != NULL, strchr("fs", s->layers[i]) != NULL);
    if (s->has_mtp)
        add_mtp(p, layers);
    add_vector(p, "model.", "norm.weight", s->hidden_size, 1, 0.2f);
    if (!s->tie_word_embeddings)
        add_matrix(p, "", "lm_head.weight", s->vocab_size, s->hidden_size, 2.5f);
}

static json_t *config_json(const random_shape *s)
{
    json_t *mlp_types = json_array(), *indexer_types = json_array();
    size_t layers = strlen(s->layers);
    for (size_t i = 0; i < layers; i++) {
        json_array_append_new(indexer_types, json_string(strchr("Ff", s->layers[i]) ? "full" : "shared"));
        json_array_append_new(mlp_types, json_string(strchr("fs", s->layers[i]) ? "sparse" : "dense"));
    }
    json_t *config = json_pack("{s:[s], s:s, s:o, s:o, s:b, s:b, s:b, s:s, s:{s:s, s:f}, s:f, s:f, s:b, s:s, s:s}",
                               "architectures", "GlmMoeDsaForCausalLM", "model_type", "glm_moe_dsa", "mlp_layer_types",
                               mlp_types, "indexer_types", indexer_types, "rope_interleave", 1,
                               "indexer_rope_interleave", 1, "tie_word_embeddings", (int)s->tie_word_embeddings,
                               "hidden_act", "silu", "rope_parameters", "rope_type", "default", "rope_theta", 10000.0,
                               "rms_norm_eps", 1e-5, "routed_scaling_factor", 2.5, "norm_topk_prob", 1, "scoring_func",
                               "sigmoid", "topk_method", "noaux_tc");
    assert_non_null(config);
    const struct {
        const char *name;
        size_t value;
    } sizes[] = {{"vocab_size", s->vocab_size},
                 {"hidden_size", s->hidden_size},
                 {"intermediate_size", s->intermediate_size},
                 {"moe_intermediate_size", s->moe_intermediate_size},
                 {"num_hidden_layers", layers},
                 {"num_nextn_predict_layers", s->has_mtp ? 1 : 0},
                 {"num_attention_heads", s->num_attention_heads},
                 {"num_key_value_heads", s->num_attention_heads},
                 {"q_lora_rank", s->q_lora_rank},
                 {"kv_lora_rank", s->kv_lora_rank},
                 {"qk_nope_head_dim", s->qk_nope_head_dim},
                 {"qk_rope_head_dim", s->qk_rope_head_dim},
                 {"v_head_dim", s->v_head_dim},
                 {"index_topk", s->index_topk},
                 {"index_n_heads", s->index_n_heads},
                 {"index_head_dim", s->index_head_dim},
                 {"n_routed_experts", s->n_routed_experts},
                 {"n_shared_experts", s->n_shared_experts},
                 {"num_experts_per_tok", s->num_experts_per_tok},
                 {"n_group", s->n_group},
                 {"topk_group", s->topk_group},
                 {"max_position_embeddings", s->max_position_embeddings}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        json_object_set_new(config, sizes[i].name, json_integer((json_int_t)sizes[i].value));
    json_object_set_new(config, "eos_token_id", json_pack("[i]", 0));
    if (s->mxfp4_experts)
        json_object_set_new(config, "quantization_config",
                            json_pack("{s:s, s:s}", "quant_method", "compressed-tensors", "format",
                                      "mxfp4-pack-quantized"));
    return config;
}

static void write_config(const random_shape *shape, const char *path)
{
    json_t *config = config_json(shape);
    char *text = json_dumps(config, JSON_INDENT(1));
    assert_non_null(text);
    must(qn_file_write(path, text, strlen(text), &err));
    free(text);
    json_decref(config);
}

void random_checkpoint_make(const random_shape *shape, uint64_t seed, char dir[RANDOM_DIR_BYTES])
{
    const char *parent = getenv("TMPDIR");
    char path[RANDOM_DIR_BYTES + 32];
    snprintf(dir, RANDOM_DIR_BYTES, "%.200s/quern-test-XXXXXX", parent ? parent : "/tmp");
    if (!mkdtemp(dir))
        fail_msg("cannot make %s", dir);
    snprintf(path, sizeof path, "%s/config.json", dir);
    write_config(shape, path);
    pass p = {.shape = shape, .seed = seed};
    must(qn_safetensors_writer_new(&p.writer, &err));
    add_all(&p);
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    must(qn_safetensors_writer_begin(p.writer, path, &err));
    p.writes = true;
    add_all(&p);
    must(qn_safetensors_writer_finish(p.writer, &err));
    qn_safetensors_writer_free(p.writer);
}

void random_checkpoint_remove(const char *dir)
{
    char path[RANDOM_DIR_BYTES + 32];
    snprintf(path, sizeof path, "%s/config.json", dir);
    unlink(path);
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    unlink(path);
    rmdir(dir);
}
