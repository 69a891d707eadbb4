/* A guess at the experts that the next layer will take, so that the cache may read them while this layer computes: the
 * next layer's router, applied early, to this layer's hidden states. A layer adds little to the residual stream, so the
 * guess is often right; how often is counted, and what is wrong more often than right is not read.
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

/* Counted since the start; may be read by any thread. */
typedef struct qn_expert_forecast_figures {
    _Atomic uint64_t guessed, right; /* experts, in memory or not, read for it or not; those that the layer then took */
} qn_expert_forecast_figures;

qn_status qn_expert_forecast_new(const qn_config *config, size_t layer_count, qn_expert_forecast **out, qn_error *err);
void qn_expert_forecast_free(qn_expert_forecast *forecast); /* NULL is fine */

/* The layer takes these, ascending: how far was the guess for it right? */
void qn_expert_forecast_check(qn_expert_forecast *forecast, size_t layer, const int32_t *experts, size_t count);

/* Guesses for `layer` from ws->h, and lets the cache read what is likely enough. Nothing for a step of many rows. */
void qn_expert_forecast_read(qn_expert_forecast *forecast, const qn_step *step, const qn_layer_weights *weights,
                             size_t layer);

/* Of the experts guessed for the layer of late, the share that it then took; 0 before the first guess. */
double qn_expert_forecast_right(const qn_expert_forecast *forecast, size_t layer);
const qn_expert_forecast_figures *qn_expert_forecast_figures_of(const qn_expert_forecast *forecast);

#endif
