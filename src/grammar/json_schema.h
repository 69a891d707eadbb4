/* JSON Schema, draft 2020-12, as an expression whose words are the texts of the valid values.
 *
 * Every keyword is either enforced or refused with its place, and nothing is accepted that is not valid;
 * docs/grammars.md lists both kinds. Errors are QN_USAGE ("WHAT: /properties/a/not: cannot be enforced: ..."; the place
 * is a JSON pointer), or QN_RESOURCE; the builder is then failed too. A schema that nothing satisfies is such an error.
 *
 * Members come in any order; a declared name comes once. Numbers and white space are bounded as json_spelling.h tells.
 */
#ifndef QN_GRAMMAR_JSON_SCHEMA_H
#define QN_GRAMMAR_JSON_SCHEMA_H

#include <jansson.h>
#include <stdbool.h>

#include "grammar/grammar.h"

typedef enum qn_schema_form {
    QN_SCHEMA_JSON,    /* the value as JSON text */
    QN_SCHEMA_ARGUMENT /* as GLM's native calls carry it in <arg_value>: a string bare, anything else as JSON */
} qn_schema_form;

typedef struct qn_schema_options {
    bool any_whitespace; /* between JSON's parts; else only what json.dumps writes: ", " and ": " or "," and ":" */
} qn_schema_options;

/* `root` resolves "$ref": "#/..."; `schema` is a part of it or the same. Both must stay as long as the call only; while
 * it lasts, no other thread may use them (values in them are held, and let go of again).
 * As an argument, every text is one that text/argument_type.h reads as a valid value: a schema that says nothing takes
 * any text; one without a "type" takes JSON; one that admits strings of its own takes such a string as it is (or null,
 * where null is valid), never another kind of value, since 12 is read as a string then; one whose strings are all
 * listed by enum or const takes these as they are, and JSON for the rest. */
qn_status qn_json_schema_expr(qn_grammar_builder *b, const json_t *root, const json_t *schema, qn_schema_form form,
                              const qn_schema_options *options, const char *what, qn_expr *out, qn_error *err);

/* Any JSON object (response_format json_object), and any JSON value. */
qn_expr qn_json_object_expr(qn_grammar_builder *b, const qn_schema_options *options);
qn_expr qn_json_value_expr(qn_grammar_builder *b, const qn_schema_options *options);

#endif
