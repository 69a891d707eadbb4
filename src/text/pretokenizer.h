/* Cutting text into the pieces that BPE works on, as the pre_tokenizer of a tokenizer.json says.
 *
 * Supported: Split (Regex or String, all behaviors, invert), Digits and, as the last step, ByteLevel; in a Sequence or,
 * for ByteLevel, alone. Each step cuts the pieces of the one before and sees a piece as a text of its own.
 *
 * A qn_pretokenizer is immutable; a qn_pretokenizer_scratch belongs to one thread at a time. */
#ifndef QN_TEXT_PRETOKENIZER_H
#define QN_TEXT_PRETOKENIZER_H

#include <stddef.h>

#include "base/error.h"
#include "base/json.h"

typedef struct qn_pretokenizer qn_pretokenizer;
typedef struct qn_pretokenizer_scratch qn_pretokenizer_scratch;

/* QN_BAD_INPUT names what is not supported. `what` names the section in errors. */
qn_status qn_pretokenizer_parse(const json_t *spec, const char *what, qn_pretokenizer **out, qn_error *err);
void qn_pretokenizer_free(qn_pretokenizer *pretokenizer); /* NULL is fine */

qn_status qn_pretokenizer_scratch_new(qn_pretokenizer_scratch **out, qn_error *err);
void qn_pretokenizer_scratch_free(qn_pretokenizer_scratch *scratch); /* NULL is fine */

/* Takes one piece, never empty, valid during the call only. */
typedef qn_status (*qn_piece_sink)(void *context, const char *piece, size_t bytes, qn_error *err);

/* Gives the pieces of text[0..bytes), at most INT32_MAX bytes of valid UTF-8, to `sink` in order. Stops at the first
 * failure. */
qn_status qn_pretokenizer_run(const qn_pretokenizer *pretokenizer, qn_pretokenizer_scratch *scratch, const char *text,
                              size_t bytes, qn_piece_sink sink, void *context, qn_error *err);

#endif
