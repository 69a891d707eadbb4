/* A command's result as JSON on stdout. */
#ifndef QN_CLI_JSON_RESULT_H
#define QN_CLI_JSON_RESULT_H

#include <stddef.h>

#include "base/error.h"
#include "base/json.h"

/* Prints the value, a NULL that a failed json_pack gave included, in a line of its own, and releases it. `flags` are
 * json_dumps's. QN_RESOURCE when memory was short; whether stdout took it is asked at the end (qn_stdout_check). */
qn_status qn_print_json(json_t *value, size_t flags, qn_error *err);

#endif
