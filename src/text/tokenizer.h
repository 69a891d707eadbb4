/* Text to token ids and back, as the checkpoint's tokenizer.json says: byte-level BPE exactly as Hugging Face
 * `tokenizers` does it.
 *
 * Supported: model BPE (with ignore_merges), normalizer null or NFC, pre_tokenizer Split / Digits / ByteLevel in a
 * Sequence, decoder ByteLevel, added tokens with single_word / lstrip / rstrip / normalized / special. No token is ever
 * added around a text: a post_processor that would only do that is accepted and does nothing. What would change results
 * and is not supported makes opening fail with a sentence that names it; docs/tokenizer.md has the list.
 *
 * Threads: a qn_tokenizer never changes once it is open; any number of threads may use it at once. A qn_tokens belongs
 * to one thread at a time.
 *
 * Ids are 0 .. qn_tokenizer_size - 1 without holes. The model's own vocabulary (vocab_size in config.json) may be
 * larger: the ids beyond stand for no text. */
#ifndef QN_TEXT_TOKENIZER_H
#define QN_TEXT_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "text/span.h"

typedef struct qn_tokenizer qn_tokenizer;

/* A growable list of token ids. Start from {0}; release with qn_tokens_free. */
typedef struct qn_tokens {
    int32_t *ids; /* NULL while nothing was added */
    size_t count, capacity;
} qn_tokens;

bool qn_tokens_add(qn_tokens *tokens, int32_t id); /* false when out of memory, the list then unchanged */
bool qn_tokens_append(qn_tokens *tokens, const int32_t *ids, size_t count);
void qn_tokens_clear(qn_tokens *tokens); /* empties it, keeps the memory */
void qn_tokens_free(qn_tokens *tokens);  /* back to {0} */

/* `path`: a tokenizer.json, or a model directory that holds one. QN_BAD_INPUT when there is none, when the file is
 * not what it should be, or when it needs what is not supported; QN_RESOURCE when memory runs out. */
qn_status qn_tokenizer_open(const char *path, qn_tokenizer **out, qn_error *err);

/* The same from the text of a tokenizer.json, which is not needed afterwards. `what` names it in errors. */
qn_status qn_tokenizer_parse(const char *json, size_t bytes, const char *what, qn_tokenizer **out, qn_error *err);

void qn_tokenizer_free(qn_tokenizer *tokenizer); /* NULL is fine */

/* Appends the ids of text[0..bytes) to `out`; on failure `out` is as it was.
 *
 * `request_spans`, ascending and disjoint, are the parts of the text that came from a request: an added token is
 * recognised only where none of its bytes lies in one, so that request text which spells "<|user|>" stays ordinary
 * text. Otherwise the spans change nothing: words run across their borders. NULL with 0: the whole text is trusted.
 *
 * QN_USAGE: the text is not valid UTF-8 (the sentence tells the byte) or longer than 512 MiB. QN_BAD_INPUT: the
 * tokenizer's own split pattern asks for more than linear work on this text. Time is O(n log n) in the worst case,
 * about linear on ordinary text. */
qn_status qn_tokenizer_encode(const qn_tokenizer *tokenizer, const char *text, size_t bytes,
                              const qn_span *request_spans, size_t span_count, qn_tokens *out, qn_error *err);

/* Appends the text of the ids to `out`. Bytes that are not UTF-8 become U+FFFD, one for each maximal part of a
 * character (as Rust's from_utf8_lossy and Python's errors="replace" do). `skip_special` leaves out special tokens.
 * QN_USAGE, with nothing appended: an id that the tokenizer does not have. Streaming: text/detokenizer.h. */
qn_status qn_tokenizer_decode(const qn_tokenizer *tokenizer, const int32_t *ids, size_t count, bool skip_special,
                              qn_buffer *out, qn_error *err);

size_t qn_tokenizer_size(const qn_tokenizer *tokenizer); /* highest id + 1, added tokens included */

/* The bytes that the id stands for: not necessarily whole characters, possibly none. They live as long as the
 * tokenizer. NULL for an id that it does not have. */
const char *qn_tokenizer_token_bytes(const qn_tokenizer *tokenizer, int32_t id, size_t *bytes);

/* The id of the added token with this content ("<think>"); -1 when there is none. */
int32_t qn_tokenizer_find_added(const qn_tokenizer *tokenizer, const char *content);

bool qn_tokenizer_is_added(const qn_tokenizer *tokenizer, int32_t id);   /* special or not */
bool qn_tokenizer_is_special(const qn_tokenizer *tokenizer, int32_t id); /* false for an id it does not have */

#endif
