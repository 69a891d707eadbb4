/* How far one model's predictions of a text are from another's: for the loss of a conversion.
 *
 * At every scored position (engine/windows.h) both models give logits, and with p and q the softmax of A's and of B's
 * over the vocabulary, KL(A || B) = sum_v p_v (log p_v - log q_v) in nats, summed in float64. A sum that rounding takes
 * below 0 counts as 0; models with the same logits have exactly 0. Top-1 agreement is the share of positions at which
 * both rank the same token first (the lowest id of equals). */
#ifndef QN_ENGINE_DIVERGENCE_H
#define QN_ENGINE_DIVERGENCE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "engine/engine.h"

/* Positions by their KL: bin 0 below 1e-7 (exact zeros too), then two bins a decade, the last from 1 on. */
enum { QN_DIVERGENCE_BINS = 16 };
double qn_divergence_bin_begin(size_t bin); /* of bin 0: 0 */

typedef struct qn_divergence {
    size_t tokens, scored, windows;
    double mean_kl;
    double mean_kl_error; /* standard error of the mean, as if positions were independent; 0 for a single one */
    double median_kl;     /* of an even number of positions the mean of the middle two */
    double p99_kl;        /* the smallest that 99 % of the positions don't exceed */
    double max_kl;
    double top1_agreement;                /* share, 0 to 1 */
    double mean_nll_a, mean_nll_b;        /* as qn_measure_perplexity gives them */
    double perplexity_a, perplexity_b;    /* their exponentials */
    size_t histogram[QN_DIVERGENCE_BINS]; /* positions */
} qn_divergence;

/* Are the two for comparison: the same vocab_size? QN_BAD_INPUT names both. */
qn_status qn_check_comparable(const qn_engine *a, const qn_engine *b, qn_error *err);

/* The engines are two, comparable, with max_model_len >= context. Both compute the same chunk of a window in turn; no
 * more of their results is held than that chunk's hidden states and a few rows of logits (a log line tells how much).
 * Waits until both have no requests; a progress bar on a terminal. Errors of a model tell which. */
qn_status qn_measure_divergence(qn_engine *a, qn_engine *b, const int32_t *ids, size_t count, size_t context,
                                size_t stride, qn_divergence *out, qn_error *err);

#endif
