/* Requests that are made up: text of common words, the same for the same seed.
 *
 * A prompt has a part that all of its cell share and one of its own. Cells share nothing, so that what an earlier one
 * left in a server's prefix cache helps no later one. */
#ifndef QN_BENCH_SERVE_PROMPT_H
#define QN_BENCH_SERVE_PROMPT_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

typedef struct qn_serve_prompt {
    uint64_t seed;
    uint32_t cell, index;           /* index below UINT32_MAX */
    size_t shared_words, own_words; /* each below 2^32 */
} qn_serve_prompt;

/* Appends the text: ASCII, a space before each word but the first. */
void qn_serve_prompt_text(const qn_serve_prompt *prompt, qn_buffer *out);

/* Each of the words there are, so many times: what a word is on average, without the luck of a draw. */
enum { QN_SERVE_WORDS = 128 };
void qn_serve_all_words(size_t times, qn_buffer *out);

typedef struct qn_serve_body {
    const char *model;
    size_t max_tokens;
    double temperature; /* finite */
    int64_t seed;
} qn_serve_body;

/* Appends the JSON of POST /v1/chat/completions: one user message with this text, which needs no escapes, streamed,
 * with usage, and with ignore_eos, so that it ends with its max_tokens. */
void qn_serve_body_text(const qn_serve_body *body, const qn_buffer *text, qn_buffer *out);

#endif
