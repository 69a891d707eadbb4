/* The share of right guesses is a mean that forgets: a new guess counts for a sixteenth. It starts at zero, so that a
 * layer's guesses are watched for some steps before any of them is read. */
#include "model/expert_forecast.h"

#include <string.h>

#include "base/memory.h"
#include "model/parallel.h"

enum { MOST_ROWS = 4, NO_LAYER = -1 };

static const double LATEST_SHARE = 1.0 / 16, LIKELY = 0.5;

struct qn_expert_forecast {
    const qn_config *config;
    long layer;       /* guessed for, or NO_LAYER */
    float *scores;    /* [MOST_ROWS, n_routed_experts] */
    float *weights;   /* [num_experts_per_tok]: not looked at */
    int32_t *taken;   /* [num_experts_per_tok] */
    int32_t *experts; /* [n_routed_experts]: the guess, ascending */
    size_t count;
    uint8_t *guessed; /* [n_routed_experts] */
    double *right;    /* [layers] */
    qn_expert_forecast_figures figures;
};

qn_status qn_expert_forecast_new(const qn_config *config, size_t layer_count, qn_expert_forecast **out, qn_error *err)
{
    size_t experts = config->n_routed_experts, taken = config->num_experts_per_tok;
    qn_expert_forecast *f = qn_alloc_zero(1, sizeof *f);
    if (!f)
        return qn_fail_memory(err, "forecast of experts", sizeof *f);
    f->config = config;
    f->layer = NO_LAYER;
    f->scores = qn_alloc_aligned(MOST_ROWS * experts, sizeof *f->scores);
    f->weights = qn_alloc_zero(taken, sizeof *f->weights);
    f->taken = qn_alloc_zero(taken, sizeof *f->taken);
    f->experts = qn_alloc_zero(experts, sizeof *f->experts);
    f->guessed = qn_alloc_zero(experts, 1);
    f->right = qn_alloc_zero(layer_count, sizeof *f->right);
    if (!f->scores || !f->weights || !f->taken || !f->experts || !f->guessed || !f->right) {
        qn_expert_forecast_free(f);
        return qn_fail_memory(err, "forecast of experts", MOST_ROWS * experts * sizeof(float));
    }
    *out = f;
    return QN_OK;
}

void qn_expert_forecast_free(qn_expert_forecast *f)
{
    if (!f)
        return;
    void *const blocks[] = {f->scores, f->weights, f->taken, f->experts, f->guessed, f->right};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        qn_free(blocks[i]);
    qn_free(f);
}

void qn_expert_forecast_check(qn_expert_forecast *f, size_t layer, const int32_t *experts, size_t count)
{
    if (f->layer != (long)layer || f->count == 0)
        return;
    size_t came_true = 0;
    for (size_t i = 0; i < count; i++)
        came_true += f->guessed[experts[i]];
    f->figures.guessed += f->count;
    f->figures.right += came_true;
    f->right[layer] += LATEST_SHARE * ((double)came_true / (double)f->count - f->right[layer]);
    f->layer = NO_LAYER;
}

void qn_expert_forecast_read(qn_expert_forecast *f, const qn_step *step, const qn_layer_weights *weights, size_t layer)
{
    const qn_config *c = f->config;
    f->layer = NO_LAYER;
    if (step->rows > MOST_ROWS)
        return;
    float *y[MOST_ROWS];
    for (size_t r = 0; r < step->rows; r++)
        y[r] = f->scores + r * c->n_routed_experts;
    qn_product product = {.w = &weights->router, .x_f32 = (const float *const *)step->ws->h.rows, .y = y};
    qn_products_run(step->pool, step->kernels, &product, 1, step->rows);
    memset(f->guessed, 0, c->n_routed_experts);
    for (size_t r = 0; r < step->rows; r++) {
        qn_route(c, weights->router_bias, y[r], f->taken, f->weights, &step->ws->worker[0].router);
        for (size_t i = 0; i < c->num_experts_per_tok; i++)
            f->guessed[f->taken[i]] = 1;
    }
    f->count = 0;
    for (size_t e = 0; e < c->n_routed_experts; e++) {
        if (f->guessed[e])
            f->experts[f->count++] = (int32_t)e;
    }
    f->layer = (long)layer;
    if (f->right[layer] >= LIKELY)
        qn_expert_cache_want(step->expert_cache, layer, f->experts, f->count);
}

const qn_expert_forecast_figures *qn_expert_forecast_figures_of(const qn_expert_forecast *f)
{
    return &f->figures;
}

double qn_expert_forecast_right(const qn_expert_forecast *f, size_t layer)
{
    return f->right[layer];
}
