/* JSON whose integers may be beyond 64 bits, for documents that are shown again rather than computed with: the tool
 * arguments and schemas of a conversation.
 *
 * jansson has no value for such an integer, so it becomes an object with one key that no JSON text can contain (it is
 * not UTF-8): only code that asks qn_json_wide_digits understands it, and what json_dumps makes of it is no JSON. */
#ifndef QN_BASE_JSON_WIDE_H
#define QN_BASE_JSON_WIDE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/error.h"

enum { QN_JSON_WIDE_MAX_DIGITS = 1200 };

/* As qn_json_parse, but keeps integers beyond 64 bits (of at most QN_JSON_WIDE_MAX_DIGITS digits). A column told in an
 * error counts the text as if these were longer than they are. */
qn_status qn_json_parse_wide(const char *text, size_t bytes, const char *what, json_t **out, qn_error *err);

/* The digits of such an integer, with its sign, as long as the value lives; NULL for any other value. */
const char *qn_json_wide_digits(const json_t *value);

/* An object of the document's, and not one that stands for such an integer. NULL is none. */
bool qn_json_is_object(const json_t *value);

/* Appends the value as compact JSON, such integers as what they are. False: the buffer would get larger than
 * most_bytes, or memory is short; what is appended then is of no use. */
bool qn_json_wide_write(const json_t *value, size_t most_bytes, qn_buffer *out);

#endif
