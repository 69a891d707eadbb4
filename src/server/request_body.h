/* A request's body: JSON within bounds.
 *
 * Beyond what base/json.h bounds (depth, duplicate keys, UTF-8), the number of values is: a tree costs some hundred
 * bytes a value, so a body of commas could else take fifty times its size. */
#ifndef QN_SERVER_REQUEST_BODY_H
#define QN_SERVER_REQUEST_BODY_H

#include <jansson.h>
#include <stddef.h>

#include "base/error.h"

enum { QN_BODY_MAX_VALUES = 1000000 };

/* An upper bound of the JSON values in a text, which need not be JSON. In time linear in `bytes`. */
size_t qn_request_count_values(const char *text, size_t bytes);

/* Bytes of memory, rounded up, that the body's tree and what becomes of it (messages, prompt, tokens) may take
 * together: what a server counts before it parses. Text in strings counts as if it held values too, since that of
 * tool-call arguments becomes trees. In time linear in `bytes`. */
size_t qn_request_body_cost(const char *body, size_t bytes);

/* The body must be one JSON object; the caller owns it. Integers beyond 64 bits are kept (base/json_wide.h), since tool
 * arguments are only shown. Every failure but QN_RESOURCE is QN_USAGE. */
qn_status qn_request_body_parse(const char *body, size_t bytes, json_t **out, qn_error *err);

#endif
