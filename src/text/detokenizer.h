/* Token ids to text while they arrive: each id gives the characters that are complete with it.
 *
 * A token may end within a character; the bytes of an unfinished one are held back until the rest comes, so that what
 * is given out is always whole characters. Bytes that can no longer become a character turn into U+FFFD as soon as that
 * is decided, one for each maximal part of a character. All pieces, the flush included, concatenated are exactly
 * qn_tokenizer_decode of all the ids, however they were grouped.
 *
 * A plain value that one thread uses at a time; nothing to release. The tokenizer must outlive it. */
#ifndef QN_TEXT_DETOKENIZER_H
#define QN_TEXT_DETOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "text/tokenizer.h"

/* The fields belong to detokenizer.c. */
typedef struct qn_detokenizer {
    const qn_tokenizer *tokenizer;
    bool skip_special;
    char held[4];       /* bytes of the unfinished character */
    size_t held_bytes;  /* 0..3 */
    size_t whole_bytes; /* length of that character, 2..4, while some are held */
} qn_detokenizer;

/* `skip_special`: special tokens give no text. */
void qn_detokenizer_start(qn_detokenizer *d, const qn_tokenizer *tokenizer, bool skip_special);

/* Appends to `out` the text that the ids complete. An id that the tokenizer does not have is a QN_USAGE error; then,
 * and when `out` cannot grow (QN_RESOURCE), the stream is broken and must be started anew. */
qn_status qn_detokenizer_feed(qn_detokenizer *d, const int32_t *ids, size_t count, qn_buffer *out, qn_error *err);

/* The end of the stream: a character left unfinished becomes U+FFFD. Ready for a new stream afterwards. */
qn_status qn_detokenizer_flush(qn_detokenizer *d, qn_buffer *out, qn_error *err);

#endif
