/* How well a model predicts a text: the mean negative log-likelihood of its tokens, and its exponential.
 *
 * A long text is taken in windows (engine/windows.h). */
#ifndef QN_ENGINE_PERPLEXITY_H
#define QN_ENGINE_PERPLEXITY_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "engine/collect.h"
#include "engine/engine.h"

typedef struct qn_perplexity {
    size_t tokens, scored, windows;
    double mean_nll; /* natural logarithm, per scored token */
    double perplexity;
} qn_perplexity;

/* count, context and stride as qn_windows_start wants them, context at most max_model_len. collect, made for this
 * engine and this context, takes what enters the experts; NULL: nothing does. Waits until the engine has no requests;
 * shows progress.
 */
qn_status qn_measure_perplexity(qn_engine *engine, const int32_t *ids, size_t count, size_t context, size_t stride,
                                qn_collect *collect, qn_perplexity *out, qn_error *err);

#endif
