/* How well a model predicts a text: the mean negative log-likelihood of its tokens, and its exponential.
 *
 * A text longer than the context is taken in windows of `context` tokens that begin `stride` tokens apart; each token
 * is scored once, in the first window that holds it, so all but the first window's tokens have at least context -
 * stride tokens before them. The first token of the text has nothing before it and is not scored. (The sliding window
 * of Hugging Face's "Perplexity of fixed-length models".) */
#ifndef QN_ENGINE_PERPLEXITY_H
#define QN_ENGINE_PERPLEXITY_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "engine/engine.h"

typedef struct qn_perplexity {
    size_t tokens, scored, windows;
    double mean_nll; /* natural logarithm, per scored token */
    double perplexity;
} qn_perplexity;

/* count >= 2; 2 <= context <= max_model_len; 1 <= stride < context (so that each new token has one before it). Takes
 * the engine's turn; a progress bar on a terminal. */
qn_status qn_measure_perplexity(qn_engine *engine, const int32_t *ids, size_t count, size_t context, size_t stride,
                                qn_perplexity *out, qn_error *err);

#endif
