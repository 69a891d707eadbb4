/* After the projections, rows are taken in blocks, and a block goes through three loops: q_nope W_k head by head, so
 * that a head's weights are read and unpacked once for all rows of the block; the core row by row, so that a row's
 * selected keys are gathered once for all heads; and W_v head by head again. The block's latent queries and values lie
 * in between. */
#include "model/attention.h"

#include "model/indexer.h"
#include "model/parallel.h"

enum { ITEMS_PER_THREAD = 3, LEAST_ROWS = 8, LEAST_HEADS = 8 };

typedef struct attention {
    qn_step *step;
    const qn_layer_weights *weights;
    size_t layer;
    qn_packed packed; /* the input of the projections that come next */
    size_t row, rows; /* the block: rows [row, row + rows) */
    size_t share;     /* of a loop's items: rows of a head, or heads of a row */
    size_t shares;
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

static void store_keys(void *context, size_t row, size_t worker)
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
}

static void norm_query(void *context, size_t row, size_t worker)
{
    (void)worker;
    const attention *a = context;
    const qn_step *step = a->step;
    float *q_a = step->ws->q_a.rows[row];
    step->kernels->rms_norm(q_a, q_a, a->weights->attention.q_a_norm, step->config->q_lora_rank, step->mla_norm_eps);
    qn_packed_put(&a->packed, row, q_a);
}

static void store_and_norm(void *context, size_t row, size_t worker)
{
    store_keys(context, row, worker);
    norm_query(context, row, worker);
}

/* Caches the rows' keys, and computes q and the indexer's q from q_resid of those that go on. */
static void project_queries(attention *a)
{
    qn_step *step = a->step;
    const qn_attention_weights *w = &a->weights->attention;
    qn_workspace *ws = step->ws;
    const bool drops = qn_step_drops_rows(step);
    if (drops) {
        qn_for_rows(step->pool, step->rows, store_keys, a);
        qn_step_keep_wanted(step);
        if (step->rows == 0)
            return;
    }
    a->packed = pack_into(a, step->config->q_lora_rank, qn_attention_query_dtypes(w));
    qn_for_rows(step->pool, step->rows, drops ? norm_query : store_and_norm, a);
    qn_product products[2] = {{.w = &w->q_b_proj, .x = qn_packed_rows(&a->packed, &w->q_b_proj), .y = ws->q.rows}};
    size_t count = 1;
    if (w->has_indexer) {
        const qn_matrix *wq_b = &w->indexer.wq_b;
        products[count++] = (qn_product){.w = wq_b, .x = qn_packed_rows(&a->packed, wq_b), .y = ws->index_q.rows};
    }
    qn_products_run(step->pool, step->kernels, products, count, step->rows);
}

static float *latent_query(const attention *a, size_t row, size_t head)
{
    const qn_config *c = a->step->config;
    return a->step->ws->latent_queries +
           (row * c->num_attention_heads + head) * (c->kv_lora_rank + c->qk_rope_head_dim);
}

static float *latent_value(const attention *a, size_t row, size_t head)
{
    const qn_config *c = a->step->config;
    return a->step->ws->latent_values + (row * c->num_attention_heads + head) * c->kv_lora_rank;
}

/* An item of the loops over heads: one head, and rows [first, last) of the block. */
typedef struct head_item {
    size_t head, first, last;
} head_item;

static head_item head_item_of(const attention *a, size_t item)
{
    size_t first = item % a->shares * a->share;
    return (head_item){.head = item / a->shares, .first = first, .last = qn_min_size(first + a->share, a->rows)};
}

/* Latent queries = per head [q_nope W_k, rotated q_rope]. */
static void absorb_queries(void *context, size_t item, size_t worker)
{
    (void)worker;
    const attention *a = context;
    const qn_config *c = a->step->config;
    qn_workspace *ws = a->step->ws;
    head_item at = head_item_of(a, item);
    size_t nope = c->qk_nope_head_dim, rope = c->qk_rope_head_dim, latent = c->kv_lora_rank;
    size_t pairs = a->step->rope->pairs, first = at.head * (nope + c->v_head_dim);
    const float *x[QN_ATTENTION_ROWS];
    float *y[QN_ATTENTION_ROWS];
    for (size_t r = at.first; r < at.last; r++) {
        size_t row = a->row + r;
        const float *q = ws->q.rows[row] + at.head * (nope + rope);
        float *rotated = latent_query(a, r, at.head) + latent;
        for (size_t i = 0; i < rope; i++)
            rotated[i] = q[nope + i];
        qn_rope_rotate(rotated, ws->cosines + row * pairs, ws->sines + row * pairs, pairs);
        x[r - at.first] = q;
        y[r - at.first] = rotated - latent;
    }
    a->step->kernels->matmul_transposed(&a->weights->attention.kv_b_proj, first, first + nope, x, at.last - at.first,
                                        y);
}

/* Latent values = sum_s p_s c_s; an item is a row and a share of its heads. */
static void attend_row(void *context, size_t item, size_t worker)
{
    const attention *a = context;
    const qn_step *step = a->step;
    const qn_config *c = step->config;
    qn_worker *w = &step->ws->worker[worker];
    size_t r = item / a->shares, head = item % a->shares * a->share, row = a->row + r;
    size_t heads = qn_min_size(a->share, c->num_attention_heads - head);
    const qn_selection *s = &step->ws->selection[row];
    qn_kv_latent_rows(step->ws->row[row].sequence, a->layer, step->first_slot, s->positions, s->count, w->keys);
    step->kernels->attend(latent_value(a, r, head), latent_query(a, r, head), heads, c->kv_lora_rank,
                          c->qk_rope_head_dim, step->rope->softmax_scale, w->keys, s->count, w->attend);
}

/* ws->values of the head = W_v latent values. */
static void expand_values(void *context, size_t item, size_t worker)
{
    const attention *a = context;
    const qn_config *c = a->step->config;
    const qn_matrix *kv_b = &a->weights->attention.kv_b_proj;
    head_item at = head_item_of(a, item);
    size_t value = c->v_head_dim, rows = at.last - at.first;
    size_t last = (at.head + 1) * (c->qk_nope_head_dim + value);
    void *pointers[QN_ATTENTION_ROWS];
    float *y[QN_ATTENTION_ROWS];
    qn_packed packed = qn_packed_make(a->step->kernels, rows, c->kv_lora_rank, qn_dtype_set_of(kv_b),
                                      a->step->ws->worker[worker].packed_values, pointers);
    for (size_t r = 0; r < rows; r++) {
        qn_packed_put(&packed, r, latent_value(a, at.first + r, at.head));
        y[r] = a->step->ws->values.rows[a->row + at.first + r] + at.head * value;
    }
    a->step->kernels->matmul(kv_b, last - value, last, qn_packed_rows(&packed, kv_b), rows, y);
}

/* Whether so many equal items keep all threads busy to the end, or nearly. */
static bool is_even(size_t items, size_t threads)
{
    return items % threads == 0 || items >= threads * ITEMS_PER_THREAD;
}

/* Runs a loop over `count` heads or rows, each cut into shares of its `inner` rows or heads: of all of them, or of
 * `most`, if that makes even work for the threads, else halved until it does, down to `least`, below which a share
 * costs more than it spreads. */
static void run_shared(attention *a, size_t count, size_t inner, size_t least, size_t most, qn_pool_body body)
{
    const size_t threads = qn_pool_threads(a->step->pool);
    a->share = qn_min_size(inner, most);
    while (a->share > least && !is_even(count * qn_ceil_div(inner, a->share), threads))
        a->share = qn_max_size(qn_ceil_div(a->share, 2), least);
    a->shares = qn_ceil_div(inner, a->share);
    qn_pool_run(a->step->pool, count * a->shares, body, a);
}

static void attend_all(attention *a)
{
    const size_t heads = a->step->config->num_attention_heads;
    for (a->row = 0; a->row < a->step->rows; a->row += a->rows) {
        a->rows = qn_min_size(QN_ATTENTION_ROWS, a->step->rows - a->row);
        qn_part_mark(a->step->clock, QN_PART_ABSORB);
        run_shared(a, heads, a->rows, LEAST_ROWS, QN_ATTENTION_ROWS, absorb_queries);
        qn_part_mark(a->step->clock, QN_PART_ATTEND);
        run_shared(a, a->rows, heads, LEAST_HEADS, QN_ATTENTION_HEADS, attend_row);
        qn_part_mark(a->step->clock, QN_PART_EXPAND);
        run_shared(a, heads, a->rows, LEAST_ROWS, QN_ATTENTION_ROWS, expand_values);
    }
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

void qn_attention(qn_step *step, const qn_layer_weights *weights, size_t layer)
{
    attention a = {.step = step, .weights = weights, .layer = layer};
    qn_part_mark(step->clock, QN_PART_PROJECTIONS);
    project_input(&a);
    project_queries(&a);
    if (step->rows == 0)
        return;
    if (weights->attention.has_indexer)
        qn_indexer_select(step, layer);
    attend_all(&a);
    qn_part_mark(step->clock, QN_PART_PROJECTIONS);
    project_output(&a);
}
