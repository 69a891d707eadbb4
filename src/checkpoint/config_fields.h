/* Reading the fields of a JSON object, checked. Internal to this room.
 *
 * A reader takes fields out of the object: what is left at the end was not known. The first failure sticks; later calls
 * then do nothing and leave their outputs as they are, so that a caller reads all fields and checks `status` once. */
#ifndef QN_CHECKPOINT_CONFIG_FIELDS_H
#define QN_CHECKPOINT_CONFIG_FIELDS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/json.h"

typedef struct qn_fields {
    json_t *object;     /* borrowed; loses the fields that are read */
    const char *what;   /* the document in errors: "config.json" */
    const char *prefix; /* before each name in errors: "rope_parameters." or "" */
    qn_error *err;
    qn_status status;
    bool quiet; /* what is worth a line to those who run the model is worth none here */
} qn_fields;

enum { QN_VALUE_TEXT_BYTES = 80 };

/* A JSON value for a message: scalars as they are written (strings cut), else what it is. Returns out. */
const char *qn_value_text(const json_t *value, char out[QN_VALUE_TEXT_BYTES]);

/* Whether the value is this string, NULs in it included. NULL is none. */
bool qn_value_is(const json_t *value, const char *text);

/* Make the reader fail (if it has not yet): "what: prefix name SENTENCE", "what: prefix name is VALUE: reason". */
void qn_fields_fail(qn_fields *f, const char *name, const char *format, ...) __attribute__((format(printf, 3, 4)));
void qn_fields_refuse(qn_fields *f, const char *name, const json_t *value, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The field itself, NULL when it is absent, null or the reader has failed. The caller owns the reference. */
json_t *qn_fields_take(qn_fields *f, const char *name);
void qn_fields_drop(qn_fields *f, const char *const *names, size_t count); /* known, and without a meaning here */

/* Integers, numbers and booleans within [least, most]. `required`: absent is an error, else *out stays as it is. Return
 * whether the field was there and good. */
bool qn_fields_size(qn_fields *f, const char *name, bool required, size_t least, size_t most, size_t *out);
bool qn_fields_number(qn_fields *f, const char *name, bool required, double least, double most, double *out);
bool qn_fields_bool(qn_fields *f, const char *name, bool required, bool *out);

/* The one value that is supported, or an error that says `reason`; absent is fine. Return whether it was there. */
bool qn_fields_expect_string(qn_fields *f, const char *name, const char *only, const char *reason);
bool qn_fields_expect_bool(qn_fields *f, const char *name, bool only, const char *reason);
bool qn_fields_expect_size(qn_fields *f, const char *name, size_t only, const char *reason);

/* Tells the fields that are left through qn_log, a bounded number of lines. */
void qn_fields_log_rest(const qn_fields *f);

#endif
