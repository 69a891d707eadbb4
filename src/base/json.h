/* JSON in, with bounds and errors that tell the place; a thin layer over jansson.
 *
 * Values are jansson's json_t; the one who called qn_json_parse* owns the reference (json_decref). Objects
 * keep the order of their keys. */
#ifndef QN_BASE_JSON_H
#define QN_BASE_JSON_H

#include <jansson.h>
#include <stddef.h>

#include "base/error.h"

/* Sends jansson's allocations through memory.h, where tests can make them fail, and seeds its hash. Call it once,
 * before threads start and before the first value. A program that never does (a test, a user of the library with a
 * jansson of his own) parses as well, but jansson itself may abort then when memory is short. What json_dumps gave is
 * released as jansson says, never with qn_free. */
void qn_json_init(void);

/* Parses exactly one value of any kind. `what` names the document in errors ("config.json").
 * Refuses duplicate keys, nesting beyond 512, NUL in strings' text is allowed, invalid UTF-8 is not. */
qn_status qn_json_parse(const char *text, size_t bytes, const char *what, json_t **out, qn_error *err);

/* Reads the file (at most limit_bytes) and parses it. */
qn_status qn_json_parse_file(const char *path, size_t limit_bytes, json_t **out, qn_error *err);

/* The value as text for a file that people read: keys in their order, two spaces a level, a newline at the
 * end. Numbers that 15 digits tell exactly have no more (0.1 stays 0.1). To be released with qn_free. */
qn_status qn_json_text(const json_t *value, const char *what, char **out, qn_error *err);

/* "object", "array", "string", "integer", "number", "boolean", "null"; "integer beyond 64 bits" of what stands for one
 * (json_wide.h). */
const char *qn_json_type_name(const json_t *value);

#endif
