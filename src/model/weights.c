/* A loader carries the first failure along, so that a layer reads as the list of its tensors. */
#include "model/weights.h"

#include <stdio.h>

#include "base/memory.h"

enum { NAME_BYTES = 160 };

typedef struct loader {
    qn_checkpoint *checkpoint;
    const qn_config *config;
    char prefix[NAME_BYTES]; /* of the tensors that are taken next */
    size_t bytes;
    qn_status status;
    qn_error *err;
} loader;

static void full_name(const loader *l, const char *suffix, char out[NAME_BYTES])
{
    snprintf(out, NAME_BYTES, "%.80s%.70s", l->prefix, suffix);
}

static void take_matrix(loader *l, const char *suffix, size_t rows, size_t cols, qn_matrix *out)
{
    if (l->status != QN_OK)
        return;
    char name[NAME_BYTES];
    full_name(l, suffix, name);
    l->status = qn_checkpoint_take_matrix(l->checkpoint, name, rows, cols, out, l->err);
    if (l->status == QN_OK)
        l->bytes += qn_matrix_bytes(out);
}

static void take_vector(loader *l, const char *suffix, size_t count, float **out)
{
    if (l->status != QN_OK)
        return;
    char name[NAME_BYTES];
    full_name(l, suffix, name);
    l->status = qn_checkpoint_take_vector(l->checkpoint, name, count, out, l->err);
    if (l->status == QN_OK)
        l->bytes += count * sizeof(float);
}

static bool has(const loader *l, const char *suffix)
{
    char name[NAME_BYTES];
    full_name(l, suffix, name);
    return qn_checkpoint_has(l->checkpoint, name);
}

/* An optional matrix that stands in for one the model has already. */
static void take_matrix_or(loader *l, const char *suffix, const qn_matrix *otherwise, qn_matrix *out)
{
    *out = *otherwise;
    if (has(l, suffix))
        take_matrix(l, suffix, otherwise->rows, otherwise->cols, out);
}

static bool make_mlps(loader *l, size_t count, size_t inner, qn_mlp_weights *out)
{
    if (l->status != QN_OK)
        return false;
    qn_matrix *all = qn_alloc_zero(3 * count, sizeof *all);
    if (!all) {
        l->status = qn_fail_memory(l->err, "table of experts", 3 * count * sizeof *all);
        return false;
    }
    *out = (qn_mlp_weights){.count = count, .inner = inner, .gate = all, .up = all + count, .down = all + 2 * count};
    return true;
}

static void note_dtypes(qn_mlp_weights *mlps)
{
    for (size_t i = 0; i < mlps->count; i++) {
        mlps->in_dtypes |= qn_dtype_set_of(&mlps->gate[i]) | qn_dtype_set_of(&mlps->up[i]);
        mlps->down_dtypes |= qn_dtype_set_of(&mlps->down[i]);
    }
}

static void take_dense(loader *l, const char *gate, const char *up, const char *down, size_t inner, qn_mlp_weights *out)
{
    size_t hidden = l->config->hidden_size;
    if (!make_mlps(l, 1, inner, out))
        return;
    take_matrix(l, gate, inner, hidden, out->gate);
    take_matrix(l, up, inner, hidden, out->up);
    take_matrix(l, down, hidden, inner, out->down);
    note_dtypes(out);
}

static void take_experts(loader *l, qn_mlp_weights *out)
{
    const qn_config *c = l->config;
    if (!make_mlps(l, c->n_routed_experts, c->moe_intermediate_size, out))
        return;
    char name[NAME_BYTES];
    full_name(l, "mlp.experts", name);
    l->status = qn_checkpoint_take_experts(l->checkpoint, name, out->gate, out->up, out->down, l->err);
    if (l->status != QN_OK)
        return;
    for (size_t i = 0; i < 3 * out->count; i++)
        l->bytes += qn_matrix_bytes(&out->gate[i]);
    note_dtypes(out);
}

static void take_indexer(loader *l, qn_indexer_weights *out)
{
    const qn_config *c = l->config;
    take_matrix(l, "self_attn.indexer.wq_b.weight", c->index_n_heads * c->index_head_dim, c->q_lora_rank, &out->wq_b);
    take_matrix(l, "self_attn.indexer.wk.weight", c->index_head_dim, c->hidden_size, &out->wk);
    take_matrix(l, "self_attn.indexer.weights_proj.weight", c->index_n_heads, c->hidden_size, &out->weights_proj);
    take_vector(l, "self_attn.indexer.k_norm.weight", c->index_head_dim, &out->k_norm);
    take_vector(l, "self_attn.indexer.k_norm.bias", c->index_head_dim, &out->k_norm_bias);
}

static void take_attention(loader *l, bool has_indexer, qn_attention_weights *out)
{
    const qn_config *c = l->config;
    size_t hidden = c->hidden_size, heads = c->num_attention_heads, nope = c->qk_nope_head_dim;
    size_t rope = c->qk_rope_head_dim, value = c->v_head_dim, latent = c->kv_lora_rank;
    take_matrix(l, "self_attn.q_a_proj.weight", c->q_lora_rank, hidden, &out->q_a_proj);
    take_vector(l, "self_attn.q_a_layernorm.weight", c->q_lora_rank, &out->q_a_norm);
    take_matrix(l, "self_attn.q_b_proj.weight", heads * (nope + rope), c->q_lora_rank, &out->q_b_proj);
    take_matrix(l, "self_attn.kv_a_proj_with_mqa.weight", latent + rope, hidden, &out->kv_a_proj);
    take_vector(l, "self_attn.kv_a_layernorm.weight", latent, &out->kv_a_norm);
    take_matrix(l, "self_attn.kv_b_proj.weight", heads * (nope + value), latent, &out->kv_b_proj);
    take_matrix(l, "self_attn.o_proj.weight", hidden, heads * value, &out->o_proj);
    out->has_indexer = has_indexer;
    if (has_indexer)
        take_indexer(l, &out->indexer);
}

static void take_sparse(loader *l, qn_layer_weights *out)
{
    const qn_config *c = l->config;
    take_matrix(l, "mlp.gate.weight", c->n_routed_experts, c->hidden_size, &out->router);
    take_vector(l, "mlp.gate.e_score_correction_bias", c->n_routed_experts, &out->router_bias);
    take_experts(l, &out->experts);
    if (c->n_shared_experts > 0)
        take_dense(l, "mlp.shared_experts.gate_proj.weight", "mlp.shared_experts.up_proj.weight",
                   "mlp.shared_experts.down_proj.weight", c->moe_intermediate_size * c->n_shared_experts, &out->dense);
}

static void take_layer(loader *l, size_t layer, bool is_sparse, bool has_indexer, qn_layer_weights *out)
{
    const qn_config *c = l->config;
    snprintf(l->prefix, sizeof l->prefix, "model.layers.%zu.", layer);
    take_vector(l, "input_layernorm.weight", c->hidden_size, &out->input_norm);
    take_attention(l, has_indexer, &out->attention);
    take_vector(l, "post_attention_layernorm.weight", c->hidden_size, &out->post_attention_norm);
    out->is_sparse = is_sparse;
    if (is_sparse)
        take_sparse(l, out);
    else
        take_dense(l, "mlp.gate_proj.weight", "mlp.up_proj.weight", "mlp.down_proj.weight", c->intermediate_size,
                   &out->dense);
}

/* transformers does not load the MTP layer, so what it saves lacks it while config.json goes on to claim it: that case
 * is worth a sentence of its own. */
static void expect_mtp(loader *l)
{
    char norm[NAME_BYTES], projection[NAME_BYTES];
    snprintf(norm, sizeof norm, "model.layers.%zu.input_layernorm.weight", l->config->num_hidden_layers);
    snprintf(projection, sizeof projection, "model.layers.%zu.eh_proj.weight", l->config->num_hidden_layers);
    if (l->status != QN_OK || qn_checkpoint_has(l->checkpoint, norm) || qn_checkpoint_has(l->checkpoint, projection))
        return;
    l->status = qn_fail(l->err, QN_BAD_INPUT,
                        "%s: no tensors of the MTP layer model.layers.%zu, though num_nextn_predict_layers is 1: fetch "
                        "the release's files, or, for a checkpoint that was saved without it, set "
                        "num_nextn_predict_layers to 0 in config.json",
                        qn_checkpoint_dir(l->checkpoint), l->config->num_hidden_layers);
}

/* The MTP layer: a sparse block with an indexer of its own, numbered after the last decoder layer. */
static void take_mtp(loader *l, qn_weights *w)
{
    const qn_config *c = l->config;
    expect_mtp(l);
    take_layer(l, c->num_hidden_layers, true, true, &w->layers[c->num_hidden_layers]);
    take_vector(l, "enorm.weight", c->hidden_size, &w->mtp.enorm);
    take_vector(l, "hnorm.weight", c->hidden_size, &w->mtp.hnorm);
    take_matrix(l, "eh_proj.weight", c->hidden_size, 2 * c->hidden_size, &w->mtp.eh_proj);
    take_vector(l, "shared_head.norm.weight", c->hidden_size, &w->mtp.head_norm);
    take_matrix_or(l, "embed_tokens.weight", &w->embed_tokens, &w->mtp.embed_tokens);
    take_matrix_or(l, "shared_head.head.weight", &w->lm_head, &w->mtp.head);
}

static void take_all(loader *l, qn_weights *w)
{
    const qn_config *c = l->config;
    take_matrix(l, "model.embed_tokens.weight", c->vocab_size, c->hidden_size, &w->embed_tokens);
    w->lm_head = w->embed_tokens;
    if (!c->tie_word_embeddings)
        take_matrix(l, "lm_head.weight", c->vocab_size, c->hidden_size, &w->lm_head);
    take_vector(l, "model.norm.weight", c->hidden_size, &w->norm);
    for (size_t layer = 0; layer < c->num_hidden_layers; layer++)
        take_layer(l, layer, c->layer_is_sparse[layer], c->layer_has_indexer[layer], &w->layers[layer]);
    if (w->has_mtp)
        take_mtp(l, w);
    if (l->status == QN_OK)
        l->status = qn_checkpoint_finish(l->checkpoint, l->err);
}

qn_status qn_weights_take(qn_checkpoint *checkpoint, qn_weights *out, qn_error *err)
{
    const qn_config *config = qn_checkpoint_config(checkpoint);
    *out = (qn_weights){.has_mtp = config->num_nextn_predict_layers > 0};
    size_t layer_count = config->num_hidden_layers + (out->has_mtp ? 1 : 0);
    out->layers = qn_alloc_zero(layer_count, sizeof *out->layers);
    if (!out->layers)
        return qn_fail_memory(err, "table of layers", layer_count * sizeof *out->layers);
    out->layer_count = layer_count;
    loader l = {.checkpoint = checkpoint, .config = config, .status = QN_OK, .err = err};
    take_all(&l, out);
    out->bytes = l.bytes;
    if (l.status != QN_OK)
        qn_weights_free(out);
    return l.status;
}

qn_dtype_set qn_attention_in_dtypes(const qn_attention_weights *w)
{
    qn_dtype_set dtypes = qn_dtype_set_of(&w->q_a_proj) | qn_dtype_set_of(&w->kv_a_proj);
    return w->has_indexer ? dtypes | qn_dtype_set_of(&w->indexer.wk) : dtypes;
}

qn_dtype_set qn_attention_query_dtypes(const qn_attention_weights *w)
{
    qn_dtype_set dtypes = qn_dtype_set_of(&w->q_b_proj);
    return w->has_indexer ? dtypes | qn_dtype_set_of(&w->indexer.wq_b) : dtypes;
}

static void visit_mlps(qn_mlp_weights *mlps, qn_matrix_kind kind, qn_matrix_visit visit, void *context)
{
    for (size_t i = 0; i < 3 * mlps->count; i++)
        visit(context, &mlps->gate[i], kind); /* up and down stand behind */
}

static void visit_layer(qn_layer_weights *w, qn_matrix_visit visit, void *context)
{
    qn_attention_weights *a = &w->attention;
    qn_matrix *const dense[] = {&a->q_a_proj, &a->q_b_proj,     &a->kv_a_proj,  &a->kv_b_proj,
                                &a->o_proj,   &a->indexer.wq_b, &a->indexer.wk, &a->indexer.weights_proj,
                                &w->router};
    for (size_t i = 0; i < sizeof dense / sizeof *dense; i++) {
        if (dense[i]->rows > 0) /* what a layer lacks is all zero */
            visit(context, dense[i], QN_MATRIX_DENSE);
    }
    visit_mlps(&w->dense, QN_MATRIX_DENSE, visit, context);
    visit_mlps(&w->experts, QN_MATRIX_EXPERT, visit, context);
}

void qn_weights_each_matrix(qn_weights *weights, qn_matrix_visit visit, void *context)
{
    visit(context, &weights->embed_tokens, QN_MATRIX_EMBEDDING);
    for (size_t i = 0; i < weights->layer_count; i++)
        visit_layer(&weights->layers[i], visit, context);
    visit(context, &weights->lm_head, QN_MATRIX_DENSE);
    if (!weights->has_mtp)
        return;
    visit(context, &weights->mtp.eh_proj, QN_MATRIX_DENSE);
    visit(context, &weights->mtp.embed_tokens, QN_MATRIX_EMBEDDING);
    visit(context, &weights->mtp.head, QN_MATRIX_DENSE);
}

static void free_layer(qn_layer_weights *w)
{
    qn_free(w->input_norm);
    qn_free(w->post_attention_norm);
    qn_free(w->attention.q_a_norm);
    qn_free(w->attention.kv_a_norm);
    qn_free(w->attention.indexer.k_norm);
    qn_free(w->attention.indexer.k_norm_bias);
    qn_free(w->dense.gate);
    qn_free(w->experts.gate);
    qn_free(w->router_bias);
}

void qn_weights_free(qn_weights *weights)
{
    for (size_t i = 0; i < weights->layer_count; i++)
        free_layer(&weights->layers[i]);
    qn_free(weights->layers);
    qn_free(weights->norm);
    qn_free(weights->mtp.enorm);
    qn_free(weights->mtp.hnorm);
    qn_free(weights->mtp.head_norm);
    *weights = (qn_weights){0};
}
