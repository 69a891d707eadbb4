/* Two loops with the packing of the activations in between. In the first, an item is a tile of outputs of one expert
 * and up to 64 of its rows. In the second, an item is a tile of the hidden size for all experts and rows, so that one
 * thread adds up a row's experts in order. Either way each weight is read once per 64 rows that take it.
 *
 * With an expert cache the first loop is run for the groups that can be computed, which is all of them unless some are
 * still being read, and the second for as many groups from the first on as have been through it. What a layer needs may
 * also be more than may be in memory at once: the experts are then worked on in waves, ascending. Either way a row adds
 * them up in the same order. */
#include "model/mlp.h"

#include <string.h>

#include "model/expert_forecast.h"
#include "model/parallel.h"

enum { PACK_BATCH = 4 };

void qn_group_by_expert(const int32_t *taken, const float *weights, size_t rows, size_t per_row, size_t experts,
                        qn_grouping *out)
{
    size_t pairs = rows * per_row;
    memset(out->first, 0, (experts + 1) * sizeof *out->first);
    for (size_t i = 0; i < pairs; i++)
        out->first[(size_t)taken[i] + 1]++;
    for (size_t e = 0; e < experts; e++)
        out->first[e + 1] += out->first[e];
    /* first[e] moves to the end of e's pairs while they are filled in, and then back by one place in the table. */
    for (size_t i = 0; i < pairs; i++) {
        size_t at = out->first[taken[i]]++;
        out->row[at] = (int32_t)(i / per_row);
        out->weight[at] = weights[i];
    }
    for (size_t e = experts; e > 0; e--)
        out->first[e] = out->first[e - 1];
    out->first[0] = 0;
}

typedef struct mlp {
    const qn_step *step;
    const qn_layer_weights *weights;
    size_t layer;
    qn_packed in, down, shared_down;
    size_t groups, routed; /* of ws->groups; those of routed experts, which come first */
    size_t pairs;          /* rows of the routed experts' activations */
    size_t batch;          /* groups that the first phase works on: ws->group_batch[0 .. batch) */
    size_t first, last;    /* the groups that the second phase works on, or comes to next */
    qn_tiles down_tiles;   /* of the hidden size, of all of these together */
} mlp;

static void pack_input(void *context, size_t row, size_t worker)
{
    (void)worker;
    const mlp *m = context;
    qn_packed_put(&m->in, row, m->step->ws->h.rows[row]);
}

static void route_row(void *context, size_t row, size_t worker)
{
    const mlp *m = context;
    qn_workspace *ws = m->step->ws;
    const qn_config *c = m->step->config;
    size_t taken = c->num_experts_per_tok;
    qn_step_check(m->step, row, QN_NONFINITE_ROUTER, ws->router.rows[row], c->n_routed_experts);
    ws->margin[row] = qn_route(c, m->weights->router_bias, ws->router.rows[row], ws->experts + row * taken,
                               ws->expert_weights + row * taken, &ws->worker[worker].router);
}

static void add_group(mlp *m, const qn_mlp_weights *w, size_t expert, qn_mlp_group group)
{
    m->step->ws->group_expert[m->groups] = (int32_t)expert;
    group.gate = &w->gate[expert];
    group.up = &w->up[expert];
    group.down = &w->down[expert];
    group.inner = w->inner;
    m->step->ws->groups[m->groups++] = group;
}

/* Routes the rows; each expert that anybody takes becomes a group. */
static void add_routed(mlp *m)
{
    const qn_step *step = m->step;
    const qn_config *c = step->config;
    qn_workspace *ws = step->ws;
    qn_product product = {.w = &m->weights->router, .x_f32 = (const float *const *)ws->h.rows, .y = ws->router.rows};
    qn_products_run(step->pool, step->kernels, &product, 1, step->rows);
    qn_for_rows(step->pool, step->rows, route_row, m);
    qn_step_observe(step, QN_OBSERVE_ROUTER_EXPERTS, m->layer, ws->experts, c->num_experts_per_tok);
    qn_step_observe(step, QN_OBSERVE_ROUTER_WEIGHTS, m->layer, ws->expert_weights, c->num_experts_per_tok);
    qn_step_observe(step, QN_OBSERVE_ROUTER_MARGIN, m->layer, ws->margin, 1);

    qn_grouping by_expert = {.first = ws->expert_first, .row = ws->pair_row, .weight = ws->pair_weight};
    qn_group_by_expert(ws->experts, ws->expert_weights, step->rows, c->num_experts_per_tok, c->n_routed_experts,
                       &by_expert);
    m->pairs = step->rows * c->num_experts_per_tok;
    for (size_t e = 0; e < c->n_routed_experts; e++) {
        size_t first = by_expert.first[e], rows = by_expert.first[e + 1] - first;
        if (rows > 0)
            add_group(m, &m->weights->experts, e,
                      (qn_mlp_group){.row = by_expert.row + first,
                                     .weight = by_expert.weight + first,
                                     .rows = rows,
                                     .activations = ws->activations + first * m->weights->experts.inner,
                                     .first_packed = first});
    }
}

static qn_tiled tiled_group(const qn_mlp_group *group)
{
    return (qn_tiled){
        .outputs = group->inner, .row_bytes = 2 * qn_matrix_row_bytes(group->gate), .streams = 2, .rows = group->rows};
}

/* Tiles of the first phase: all groups of the batch together are to keep the threads busy. */
static size_t lay_out_items(const mlp *m)
{
    qn_mlp_group *groups = m->step->ws->groups;
    const int32_t *batch = m->step->ws->group_batch;
    qn_cut cut;
    size_t items = 0;
    qn_cut_begin(&cut, qn_pool_threads(m->step->pool));
    for (size_t i = 0; i < m->batch; i++) {
        const qn_tiled group = tiled_group(&groups[batch[i]]);
        qn_cut_add(&cut, &group);
    }
    for (size_t i = m->batch; i-- > 0;) {
        const qn_tiled group = tiled_group(&groups[batch[i]]);
        groups[batch[i]].tiles = qn_cut_last(&cut, &group);
    }
    for (size_t i = 0; i < m->batch; i++)
        groups[batch[i]].end = items += groups[batch[i]].tiles.items;
    return items;
}

/* Tiles of the second phase, each with all blocks of rows of all of its groups. */
static size_t lay_out_down(mlp *m)
{
    const qn_mlp_group *groups = m->step->ws->groups;
    qn_tiled all = {.outputs = m->step->config->hidden_size, .streams = m->last - m->first, .rows = 1};
    size_t most_rows = 0;
    for (size_t g = m->first; g < m->last; g++) {
        all.row_bytes += qn_matrix_row_bytes(groups[g].down);
        most_rows = qn_max_size(most_rows, groups[g].rows);
    }
    all.rows = qn_min_size(most_rows, QN_MATMUL_MAX_ROWS);
    qn_cut cut;
    qn_cut_begin(&cut, qn_pool_threads(m->step->pool));
    qn_cut_add(&cut, &all);
    m->down_tiles = qn_cut_last(&cut, &all);
    return m->down_tiles.items;
}

/* The first group of the batch whose items end behind `item`: its index in the batch. */
static size_t place_of_item(const mlp *m, size_t item)
{
    const qn_workspace *ws = m->step->ws;
    size_t low = 0, high = m->batch - 1;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (item < ws->groups[ws->group_batch[middle]].end)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static qn_model_part part_of(const mlp *m, const qn_mlp_group *group)
{
    if (group->row)
        return QN_PART_EXPERTS;
    return m->weights->is_sparse ? QN_PART_SHARED : QN_PART_DENSE;
}

static void multiply(const mlp *m, const qn_matrix *w, size_t first, size_t last, const qn_mlp_group *group, size_t row,
                     size_t rows, float *const *y)
{
    const void *x[QN_MATMUL_MAX_ROWS];
    const void *const *all = qn_packed_rows(&m->in, w);
    for (size_t r = 0; r < rows; r++)
        x[r] = all[group->row ? (size_t)group->row[row + r] : row + r];
    m->step->kernels->matmul(w, first, last, x, rows, y);
}

static void gate_and_up(void *context, size_t item, size_t worker)
{
    const mlp *m = context;
    const qn_mlp_group *groups = m->step->ws->groups;
    const int32_t *batch = m->step->ws->group_batch;
    size_t at = place_of_item(m, item);
    const qn_mlp_group *group = &groups[batch[at]];
    const qn_tile tile = qn_tile_of(&group->tiles, item - (at > 0 ? groups[batch[at - 1]].end : 0));
    size_t first = tile.first, last = tile.last;
    size_t row = tile.row_block * QN_MATMUL_MAX_ROWS, rows = qn_min_size(group->rows - row, QN_MATMUL_MAX_ROWS);

    float *gate[QN_MATMUL_MAX_ROWS], *up[QN_MATMUL_MAX_ROWS];
    for (size_t r = 0; r < rows; r++) {
        gate[r] = group->activations + (row + r) * group->inner + first;
        up[r] = m->step->ws->worker[worker].tile + r * QN_TILE_OUTPUTS;
    }
    qn_part_enter(m->step->clock, worker, part_of(m, group));
    multiply(m, group->gate, first, last, group, row, rows, gate);
    multiply(m, group->up, first, last, group, row, rows, up);
    for (size_t r = 0; r < rows; r++)
        m->step->kernels->silu_multiply(gate[r], gate[r], up[r], last - first);
    qn_part_leave(m->step->clock, worker);
}

static void observe_experts(const mlp *m)
{
    const qn_observer *observer = m->step->observer;
    const qn_workspace *ws = m->step->ws;
    if (!m->weights->is_sparse || !observer || !observer->observe_experts)
        return;
    const qn_expert_inputs inputs = {
        .in = ws->h.data, .first = ws->expert_first, .row = ws->pair_row, .products = ws->activations};
    observer->observe_experts(observer->context, m->layer, &inputs);
}

/* Rows of activations for the second phase, the routed experts' first: pairs from `pair` on, and a shared expert's
 * behind them. */
typedef struct down_rows {
    const mlp *m;
    size_t pair, pairs, shared;
} down_rows;

static down_rows rows_for_down(const mlp *m)
{
    const qn_mlp_group *groups = m->step->ws->groups;
    size_t first = qn_min_size(m->first, m->routed), last = qn_min_size(m->last, m->routed);
    down_rows rows = {.m = m, .shared = m->last > m->routed ? m->step->rows : 0};
    if (first < last) {
        rows.pair = groups[first].first_packed;
        rows.pairs = groups[last - 1].first_packed + groups[last - 1].rows - rows.pair;
    }
    return rows;
}

static void pack_activations(void *context, size_t batch, size_t worker)
{
    (void)worker;
    const down_rows *rows = context;
    const mlp *m = rows->m;
    const qn_mlp_weights *dense = &m->weights->dense;
    const float *routed = m->step->ws->activations, *shared = routed + m->pairs * m->weights->experts.inner;
    size_t all = rows->pairs + rows->shared;
    for (size_t i = batch * PACK_BATCH; i < qn_min_size((batch + 1) * PACK_BATCH, all); i++) {
        size_t pair = rows->pair + i, row = i - rows->pairs;
        if (i < rows->pairs)
            qn_packed_put(&m->down, pair, routed + pair * m->weights->experts.inner);
        else
            qn_packed_put(&m->shared_down, row, shared + row * dense->inner);
    }
}

/* out[row][first .. last) += weight * (down activations) for the rows of one group. */
static void add_down(const mlp *m, const qn_mlp_group *group, size_t first, size_t last, float *tile)
{
    const void *const *x = qn_packed_rows(group->row ? &m->down : &m->shared_down, group->down) + group->first_packed;
    for (size_t row = 0; row < group->rows; row += QN_MATMUL_MAX_ROWS) {
        size_t rows = qn_min_size(group->rows - row, QN_MATMUL_MAX_ROWS);
        float *y[QN_MATMUL_MAX_ROWS];
        for (size_t r = 0; r < rows; r++)
            y[r] = tile + r * QN_TILE_OUTPUTS;
        m->step->kernels->matmul(group->down, first, last, x + row, rows, y);
        for (size_t r = 0; r < rows; r++) {
            size_t to = group->row ? (size_t)group->row[row + r] : row + r;
            m->step->kernels->axpy(m->step->ws->branch.rows[to] + first, group->weight ? group->weight[row + r] : 1.0f,
                                   y[r], last - first);
        }
    }
}

static void down_tile(void *context, size_t item, size_t worker)
{
    const mlp *m = context;
    qn_workspace *ws = m->step->ws;
    const qn_tile tile = qn_tile_of(&m->down_tiles, item);
    size_t first = tile.first, last = tile.last;
    for (size_t r = 0; r < m->step->rows && m->first == 0; r++)
        memset(ws->branch.rows[r] + first, 0, (last - first) * sizeof(float));
    for (size_t g = m->first; g < m->last; g++) {
        qn_part_enter(m->step->clock, worker, part_of(m, &ws->groups[g]));
        add_down(m, &ws->groups[g], first, last, ws->worker[worker].tile);
    }
    qn_part_leave(m->step->clock, worker);
}

static void prepare_packed(mlp *m)
{
    const qn_step *step = m->step;
    qn_workspace *ws = step->ws;
    const qn_mlp_weights *dense = &m->weights->dense, *experts = &m->weights->experts;
    m->in = qn_packed_make(step->kernels, step->rows, step->config->hidden_size, dense->in_dtypes | experts->in_dtypes,
                           ws->packed_in, ws->packed_in_rows);
    m->down = qn_packed_make(step->kernels, m->pairs, experts->inner, experts->down_dtypes, ws->packed_down,
                             ws->packed_down_rows);
    m->shared_down = qn_packed_make(step->kernels, step->rows, dense->inner, dense->down_dtypes, ws->packed_shared_down,
                                    ws->packed_shared_down_rows);
}

static bool is_cached(const mlp *m)
{
    return m->routed > 0 && m->step->expert_cache && qn_expert_cache_serves(m->step->expert_cache, m->layer);
}

/* The group behind the last one that belongs to the wave of `first`: all of them, unless they lie in the cache. */
static size_t end_of_wave(const mlp *m, size_t first)
{
    if (!is_cached(m) || m->routed <= first + qn_expert_cache_most(m->step->expert_cache))
        return m->groups;
    return first + qn_expert_cache_most(m->step->expert_cache);
}

/* As far as it can be guessed, what the next layer takes. */
static void read_next_layer(const mlp *m)
{
    const qn_step *step = m->step;
    if (step->expert_cache && step->next_layer && qn_expert_cache_serves(step->expert_cache, m->layer + 1))
        qn_expert_forecast_read(step->expert_forecast, step, step->next_layer, m->layer + 1, QN_FORECAST_EARLY);
}

/* What comes behind the wave that ends before group `last`: the next wave, or the next layer. */
static void read_ahead(const mlp *m, size_t last)
{
    const qn_step *step = m->step;
    if (last < m->routed) {
        size_t next = qn_min_size(end_of_wave(m, last), m->routed);
        qn_expert_cache_want(step->expert_cache, m->layer, step->ws->group_expert + last, next - last);
    } else {
        read_next_layer(m);
    }
}

/* Lets the cache read what the wave lacks, and behind that what comes next. */
static qn_status begin_wave(const mlp *m, size_t end, qn_error *err)
{
    qn_workspace *ws = m->step->ws;
    size_t last = qn_min_size(end, m->routed), count = last - m->first;
    qn_status status = qn_expert_cache_hold(m->step->expert_cache, m->layer, ws->group_expert + m->first, count,
                                            ws->expert_views, err);
    if (status != QN_OK)
        return status;
    for (size_t i = 0; i < count; i++) {
        qn_mlp_group *group = &ws->groups[m->first + i];
        group->gate = &ws->expert_views[i].gate;
        group->up = &ws->expert_views[i].up;
        group->down = &ws->expert_views[i].down;
    }
    read_ahead(m, last);
    return QN_OK;
}

/* The batch for the first phase: of the wave's groups those that can be computed and were not yet. Without a cache, all
 * of them; else the routed experts that have arrived, and at first what lies in memory anyway. Waits where that is
 * none. */
static qn_status next_batch(mlp *m, size_t begin, size_t end, bool at_first, qn_error *err)
{
    int32_t *batch = m->step->ws->group_batch;
    size_t in_memory = is_cached(m) ? qn_max_size(begin, m->routed) : begin;
    m->batch = 0;
    for (size_t g = in_memory; g < end && at_first; g++)
        batch[m->batch++] = (int32_t)g;
    if (!is_cached(m))
        return QN_OK;
    size_t arrived = 0;
    qn_status status = qn_expert_cache_arrivals(m->step->expert_cache, m->batch == 0, batch + m->batch, &arrived, err);
    for (size_t i = 0; i < arrived; i++)
        batch[m->batch + i] += (int32_t)begin;
    m->batch += arrived;
    return status;
}

static void run_gate_and_up(const mlp *m)
{
    qn_workspace *ws = m->step->ws;
    qn_pool_run(m->step->pool, lay_out_items(m), gate_and_up, (void *)m);
    for (size_t i = 0; i < m->batch; i++)
        ws->groups[ws->group_batch[i]].activated = true;
}

static void run_down(mlp *m)
{
    const qn_step *step = m->step;
    down_rows rows = rows_for_down(m);
    qn_for_rows(step->pool, qn_ceil_div(rows.pairs + rows.shared, PACK_BATCH), pack_activations, &rows);
    qn_pool_run(step->pool, lay_out_down(m), down_tile, m);
}

/* Groups m->first .. end - 1. */
static qn_status run_wave(mlp *m, size_t end, qn_error *err)
{
    const qn_mlp_group *groups = m->step->ws->groups;
    size_t begin = m->first;
    qn_status status = is_cached(m) ? begin_wave(m, end, err) : QN_OK;
    for (bool at_first = true; m->first < end && status == QN_OK; at_first = false) {
        status = next_batch(m, begin, end, at_first, err);
        if (status != QN_OK)
            break;
        run_gate_and_up(m);
        while (m->last < end && groups[m->last].activated)
            m->last++;
        if (m->last > m->first)
            run_down(m);
        m->first = m->last;
    }
    return status;
}

qn_status qn_mlp(const qn_step *step, const qn_layer_weights *weights, size_t layer, qn_error *err)
{
    mlp m = {.step = step, .weights = weights, .layer = layer};
    qn_status status = QN_OK;
    qn_part_mark(step->clock, QN_PART_ROUTER);
    if (weights->is_sparse)
        add_routed(&m);
    m.routed = m.groups;
    qn_part_count_experts(step->clock, m.groups);
    qn_part_mark(step->clock, weights->is_sparse ? QN_PART_EXPERTS : QN_PART_DENSE);
    if (weights->dense.count > 0)
        add_group(&m, &weights->dense, 0,
                  (qn_mlp_group){.rows = step->rows,
                                 .activations = step->ws->activations + m.pairs * weights->experts.inner});
    prepare_packed(&m);
    qn_for_rows(step->pool, step->rows, pack_input, &m);
    if (is_cached(&m))
        qn_expert_forecast_check(step->expert_forecast, layer, step->ws->group_expert, m.routed);
    else
        read_next_layer(&m);
    while (m.first < m.groups && status == QN_OK)
        status = run_wave(&m, end_of_wave(&m, m.first), err);
    if (status != QN_OK)
        return status;
    observe_experts(&m);
    return QN_OK;
}
