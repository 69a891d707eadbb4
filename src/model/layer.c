/* The residual stream is float32 throughout; a branch's result is added to it as a whole. */
#include "model/layer.h"

#include "model/attention.h"
#include "model/expert_forecast.h"
#include "model/mlp.h"
#include "model/parallel.h"

static void angles_of_row(void *context, size_t row, size_t worker)
{
    (void)worker;
    const qn_step *step = context;
    qn_workspace *ws = step->ws;
    size_t pairs = step->rope->pairs;
    ws->nonfinite[row] = QN_NONFINITE_NONE;
    qn_rope_angles(step->rope, ws->row[row].position, ws->cosines + row * pairs, ws->sines + row * pairs);
}

void qn_layers_begin(const qn_step *step)
{
    qn_for_rows(step->pool, step->rows, angles_of_row, (void *)step);
}

typedef struct residual {
    const qn_step *step;
    const qn_layer_weights *weights;
} residual;

static void add_attention_and_norm(void *context, size_t row, size_t worker)
{
    (void)worker;
    const residual *r = context;
    qn_workspace *ws = r->step->ws;
    size_t hidden = r->step->config->hidden_size;
    r->step->kernels->axpy(ws->x.rows[row], 1.0f, ws->branch.rows[row], hidden);
    qn_step_check(r->step, row, QN_NONFINITE_ATTENTION, ws->x.rows[row], hidden);
    r->step->kernels->rms_norm(ws->h.rows[row], ws->x.rows[row], r->weights->post_attention_norm, hidden,
                               r->step->config->rms_norm_eps);
}

static void add_mlp(void *context, size_t row, size_t worker)
{
    (void)worker;
    const residual *r = context;
    qn_workspace *ws = r->step->ws;
    size_t hidden = r->step->config->hidden_size;
    r->step->kernels->axpy(ws->x.rows[row], 1.0f, ws->branch.rows[row], hidden);
    qn_step_check(r->step, row, QN_NONFINITE_MLP, ws->x.rows[row], hidden);
}

qn_status qn_layer_run(qn_step *step, const qn_layer_weights *weights, size_t layer, qn_error *err)
{
    residual r = {.step = step, .weights = weights};
    if (step->expert_cache && qn_expert_cache_serves(step->expert_cache, layer)) {
        qn_part_mark(step->clock, QN_PART_ROUTER);
        qn_expert_forecast_read(step->expert_forecast, step, weights, layer, QN_FORECAST_LATE);
    }
    qn_attention(step, weights, layer);
    qn_part_mark(step->clock, QN_PART_REST);
    if (step->rows == 0)
        return QN_OK;
    qn_step_observe(step, QN_OBSERVE_ATTENTION, layer, step->ws->branch.data, step->config->hidden_size);
    qn_for_rows(step->pool, step->rows, add_attention_and_norm, &r);
    qn_status status = qn_mlp(step, weights, layer, err);
    if (status != QN_OK)
        return status;
    qn_part_mark(step->clock, QN_PART_REST);
    qn_for_rows(step->pool, step->rows, add_mlp, &r);
    qn_step_observe(step, QN_OBSERVE_HIDDEN, layer, step->ws->x.data, step->config->hidden_size);
    return qn_step_status(step, layer, err);
}
