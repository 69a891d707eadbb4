#include "plan/ranks.h"

#include "base/matrix.h"
#include "base/size.h"

/* Bytes of one layer on the rank that has most. */
typedef struct share {
    uint64_t replicated, split;
} share;

static uint64_t bf16_bytes(size_t rows, size_t cols)
{
    return 2 * (uint64_t)rows * cols;
}

static share attention_share(const qn_config *c, size_t ranks, bool indexer)
{
    size_t heads = qn_ceil_div(c->num_attention_heads, ranks), nope = c->qk_nope_head_dim, value = c->v_head_dim;
    share s = {.replicated = bf16_bytes(c->q_lora_rank, c->hidden_size) +
                             bf16_bytes(c->kv_lora_rank + c->qk_rope_head_dim, c->hidden_size) +
                             2 * (2 * (uint64_t)c->hidden_size + c->q_lora_rank + c->kv_lora_rank),
               .split = bf16_bytes(heads * (nope + c->qk_rope_head_dim), c->q_lora_rank) +
                        bf16_bytes(heads * (nope + value), c->kv_lora_rank) +
                        bf16_bytes(c->hidden_size, heads * value)};
    if (indexer)
        s.replicated += bf16_bytes(c->index_n_heads * c->index_head_dim, c->q_lora_rank) +
                        bf16_bytes(c->index_head_dim + c->index_n_heads, c->hidden_size) +
                        2 * bf16_bytes(1, c->index_head_dim);
    return s;
}

static share mlp_share(const qn_config *c, qn_plan_form form, const qn_rank_layout *l, bool sparse)
{
    share s = {0};
    size_t dense = sparse ? c->moe_intermediate_size * c->n_shared_experts : c->intermediate_size;
    s.split = 3 * bf16_bytes(qn_ceil_div(dense, l->ranks), c->hidden_size);
    if (!sparse)
        return s;
    uint64_t expert = 3 * (uint64_t)(c->moe_intermediate_size / l->expert_parts) * c->hidden_size;
    expert = form == QN_PLAN_MXFP4 ? expert / 2 + expert / QN_MXFP4_BLOCK : expert * 2;
    s.split += expert * qn_ceil_div(c->n_routed_experts, l->expert_groups);
    s.replicated = bf16_bytes(c->n_routed_experts, c->hidden_size) + sizeof(float) * (uint64_t)c->n_routed_experts;
    return s;
}

static void add_layer(const qn_config *c, qn_plan_form form, bool sparse, bool indexer, qn_rank_layout *l)
{
    share attention = attention_share(c, l->ranks, indexer), mlp = mlp_share(c, form, l, sparse);
    l->replicated_bytes += attention.replicated + mlp.replicated;
    l->bytes += attention.replicated + mlp.replicated + attention.split + mlp.split;
}

bool qn_rank_layout_of(const qn_config *c, qn_plan_form form, size_t ranks, size_t expert_parts, qn_rank_layout *out)
{
    if (ranks < 1 || expert_parts < 1 || ranks % expert_parts != 0 || ranks > c->num_attention_heads ||
        ranks / expert_parts > c->n_routed_experts || c->moe_intermediate_size % (expert_parts * QN_MXFP4_BLOCK) != 0)
        return false;
    *out = (qn_rank_layout){.ranks = ranks, .expert_groups = ranks / expert_parts, .expert_parts = expert_parts};
    for (size_t layer = 0; layer < c->num_hidden_layers; layer++)
        add_layer(c, form, c->layer_is_sparse[layer], c->layer_has_indexer[layer], out);
    uint64_t norm = 2 * (uint64_t)c->hidden_size, replicated = norm;
    if (c->num_nextn_predict_layers > 0) {
        add_layer(c, form, true, true, out);
        replicated += bf16_bytes(c->hidden_size, 2 * c->hidden_size) + 3 * norm;
    }
    size_t tables = c->tie_word_embeddings ? 1 : 2;
    out->replicated_bytes += replicated;
    out->bytes += replicated + tables * bf16_bytes(qn_ceil_div(c->vocab_size, ranks), c->hidden_size);
    return true;
}
