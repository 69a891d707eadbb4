/* Sampling that keeps its seed (DESIGN 4): a token is argmax(logits / T + gumbel) over what the masks leave, the noise
 * drawn by Philox4x32-10 from (seed, choice index, position) and the token id, so the result depends on nothing else.
 */
#ifndef QN_ENGINE_SAMPLER_H
#define QN_ENGINE_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct qn_sampling {
    float temperature; /* 0: greedy; ties go to the lowest id */
    float top_p;       /* (0, 1]; 1: off */
    float min_p;       /* [0, 1]; 0: off */
    int32_t top_k;     /* > 0; 0 or -1: off */
    uint64_t seed;
    uint32_t choice; /* index of the choice within the request */
} qn_sampling;

/* Greedy, everything off. */
qn_sampling qn_sampling_greedy(void);
/* Refuses values out of range, naming the field as the API spells it. */
qn_status qn_sampling_check(const qn_sampling *sampling, qn_error *err);

typedef struct qn_sampler qn_sampler; /* scratch for one vocabulary; one thread at a time */

qn_status qn_sampler_new(size_t vocab_size, qn_sampler **out, qn_error *err);
void qn_sampler_free(qn_sampler *sampler);

/* The token for `position` (index in the sequence of the token being chosen). Logits are finite and not changed. Order:
 * / T, min-p, top-k, top-p, then argmax with noise. */
int32_t qn_sample(qn_sampler *sampler, const qn_sampling *sampling, const float *logits, size_t position);

/* gumbel(r), u = (r + 0.5) 2^-32, -log(-log u) in double; exposed for tests. */
double qn_gumbel(uint32_t r);

#endif
