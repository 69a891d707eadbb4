/* After the projections, an item of work is a block of rows times a group of heads: its rows meet a head's W_k and W_v
 * while these are in cache, and its heads meet a row's selected keys while those are. */
#include "model/attention.h"

#include "model/indexer.h"
#include "model/parallel.h"

enum { ROW_BLOCK = 8, HEAD_GROUP = 8, ITEMS_PER_THREAD = 3 };

_Static_assert(ROW_BLOCK *HEAD_GROUP <= QN_ATTENTION_TILE, "a worker's buffers hold an item");

typedef struct attention {
    const qn_step *step;
    const qn_layer_weights *weights;
    size_t layer;
    qn_packed packed; /* the input of the projections that come next */
    size_t row_block, head_group, head_groups;
} attention;

static qn_packed pack_into(const attention *a, size_t cols, qn_dtype_set dtypes)
{
    qn_workspace *ws = a->step->ws;
    return qn_packed_make(a->step->kernels, a->step->rows, cols, dtypes, ws->packed_in, ws->packed_in_rows);
}

static void norm_input(void *context, size_t row, size_t worker)
{
    (void)worker;
    const attention *a = context;
    qn_workspace *ws = a->step->ws;
    a->step->kernels->rms_norm(ws->h.rows[row], ws->x.rows[row], a->weights->input_norm, a->step->config->hidden_size,
                               a->step->config->rms_norm_eps);
    qn_packed_put(&a->packed, row, ws->h.rows[row]);
}

/* Everything that is computed from h alone: q_a, the latent with k_r, and the indexer's key and weights. */
static void project_input(attention *a)
{
    const qn_step *step = a->step;
    const qn_attention_weights *w = &a->weights->attention;
    qn_workspace *ws = step->ws;
    a->packed = pack_into(a, step->config->hidden_size, qn_attention_in_dtypes(w));
    qn_for_rows(step->pool, step->rows, norm_input, a);
    qn_product products[4] = {
        {.w = &w->q_a_proj, .x = qn_packed_rows(&a->packed, &w->q_a_proj), .y = ws->q_a.rows},
        {.w = &w->kv_a_proj, .x = qn_packed_rows(&a->packed, &w->kv_a_proj), .y = ws->kv_a.rows},
    };
    size_t count = 2;
    if (w->has_indexer) {
        const qn_indexer_weights *i = &w->indexer;
        products[count++] = (qn_product){.w = &i->wk, .x = qn_packed_rows(&a->packed, &i->wk), .y = ws->index_k.rows};
        products[count++] = (qn_product){.w = &i->weights_proj,
                                         .x_f32 = (const float *const *)ws->h.rows,
                                         .y = ws->index_weights.rows};
    }
    qn_products_run(step->pool, step->kernels, products, count, step->rows);
}

static void store_and_norm(void *context, size_t row, size_t worker)
{
    (void)worker;
    const attention *a = context;
    const qn_step *step = a->step;
    const qn_config *c = step->config;
    const qn_attention_weights *w = &a->weights->attention;
    qn_workspace *ws = step->ws;
    const qn_row *at = &ws->row[row];
    float *latent = ws->kv_a.rows[row];
    size_t width = c->kv_lora_rank + c->qk_rope_head_dim, pairs = step->rope->pairs;

    step->kernels->rms_norm(latent, latent, w->kv_a_norm, c->kv_lora_rank, step->mla_norm_eps);
    qn_rope_rotate(latent + c->kv_lora_rank, ws->cosines + row * pairs, ws->sines + row * pairs, pairs);
    qn_step_check(step, row, QN_NONFINITE_LATENT, latent, width);
    step->kernels->store_row(qn_kv_latent_row(at->sequence, a->layer, at->position + step->first_slot), latent, width);
    if (w->has_indexer)
        qn_indexer_store_key(step, &w->indexer, a->layer, row);

    step->kernels->rms_norm(ws->q_a.rows[row], ws->q_a.rows[row], w->q_a_norm, c->q_lora_rank, step->mla_norm_eps);
    qn_packed_put(&a->packed, row, ws->q_a.rows[row]);
}

/* Caches the rows' keys, and computes q and the indexer's q from q_resid. */
static void project_queries(attention *a)
{
    const qn_step *step = a->step;
    const qn_attention_weights *w = &a->weights->attention;
    qn_workspace *ws = step->ws;
    a->packed = pack_into(a, step->config->q_lora_rank, qn_attention_query_dtypes(w));
    qn_for_rows(step->pool, step->rows, store_and_norm, a);
    qn_product products[2] = {{.w = &w->q_b_proj, .x = qn_packed_rows(&a->packed, &w->q_b_proj), .y = ws->q.rows}};
    size_t count = 1;
    if (w->has_indexer) {
        const qn_matrix *wq_b = &w->indexer.wq_b;
        products[count++] = (qn_product){.w = wq_b, .x = qn_packed_rows(&a->packed, wq_b), .y = ws->index_q.rows};
    }
    qn_products_run(step->pool, step->kernels, products, count, step->rows);
}

/* One item: rows [row, row + rows) and heads [head, head + heads). */
typedef struct attention_tile {
    size_t row, rows, head, heads;
    qn_worker *worker;
} attention_tile;

/* worker->latent_queries [rows, heads, latent + rope] = per head [q_nope W_k, rotated q_rope]. */
static void absorb_queries(const attention *a, const attention_tile *t)
{
    const qn_config *c = a->step->config;
    qn_workspace *ws = a->step->ws;
    size_t nope = c->qk_nope_head_dim, rope = c->qk_rope_head_dim, latent = c->kv_lora_rank, width = latent + rope;
    size_t pairs = a->step->rope->pairs, head_rows = nope + c->v_head_dim;
    for (size_t h = 0; h < t->heads; h++) {
        const float *x[ROW_BLOCK];
        float *y[ROW_BLOCK];
        for (size_t r = 0; r < t->rows; r++) {
            size_t row = t->row + r;
            float *q = ws->q.rows[row] + (t->head + h) * (nope + rope);
            x[r] = q;
            y[r] = t->worker->latent_queries + (r * t->heads + h) * width;
            for (size_t i = 0; i < rope; i++)
                y[r][latent + i] = q[nope + i];
            qn_rope_rotate(y[r] + latent, ws->cosines + row * pairs, ws->sines + row * pairs, pairs);
        }
        size_t first = (t->head + h) * head_rows;
        a->step->kernels->matmul_transposed(&a->weights->attention.kv_b_proj, first, first + nope, x, t->rows, y);
    }
}

/* worker->latent_values [rows, heads, latent] = sum_s p_s c_s. */
static void attend_rows(const attention *a, const attention_tile *t)
{
    const qn_config *c = a->step->config;
    size_t latent = c->kv_lora_rank, rope = c->qk_rope_head_dim;
    for (size_t r = 0; r < t->rows; r++) {
        const qn_selection *s = &a->step->ws->selection[t->row + r];
        qn_kv_latent_rows(a->step->ws->row[t->row + r].sequence, a->layer, a->step->first_slot, s->positions, s->count,
                          t->worker->keys);
        a->step->kernels->attend(t->worker->latent_values + r * t->heads * latent,
                                 t->worker->latent_queries + r * t->heads * (latent + rope), t->heads, latent, rope,
                                 a->step->rope->softmax_scale, t->worker->keys, s->count, t->worker->attend);
    }
}

/* ws->values of the heads = W_v latent_values. */
static void expand_values(const attention *a, const attention_tile *t)
{
    const qn_config *c = a->step->config;
    const qn_matrix *kv_b = &a->weights->attention.kv_b_proj;
    size_t latent = c->kv_lora_rank, value = c->v_head_dim, head_rows = c->qk_nope_head_dim + value;
    for (size_t h = 0; h < t->heads; h++) {
        void *pointers[ROW_BLOCK];
        float *y[ROW_BLOCK];
        qn_packed packed = qn_packed_make(a->step->kernels, t->rows, latent, qn_dtype_set_of(kv_b),
                                          t->worker->packed_values, pointers);
        for (size_t r = 0; r < t->rows; r++) {
            qn_packed_put(&packed, r, t->worker->latent_values + (r * t->heads + h) * latent);
            y[r] = a->step->ws->values.rows[t->row + r] + (t->head + h) * value;
        }
        size_t last = (t->head + h + 1) * head_rows;
        a->step->kernels->matmul(kv_b, last - value, last, qn_packed_rows(&packed, kv_b), t->rows, y);
    }
}

static void attend_tile(void *context, size_t item, size_t worker)
{
    const attention *a = context;
    size_t row = item / a->head_groups * a->row_block, head = item % a->head_groups * a->head_group;
    attention_tile tile = {.row = row,
                           .rows = qn_min_size(a->row_block, a->step->rows - row),
                           .head = head,
                           .heads = qn_min_size(a->head_group, a->step->config->num_attention_heads - head),
                           .worker = &a->step->ws->worker[worker]};
    qn_part_enter(a->step->clock, worker, QN_PART_ABSORB);
    absorb_queries(a, &tile);
    qn_part_enter(a->step->clock, worker, QN_PART_ATTEND);
    attend_rows(a, &tile);
    qn_part_enter(a->step->clock, worker, QN_PART_EXPAND);
    expand_values(a, &tile);
    qn_part_leave(a->step->clock, worker);
}

/* Blocks as large as fit, unless threads would then go without work: heads are split before rows, since a row's keys
 * are fewer bytes than kv_b_proj. */
static void attend_all(attention *a)
{
    size_t wanted = qn_pool_threads(a->step->pool) * ITEMS_PER_THREAD, heads = a->step->config->num_attention_heads;
    a->row_block = qn_min_size(ROW_BLOCK, a->step->rows);
    a->head_group = qn_min_size(HEAD_GROUP, heads);
    while (a->head_group > 1 && qn_ceil_div(a->step->rows, a->row_block) * qn_ceil_div(heads, a->head_group) < wanted)
        a->head_group = qn_ceil_div(a->head_group, 2);
    while (a->row_block > 1 && qn_ceil_div(a->step->rows, a->row_block) * qn_ceil_div(heads, a->head_group) < wanted)
        a->row_block = qn_ceil_div(a->row_block, 2);
    a->head_groups = qn_ceil_div(heads, a->head_group);
    qn_pool_run(a->step->pool, qn_ceil_div(a->step->rows, a->row_block) * a->head_groups, attend_tile, a);
}

static void pack_values(void *context, size_t row, size_t worker)
{
    (void)worker;
    const attention *a = context;
    qn_packed_put(&a->packed, row, a->step->ws->values.rows[row]);
}

static void project_output(attention *a)
{
    const qn_step *step = a->step;
    const qn_matrix *o_proj = &a->weights->attention.o_proj;
    a->packed = pack_into(a, o_proj->cols, qn_dtype_set_of(o_proj));
    qn_for_rows(step->pool, step->rows, pack_values, a);
    qn_product product = {.w = o_proj, .x = qn_packed_rows(&a->packed, o_proj), .y = step->ws->branch.rows};
    qn_products_run(step->pool, step->kernels, &product, 1, step->rows);
}

void qn_attention(const qn_step *step, const qn_layer_weights *weights, size_t layer)
{
    attention a = {.step = step, .weights = weights, .layer = layer};
    qn_part_mark(step->clock, QN_PART_PROJECTIONS);
    project_input(&a);
    project_queries(&a);
    qn_part_mark(step->clock, QN_PART_INDEX_SCORES);
    if (weights->attention.has_indexer)
        qn_indexer_select(step, layer);
    qn_part_mark(step->clock, QN_PART_ATTEND);
    attend_all(&a);
    qn_part_mark(step->clock, QN_PART_PROJECTIONS);
    project_output(&a);
}
