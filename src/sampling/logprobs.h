/* Log probabilities of the raw distribution: log-softmax of the logits as the model gave them, before bias, penalties,
 * masks and temperature, as vLLM's default. */
#ifndef QN_SAMPLING_LOGPROBS_H
#define QN_SAMPLING_LOGPROBS_H

#include <stddef.h>
#include <stdint.h>

enum { QN_MAX_LOGPROBS = 20 };

typedef struct qn_logprob {
    int32_t token; /* -1: there is none, the vocabulary having fewer than asked for */
    float logprob; /* natural logarithm; -inf for a token that can't come */
} qn_logprob;

/* out [1 + top]: out[0] is the chosen token's, out[1 .. top] those of the most probable, descending, ties lower id
 * first (the chosen one is among them where it belongs). top <= QN_MAX_LOGPROBS. logits [vocab_size]: no NaN or +inf,
 * one of them finite; -inf is fine. Returns the chosen token's rank by vLLM's count: how many tokens are at least as
 * probable, itself included (1: it is the most probable, alone). Exponentials are float32 and their sum float64 in a
 * fixed order: the same bits on every machine, within 1e-6 of the exact value. Allocates nothing; three passes over the
 * vocabulary. Any thread. */
uint32_t qn_logprobs(const float *logits, size_t vocab_size, int32_t chosen, size_t top, qn_logprob *out);

#endif
