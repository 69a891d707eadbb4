/* What usage and timings tell of an answer: of one choice, or of several together. */
#ifndef QN_SERVER_ANSWER_TOTALS_H
#define QN_SERVER_ANSWER_TOTALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/stream.h"

typedef struct qn_answer_totals {
    size_t choices; /* added so far */
    qn_timings timings;
    size_t reasoning_tokens;
    int64_t seed;
} qn_answer_totals;

/* Adds a choice: counts add up, times are the longest. The prompt and what of it was cached count with the first choice
 * of a prompt only. Tokens of the answer count up to its end, not what the engine computed beyond a stop string. */
void qn_answer_totals_add(qn_answer_totals *totals, const qn_result *result, bool first_of_prompt);

#endif
