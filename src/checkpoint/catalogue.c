/* One pass adds the tensors in order; a failure sticks, so that a layer reads as the list of its tensors. Names lie in
 * an arena: a GLM-5.3 has some 60,000 of them. */
#include "checkpoint/catalogue.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/matrix.h"
#include "base/memory.h"

/* Far above any model of the family; a config within its own bounds could ask for more than memory holds. */
enum { MAX_TENSORS = 1 << 22, FIRST_CAPACITY = 1024 };
static const size_t MAX_NAME_BYTES = (size_t)512 << 20;

struct qn_catalogue {
    qn_arena *names;
    qn_catalogue_tensor *tensors;
    qn_catalogue_tensor **by_name;
    size_t count, capacity;
};

typedef struct builder {
    qn_catalogue *catalogue;
    const qn_config *config;
    size_t layer, expert; /* of the tensors that are added next */
    qn_status status;
    qn_error *err;
} builder;

static bool grow(builder *b)
{
    qn_catalogue *c = b->catalogue;
    if (c->count < c->capacity)
        return true;
    if (c->count == MAX_TENSORS) {
        b->status = qn_fail(b->err, QN_BAD_INPUT,
                            "config.json: stands for more than %d tensors: correct its layers and experts",
                            MAX_TENSORS);
        return false;
    }
    size_t capacity = c->capacity ? 2 * c->capacity : FIRST_CAPACITY;
    qn_catalogue_tensor *grown = qn_realloc(c->tensors, capacity, sizeof *grown);
    if (!grown) {
        b->status = qn_fail_memory(b->err, "catalogue of tensors", capacity * sizeof *grown);
        return false;
    }
    c->tensors = grown;
    c->capacity = capacity;
    return true;
}

/* cols 0: a vector of `rows`. The name is "PREFIX.SUFFIX", the prefix that of the layer and expert. */
static void add(builder *b, qn_tensor_kind kind, qn_dtype dtype, size_t rows, size_t cols, const char *suffix)
{
    if (b->status != QN_OK || !grow(b))
        return;
    char name[160];
    if (b->expert != QN_NO_INDEX)
        snprintf(name, sizeof name, "model.layers.%zu.mlp.experts.%zu.%.64s", b->layer, b->expert, suffix);
    else if (b->layer != QN_NO_INDEX)
        snprintf(name, sizeof name, "model.layers.%zu.%.96s", b->layer, suffix);
    else
        snprintf(name, sizeof name, "%.120s", suffix);
    char *kept = qn_arena_strndup(b->catalogue->names, name, strlen(name));
    if (!kept) {
        b->status = qn_fail_memory(b->err, "catalogue of tensors", strlen(name) + 1);
        return;
    }
    b->catalogue->tensors[b->catalogue->count++] = (qn_catalogue_tensor){.name = kept,
                                                                         .dtype = dtype,
                                                                         .dims = cols ? 2 : 1,
                                                                         .shape = {rows, cols},
                                                                         .kind = kind,
                                                                         .layer = b->layer,
                                                                         .expert = b->expert};
}

static void add_matrix(builder *b, qn_tensor_kind kind, size_t rows, size_t cols, const char *suffix)
{
    add(b, kind, QN_DTYPE_BF16, rows, cols, suffix);
}

static void add_norm(builder *b, qn_tensor_kind kind, size_t count, const char *suffix)
{
    add(b, kind, QN_DTYPE_BF16, count, 0, suffix);
}

static void add_attention(builder *b)
{
    const qn_config *c = b->config;
    size_t hidden = c->hidden_size, heads = c->num_attention_heads, latent = c->kv_lora_rank;
    size_t nope = c->qk_nope_head_dim, rope = c->qk_rope_head_dim, value = c->v_head_dim;
    add_matrix(b, QN_KIND_ATTENTION, c->q_lora_rank, hidden, "self_attn.q_a_proj.weight");
    add_norm(b, QN_KIND_ATTENTION, c->q_lora_rank, "self_attn.q_a_layernorm.weight");
    add_matrix(b, QN_KIND_ATTENTION, heads * (nope + rope), c->q_lora_rank, "self_attn.q_b_proj.weight");
    add_matrix(b, QN_KIND_ATTENTION, latent + rope, hidden, "self_attn.kv_a_proj_with_mqa.weight");
    add_norm(b, QN_KIND_ATTENTION, latent, "self_attn.kv_a_layernorm.weight");
    add_matrix(b, QN_KIND_ATTENTION, heads * (nope + value), latent, "self_attn.kv_b_proj.weight");
    add_matrix(b, QN_KIND_ATTENTION, hidden, heads * value, "self_attn.o_proj.weight");
}

static void add_indexer(builder *b)
{
    const qn_config *c = b->config;
    add_matrix(b, QN_KIND_INDEXER, c->index_n_heads * c->index_head_dim, c->q_lora_rank,
               "self_attn.indexer.wq_b.weight");
    add_matrix(b, QN_KIND_INDEXER, c->index_head_dim, c->hidden_size, "self_attn.indexer.wk.weight");
    add_norm(b, QN_KIND_INDEXER, c->index_head_dim, "self_attn.indexer.k_norm.weight");
    add_norm(b, QN_KIND_INDEXER, c->index_head_dim, "self_attn.indexer.k_norm.bias");
    add_matrix(b, QN_KIND_INDEXER, c->index_n_heads, c->hidden_size, "self_attn.indexer.weights_proj.weight");
}

static void add_mlp(builder *b, qn_tensor_kind kind, size_t inner, const char *gate, const char *up, const char *down)
{
    add_matrix(b, kind, inner, b->config->hidden_size, gate);
    add_matrix(b, kind, inner, b->config->hidden_size, up);
    add_matrix(b, kind, b->config->hidden_size, inner, down);
}

static void add_sparse_mlp(builder *b)
{
    const qn_config *c = b->config;
    add_matrix(b, QN_KIND_ROUTER, c->n_routed_experts, c->hidden_size, "mlp.gate.weight");
    add(b, QN_KIND_ROUTER, QN_DTYPE_F32, c->n_routed_experts, 0, "mlp.gate.e_score_correction_bias");
    for (size_t e = 0; e < c->n_routed_experts && b->status == QN_OK; e++) {
        b->expert = e;
        add_mlp(b, QN_KIND_ROUTED_EXPERTS, c->moe_intermediate_size, "gate_proj.weight", "up_proj.weight",
                "down_proj.weight");
    }
    b->expert = QN_NO_INDEX;
    if (c->n_shared_experts > 0)
        add_mlp(b, QN_KIND_SHARED_EXPERTS, c->moe_intermediate_size * c->n_shared_experts,
                "mlp.shared_experts.gate_proj.weight", "mlp.shared_experts.up_proj.weight",
                "mlp.shared_experts.down_proj.weight");
}

static void add_layer(builder *b, size_t layer, bool is_sparse, bool has_indexer)
{
    const qn_config *c = b->config;
    b->layer = layer;
    add_norm(b, QN_KIND_NORMS, c->hidden_size, "input_layernorm.weight");
    add_attention(b);
    if (has_indexer)
        add_indexer(b);
    add_norm(b, QN_KIND_NORMS, c->hidden_size, "post_attention_layernorm.weight");
    if (is_sparse)
        add_sparse_mlp(b);
    else
        add_mlp(b, QN_KIND_DENSE_MLP, c->intermediate_size, "mlp.gate_proj.weight", "mlp.up_proj.weight",
                "mlp.down_proj.weight");
}

static void add_mtp(builder *b)
{
    const qn_config *c = b->config;
    add_layer(b, c->num_hidden_layers, true, true);
    add_norm(b, QN_KIND_MTP, c->hidden_size, "enorm.weight");
    add_norm(b, QN_KIND_MTP, c->hidden_size, "hnorm.weight");
    add_matrix(b, QN_KIND_MTP, c->hidden_size, 2 * c->hidden_size, "eh_proj.weight");
    add_norm(b, QN_KIND_MTP, c->hidden_size, "shared_head.norm.weight");
}

static void add_all(builder *b)
{
    const qn_config *c = b->config;
    add_matrix(b, QN_KIND_EMBEDDING, c->vocab_size, c->hidden_size, "model.embed_tokens.weight");
    for (size_t layer = 0; layer < c->num_hidden_layers; layer++)
        add_layer(b, layer, c->layer_is_sparse[layer], c->layer_has_indexer[layer]);
    if (c->num_nextn_predict_layers > 0)
        add_mtp(b);
    b->layer = QN_NO_INDEX;
    add_norm(b, QN_KIND_NORMS, c->hidden_size, "model.norm.weight");
    if (!c->tie_word_embeddings)
        add_matrix(b, QN_KIND_HEAD, c->vocab_size, c->hidden_size, "lm_head.weight");
}

static int compare_names(const void *a, const void *b)
{
    const qn_catalogue_tensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static qn_status sort_names(qn_catalogue *c, qn_error *err)
{
    c->by_name = qn_alloc(c->count, sizeof(qn_catalogue_tensor *));
    if (!c->by_name)
        return qn_fail_memory(err, "catalogue of tensors", c->count * sizeof(qn_catalogue_tensor *));
    for (size_t i = 0; i < c->count; i++)
        c->by_name[i] = &c->tensors[i];
    qsort(c->by_name, c->count, sizeof(qn_catalogue_tensor *), compare_names);
    return QN_OK;
}

qn_status qn_catalogue_new(const qn_config *config, qn_catalogue **out, qn_error *err)
{
    qn_catalogue *catalogue = qn_alloc_zero(1, sizeof *catalogue);
    if (!catalogue || !(catalogue->names = qn_arena_new(MAX_NAME_BYTES))) {
        qn_free(catalogue);
        return qn_fail_memory(err, "catalogue of tensors", sizeof *catalogue);
    }
    builder b = {.catalogue = catalogue,
                 .config = config,
                 .layer = QN_NO_INDEX,
                 .expert = QN_NO_INDEX,
                 .status = QN_OK,
                 .err = err};
    add_all(&b);
    if (b.status == QN_OK)
        b.status = sort_names(catalogue, err);
    if (b.status != QN_OK) {
        qn_catalogue_free(catalogue);
        return b.status;
    }
    *out = catalogue;
    return QN_OK;
}

void qn_catalogue_free(qn_catalogue *catalogue)
{
    if (!catalogue)
        return;
    qn_free(catalogue->tensors);
    qn_free(catalogue->by_name);
    qn_arena_free(catalogue->names);
    qn_free(catalogue);
}

size_t qn_catalogue_count(const qn_catalogue *catalogue)
{
    return catalogue->count;
}

const qn_catalogue_tensor *qn_catalogue_at(const qn_catalogue *catalogue, size_t i)
{
    return &catalogue->tensors[i];
}

const qn_catalogue_tensor *qn_catalogue_find(const qn_catalogue *catalogue, const char *name)
{
    size_t low = 0, high = catalogue->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(name, catalogue->by_name[middle]->name);
        if (order == 0)
            return catalogue->by_name[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

uint64_t qn_catalogue_elements(const qn_catalogue_tensor *tensor)
{
    return (uint64_t)tensor->shape[0] * (tensor->dims == 2 ? tensor->shape[1] : 1);
}

uint64_t qn_catalogue_bytes(const qn_catalogue_tensor *tensor)
{
    return qn_catalogue_elements(tensor) * (qn_dtype_bits(tensor->dtype) / 8);
}

uint64_t qn_catalogue_mxfp4_bytes(const qn_catalogue_tensor *tensor)
{
    uint64_t elements = qn_catalogue_elements(tensor);
    return elements / 2 + elements / QN_MXFP4_BLOCK;
}
