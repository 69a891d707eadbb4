/* Logprobs as JSON: OpenAI's form for an answer's tokens, vLLM's for a prompt's.
 *
 * The text of a token is what it decodes to alone: U+FFFD stands for what is not a whole character there. `bytes` are
 * exact; an id that the tokenizer does not have is an empty text. The distribution is the model's own, before
 * temperature, penalties and masks. */
#ifndef QN_SERVER_LOGPROBS_JSON_H
#define QN_SERVER_LOGPROBS_JSON_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "sampling/logprobs.h"
#include "text/tokenizer.h"

/* Appends a logprob as a number: what JSON has no number for, or is below -9999, is -9999, as vLLM tells it. */
void qn_logprobs_write_number(qn_buffer *out, float logprob);

/* Appends the text of a token as a JSON string. */
void qn_logprobs_write_text(qn_buffer *out, const qn_tokenizer *tokenizer, int32_t token);

/* Appends an element of OpenAI's `logprobs.content` for each of `count` tokens, with a comma before it when *out is not
 * empty. entries [count][1 + top]: of the token itself, then the `top` most probable tokens (sampling/logprobs.h). Each
 * has `top` alternatives, the token among them: where it is none of the most probable, it takes the place of the last.
 */
void qn_logprobs_write_content(qn_buffer *out, const qn_tokenizer *tokenizer, const qn_logprob *entries, size_t count,
                               size_t top);

/* Appends vLLM's `prompt_logprobs`: a list with null for the first token of the prompt and, for each of the `count`
 * others, an object from token id to logprob, rank (1: the most probable) and decoded_token: the prompt's own token
 * first, then the `top` most probable. ranks [count]: of the prompt's own. */
void qn_logprobs_write_prompt(qn_buffer *out, const qn_tokenizer *tokenizer, const qn_logprob *entries,
                              const uint32_t *ranks, size_t count, size_t top);

#endif
