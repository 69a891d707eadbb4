/* Opening and closing: weights by name, frequencies, buffers. */
#include "model/model.h"

#include "base/memory.h"
#include "model/residence_plan.h"
#include "model/state.h"

static const float DEFAULT_MLA_NORM_EPS = 1e-6f;

/* The longest that a disk may give nothing at all: far beyond what a busy one takes, and below what people wait. */
enum { EXPERT_PATIENCE_US = 30 * 1000 * 1000 };

qn_status qn_model_reserve(qn_model *model, size_t max_context_tokens, qn_error *err)
{
    if (model->sizes.max_context_tokens != 0)
        return qn_fail(err, QN_INTERNAL, "model: its buffers are there already");
    model->sizes.max_context_tokens = max_context_tokens;
    return qn_workspace_make(model->config, &model->weights, model->kernels, model->sizes, &model->workspace, err);
}

size_t qn_model_measure(const qn_model *model, size_t max_context_tokens)
{
    qn_workspace_sizes sizes = model->sizes;
    sizes.max_context_tokens = max_context_tokens;
    return qn_workspace_measure(model->config, &model->weights, model->kernels, sizes);
}

static void poll_experts(void *context)
{
    qn_expert_cache_poll(context);
}

static qn_status open_parts(qn_model *model, qn_checkpoint *checkpoint, const qn_model_options *options, qn_error *err)
{
    model->sizes = (qn_workspace_sizes){.threads = qn_pool_threads(options->pool),
                                        .max_rows = options->max_rows,
                                        .dsa_dense_below = options->dsa_dense_below};
    if (!model->config->layer_has_indexer[0])
        return qn_fail(err, QN_BAD_INPUT,
                       "config.json: indexer_types: layer 0 is shared: it has no layer before it "
                       "whose keys it could share");
    qn_status status = qn_rope_make(model->config, &model->rope, err);
    if (status == QN_OK)
        status = qn_weights_take(checkpoint, &model->weights, err);
    if (status == QN_OK && options->expert_cache_bytes > 0)
        status = qn_expert_cache_new(checkpoint, &model->weights, options->expert_cache_bytes, EXPERT_PATIENCE_US,
                                     &model->expert_cache, err);
    if (status == QN_OK && options->expert_cache_bytes > 0)
        status = qn_expert_forecast_new(model->config, model->weights.layer_count, &model->expert_forecast, err);
    if (status == QN_OK && options->expert_cache_bytes > 0)
        qn_pool_set_chore(model->pool, poll_experts, model->expert_cache); /* reads go on while anything computes */
    if (status == QN_OK && options->max_context_tokens != 0)
        status = qn_model_reserve(model, options->max_context_tokens, err);
    return status;
}

qn_status qn_model_open(qn_checkpoint *checkpoint, const qn_model_options *options, qn_model **out, qn_error *err)
{
    qn_model *model = qn_alloc_zero(1, sizeof *model);
    if (!model)
        return qn_fail_memory(err, "model", sizeof *model);
    model->checkpoint = checkpoint;
    model->config = qn_checkpoint_config(checkpoint);
    model->kernels = options->kernels;
    model->pool = options->pool;
    model->mla_norm_eps = options->mla_norm_eps > 0 ? options->mla_norm_eps : DEFAULT_MLA_NORM_EPS;
    qn_status status = open_parts(model, checkpoint, options, err);
    if (status != QN_OK) {
        qn_model_close(model);
        return status;
    }
    *out = model;
    return QN_OK;
}

void qn_model_close(qn_model *model)
{
    if (!model)
        return;
    qn_workspace_free(&model->workspace);
    if (model->expert_cache)
        qn_pool_set_chore(model->pool, NULL, NULL);
    qn_expert_cache_free(model->expert_cache);
    qn_expert_forecast_free(model->expert_forecast);
    qn_residence_free(model->residence);
    qn_weights_free(&model->weights);
    qn_free(model);
}

qn_status qn_model_load(qn_model *model, const qn_residence_options *options, qn_error *err)
{
    if (model->residence)
        return qn_fail(err, QN_INTERNAL, "model: its weights are being loaded already");
    qn_residence_options own = *options;
    own.without_experts = model->expert_cache != NULL;
    return qn_residence_start(model->checkpoint, &model->weights, &own, &model->residence, err);
}

void qn_model_settle(qn_model *model)
{
    if (model->residence)
        qn_residence_publish(model->residence);
}

void qn_model_await_load(qn_model *model)
{
    if (!model->residence)
        return;
    qn_residence_wait(model->residence);
    qn_residence_publish(model->residence);
}

qn_residence_state qn_model_load_state(const qn_model *model)
{
    return model->residence ? qn_residence_get_state(model->residence) : (qn_residence_state){.ended = true};
}

const qn_config *qn_model_config(const qn_model *model)
{
    return model->config;
}

bool qn_model_has_mtp(const qn_model *model)
{
    return model->weights.has_mtp;
}

size_t qn_model_weight_bytes(const qn_model *model)
{
    const qn_expert_cache *cache = model->expert_cache;
    if (!cache)
        return model->weights.bytes;
    return model->weights.bytes - qn_expert_cache_disk_bytes(cache) + qn_expert_cache_memory(cache);
}

size_t qn_model_packing_saves(qn_model *model)
{
    return qn_load_saving(&model->weights);
}

size_t qn_model_step_bytes(const qn_model *model)
{
    return model->workspace.bytes;
}

const qn_expert_cache *qn_model_expert_cache(const qn_model *model)
{
    return model->expert_cache;
}

const qn_expert_forecast *qn_model_expert_forecast(const qn_model *model)
{
    return model->expert_forecast;
}

void qn_model_time_parts(qn_model *model, qn_part_clock *clock)
{
    model->clock = clock;
}

qn_status qn_model_kv_layout(const qn_model *model, size_t block_tokens, qn_kv_layout *out, qn_error *err)
{
    const qn_config *c = model->config;
    bool has_indexer[QN_KV_MAX_LAYERS];
    for (size_t i = 0; i < model->weights.layer_count; i++)
        has_indexer[i] = model->weights.layers[i].attention.has_indexer;
    return qn_kv_layout_make(model->kernels->kv_dtype, block_tokens, model->weights.layer_count,
                             c->kv_lora_rank + c->qk_rope_head_dim, c->index_head_dim,
                             model->weights.has_mtp ? c->hidden_size : 0, has_indexer, out, err);
}
