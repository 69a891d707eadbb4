/* Prompts have many queries: each is one item of work, scores and choice in one go. A decode step has fewer queries
 * than threads and may have 100,000 keys for each: there the keys are cut into pieces, and the choices follow in a
 * second loop. A score is its key's alone, so the cut changes nothing. */
#include "model/indexer.h"

#include <math.h>

#include "kernels/topk.h"
#include "model/parallel.h"

static const float K_NORM_EPS = 1e-6f;

enum { PIECES_PER_THREAD = 4 };

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
    size_t queries; /* ws->choosing[0 .. queries) */
    size_t pieces;  /* per query */
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

/* scores[s] for s in [first, last). */
static void score_keys(const choice *c, size_t row, size_t first, size_t last, float *scores)
{
    const qn_step *step = c->step;
    const qn_config *config = step->config;
    const qn_kv_sequence *sequence = step->ws->row[row].sequence;
    size_t block_tokens = qn_kv_pool_layout(sequence->pool)->block_tokens;
    while (first < last) {
        size_t slot = first + step->first_slot, count = block_tokens - slot % block_tokens;
        if (count > last - first)
            count = last - first;
        step->kernels->index_scores(scores + first, step->ws->index_q.rows[row], step->ws->index_weights.rows[row],
                                    config->index_n_heads, config->index_head_dim,
                                    qn_kv_index_row(sequence, c->layer, slot), count);
        first += count;
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

static void score_and_choose(void *context, size_t query, size_t worker)
{
    const choice *c = context;
    qn_worker *mine = &c->step->ws->worker[worker];
    size_t row = (size_t)c->step->ws->choosing[query];
    qn_part_enter(c->step->clock, worker, QN_PART_INDEX_SCORES);
    score_keys(c, row, 0, c->step->ws->row[row].position + 1, mine->scores);
    qn_part_enter(c->step->clock, worker, QN_PART_INDEX_CHOICE);
    choose(c, row, mine->scores, mine->order);
    qn_part_leave(c->step->clock, worker);
}

/* Of the i-th query, the scores are in the i-th worker's buffer. */
static void score_piece(void *context, size_t item, size_t worker)
{
    (void)worker;
    const choice *c = context;
    size_t query = item / c->pieces, piece = item % c->pieces;
    size_t row = (size_t)c->step->ws->choosing[query], keys = c->step->ws->row[row].position + 1;
    score_keys(c, row, keys * piece / c->pieces, keys * (piece + 1) / c->pieces, c->step->ws->worker[query].scores);
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
    if (c.queries >= threads) {
        qn_pool_run(step->pool, c.queries, score_and_choose, &c);
    } else if (c.queries > 0) {
        c.pieces = threads * PIECES_PER_THREAD / c.queries;
        qn_pool_run(step->pool, c.queries * c.pieces, score_piece, &c);
        qn_part_mark(step->clock, QN_PART_INDEX_CHOICE);
        qn_pool_run(step->pool, c.queries, choose_only, &c);
    }
    if (step->observer)
        observe(step, layer);
}
