/* What a parameter's JSON Schema says of the text that a model gives for it: is it a string as it stands, or JSON?
 *
 * A model writes arguments without quotes, so `42` may be the number or the string; the schema decides. A parameter
 * that may be a string stays one (but for `null` where that is allowed, and unless only certain strings are), any other
 * is JSON where the text is, and else the string that the model wrote. Read are `type` (with OpenAPI's `nullable`),
 * `enum`, `const`, `anyOf`, `oneOf`, `allOf` and `$ref` within the tool's parameters; what else a schema asks for does
 * not change the kind.
 *
 * A plain value, one owner; it does not change, so that any number of threads may ask it. */
#ifndef QN_TEXT_ARGUMENT_TYPE_H
#define QN_TEXT_ARGUMENT_TYPE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

typedef enum qn_argument_kind {
    QN_ARGUMENT_JSON, /* JSON if it parses, else a string; also for a parameter of no type */
    QN_ARGUMENT_STRING,
    QN_ARGUMENT_STRING_OR_NULL, /* null if it is exactly that, else a string */
    QN_ARGUMENT_LISTED          /* strings only as listed: one of them, or JSON that is allowed, or else a string */
} qn_argument_kind;

typedef struct qn_argument_type {
    qn_argument_kind kind;
    unsigned types;   /* of LISTED: what else may come, bits of argument_type.c */
    json_t *literals; /* of LISTED: array of the values that enum and const list; NULL otherwise */
} qn_argument_type;

/* `root`: the parameters, in which a $ref is looked up; one that leads nowhere says nothing. *budget is what may still
 * be spent on schemas and listed values, counted down. QN_USAGE, told by place within the schema: a type that is none,
 * a keyword of the wrong shape, a budget or depth that is used up. *out is to be released. */
qn_status qn_argument_type_read(const json_t *schema, const json_t *root, size_t *budget, qn_argument_type *out,
                                qn_error *err);
void qn_argument_type_free(qn_argument_type *type);

/* The schema that a $ref ("#/$defs/a") leads to within root; NULL: none. */
const json_t *qn_schema_at(const json_t *root, const char *reference);

/* Whether a complete value is JSON: then it stands as it is, but for white space around. NULL: a parameter that was not
 * declared. Fails only when memory is short (QN_RESOURCE). */
qn_status qn_argument_is_json(const qn_argument_type *type, const char *text, size_t bytes, bool *out, qn_error *err);

#endif
