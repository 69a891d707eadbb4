/* Prompts have many queries: a few neighbours in one sequence are one item of work, which reads their keys once, scores
 * and choices in one go. A decode step has fewer queries than threads and may have 100,000 keys for each: there the
 * keys are cut into pieces, and the choices follow in a second loop. A score is its query's and its key's alone, so
 * neither changes anything. */
#include "model/indexer.h"

#include <math.h>

#include "base/size.h"
#include "kernels/topk.h"
#include "model/parallel.h"

static const float K_NORM_EPS = 1e-6f;

enum { PIECES_PER_THREAD = 4, ITEMS_PER_THREAD = 4 };

static void layer_norm(float *x, const float *weight, const float *bias, size_t count, float eps)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)x[i];
    double mean = sum / (double)count;
    for (size_t i = 0; i < count; i++) {
        double d = (double)x[i] - mean;
        squares += d * d;
    }
    float factor = (float)(1.0 / sqrt(squares / (double)count + (double)eps));
    for (size_t i = 0; i < count; i++)
        x[i] = (float)((double)x[i] - mean) * factor * weight[i] + bias[i];
}

static void rotate(const qn_step *step, size_t row, float *x)
{
    size_t pairs = step->rope->pairs;
    qn_rope_rotate(x, step->ws->cosines + row * pairs, step->ws->sines + row * pairs, pairs);
}

void qn_indexer_store_key(const qn_step *step, const qn_indexer_weights *w, size_t layer, size_t row)
{
    qn_workspace *ws = step->ws;
    size_t dim = step->config->index_head_dim, heads = step->config->index_n_heads;
    float *key = ws->index_k.rows[row], *weights = ws->index_weights.rows[row];
    layer_norm(key, w->k_norm, w->k_norm_bias, dim, K_NORM_EPS);
    rotate(step, row, key);
    qn_step_check(step, row, QN_NONFINITE_INDEX_KEY, key, dim);
    step->kernels->store_row(qn_kv_index_row(ws->row[row].sequence, layer, ws->row[row].position + step->first_slot),
                             key, dim);
    float scale = 1.0f / sqrtf((float)heads);
    for (size_t h = 0; h < heads; h++)
        weights[h] *= scale;
    qn_step_check(step, row, QN_NONFINITE_INDEX_QUERY, weights, heads);
}

typedef struct choice {
    const qn_step *step;
    size_t layer;
    size_t queries;  /* ws->choosing[0 .. queries) */
    size_t together; /* queries of an item, or */
    size_t pieces;   /* items of a query */
} choice;

static void prepare_query(void *context, size_t query, size_t worker)
{
    (void)worker;
    const choice *c = context;
    const qn_config *config = c->step->config;
    size_t row = (size_t)c->step->ws->choosing[query], dim = config->index_head_dim;
    float *q = c->step->ws->index_q.rows[row];
    for (size_t h = 0; h < config->index_n_heads; h++)
        rotate(c->step, row, q + h * dim);
    qn_step_check(c->step, row, QN_NONFINITE_INDEX_QUERY, q, config->index_n_heads * dim);
}

/* scores[i][s] for s in [first, last) of the queries ws->choosing[query + i], i < count: rows of one sequence. */
static void score_keys(const choice *c, size_t query, size_t count, size_t first, size_t last, qn_worker *worker,
                       float *const *scores)
{
    const qn_step *step = c->step;
    const qn_workspace *ws = step->ws;
    const size_t heads = step->config->index_n_heads, dim = step->config->index_head_dim;
    const qn_kv_sequence *sequence = ws->row[ws->choosing[query]].sequence;
    const size_t block_tokens = qn_kv_pool_layout(sequence->pool)->block_tokens;
    const void *packed[QN_INDEX_QUERIES];
    const float *weights[QN_INDEX_QUERIES];
    for (size_t i = 0; i < count; i++) {
        size_t row = (size_t)ws->choosing[query + i];
        uint8_t *q = worker->index_q + i * ws->index_q_bytes;
        step->kernels->index_pack(q, ws->index_q.rows[row], heads, dim);
        packed[i] = q;
        weights[i] = ws->index_weights.rows[row];
    }
    while (first < last) {
        size_t slot = first + step->first_slot, keys = block_tokens - slot % block_tokens;
        keys = qn_min_size(keys, last - first);
        float *at[QN_INDEX_QUERIES];
        for (size_t i = 0; i < count; i++)
            at[i] = scores[i] + first;
        step->kernels->index_scores(at, packed, weights, count, heads, dim, qn_kv_index_row(sequence, c->layer, slot),
                                    keys, worker->index_scratch);
        first += keys;
    }
}

static void choose(const choice *c, size_t row, const float *scores, uint32_t *order)
{
    qn_workspace *ws = c->step->ws;
    size_t keys = ws->row[row].position + 1, most = c->step->config->index_topk;
    int32_t *positions = ws->selected + row * ws->selected_width;
    size_t count = qn_topk(scores, keys, most, positions, order, c->step->observer ? &ws->margin[row] : NULL);
    ws->selection[row] = (qn_selection){.count = count, .positions = positions};
}

/* Rows of one sequence among the queries from `query` on, before `end`. */
static size_t neighbours(const qn_workspace *ws, size_t query, size_t end)
{
    size_t count = 1;
    while (query + count < end &&
           ws->row[ws->choosing[query + count]].sequence == ws->row[ws->choosing[query]].sequence)
        count++;
    return count;
}

/* All get scores of as many keys as the last of them has; what is beyond its own keys a query does not look at. */
static void score_and_choose(void *context, size_t item, size_t worker)
{
    const choice *c = context;
    const qn_workspace *ws = c->step->ws;
    qn_worker *mine = &c->step->ws->worker[worker];
    size_t query = item * c->together, end = qn_min_size(query + c->together, c->queries);
    while (query < end) {
        size_t count = neighbours(ws, query, end), keys = 0;
        float *scores[QN_INDEX_QUERIES];
        for (size_t i = 0; i < count; i++) {
            scores[i] = mine->scores + i * ws->max_context_tokens;
            keys = qn_max_size(keys, ws->row[ws->choosing[query + i]].position + 1);
        }
        qn_part_enter(c->step->clock, worker, QN_PART_INDEX_SCORES);
        score_keys(c, query, count, 0, keys, mine, scores);
        qn_part_enter(c->step->clock, worker, QN_PART_INDEX_CHOICE);
        for (size_t i = 0; i < count; i++)
            choose(c, (size_t)ws->choosing[query + i], scores[i], mine->order);
        query += count;
    }
    qn_part_leave(c->step->clock, worker);
}

/* Of the i-th query, the scores are in the i-th worker's buffer. */
static void score_piece(void *context, size_t item, size_t worker)
{
    const choice *c = context;
    qn_workspace *ws = c->step->ws;
    size_t query = item / c->pieces, piece = item % c->pieces, keys = ws->row[ws->choosing[query]].position + 1;
    score_keys(c, query, 1, keys * piece / c->pieces, keys * (piece + 1) / c->pieces, &ws->worker[worker],
               &ws->worker[query].scores);
}

static void choose_only(void *context, size_t query, size_t worker)
{
    const choice *c = context;
    choose(c, (size_t)c->step->ws->choosing[query], c->step->ws->worker[query].scores,
           c->step->ws->worker[worker].order);
}

/* Selections of the rows that attend to all their keys; returns the number of others, listed in ws->choosing. */
static size_t select_all_or_list(const qn_step *step)
{
    qn_workspace *ws = step->ws;
    size_t queries = 0;
    for (size_t r = 0; r < step->rows; r++) {
        size_t keys = ws->row[r].position + 1;
        if (ws->row[r].keeps_selection)
            continue;
        if (keys <= ws->dense_keys)
            ws->selection[r] = (qn_selection){.count = keys};
        else
            ws->choosing[queries++] = (int32_t)r;
    }
    return queries;
}

/* For the observer, in ws->selected: what each row attends to. A row that attends to all of more keys than fit
 * (dsa_dense_below) shows none. */
static void observe(const qn_step *step, size_t layer)
{
    qn_workspace *ws = step->ws;
    size_t width = ws->selected_width;
    for (size_t r = 0; r < step->rows; r++) {
        int32_t *out = ws->selected + r * width;
        const qn_selection *s = &ws->selection[r];
        size_t count = s->count <= width ? s->count : 0;
        for (size_t i = 0; i < width; i++)
            out[i] = i >= count ? -1 : s->positions ? s->positions[i] : (int32_t)i;
    }
    qn_step_observe(step, QN_OBSERVE_TOPK, layer, ws->selected, width);
    qn_step_observe(step, QN_OBSERVE_TOPK_MARGIN, layer, ws->margin, 1);
}

void qn_indexer_select(const qn_step *step, size_t layer)
{
    qn_workspace *ws = step->ws;
    size_t threads = qn_pool_threads(step->pool);
    if (step->observer)
        for (size_t r = 0; r < step->rows; r++)
            ws->margin[r] = INFINITY;
    choice c = {.step = step, .layer = layer, .queries = select_all_or_list(step)};
    if (c.queries > 0)
        qn_for_rows(step->pool, c.queries, prepare_query, &c);
    qn_part_mark(step->clock, QN_PART_INDEX_SCORES);
    if (c.queries >= threads) {
        c.together = c.queries / (threads * ITEMS_PER_THREAD);
        c.together = qn_min_size(qn_max_size(c.together, 1), QN_INDEX_QUERIES);
        qn_pool_run(step->pool, qn_ceil_div(c.queries, c.together), score_and_choose, &c);
    } else if (c.queries > 0) {
        c.pieces = threads * PIECES_PER_THREAD / c.queries;
        qn_pool_run(step->pool, c.queries * c.pieces, score_piece, &c);
        qn_part_mark(step->clock, QN_PART_INDEX_CHOICE);
        qn_pool_run(step->pool, c.queries, choose_only, &c);
    }
    if (step->observer)
        observe(step, layer);
}
