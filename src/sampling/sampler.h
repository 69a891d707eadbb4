/* Sampling that keeps its seed: a token is argmax(logits / T + gumbel) over what the masks leave, the noise drawn by
 * Philox4x32-10 from (seed, choice index, position) and the token id, so the result depends on nothing else: not on the
 * batch, on earlier draws, or on whether a draft was made for the position (docs/sampling.md).
 *
 * The noise of token v at position p: counter {v / 4, low word of p, high word of p, choice}, key {low word, high word}
 * of the seed, and of the four words that come out number v mod 4. */
#ifndef QN_SAMPLING_SAMPLER_H
#define QN_SAMPLING_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "sampling/rules.h"
#include "sampling/sampling.h"

typedef struct qn_sampler qn_sampler; /* scratch for one vocabulary; one thread at a time */

qn_status qn_sampler_new(size_t vocab_size, qn_sampler **out, qn_error *err);
void qn_sampler_free(qn_sampler *sampler);  /* NULL is fine */
size_t qn_sampler_bytes(size_t vocab_size); /* what qn_sampler_new allocates */

/* The token for `position` (index in the sequence of the token being chosen). logits [vocab_size] are finite or -inf
 * (masked: never chosen) and not changed; -1 when all are -inf. Only what follows the rules (rules.h) is done here: of
 * `sampling`, penalties and bias are not looked at. Order, as vLLM's:
 *   / T; min-p: keep p >= min_p * largest p; top-k: keep what is not below the k-th largest (ties stay);
 *   top-p: keep the shortest run of the most probable (ties: lower id first) whose mass reaches top_p;
 *   then argmax with noise over what is left (ties go to the lowest id).
 * Allocates nothing; linear in the vocabulary with a small factor, noise drawn only for tokens that can still win. */
int32_t qn_sample(qn_sampler *sampler, const qn_sampling *sampling, const float *logits, size_t position);

/* The same by rules->sampling, the rules applied before on a row of the sampler's own. -1 when no token may come. */
int32_t qn_sample_with_rules(qn_sampler *sampler, const qn_rules *rules, const float *logits, size_t position);

/* What the masks leave: keeps[v] for every token, as qn_sample sees it; and its probabilities (zero where masked),
 * which sum to 1 (to 0 when all logits are -inf). Greedy: all on the lowest id of the largest logit. For tests and for
 * acceptance statistics. */
void qn_sampling_distribution(qn_sampler *sampler, const qn_sampling *sampling, const float *logits,
                              double *probabilities);

/* gumbel(r), u = (r + 0.5) 2^-32, -log(-log u) in double: in [-3.14, 22.88]. */
double qn_gumbel(uint32_t r);

/* The 32 random bits r of a token at a position, as laid out above. */
uint32_t qn_noise(const qn_sampling *sampling, size_t position, int32_t token);

#endif
