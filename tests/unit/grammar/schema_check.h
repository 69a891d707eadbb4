/* What the tests of JSON Schemas share: a schema in, what its grammar accepts and refuses out. */
#ifndef SCHEMA_CHECK_H
#define SCHEMA_CHECK_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "grammar/json_schema.h"

enum { SCHEMA_MOST_TEXTS = 16 };

typedef struct schema_example {
    const char *schema;
    const char *accept[SCHEMA_MOST_TEXTS], *reject[SCHEMA_MOST_TEXTS];
} schema_example;

typedef struct schema_refusal {
    const char *schema, *message; /* a part of it */
} schema_refusal;

json_t *schema_of(const char *text);
/* NULL, and err tells why it is refused. */
qn_grammar *schema_grammar(const json_t *schema, qn_schema_form form, bool any_whitespace, qn_error *err);
/* Compiles it with the first allocation failing, then the second and so on, until none fails: each time but the last it
 * is to be refused as QN_RESOURCE. */
qn_grammar *schema_grammar_after_faults(const json_t *schema);
bool schema_matches(const qn_grammar *grammar, const char *text, size_t bytes);

void schema_check_example(const schema_example *e, qn_schema_form form, bool any_whitespace);
/* As JSON, in either style of white space. */
void schema_check_examples(const schema_example *examples, size_t count);
#define SCHEMA_CHECK(examples) schema_check_examples(examples, sizeof(examples) / sizeof *(examples))

/* Refused as QN_USAGE with a sentence that holds the message. */
void schema_check_refusals(const schema_refusal *refusals, size_t count);
#define SCHEMA_CHECK_REFUSALS(refusals) schema_check_refusals(refusals, sizeof(refusals) / sizeof *(refusals))

int schema_init_json(void **state); /* a group's setup */

#endif
