/* UTF-8: checking, decoding, encoding. Strict: no surrogates, no overlong forms, at most U+10FFFF. */
#ifndef QN_BASE_UTF8_H
#define QN_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decodes one character of text[0..bytes). Returns its length 1..4 and sets *out; 0 when text does not
 * start with a whole valid character (bytes 0 included). */
size_t qn_utf8_decode(const char *text, size_t bytes, uint32_t *out);

size_t qn_utf8_encode(uint32_t code, char out[4]); /* 1..4; 0 for a surrogate or beyond U+10FFFF */

bool qn_utf8_valid(const char *text, size_t bytes);

/* How many bytes at the end of text are the start of a character that more bytes could complete (0..3). */
size_t qn_utf8_incomplete_tail(const char *text, size_t bytes);

/* Copies text for a person's eyes: control bytes (below 0x20, 0x7f) and invalid UTF-8 become \xNN. Writes at most
 * capacity bytes with the NUL (capacity >= 1), whole characters and escapes only. Returns how many bytes of text went
 * in: fewer than `bytes` means that it was cut. */
size_t qn_utf8_printable(const char *text, size_t bytes, char *out, size_t capacity);

#endif
