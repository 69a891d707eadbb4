/* Logprobs as OpenAI's text completions tell them: parallel lists of tokens, their logprobs, the most probable tokens
 * as an object, and where in the choice's text each token begins, in characters.
 *
 * A token that is no whole character is told by its bytes ("bytes:\xe2\x82"), so that names of different tokens differ.
 */
#ifndef QN_SERVER_LOGPROBS_LEGACY_H
#define QN_SERVER_LOGPROBS_LEGACY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "sampling/logprobs.h"
#include "text/tokenizer.h"

/* Start from {0}; release with qn_legacy_logprobs_free. */
typedef struct qn_legacy_logprobs {
    qn_buffer tokens, token_logprobs, top_logprobs, text_offset; /* elements with commas between */
} qn_legacy_logprobs;

/* Adds `count` tokens. entries [count][1 + top] as in logprobs_json.h; each object has the token itself first, then the
 * most probable. *characters: of the text before them, moved past them; special tokens are none of the text where
 * skip_special. */
void qn_legacy_logprobs_add(qn_legacy_logprobs *lists, const qn_tokenizer *tokenizer, const qn_logprob *entries,
                            size_t count, size_t top, bool skip_special, size_t *characters);

/* Adds a token without logprobs: the first of a prompt. */
void qn_legacy_logprobs_add_first(qn_legacy_logprobs *lists, const qn_tokenizer *tokenizer, int32_t token,
                                  size_t *characters);

/* Appends the object {"tokens", "token_logprobs", "top_logprobs", "text_offset"}. */
void qn_legacy_logprobs_write(const qn_legacy_logprobs *lists, qn_buffer *out);

void qn_legacy_logprobs_free(qn_legacy_logprobs *lists);

#endif
