#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/fault.h"
#include "base/json.h"
#include "base/json_wide.h"
#include "grammar/matcher.h"
#include "unit/grammar/schema_check.h"

qn_grammar *schema_grammar(const json_t *schema, qn_schema_form form, bool any_whitespace, qn_error *err)
{
    qn_grammar_builder *b;
    qn_grammar *grammar = NULL;
    qn_expr expr;
    qn_schema_options options = {any_whitespace};
    if (qn_grammar_builder_new(&b, err) != QN_OK)
        return NULL;
    if (qn_json_schema_expr(b, schema, schema, form, &options, "schema", &expr, err) == QN_OK &&
        qn_grammar_build(b, expr, &grammar, err) != QN_OK)
        grammar = NULL;
    qn_grammar_builder_free(b);
    return grammar;
}

qn_grammar *schema_grammar_after_faults(const json_t *schema)
{
    qn_grammar *grammar = NULL;
    for (long n = 1; !grammar; n++) {
        qn_error err;
        assert_true(n < 20000);
        qn_fault_arm(QN_FAULT_ALLOC, n);
        grammar = schema_grammar(schema, QN_SCHEMA_JSON, true, &err);
        qn_fault_disarm();
        if (!grammar)
            assert_int_equal(err.status, QN_RESOURCE);
    }
    return grammar;
}

bool schema_matches(const qn_grammar *grammar, const char *text, size_t bytes)
{
    qn_error err;
    qn_matcher *m;
    assert_int_equal(qn_matcher_new(grammar, &m, &err), QN_OK);
    bool whole = qn_matcher_bytes(m, text, bytes) == bytes && qn_matcher_can_end(m);
    assert_false(qn_matcher_exhausted(m));
    qn_matcher_free(m);
    return whole;
}

json_t *schema_of(const char *text)
{
    qn_error err;
    json_t *value;
    if (qn_json_parse_wide(text, strlen(text), "schema", &value, &err) != QN_OK)
        fail_msg("%s: %s", text, err.message);
    return value;
}

void schema_check_example(const schema_example *e, qn_schema_form form, bool any_whitespace)
{
    qn_error err = {0};
    json_t *schema = schema_of(e->schema);
    qn_grammar *grammar = schema_grammar(schema, form, any_whitespace, &err);
    if (!grammar)
        fail_msg("%s: %s", e->schema, err.message);
    for (size_t i = 0; i < SCHEMA_MOST_TEXTS && e->accept[i]; i++)
        if (!schema_matches(grammar, e->accept[i], strlen(e->accept[i])))
            fail_msg("%s rejects %s", e->schema, e->accept[i]);
    for (size_t i = 0; i < SCHEMA_MOST_TEXTS && e->reject[i]; i++)
        if (schema_matches(grammar, e->reject[i], strlen(e->reject[i])))
            fail_msg("%s accepts %s", e->schema, e->reject[i]);
    qn_grammar_free(grammar);
    json_decref(schema);
}

void schema_check_examples(const schema_example *examples, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        schema_check_example(&examples[i], QN_SCHEMA_JSON, false);
        schema_check_example(&examples[i], QN_SCHEMA_JSON, true);
    }
}

void schema_check_refusals(const schema_refusal *refusals, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        qn_error err = {0};
        json_t *schema = schema_of(refusals[i].schema);
        if (schema_grammar(schema, QN_SCHEMA_JSON, false, &err))
            fail_msg("%s was compiled", refusals[i].schema);
        assert_int_equal(err.status, QN_USAGE);
        if (!strstr(err.message, refusals[i].message))
            fail_msg("%s: \"%s\" instead of \"%s\"", refusals[i].schema, err.message, refusals[i].message);
        json_decref(schema);
    }
}

int schema_init_json(void **state)
{
    (void)state;
    qn_json_init();
    return 0;
}
