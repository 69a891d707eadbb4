/* What penalties need to know of a sequence: which tokens its prompt has, and how often each came in its answer.
 *
 * The size follows the number of different tokens, never the vocabulary: 12 bytes each and 8 to 16 of an index, with
 * room to grow. One owner, one thread at a time. */
#ifndef QN_SAMPLING_TOKEN_COUNTS_H
#define QN_SAMPLING_TOKEN_COUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct qn_token_count {
    int32_t token;
    uint32_t in_answer; /* occurrences */
    bool in_prompt;
} qn_token_count;

typedef struct qn_token_counts qn_token_counts;

/* Of a prompt and an answer that is still empty. Only repetition_penalty looks at the prompt: with other penalties
 * alone it may be left out (count 0). QN_RESOURCE: memory. */
qn_status qn_token_counts_new(const int32_t *prompt, size_t count, qn_token_counts **out, qn_error *err);
void qn_token_counts_free(qn_token_counts *counts); /* NULL is fine */

/* Makes room: the next `tokens` calls of qn_token_counts_add will not fail, and allocate nothing. QN_RESOURCE: memory;
 * what was counted stays. */
qn_status qn_token_counts_reserve(qn_token_counts *counts, size_t tokens, qn_error *err);

/* The answer has one more token. Grows when there is no room: QN_RESOURCE, nothing counted then. */
qn_status qn_token_counts_add(qn_token_counts *counts, int32_t token, qn_error *err);

/* What is counted of one token; zeros for one never seen. */
qn_token_count qn_token_counts_of(const qn_token_counts *counts, int32_t token);

/* All tokens seen, in the order in which they first came; the pointer is good until the next call that adds or
 * reserves. Returns how many. */
size_t qn_token_counts_list(const qn_token_counts *counts, const qn_token_count **list);

#endif
