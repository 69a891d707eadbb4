/* What comes after a prompt, token by token and with speculation, against the goldens' own continuation. */
#ifndef QN_TESTS_CONTINUATION_H
#define QN_TESTS_CONTINUATION_H

#include <stddef.h>
#include <stdint.h>

#include "golden/rig.h"

typedef struct expected_tokens {
    const char *what; /* in messages */
    const int32_t *tokens;
    const double *margins; /* top-1 minus top-2 logit */
    size_t count;
    double near_tie; /* a mismatch at a margin below this ends the comparison and does not fail */
} expected_tokens;

/* Greedy decoding of expected->count tokens after n computed ones, of which `hidden` [hidden_size] is the last row.
 * Returns how many agreed. */
size_t continue_greedily(rig *r, qn_kv_sequence *sequence, size_t n, const float *hidden,
                         const expected_tokens *expected);

/* One step of speculative decoding with one draft. */
typedef struct expected_step {
    size_t position;
    int32_t draft;
    double draft_margin;
    bool accepted;
    int32_t emitted[2];
    size_t emitted_count;
} expected_step;

/* The same with the MTP layer drafting: each step's draft, whether it is accepted, and the tokens it gives. hidden and
 * mtp_out are the last rows of the prompt. Returns how many steps agreed. */
size_t continue_speculatively(rig *r, qn_kv_sequence *sequence, size_t n, const float *hidden, const float *mtp_out,
                              const expected_tokens *expected, const expected_step *steps, size_t step_count);

#endif
