/* A command's result as JSON, on stdout or in a file. */
#ifndef QN_CLI_JSON_RESULT_H
#define QN_CLI_JSON_RESULT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/json.h"

/* Prints the value, a NULL that a failed json_pack gave included, in a line of its own, and releases it. `flags` are
 * json_dumps's. QN_RESOURCE when memory was short; whether stdout took it is asked at the end (qn_stdout_check). */
qn_status qn_print_json(json_t *value, size_t flags, qn_error *err);

/* Tells figures as a document that people read (qn_json_text): on stdout if `print`, and in the file `out` (NULL:
 * none). Releases the value, a NULL for want of memory included. QN_RESOURCE, or what qn_file_write gives. */
qn_status qn_tell_figures(json_t *value, bool print, const char *out, qn_error *err);

#endif
