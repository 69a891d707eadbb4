/* What form a request asks its answer to have: OpenAI's response_format, vLLM's structured_outputs and its older
 * guided_*, SGLang's regex and ebnf, llama.cpp's grammar and json_schema. One of them at most; docs/api.md lists them.
 */
#ifndef QN_SERVER_FORMAT_FIELDS_H
#define QN_SERVER_FORMAT_FIELDS_H

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"
#include "server/request_fields.h"
#include "text/answer_grammar.h"

typedef struct qn_format_fields {
    qn_answer_format format; /* kind TEXT: nothing is asked for; it points into the document, or to `parsed` */
    json_t *parsed;          /* a schema that came as text; owned */
} qn_format_fields;

/* Their names: a part of the tables of APIs that have them. */
extern const qn_field_table qn_format_field_table;

/* All functions: *out comes as {0}. QN_USAGE names the field; QN_RESOURCE. Whatever they return, qn_format_fields_free
 * releases. */
qn_status qn_format_fields_read(const json_t *document, qn_format_fields *out, qn_error *err);

/* One value with a type, text, json_object or json_schema; NULL: none. The schema is in an object `json_schema`
 * (nested) or beside the type. `field` names it in errors and outlives *out. */
qn_status qn_format_read(const json_t *format, const char *field, bool nested, qn_format_fields *out, qn_error *err);
void qn_format_fields_free(qn_format_fields *form); /* back to {0} */

#endif
