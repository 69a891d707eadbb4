#include "plan/step_buffers.h"

#include "base/memory.h"
#include "model/weights.h"

static const qn_matrix bf16 = {.dtype = QN_DTYPE_BF16};

static void describe_mlp(qn_mlp_weights *out, size_t count, size_t inner, qn_dtype dtype)
{
    *out = (qn_mlp_weights){.count = count, .inner = inner, .in_dtypes = 1u << dtype, .down_dtypes = 1u << dtype};
}

static void describe_layer(const qn_config *c, bool sparse, bool indexer, qn_plan_form form, qn_layer_weights *out)
{
    out->attention = (qn_attention_weights){.q_a_proj = bf16,
                                            .q_b_proj = bf16,
                                            .kv_a_proj = bf16,
                                            .kv_b_proj = bf16,
                                            .o_proj = bf16,
                                            .has_indexer = indexer,
                                            .indexer = {.wq_b = bf16, .wk = bf16, .weights_proj = bf16}};
    out->is_sparse = sparse;
    if (!sparse) {
        describe_mlp(&out->dense, 1, c->intermediate_size, QN_DTYPE_BF16);
        return;
    }
    describe_mlp(&out->experts, c->n_routed_experts, c->moe_intermediate_size,
                 form == QN_PLAN_MXFP4 ? QN_DTYPE_MXFP4 : QN_DTYPE_BF16);
    if (c->n_shared_experts > 0)
        describe_mlp(&out->dense, 1, c->moe_intermediate_size * c->n_shared_experts, QN_DTYPE_BF16);
}

/* Beside the model's: the sequence's tokens, the final hidden states, logits of the rows that are sampled and as many
 * again in the sampler, and the drafter's inputs. */
static size_t engine_bytes(const qn_config *c, qn_workspace_sizes sizes, size_t drafts)
{
    size_t logits = (drafts + 2) * c->vocab_size * sizeof(float);
    size_t drafter = drafts > 0 ? sizes.max_rows * c->hidden_size * sizeof(float) : 0;
    return sizes.max_context_tokens * sizeof(int32_t) + sizes.max_rows * c->hidden_size * sizeof(float) + logits +
           drafter;
}

qn_status qn_plan_step_bytes(const qn_config *config, const qn_kernels *kernels, qn_plan_form form,
                             qn_workspace_sizes sizes, size_t drafts, size_t *bytes, qn_error *err)
{
    bool mtp = config->num_nextn_predict_layers > 0;
    qn_weights weights = {.embed_tokens = bf16,
                          .lm_head = bf16,
                          .layer_count = config->num_hidden_layers + mtp,
                          .has_mtp = mtp,
                          .mtp = {.eh_proj = bf16, .embed_tokens = bf16, .head = bf16}};
    weights.layers = qn_alloc_zero(weights.layer_count, sizeof *weights.layers);
    if (!weights.layers)
        return qn_fail_memory(err, "table of layers", weights.layer_count * sizeof *weights.layers);
    for (size_t layer = 0; layer < config->num_hidden_layers; layer++)
        describe_layer(config, config->layer_is_sparse[layer], config->layer_has_indexer[layer], form,
                       &weights.layers[layer]);
    if (mtp)
        describe_layer(config, true, true, form, &weights.layers[config->num_hidden_layers]);
    *bytes = qn_workspace_measure(config, &weights, kernels, sizes) + engine_bytes(config, sizes, drafts);
    qn_free(weights.layers);
    return QN_OK;
}
