#include "plan/sizes.h"

#include "base/matrix.h"
#include "checkpoint/catalogue.h"

const char *qn_plan_form_name(qn_plan_form form)
{
    return form == QN_PLAN_BF16 ? "BF16" : "MXFP4 experts";
}

static void add(qn_plan_kind *to, const qn_plan_kind *one)
{
    to->tensors += one->tensors;
    to->parameters += one->parameters;
    for (size_t form = 0; form < QN_PLAN_FORMS; form++)
        to->bytes[form] += one->bytes[form];
}

static void count_active(const qn_config *c, const qn_catalogue_tensor *t, const qn_plan_kind *one, qn_plan_sizes *out)
{
    bool chosen = t->expert == QN_NO_INDEX || t->expert < c->num_experts_per_tok; /* experts are alike */
    if (t->layer == c->num_hidden_layers || !chosen || (t->kind == QN_KIND_EMBEDDING && !c->tie_word_embeddings))
        return;
    out->active_parameters += one->parameters;
    for (size_t form = 0; form < QN_PLAN_FORMS; form++)
        out->active_bytes[form] += one->bytes[form];
}

static void count_cache(const qn_config *c, qn_plan_sizes *out)
{
    uint64_t latent = c->kv_lora_rank + c->qk_rope_head_dim, mtp = c->num_nextn_predict_layers;
    for (size_t layer = 0; layer < c->num_hidden_layers; layer++)
        out->indexer_layers += c->layer_has_indexer[layer];
    out->kv_values_per_token = latent * c->num_hidden_layers + c->index_head_dim * out->indexer_layers;
    out->kv_values_per_token_with_mtp = out->kv_values_per_token + mtp * (latent + c->index_head_dim);
}

qn_status qn_plan_count(const qn_config *config, qn_plan_sizes *out, qn_error *err)
{
    qn_catalogue *catalogue;
    *out = (qn_plan_sizes){0};
    if (config->hidden_size % QN_MXFP4_BLOCK != 0 || config->moe_intermediate_size % QN_MXFP4_BLOCK != 0)
        return qn_fail(err, QN_BAD_INPUT,
                       "config.json: hidden_size %zu and moe_intermediate_size %zu: MXFP4 needs multiples of %d: such "
                       "experts can't be converted",
                       config->hidden_size, config->moe_intermediate_size, QN_MXFP4_BLOCK);
    qn_status status = qn_catalogue_new(config, &catalogue, err);
    if (status != QN_OK)
        return status;
    for (size_t i = 0; i < qn_catalogue_count(catalogue); i++) {
        const qn_catalogue_tensor *t = qn_catalogue_at(catalogue, i);
        uint64_t bytes = qn_catalogue_bytes(t);
        qn_plan_kind one = {.tensors = 1, .parameters = qn_catalogue_elements(t), .bytes = {bytes, bytes}};
        if (t->expert != QN_NO_INDEX)
            one.bytes[QN_PLAN_MXFP4] = qn_catalogue_mxfp4_bytes(t);
        add(&out->kind[t->layer == config->num_hidden_layers ? QN_KIND_MTP : t->kind], &one);
        add(&out->total, &one);
        count_active(config, t, &one, out);
        if (t->kind == QN_KIND_ROUTER && t->dims == 1)
            out->router_biases += one.parameters;
    }
    qn_catalogue_free(catalogue);
    out->weights = out->total.parameters - out->router_biases;
    count_cache(config, out);
    return QN_OK;
}
