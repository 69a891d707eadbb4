/* config.json of the GLM-5 family (GlmMoeDsaForCausalLM, model_type glm_moe_dsa), checked.
 *
 * Field names are those of the released file. A known field whose value changes the maths and is not supported is an
 * error that names it; a field never heard of gets one log line; every size is bounded (see config.c) so that
 * later products cannot overflow. */
#ifndef QN_CHECKPOINT_CONFIG_H
#define QN_CHECKPOINT_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
    QN_MAX_LAYERS = 1024,
    QN_MAX_EOS = 16,
    QN_MAX_POSITIONS = 1 << 24,
    QN_CONFIG_LIMIT_BYTES = 16 << 20 /* of the file: lists of modules that are not quantised can take megabytes */
};

typedef enum qn_rope_type { QN_ROPE_DEFAULT, QN_ROPE_YARN } qn_rope_type;

typedef struct qn_rope_parameters {
    qn_rope_type rope_type;
    double rope_theta;
    /* YaRN only, as transformers reads them; its defaults are filled in. */
    double factor, beta_fast, beta_slow, attention_factor /* < 0: not given */, mscale, mscale_all_dim;
    size_t original_max_position_embeddings;
    bool truncate;
} qn_rope_parameters;

typedef enum qn_expert_format {                   /* how the routed experts lie on disk */
                                QN_EXPERTS_PLAIN, /* BF16/F16/F32, one tensor per expert and projection, or fused [E,
                                                     2I, H] */
                                QN_EXPERTS_COMPRESSED_TENSORS, /* mxfp4-pack-quantized */
                                QN_EXPERTS_QUARK,
                                QN_EXPERTS_GPT_OSS /* *_blocks, *_scales, fused */
} qn_expert_format;

typedef struct qn_config {
    size_t vocab_size, hidden_size, intermediate_size, moe_intermediate_size;
    size_t num_hidden_layers, num_nextn_predict_layers /* 0 or 1 */, num_attention_heads;
    size_t q_lora_rank, kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim, v_head_dim;
    size_t index_topk, index_n_heads, index_head_dim;
    bool index_share_for_mtp_iteration;
    size_t n_routed_experts, n_shared_experts, num_experts_per_tok, n_group, topk_group;
    bool norm_topk_prob;
    float routed_scaling_factor, rms_norm_eps;
    size_t max_position_embeddings;
    bool tie_word_embeddings;
    qn_rope_parameters rope;
    bool layer_is_sparse[QN_MAX_LAYERS];   /* mlp_layer_types or first_k_dense_replace/moe_layer_freq */
    bool layer_has_indexer[QN_MAX_LAYERS]; /* "full" in indexer_types, index_topk_pattern, or freq/offset */
    int32_t eos_token_id[QN_MAX_EOS];
    size_t eos_count;
    qn_expert_format expert_format; /* as quantization_config claims; gpt-oss naming is recognised by the tensors */
} qn_config;

/* `what` names the document in errors; unknown fields are told through qn_log. Fills *out. */
qn_status qn_config_parse(const char *json, size_t bytes, const char *what, qn_config *out, qn_error *err);

/* The same for a look at a checkpoint that may not be one to run: quantization_config has no effect, and its method
 * (with its format, if it tells one) goes to `quantization`, "" when there is none; nothing is logged. */
enum { QN_QUANTIZATION_TEXT_BYTES = 128 };
qn_status qn_config_peek(const char *json, size_t bytes, const char *what, qn_config *out,
                         char quantization[QN_QUANTIZATION_TEXT_BYTES], qn_error *err);

#endif
