/* room: grammar */
/* covers: src/grammar/json_*.c src/grammar/automaton.c */
/* max_len: 2048 */

/* A schema from anywhere and a text for it: compiling fails with a sentence, or gives a grammar that follows the text.
 * What a grammar takes as a whole is JSON.
 *
 * The input is schema, NUL, text, NUL, a control byte: unless 0 it makes that allocation fail. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/json.h"
#include "base/json_wide.h"
#include "grammar/json_schema.h"
#include "grammar/matcher.h"

static void hold(int condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    qn_json_init();
    return 0;
}

static size_t part_bytes(const uint8_t *data, size_t bytes)
{
    const uint8_t *end = bytes ? memchr(data, 0, bytes) : NULL;
    return end ? (size_t)(end - data) : bytes;
}

static void follow(const qn_grammar *grammar, const char *text, size_t bytes, qn_schema_form form)
{
    qn_error err;
    qn_matcher *m;
    if (qn_matcher_new(grammar, &m, &err) != QN_OK)
        return;
    size_t taken = qn_matcher_bytes(m, text, bytes);
    hold(taken <= bytes);
    if (taken == bytes && bytes > 0 && qn_matcher_can_end(m) && form == QN_SCHEMA_JSON) {
        json_t *value;
        qn_status status = qn_json_parse_wide(text, bytes, "text", &value, &err);
        /* what the parser refuses beyond the syntax: repeated names, deep nesting, numbers too large for a double */
        hold(status == QN_OK || status == QN_RESOURCE || strstr(err.message, "uplicate") ||
             strstr(err.message, "deeper") || strstr(err.message, "overflow"));
        if (status == QN_OK)
            json_decref(value);
    }
    qn_matcher_free(m);
}

static void compile(const json_t *schema, const char *text, size_t bytes, qn_schema_form form)
{
    qn_error err = {0};
    qn_grammar_builder *b;
    qn_grammar *grammar = NULL;
    qn_expr expr;
    qn_schema_options options = {bytes % 2 == 1};
    if (qn_grammar_builder_new(&b, &err) != QN_OK)
        return;
    qn_status status = qn_json_schema_expr(b, schema, schema, form, &options, "schema", &expr, &err);
    if (status == QN_OK)
        status = qn_grammar_build(b, expr, &grammar, &err);
    hold(status == QN_OK || ((status == QN_USAGE || status == QN_RESOURCE) && err.message[0] != '\0'));
    qn_grammar_builder_free(b);
    if (status == QN_OK)
        follow(grammar, text, bytes, form);
    qn_grammar_free(grammar);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    size_t schema_bytes = part_bytes(data, bytes), at = schema_bytes < bytes ? schema_bytes + 1 : bytes;
    size_t text_bytes = part_bytes(data + at, bytes - at), control = at + text_bytes + 1;
    qn_error err;
    json_t *schema;
    if (qn_json_parse_wide((const char *)data, schema_bytes, "schema", &schema, &err) != QN_OK)
        return 0;
    if (control < bytes && data[control] != 0)
        qn_fault_arm(QN_FAULT_ALLOC, data[control]);
    compile(schema, (const char *)data + at, text_bytes, QN_SCHEMA_JSON);
    compile(schema, (const char *)data + at, text_bytes, QN_SCHEMA_ARGUMENT);
    qn_fault_disarm();
    json_decref(schema);
    return 0;
}
