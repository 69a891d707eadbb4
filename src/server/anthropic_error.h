/* Errors as Anthropic's clients expect them: {"type": "error", "error": {"type", "message"}}. */
#ifndef QN_SERVER_ANTHROPIC_ERROR_H
#define QN_SERVER_ANTHROPIC_ERROR_H

#include <stdbool.h>

#include "server/api_error.h"

/* Appends the body, its type after the status. */
void qn_anthropic_error_write(const qn_api_error *error, const qn_error *err, qn_buffer *out);

/* Whether errors of this path come in Anthropic's shape. */
bool qn_anthropic_path(const char *path);

#endif
