/* The share of right guesses is a mean that forgets: a new guess counts for a sixteenth. It starts at zero, so that a
 * rank's guesses are watched for some steps before any of them is read. */
#include "model/expert_forecast.h"

#include <string.h>

#include "base/memory.h"
#include "model/parallel.h"

enum { MOST_ROWS = 4 };

/* A right guess saves the time of an expert's read, and a wrong one is given up after a piece of it. */
static const double LATEST_SHARE = 1.0 / 16, LIKELY = 0.35;

/* Experts of a guess, the best rank of any row first. */
typedef struct guess {
    bool made;
    size_t layer, count;
    int32_t *experts; /* [MOST_ROWS * num_experts_per_tok] */
    size_t *rank;
} guess;

struct qn_expert_forecast {
    const qn_config *config;
    float *normed;    /* [MOST_ROWS, hidden_size] */
    float *scores;    /* [MOST_ROWS, n_routed_experts] */
    float *weights;   /* [num_experts_per_tok]: not looked at */
    int32_t *taken;   /* [MOST_ROWS, num_experts_per_tok] */
    int32_t *likely;  /* [MOST_ROWS * num_experts_per_tok]: what is to be read */
    uint8_t *guessed; /* [n_routed_experts] */
    guess guesses[QN_FORECAST_TIMES];
    double *right; /* [layers, QN_FORECAST_TIMES, num_experts_per_tok] */
    qn_expert_forecast_figures figures;
};

qn_status qn_expert_forecast_new(const qn_config *config, size_t layer_count, qn_expert_forecast **out, qn_error *err)
{
    size_t experts = config->n_routed_experts, taken = config->num_experts_per_tok;
    qn_expert_forecast *f = qn_alloc_zero(1, sizeof *f);
    if (!f)
        return qn_fail_memory(err, "forecast of experts", sizeof *f);
    f->config = config;
    f->normed = qn_alloc_aligned(MOST_ROWS * config->hidden_size, sizeof *f->normed);
    f->scores = qn_alloc_aligned(MOST_ROWS * experts, sizeof *f->scores);
    f->weights = qn_alloc_zero(taken, sizeof *f->weights);
    f->taken = qn_alloc_zero(MOST_ROWS * taken, sizeof *f->taken);
    f->likely = qn_alloc_zero(MOST_ROWS * taken, sizeof *f->likely);
    f->guessed = qn_alloc_zero(experts, 1);
    f->right = qn_alloc_zero(layer_count * QN_FORECAST_TIMES * taken, sizeof *f->right);
    bool there = f->normed && f->scores && f->weights && f->taken && f->likely && f->guessed && f->right;
    for (size_t t = 0; t < QN_FORECAST_TIMES && there; t++) {
        f->guesses[t].experts = qn_alloc_zero(MOST_ROWS * taken, sizeof *f->guesses[t].experts);
        f->guesses[t].rank = qn_alloc_zero(MOST_ROWS * taken, sizeof *f->guesses[t].rank);
        there = f->guesses[t].experts && f->guesses[t].rank;
    }
    if (!there) {
        qn_expert_forecast_free(f);
        return qn_fail_memory(err, "forecast of experts", MOST_ROWS * (experts + config->hidden_size) * sizeof(float));
    }
    *out = f;
    return QN_OK;
}

void qn_expert_forecast_free(qn_expert_forecast *f)
{
    if (!f)
        return;
    void *const blocks[] = {f->normed, f->scores, f->weights, f->taken, f->likely, f->guessed, f->right};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        qn_free(blocks[i]);
    for (size_t t = 0; t < QN_FORECAST_TIMES; t++) {
        qn_free(f->guesses[t].experts);
        qn_free(f->guesses[t].rank);
    }
    qn_free(f);
}

static double *right_of(const qn_expert_forecast *f, size_t layer, qn_forecast_time time)
{
    return f->right + (layer * QN_FORECAST_TIMES + time) * f->config->num_experts_per_tok;
}

void qn_expert_forecast_check(qn_expert_forecast *f, size_t layer, const int32_t *experts, size_t count)
{
    uint8_t *is_taken = f->guessed;
    bool counted = false;
    memset(is_taken, 0, f->config->n_routed_experts);
    for (size_t i = 0; i < count; i++)
        is_taken[experts[i]] = 1;
    for (size_t t = QN_FORECAST_TIMES; t-- > 0;) {
        guess *g = &f->guesses[t];
        double *right = right_of(f, layer, (qn_forecast_time)t);
        if (!g->made || g->layer != layer)
            continue;
        for (size_t i = 0; i < g->count; i++) {
            bool came_true = is_taken[g->experts[i]];
            right[g->rank[i]] += LATEST_SHARE * ((double)came_true - right[g->rank[i]]);
            f->figures.guessed += !counted;
            f->figures.right += came_true && !counted;
        }
        counted = true;
        g->made = false;
    }
}

static void norm_rows(qn_expert_forecast *f, const qn_step *step, const qn_layer_weights *weights, const float **out)
{
    size_t hidden = f->config->hidden_size;
    for (size_t r = 0; r < step->rows; r++) {
        step->kernels->rms_norm(f->normed + r * hidden, step->ws->x.rows[r], weights->post_attention_norm, hidden,
                                f->config->rms_norm_eps);
        out[r] = f->normed + r * hidden;
    }
}

/* What the router takes, in the order in which it likes them; ties towards the lower id. */
static void rank_taken(const float *choice, int32_t *taken, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        int32_t expert = taken[i];
        size_t at = i;
        for (; at > 0 && choice[taken[at - 1]] < choice[expert]; at--)
            taken[at] = taken[at - 1];
        taken[at] = expert;
    }
}

/* From f->scores. */
static void make_guess(qn_expert_forecast *f, const qn_step *step, const qn_layer_weights *weights, guess *g)
{
    size_t experts = f->config->n_routed_experts, taken = f->config->num_experts_per_tok;
    const qn_router_scratch *scratch = &step->ws->worker[0].router;
    for (size_t r = 0; r < step->rows; r++) {
        qn_route(f->config, weights->router_bias, f->scores + r * experts, f->taken + r * taken, f->weights, scratch);
        rank_taken(scratch->choice, f->taken + r * taken, taken);
    }
    memset(f->guessed, 0, experts);
    g->count = 0;
    for (size_t i = 0; i < taken * step->rows; i++) {
        size_t rank = i / step->rows, row = i % step->rows;
        int32_t expert = f->taken[row * taken + rank];
        if (f->guessed[expert])
            continue;
        f->guessed[expert] = 1;
        g->experts[g->count] = expert;
        g->rank[g->count++] = rank;
    }
}

void qn_expert_forecast_read(qn_expert_forecast *f, const qn_step *step, const qn_layer_weights *weights, size_t layer,
                             qn_forecast_time time)
{
    guess *g = &f->guesses[time];
    const float *x[MOST_ROWS];
    float *y[MOST_ROWS];
    g->made = false;
    if (step->rows > MOST_ROWS || qn_expert_cache_room(step->expert_cache) >= qn_expert_cache_count(step->expert_cache))
        return;
    norm_rows(f, step, weights, x);
    for (size_t r = 0; r < step->rows; r++)
        y[r] = f->scores + r * f->config->n_routed_experts;
    qn_product product = {.w = &weights->router, .x_f32 = x, .y = y};
    qn_products_run(step->pool, step->kernels, &product, 1, step->rows);
    make_guess(f, step, weights, g);
    g->made = true;
    g->layer = layer;
    const double *right = right_of(f, layer, time);
    size_t likely = 0;
    for (size_t i = 0; i < g->count; i++) {
        if (right[g->rank[i]] >= LIKELY)
            f->likely[likely++] = g->experts[i];
    }
    qn_expert_cache_want(step->expert_cache, layer, f->likely, likely);
}

double qn_expert_forecast_right(const qn_expert_forecast *f, size_t layer, qn_forecast_time time, size_t rank)
{
    return right_of(f, layer, time)[rank];
}

const qn_expert_forecast_figures *qn_expert_forecast_figures_of(const qn_expert_forecast *f)
{
    return &f->figures;
}
