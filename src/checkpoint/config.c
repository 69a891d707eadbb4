/* Bounds are far above any model of the family and low enough that a product of any three sizes fits 64 bits. Positions
 * end at 2^24, where float32, in which RoPE's angles are computed, can no longer tell neighbours apart. */
#include "checkpoint/config.h"

#include <stdio.h>

#include "base/log.h"
#include "checkpoint/config_parts.h"

enum {
    MAX_VOCAB = 1 << 22,
    MAX_HIDDEN = 1 << 16,
    MAX_INTERMEDIATE = 1 << 20,
    MAX_RANK = 1 << 16,
    MAX_HEADS = 1 << 10,
    MAX_HEAD_DIM = 1 << 12,
    MAX_TOPK = 1 << 20,
    MAX_EXPERTS = 1 << 14,
    MAX_SHARED_EXPERTS = 64
};

/* Fields of transformers' base class, of training and of other programs: known, and without an effect on inference.
 * head_dim differs between releases (64, 192) and nothing reads it. The dtype of a tensor is the file's business. */
static const char *const WITHOUT_EFFECT[] = {
    "_name_or_path",
    "add_cross_attention",
    "attention_dropout",
    "attn_implementation",
    "auto_map",
    "aux_loss_alpha",
    "bos_token_id",
    "chunk_size_feed_forward",
    "dtype",
    "ep_size",
    "head_dim",
    "id2label",
    "initializer_range",
    "is_decoder",
    "is_encoder_decoder",
    "label2id",
    "output_attentions",
    "output_hidden_states",
    "output_router_logits",
    "pad_token_id",
    "pretraining_tp",
    "problem_type",
    "return_dict",
    "router_aux_loss_coef",
    "seq_aux",
    "torch_dtype",
    "transformers_version",
    "use_cache",
};

static const char OTHER_MODEL[] = ", use a GLM-5 checkpoint";

static void read_identity(qn_fields *f)
{
    if (!qn_fields_expect_string(f, "model_type", "glm_moe_dsa", OTHER_MODEL))
        qn_fields_fail(f, "model_type", "is absent: quern supports \"glm_moe_dsa\" only%s", OTHER_MODEL);
    json_t *list = qn_fields_take(f, "architectures");
    const json_t *only = json_array_size(list) == 1 ? json_array_get(list, 0) : list;
    if (list && !(json_is_array(list) && qn_value_is(only, "GlmMoeDsaForCausalLM")))
        qn_fields_refuse(f, "architectures", only, "quern supports [\"GlmMoeDsaForCausalLM\"] only%s", OTHER_MODEL);
    json_decref(list);
}

static void read_sizes(qn_fields *f, qn_config *out)
{
    qn_fields_size(f, "vocab_size", true, 1, MAX_VOCAB, &out->vocab_size);
    qn_fields_size(f, "hidden_size", true, 1, MAX_HIDDEN, &out->hidden_size);
    qn_fields_size(f, "intermediate_size", true, 1, MAX_INTERMEDIATE, &out->intermediate_size);
    qn_fields_size(f, "moe_intermediate_size", true, 1, MAX_INTERMEDIATE, &out->moe_intermediate_size);
    qn_fields_size(f, "num_hidden_layers", true, 1, QN_MAX_LAYERS, &out->num_hidden_layers);
    qn_fields_size(f, "max_position_embeddings", true, 1, QN_MAX_POSITIONS, &out->max_position_embeddings);
    qn_fields_bool(f, "tie_word_embeddings", false, &out->tie_word_embeddings);
    double eps = 0;
    qn_fields_number(f, "rms_norm_eps", true, 1e-30, 1, &eps);
    out->rms_norm_eps = (float)eps;
    qn_fields_expect_string(f, "hidden_act", "silu", OTHER_MODEL);
    qn_fields_expect_bool(f, "mlp_bias", false, OTHER_MODEL);

    json_t *predicted = qn_fields_take(f, "num_nextn_predict_layers");
    if (predicted &&
        !(json_is_integer(predicted) && json_integer_value(predicted) >= 0 && json_integer_value(predicted) <= 1))
        qn_fields_refuse(f, "num_nextn_predict_layers", predicted, "quern supports 0 or 1 MTP layers%s", OTHER_MODEL);
    out->num_nextn_predict_layers = predicted ? (size_t)json_integer_value(predicted) : 0;
    json_decref(predicted);
}

/* A flag that the released files set and transformers takes for granted: told when it is not there. */
static void expect_interleaved(qn_fields *f, const char *name)
{
    if (!qn_fields_expect_bool(f, name, true, OTHER_MODEL) && f->status == QN_OK && !f->quiet)
        qn_log("%s: %s is absent: taken as true, as in every release of the family", f->what, name);
}

static void read_attention(qn_fields *f, qn_config *out)
{
    qn_fields_size(f, "num_attention_heads", true, 1, MAX_HEADS, &out->num_attention_heads);
    qn_fields_size(f, "q_lora_rank", true, 1, MAX_RANK, &out->q_lora_rank);
    qn_fields_size(f, "kv_lora_rank", true, 1, MAX_RANK, &out->kv_lora_rank);
    qn_fields_size(f, "qk_nope_head_dim", true, 1, MAX_HEAD_DIM, &out->qk_nope_head_dim);
    qn_fields_size(f, "qk_rope_head_dim", true, 2, MAX_HEAD_DIM, &out->qk_rope_head_dim);
    qn_fields_size(f, "v_head_dim", true, 1, MAX_HEAD_DIM, &out->v_head_dim);
    qn_fields_expect_size(f, "num_key_value_heads", out->num_attention_heads,
                          " (num_attention_heads), correct the file");
    qn_fields_expect_size(f, "qk_head_dim", out->qk_nope_head_dim + out->qk_rope_head_dim,
                          " (qk_nope_head_dim + qk_rope_head_dim), correct the file");
    if (f->status == QN_OK && out->qk_rope_head_dim % 2 != 0)
        qn_fields_fail(f, "qk_rope_head_dim", "is odd: RoPE rotates pairs, correct the file");
    qn_fields_expect_bool(f, "attention_bias", false, OTHER_MODEL);
    expect_interleaved(f, "rope_interleave");
    qn_config_read_rope(f, out);
}

static void read_indexer(qn_fields *f, qn_config *out)
{
    qn_fields_size(f, "index_topk", true, 1, MAX_TOPK, &out->index_topk);
    qn_fields_size(f, "index_n_heads", true, 1, MAX_HEADS, &out->index_n_heads);
    qn_fields_size(f, "index_head_dim", true, 1, MAX_HEAD_DIM, &out->index_head_dim);
    if (f->status == QN_OK && out->index_head_dim < out->qk_rope_head_dim)
        qn_fields_fail(f, "index_head_dim",
                       "is below qk_rope_head_dim (%zu): that much of it is rotated, correct the file",
                       out->qk_rope_head_dim);
    qn_fields_bool(f, "index_share_for_mtp_iteration", false, &out->index_share_for_mtp_iteration);
    expect_interleaved(f, "indexer_rope_interleave");
}

/* Groups: equal, at least two experts each (a group's score is the sum of its two best), and enough of them taken. */
static void check_groups(qn_fields *f, const qn_config *c)
{
    if (f->status != QN_OK)
        return;
    if (c->n_routed_experts % c->n_group != 0 || (c->n_group > 1 && c->n_routed_experts / c->n_group < 2))
        qn_fields_fail(f, "n_group",
                       "is %zu: it must cut n_routed_experts (%zu) into equal groups of two or more, correct the file",
                       c->n_group, c->n_routed_experts);
    else if (c->topk_group > c->n_group)
        qn_fields_fail(f, "topk_group", "is %zu: that is more than n_group (%zu), correct the file", c->topk_group,
                       c->n_group);
    else if (c->num_experts_per_tok > c->topk_group * (c->n_routed_experts / c->n_group))
        qn_fields_fail(f, "num_experts_per_tok",
                       "is %zu: that is more than the experts of topk_group (%zu) groups, correct the file",
                       c->num_experts_per_tok, c->topk_group);
}

static void read_experts(qn_fields *f, qn_config *out)
{
    qn_fields_size(f, "n_routed_experts", true, 1, MAX_EXPERTS, &out->n_routed_experts);
    qn_fields_expect_size(f, "num_experts", out->n_routed_experts, " (n_routed_experts), correct the file");
    qn_fields_expect_size(f, "num_local_experts", out->n_routed_experts, " (n_routed_experts), correct the file");
    qn_fields_size(f, "n_shared_experts", true, 1, MAX_SHARED_EXPERTS, &out->n_shared_experts);
    qn_fields_size(f, "num_experts_per_tok", true, 1, MAX_EXPERTS, &out->num_experts_per_tok);
    out->n_group = out->topk_group = 1;
    qn_fields_size(f, "n_group", false, 1, MAX_EXPERTS, &out->n_group);
    qn_fields_size(f, "topk_group", false, 1, MAX_EXPERTS, &out->topk_group);
    check_groups(f, out);
    out->norm_topk_prob = true;
    qn_fields_bool(f, "norm_topk_prob", false, &out->norm_topk_prob);
    double factor = 1;
    qn_fields_number(f, "routed_scaling_factor", true, 1e-6, 1e6, &factor);
    out->routed_scaling_factor = (float)factor;
    qn_fields_expect_string(f, "scoring_func", "sigmoid", OTHER_MODEL);
    qn_fields_expect_string(f, "topk_method", "noaux_tc", OTHER_MODEL);
    qn_fields_expect_string(f, "moe_router_dtype", "float32", ", its router is always float32");
}

/* One id, or a list of them. */
static void read_eos(qn_fields *f, qn_config *out)
{
    json_t *value = qn_fields_take(f, "eos_token_id");
    size_t count = json_is_array(value) ? json_array_size(value) : value ? 1 : 0;
    if (count > QN_MAX_EOS)
        qn_fields_refuse(f, "eos_token_id", value, "quern takes at most %d of them, correct the file", QN_MAX_EOS);
    for (size_t i = 0; i < count && f->status == QN_OK; i++) {
        const json_t *id = json_is_array(value) ? json_array_get(value, i) : value;
        if (!json_is_integer(id) || json_integer_value(id) < 0 || (size_t)json_integer_value(id) >= out->vocab_size)
            qn_fields_refuse(f, "eos_token_id", id, "a token id is an integer below vocab_size (%zu), correct the file",
                             out->vocab_size);
        else
            out->eos_token_id[out->eos_count++] = (int32_t)json_integer_value(id);
    }
    json_decref(value);
}

/* Fields of neighbouring families that would change the maths. */
static void refuse_neighbours(qn_fields *f)
{
    static const char *const names[] = {"sliding_window", "swiglu_limit", "index_kpool", "linear_attn_config",
                                        "final_logit_softcapping"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        json_t *value = qn_fields_take(f, names[i]);
        if (value)
            qn_fields_refuse(f, names[i], value, "no model of the family has it and quern does not support it%s",
                             OTHER_MODEL);
        json_decref(value);
    }
    qn_fields_expect_bool(f, "use_qk_norm", false, OTHER_MODEL);
    qn_fields_expect_bool(f, "mla_use_nope", false, OTHER_MODEL);
}

/* Takes every field that quern knows out of the document. */
static void read_fields(qn_fields *f, qn_config *out)
{
    *out = (qn_config){0};
    if (!json_is_object(f->object))
        f->status = qn_fail(f->err, QN_BAD_INPUT, "%s: holds %s, not an object: use the checkpoint's config.json",
                            f->what, qn_json_type_name(f->object));
    read_identity(f);
    read_sizes(f, out);
    read_attention(f, out);
    read_indexer(f, out);
    read_experts(f, out);
    qn_config_read_layers(f, out);
    read_eos(f, out);
    qn_config_read_quantization(f, out);
    refuse_neighbours(f);
}

qn_status qn_config_parse(const char *json, size_t bytes, const char *what, qn_config *out, qn_error *err)
{
    json_t *root = NULL;
    qn_status status = qn_json_parse(json, bytes, what, &root, err);
    if (status != QN_OK)
        return status;
    qn_fields f = {.object = root, .what = what, .prefix = "", .err = err, .status = QN_OK};
    read_fields(&f, out);
    if (f.status == QN_OK) {
        qn_fields_drop(&f, WITHOUT_EFFECT, sizeof WITHOUT_EFFECT / sizeof *WITHOUT_EFFECT);
        qn_fields_log_rest(&f);
    }
    json_decref(root);
    return f.status;
}

/* "fp8", "compressed-tensors mxfp4-pack-quantized"; "of an unknown kind" for what has no method. */
static void describe_quantization(const json_t *quantization, char out[QN_QUANTIZATION_TEXT_BYTES])
{
    out[0] = '\0';
    if (!quantization || json_is_null(quantization))
        return;
    const char *method = json_string_value(json_object_get(quantization, "quant_method"));
    const char *format = json_string_value(json_object_get(quantization, "format"));
    snprintf(out, QN_QUANTIZATION_TEXT_BYTES, "%.60s%s%.60s", method ? method : "of an unknown kind", format ? " " : "",
             format ? format : "");
}

qn_status qn_config_peek(const char *json, size_t bytes, const char *what, qn_config *out,
                         char quantization[QN_QUANTIZATION_TEXT_BYTES], qn_error *err)
{
    json_t *root = NULL;
    quantization[0] = '\0';
    qn_status status = qn_json_parse(json, bytes, what, &root, err);
    if (status != QN_OK)
        return status;
    describe_quantization(json_object_get(root, "quantization_config"), quantization);
    json_object_del(root, "quantization_config"); /* which does nothing to what is no object */
    qn_fields f = {.object = root, .what = what, .prefix = "", .err = err, .status = QN_OK, .quiet = true};
    read_fields(&f, out);
    json_decref(root);
    return f.status;
}
