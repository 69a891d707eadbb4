/* Errors as OpenAI's clients expect them: {"error": {"message", "type", "param", "code"}}. */
#ifndef QN_SERVER_API_ERROR_H
#define QN_SERVER_API_ERROR_H

#include "base/buffer.h"
#include "base/error.h"

typedef struct qn_api_error {
    unsigned status;  /* HTTP */
    const char *code; /* NULL: null */
} qn_api_error;

/* What a failure means to a client: QN_USAGE and QN_BAD_INPUT (a prompt that a template refuses) 400; QN_RESOURCE 503;
 * QN_CANCELLED 504 when the request's time was over (field "timeout"), else 503 (the server stops); everything else
 * 500.
 */
qn_api_error qn_api_error_of(const qn_error *err);

/* Appends the body of an error, in the shape of one API. */
typedef void (*qn_api_error_writer)(const qn_api_error *error, const qn_error *err, qn_buffer *out);

/* OpenAI's: message and param from err (param null when err->field is ""), the type after the status. */
void qn_api_error_write(const qn_api_error *error, const qn_error *err, qn_buffer *out);

#endif
