/* What a request may ask of sampling: the parameters, their ranges, and which of them are off. What they do to logits,
 * and in which order, is told in rules.h and sampler.h (docs/sampling.md). */
#ifndef QN_SAMPLING_SAMPLING_H
#define QN_SAMPLING_SAMPLING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct qn_logit_bias {
    int32_t token;
    float bias; /* [-100, 100], added to the logit */
} qn_logit_bias;

/* A plain value; logit_bias is borrowed and stays the caller's, who keeps it while the value is in use. */
typedef struct qn_sampling {
    float temperature; /* 0: greedy; ties go to the lowest id */
    float top_p;       /* (0, 1]; 1: off */
    float min_p;       /* [0, 1]; 0: off */
    int32_t top_k;     /* > 0; 0 or -1: off */
    uint64_t seed;
    uint32_t choice;                 /* index of the choice within the request */
    float presence_penalty;          /* [-2, 2]; 0: off */
    float frequency_penalty;         /* [-2, 2]; 0: off */
    float repetition_penalty;        /* > 0; 1, and 0 for who sets nothing: off */
    const qn_logit_bias *logit_bias; /* [logit_bias_count]; a token that comes twice gets both */
    size_t logit_bias_count;         /* 0: off */
} qn_sampling;

/* Greedy, everything off. */
qn_sampling qn_sampling_greedy(void);

/* Refuses values out of range (QN_USAGE), naming the field as the API spells it. */
qn_status qn_sampling_check(const qn_sampling *sampling, qn_error *err);

/* Refuses biases of tokens that the vocabulary doesn't have (QN_USAGE). */
qn_status qn_sampling_check_tokens(const qn_sampling *sampling, size_t vocab_size, qn_error *err);

/* Does any penalty ask what came before (token_counts.h)? And does one of them ask of the prompt, too? */
bool qn_sampling_counts_tokens(const qn_sampling *sampling);
bool qn_sampling_counts_prompt(const qn_sampling *sampling);

#endif
