/* Which fields a request may have, as a table: no field is ever ignored without a word.
 *
 * A field that the endpoint reads is `handled`. One that cannot change the answer is `free`. One that a client may send
 * with the value that means "as usual" and that this version can't honour otherwise is `neutral`: any other value is
 * refused, naming the field. A field in no table is not an error, as with other servers, but reported. */
#ifndef QN_SERVER_REQUEST_FIELDS_H
#define QN_SERVER_REQUEST_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef enum qn_field_rule { QN_FIELD_HANDLED, QN_FIELD_FREE, QN_FIELD_NEUTRAL } qn_field_rule;

typedef struct qn_field {
    const char *name;
    qn_field_rule rule;
    const char *neutral; /* NEUTRAL: JSON of the value that asks for nothing: true, false, a number, a string, [] or {};
                            NULL when only null does */
} qn_field;

/* A body's table as a whole: openapi.json documents just these fields. Fields that several bodies have stand in tables
 * of their own, beside the functions that read them. */
typedef struct qn_field_table {
    const qn_field *fields;
    size_t count;
    const struct qn_field_table *const *also; /* further tables, NULL behind the last; NULL: none. They have none */
} qn_field_table;

enum { QN_UNKNOWN_FIELDS_MAX = 8 };

/* Names of fields that no table knows; they point into the checked object. More than fit are counted only. */
typedef struct qn_unknown_fields {
    const char *names[QN_UNKNOWN_FIELDS_MAX];
    const char *within[QN_UNKNOWN_FIELDS_MAX]; /* the field whose members they are; NULL: they are the body's own */
    size_t count, total;
} qn_unknown_fields;

/* Checks every field of the object but the handled ones. null always counts as absent. QN_USAGE names the field. */
qn_status qn_fields_check(const json_t *object, const qn_field *fields, size_t count, qn_unknown_fields *unknown,
                          qn_error *err);

/* The same of an object that is the value of field `within`, a name that outlives `unknown`. */
qn_status qn_members_check(const json_t *object, const char *within, const qn_field *fields, size_t count,
                           qn_unknown_fields *unknown, qn_error *err);

/* The same as qn_fields_check of a table. */
qn_status qn_field_table_check(const json_t *object, const qn_field_table *table, qn_unknown_fields *unknown,
                               qn_error *err);

/* The field's value; NULL when absent or null. */
const json_t *qn_field_get(const json_t *object, const char *name);

/* Each reads one field when present, leaves *out alone when absent or null, and refuses another type or a value out of
 * range with QN_USAGE naming the field. */
qn_status qn_field_boolean(const json_t *object, const char *name, bool *out, qn_error *err);
qn_status qn_field_integer(const json_t *object, const char *name, int64_t min, int64_t max, int64_t *out,
                           qn_error *err);
qn_status qn_field_float(const json_t *object, const char *name, double min, double max, float *out, qn_error *err);

/* The string's text, which must not contain NUL; it lives as long as the object. */
qn_status qn_field_string(const json_t *object, const char *name, const char **out, qn_error *err);

#endif
