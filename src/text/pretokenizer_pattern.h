/* Split patterns of a tokenizer.json, rewritten for PCRE2.
 *
 * The patterns are written for Oniguruma (Ruby syntax), which `tokenizers` uses. What both engines read the same way is
 * rewritten so that it also means the same: white space and categories are those of Unicode 16 (text/unicode.h).
 * Anything else is refused by name rather than read differently: anchors, back references, inline options, \w, \b,
 * scripts, nested classes and the like. */
#ifndef QN_TEXT_PRETOKENIZER_PATTERN_H
#define QN_TEXT_PRETOKENIZER_PATTERN_H

#include <stddef.h>

#include "base/buffer.h"
#include "base/error.h"

enum { QN_PATTERN_MAX_BYTES = 8192 };

/* Appends the PCRE2 form of the pattern text[0..bytes), which is valid UTF-8, to `out`: to be compiled with PCRE2_UTF
 * and PCRE2_UCP, without captures. QN_BAD_INPUT names the construct that is not supported and its byte. */
qn_status qn_pattern_translate(const char *text, size_t bytes, qn_buffer *out, qn_error *err);

/* Appends a pattern that matches exactly this text. */
void qn_pattern_literal(const char *text, size_t bytes, qn_buffer *out);

#endif
