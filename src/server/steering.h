/* Generation fields (generation_fields.h) of an API that calls some of them otherwise, such as stop_sequences. Those
 * that are quern's own have their name everywhere. */
#ifndef QN_SERVER_STEERING_H
#define QN_SERVER_STEERING_H

#include <jansson.h>
#include <stddef.h>

#include "base/error.h"
#include "server/generation_fields.h"

typedef struct qn_steering_name {
    const char *name;  /* in the request */
    const char *known; /* in generation_fields.h */
} qn_steering_name;

/* Reads the document's fields of the table and those of qn_steering_fields. *fields: an object that shares their
 * values, the caller's, which has to live as long as *out, as the document has. Errors are those of
 * qn_generation_fields_read by the request's names. Whatever it returns, *fields is to be released, and *out with
 * qn_generation_fields_free. */
qn_status qn_steering_read(const json_t *document, const qn_steering_name *names, size_t count,
                           const qn_generation_limits *limits, json_t **fields, qn_generation_fields *out,
                           qn_error *err);

#endif
