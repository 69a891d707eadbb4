/* What happens to a row of logits before the temperature: masks, bias and penalties, in vLLM's order.
 *
 *   1. allowed: tokens that a grammar or a list forbids become -inf;
 *   2. banned: so do end tokens that may not come yet;
 *   3. logit_bias is added;
 *   4. repetition_penalty r: the logit of a token of the prompt or the answer is divided by r when positive, else
 *      multiplied;
 *   5. frequency_penalty, times the occurrences in the answer, is subtracted;
 *   6. presence_penalty is subtracted where there is one.
 *
 * All in float32. What is not masked stays finite: a sum beyond float32 is held at its largest value. Logits of -inf
 * stay so. The result depends on the tokens of the sequence alone, not on which of them were counted and which are
 * given as `ahead`: that lets a row behind unverified drafts give what it will give once they are part of the answer.
 */
#ifndef QN_SAMPLING_RULES_H
#define QN_SAMPLING_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sampling/sampling.h"
#include "sampling/token_counts.h"

enum { QN_MAX_AHEAD = 16 };

/* Borrows all that it points to. */
typedef struct qn_rules {
    const qn_sampling *sampling;
    const qn_token_counts *counts; /* NULL: nothing counted, as when no penalty asks for it */
    const int32_t *ahead;  /* [ahead_count] tokens of the answer behind the counted ones: drafts that this row takes
                              as given */
    size_t ahead_count;    /* at most QN_MAX_AHEAD */
    const int32_t *banned; /* [banned_count] tokens that may not come: with min_tokens, those that end */
    size_t banned_count;
    const uint64_t *allowed; /* bit v mod 64 of word v div 64: token v may come; NULL: all */
} qn_rules;

/* false: qn_rules_apply would copy the row as it is. */
bool qn_rules_change_anything(const qn_rules *rules);

/* logits and out [vocab_size]; out may be logits. Ids outside of the vocabulary have no effect. Allocates nothing;
 * linear in what the rules name, and in the vocabulary for the copy and the mask. */
void qn_rules_apply(const qn_rules *rules, const float *logits, size_t vocab_size, float *out);

#endif
