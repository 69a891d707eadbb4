/* Guesses at the experts that a layer will take, so that the cache may read them while something else is computed: the
 * layer's own norm and router, applied early, to the residual stream as it is by then. Two times for each layer:
 *
 * - early, before the MLP of the layer before: what that MLP, and then the layer's attention, will add is not known
 * yet;
 * - late, at the layer's start: only its attention is not, so this guess is the better one, and takes the place of what
 *   was not begun of the other. It has the time of the attention.
 *
 * A guess is a ranking: what the router would like best is the likeliest to be right, by far. So the share of right
 * guesses is measured by layer, time and rank, what is likely enough is read, and the likeliest first.
 *
 * Guesses are made for steps of few rows only: many rows take most of the experts anyway. */
#ifndef QN_MODEL_EXPERT_FORECAST_H
#define QN_MODEL_EXPERT_FORECAST_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "checkpoint/config.h"
#include "model/step.h"
#include "model/weights.h"

typedef struct qn_expert_forecast qn_expert_forecast;

typedef enum qn_forecast_time { QN_FORECAST_EARLY, QN_FORECAST_LATE, QN_FORECAST_TIMES } qn_forecast_time;

/* Counted since the start, of the later guess for each layer; may be read by any thread. */
typedef struct qn_expert_forecast_figures {
    _Atomic uint64_t guessed, right; /* experts, in memory or not, read for it or not; those that the layer then took */
} qn_expert_forecast_figures;

qn_status qn_expert_forecast_new(const qn_config *config, size_t layer_count, qn_expert_forecast **out, qn_error *err);
void qn_expert_forecast_free(qn_expert_forecast *forecast); /* NULL is fine */

/* The layer takes these, ascending: how far were the guesses for it right? */
void qn_expert_forecast_check(qn_expert_forecast *forecast, size_t layer, const int32_t *experts, size_t count);

/* Guesses for `layer` from ws->x, and lets the cache read what is likely enough. Nothing for a step of many rows, or
 * where the cache has room for all experts: it has soon read them. */
void qn_expert_forecast_read(qn_expert_forecast *forecast, const qn_step *step, const qn_layer_weights *weights,
                             size_t layer, qn_forecast_time time);

/* Of the guesses of this rank (0: the best) for the layer, the share that came true of late; 0 before the first. */
double qn_expert_forecast_right(const qn_expert_forecast *forecast, size_t layer, qn_forecast_time time, size_t rank);
const qn_expert_forecast_figures *qn_expert_forecast_figures_of(const qn_expert_forecast *forecast);

#endif
