/* Buffers are taken one by one, so that a sanitizer sees the end of each, and noted in a list that frees them. */
#include "model/workspace.h"

#include "base/memory.h"
#include "model/mlp.h"
#include "model/parallel.h"

enum { MAX_OWNED = 96, ALIGNMENT = 64 };

typedef struct builder {
    qn_workspace *ws;
    const qn_config *config;
    const qn_kernels *kernels;
    const qn_weights *weights;
    bool measuring; /* only adds up ws->bytes: nothing is allocated, and no buffer may be looked at */
    qn_status status;
    qn_error *err;
} builder;

static void *take(builder *b, size_t count, size_t size)
{
    qn_workspace *ws = b->ws;
    if (b->status != QN_OK)
        return NULL;
    if (b->measuring) {
        ws->bytes += count * size;
        return NULL;
    }
    void *block = ws->owned_count < MAX_OWNED ? qn_alloc_aligned(count, size) : NULL;
    if (!block) {
        b->status = qn_fail_memory(b->err, "step buffers", count * size);
        return NULL;
    }
    ws->owned[ws->owned_count++] = block;
    ws->bytes += count * size;
    return block;
}

static void take_rows(builder *b, qn_row_buffer *out, size_t width)
{
    size_t rows = b->ws->max_rows;
    out->width = width;
    out->data = take(b, rows * width, sizeof(float));
    out->rows = take(b, rows, sizeof *out->rows);
    if (b->status != QN_OK || b->measuring)
        return;
    for (size_t r = 0; r < rows; r++)
        out->rows[r] = out->data + r * width;
}

/* A need for packed rows: the largest of all uses counts. */
typedef struct packed_need {
    size_t bytes, pointers;
} packed_need;

static void need_packed(const builder *b, packed_need *need, size_t rows, size_t cols, qn_dtype_set dtypes)
{
    size_t pointers, bytes = qn_packed_size(b->kernels, rows, cols, dtypes, &pointers);
    need->bytes = qn_max_size(need->bytes, bytes);
    need->pointers = qn_max_size(need->pointers, pointers);
}

static void take_packed(builder *b, packed_need need, uint8_t **bytes, void ***rows)
{
    *bytes = take(b, need.bytes, 1);
    *rows = take(b, need.pointers, sizeof **rows);
}

static void take_packed_rows(builder *b)
{
    const qn_weights *w = b->weights;
    const qn_config *c = b->config;
    size_t rows = b->ws->max_rows, hidden = c->hidden_size;
    packed_need in = {0}, down = {0}, shared_down = {0};
    need_packed(b, &in, rows, hidden, qn_dtype_set_of(&w->lm_head));
    if (w->has_mtp) {
        need_packed(b, &in, rows, hidden, qn_dtype_set_of(&w->mtp.head));
        need_packed(b, &in, rows, 2 * hidden, qn_dtype_set_of(&w->mtp.eh_proj));
    }
    for (size_t i = 0; i < w->layer_count; i++) {
        const qn_layer_weights *layer = &w->layers[i];
        const qn_attention_weights *a = &layer->attention;
        need_packed(b, &in, rows, hidden, qn_attention_in_dtypes(a));
        need_packed(b, &in, rows, c->q_lora_rank, qn_attention_query_dtypes(a));
        need_packed(b, &in, rows, c->num_attention_heads * c->v_head_dim, qn_dtype_set_of(&a->o_proj));
        need_packed(b, &in, rows, hidden, layer->dense.in_dtypes | layer->experts.in_dtypes);
        need_packed(b, &down, rows * c->num_experts_per_tok, layer->experts.inner, layer->experts.down_dtypes);
        need_packed(b, &shared_down, rows, layer->dense.inner, layer->dense.down_dtypes);
    }
    take_packed(b, in, &b->ws->packed_in, &b->ws->packed_in_rows);
    take_packed(b, down, &b->ws->packed_down, &b->ws->packed_down_rows);
    take_packed(b, shared_down, &b->ws->packed_shared_down, &b->ws->packed_shared_down_rows);
}

static void take_mlp_buffers(builder *b)
{
    qn_workspace *ws = b->ws;
    const qn_config *c = b->config;
    size_t pairs = ws->max_rows * c->num_experts_per_tok, activations = 0;
    for (size_t i = 0; i < b->weights->layer_count; i++) {
        const qn_layer_weights *layer = &b->weights->layers[i];
        activations = qn_max_size(activations, ws->max_rows * layer->dense.inner + pairs * layer->experts.inner);
    }
    ws->activations = take(b, activations, sizeof *ws->activations);
    ws->experts = take(b, pairs, sizeof *ws->experts);
    ws->expert_weights = take(b, pairs, sizeof *ws->expert_weights);
    ws->pair_row = take(b, pairs, sizeof *ws->pair_row);
    ws->pair_weight = take(b, pairs, sizeof *ws->pair_weight);
    ws->expert_first = take(b, c->n_routed_experts + 1, sizeof *ws->expert_first);
    ws->groups = take(b, c->n_routed_experts + 1, sizeof *ws->groups);
    ws->group_expert = take(b, c->n_routed_experts + 1, sizeof *ws->group_expert);
    ws->group_batch = take(b, c->n_routed_experts + 1, sizeof *ws->group_batch);
    ws->expert_views = take(b, c->n_routed_experts, sizeof *ws->expert_views);
}

static void take_row_buffers(builder *b)
{
    qn_workspace *ws = b->ws;
    const qn_config *c = b->config;
    size_t rows = ws->max_rows, hidden = c->hidden_size, heads = c->num_attention_heads;
    ws->row = take(b, rows, sizeof *ws->row);
    ws->selection = take(b, rows, sizeof *ws->selection);
    ws->selected = take(b, rows * ws->selected_width, sizeof *ws->selected);
    ws->choosing = take(b, rows, sizeof *ws->choosing);
    ws->nonfinite = take(b, rows, sizeof *ws->nonfinite);
    ws->margin = take(b, rows, sizeof *ws->margin);
    ws->cosines = take(b, rows * (c->qk_rope_head_dim / 2), sizeof *ws->cosines);
    ws->sines = take(b, rows * (c->qk_rope_head_dim / 2), sizeof *ws->sines);
    take_rows(b, &ws->x, hidden);
    take_rows(b, &ws->h, hidden);
    take_rows(b, &ws->branch, hidden);
    take_rows(b, &ws->q_a, c->q_lora_rank);
    take_rows(b, &ws->kv_a, c->kv_lora_rank + c->qk_rope_head_dim);
    take_rows(b, &ws->q, heads * (c->qk_nope_head_dim + c->qk_rope_head_dim));
    take_rows(b, &ws->values, heads * c->v_head_dim);
    take_rows(b, &ws->index_q, c->index_n_heads * c->index_head_dim);
    take_rows(b, &ws->index_k, c->index_head_dim);
    take_rows(b, &ws->index_weights, c->index_n_heads);
    take_rows(b, &ws->router, c->n_routed_experts);
    if (b->weights->has_mtp)
        take_rows(b, &ws->mtp_input, 2 * hidden);
}

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* `count` elements for each worker, at a distance that keeps two workers off one cache line. */
typedef struct worker_buffer {
    uint8_t *data;
    size_t stride;
} worker_buffer;

static worker_buffer take_for_workers(builder *b, size_t threads, size_t count, size_t size)
{
    size_t stride = aligned(count * size);
    return (worker_buffer){take(b, threads, stride), stride};
}

static void *of_worker(worker_buffer buffer, size_t worker)
{
    return buffer.data + worker * buffer.stride;
}

static size_t attention_rows(const builder *b)
{
    return qn_min_size(QN_ATTENTION_ROWS, b->ws->max_rows);
}

static void take_latent_buffers(builder *b)
{
    const qn_config *c = b->config;
    size_t pairs = attention_rows(b) * c->num_attention_heads, latent = c->kv_lora_rank;
    b->ws->latent_queries = take(b, pairs * (latent + c->qk_rope_head_dim), sizeof(float));
    b->ws->latent_values = take(b, pairs * latent, sizeof(float));
}

static size_t packed_values_bytes(const builder *b)
{
    size_t bytes = 0;
    for (size_t i = 0; i < b->weights->layer_count; i++) {
        size_t pointers;
        qn_dtype_set dtypes = qn_dtype_set_of(&b->weights->layers[i].attention.kv_b_proj);
        bytes = qn_max_size(bytes,
                            qn_packed_size(b->kernels, attention_rows(b), b->config->kv_lora_rank, dtypes, &pointers));
    }
    return bytes;
}

static void take_workers(builder *b, size_t threads)
{
    qn_workspace *ws = b->ws;
    const qn_config *c = b->config;
    size_t latent = c->kv_lora_rank, rope = c->qk_rope_head_dim, experts = c->n_routed_experts;
    size_t heads = qn_min_size(QN_ATTENTION_HEADS, c->num_attention_heads);
    bool may_choose = ws->max_context_tokens > ws->dense_keys;
    size_t scores = may_choose ? ws->max_context_tokens : 0;
    ws->index_q_bytes = aligned(b->kernels->index_packed_bytes(c->index_n_heads, c->index_head_dim));
    worker_buffer tile = take_for_workers(b, threads, (size_t)QN_MATMUL_MAX_ROWS * QN_TILE_OUTPUTS, sizeof(float));
    worker_buffer packed = take_for_workers(b, threads, packed_values_bytes(b), 1);
    worker_buffer attend = take_for_workers(b, threads, b->kernels->attend_scratch_bytes(heads, latent, rope), 1);
    worker_buffer keys = take_for_workers(b, threads, ws->max_keys, sizeof(void *));
    worker_buffer all_scores = take_for_workers(b, threads, QN_INDEX_QUERIES * scores, sizeof(float));
    worker_buffer order = take_for_workers(b, threads, scores, sizeof(uint32_t));
    worker_buffer index_q = take_for_workers(b, threads, may_choose ? QN_INDEX_QUERIES * ws->index_q_bytes : 0, 1);
    worker_buffer index_scratch = take_for_workers(b, threads, b->kernels->index_scratch_bytes(c->index_head_dim), 1);
    worker_buffer choice = take_for_workers(b, threads, experts, sizeof(float));
    worker_buffer group_score = take_for_workers(b, threads, experts, sizeof(float));
    worker_buffer groups = take_for_workers(b, threads, experts, sizeof(int32_t));
    worker_buffer router_order = take_for_workers(b, threads, experts, sizeof(uint32_t));
    ws->worker = take(b, threads, sizeof *ws->worker);
    if (b->status != QN_OK || b->measuring)
        return;
    for (size_t i = 0; i < threads; i++)
        ws->worker[i] = (qn_worker){.tile = of_worker(tile, i),
                                    .packed_values = of_worker(packed, i),
                                    .attend = of_worker(attend, i),
                                    .keys = of_worker(keys, i),
                                    .scores = of_worker(all_scores, i),
                                    .order = of_worker(order, i),
                                    .index_q = of_worker(index_q, i),
                                    .index_scratch = of_worker(index_scratch, i),
                                    .router = {.choice = of_worker(choice, i),
                                               .group_score = of_worker(group_score, i),
                                               .groups = of_worker(groups, i),
                                               .order = of_worker(router_order, i)}};
}

static void set_sizes(const qn_config *config, qn_workspace_sizes sizes, qn_workspace *out)
{
    *out = (qn_workspace){.max_rows = sizes.max_rows, .max_context_tokens = sizes.max_context_tokens};
    out->dense_keys = qn_max_size(config->index_topk, sizes.dsa_dense_below);
    out->selected_width = qn_min_size(config->index_topk, sizes.max_context_tokens);
    out->max_keys = qn_min_size(out->dense_keys, sizes.max_context_tokens);
}

static void take_all(builder *b, size_t threads)
{
    take_row_buffers(b);
    take_latent_buffers(b);
    take_mlp_buffers(b);
    take_packed_rows(b);
    take_workers(b, threads);
}

qn_status qn_workspace_make(const qn_config *config, const qn_weights *weights, const qn_kernels *kernels,
                            qn_workspace_sizes sizes, qn_workspace *out, qn_error *err)
{
    *out = (qn_workspace){0};
    if (sizes.max_rows < 1 || sizes.max_rows > QN_MAX_STEP_ROWS)
        return qn_fail(err, QN_USAGE, "rows of one step: %zu: use 1 to %d", sizes.max_rows, QN_MAX_STEP_ROWS);
    if (sizes.max_context_tokens < 1 || sizes.max_context_tokens > QN_MAX_POSITIONS)
        return qn_fail(err, QN_USAGE, "context: %zu tokens: use 1 to %d", sizes.max_context_tokens, QN_MAX_POSITIONS);
    set_sizes(config, sizes, out);
    out->owned = qn_alloc_zero(MAX_OWNED, sizeof *out->owned);
    if (!out->owned)
        return qn_fail_memory(err, "step buffers", MAX_OWNED * sizeof *out->owned);
    builder b = {.ws = out, .config = config, .kernels = kernels, .weights = weights, .status = QN_OK, .err = err};
    take_all(&b, sizes.threads);
    if (b.status != QN_OK)
        qn_workspace_free(out);
    return b.status;
}

size_t qn_workspace_measure(const qn_config *config, const qn_weights *weights, const qn_kernels *kernels,
                            qn_workspace_sizes sizes)
{
    qn_workspace measured;
    set_sizes(config, sizes, &measured);
    builder b = {
        .ws = &measured, .config = config, .kernels = kernels, .weights = weights, .measuring = true, .status = QN_OK};
    take_all(&b, sizes.threads);
    return measured.bytes;
}

void qn_workspace_free(qn_workspace *ws)
{
    for (size_t i = 0; i < ws->owned_count; i++)
        qn_free(ws->owned[i]);
    qn_free(ws->owned);
    *ws = (qn_workspace){0};
}
