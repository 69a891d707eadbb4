/* Every field that asks for a form, and each way to get one wrong. Bodies are written with ' for ". */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/json.h"
#include "server/format_fields.h"
#include "unit/server/api_texts.h"

static int set_up(void **state)
{
    (void)state;
    qn_json_init();
    return 0;
}

/* The document is the caller's; the form points into it. */
static json_t *read(const char *body, qn_format_fields *out, qn_status *status, qn_error *err)
{
    json_t *document = quoted_json(body);
    *out = (qn_format_fields){0};
    *status = qn_format_fields_read(document, out, err);
    return document;
}

static void check_form(const char *body, qn_format_kind kind, const char *field, const char *value)
{
    qn_format_fields form;
    qn_status status;
    qn_error err;
    json_t *document = read(body, &form, &status, &err);
    if (status != QN_OK) {
        fail_msg("%s: %s", body, err.message);
    }
    if (form.format.kind != kind || (field != NULL && strcmp(form.format.field, field) != 0)) {
        fail_msg("%s: kind %d of field %s", body, (int)form.format.kind, form.format.field);
    }
    if (value != NULL) {
        json_t *expected = quoted_json(value);
        if (!json_equal(form.format.value, expected)) {
            fail_msg("%s: not %s", body, value);
        }
        json_decref(expected);
    }
    qn_format_fields_free(&form);
    assert_null(form.parsed);
    qn_format_fields_free(&form);
    json_decref(document);
}

static void check_refused(const char *body, const char *field, const char *part)
{
    qn_format_fields form;
    qn_status status;
    qn_error err;
    json_t *document = read(body, &form, &status, &err);
    if (status != QN_USAGE) {
        fail_msg("%s: status %d", body, (int)status);
    }
    assert_error_is(body, &err, field, part);
    qn_format_fields_free(&form);
    json_decref(document);
}

static void nothing_is_asked_for(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        "{}",
        "{'response_format':null,'structured_outputs':null,'guided_json':null,'grammar':null}",
        "{'response_format':{'type':'text'}}",
        "{'structured_outputs':{}}",
        "{'structured_outputs':{'json_object':false}}",
        "{'structured_outputs':{'json':null,'regex':null,'choice':null,'grammar':null,'json_object':null}}",
        "{'structured_outputs':{'structural_tag':null,'disable_fallback':false,'disable_additional_properties':false}}",
    };
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        check_form(bodies[i], QN_FORMAT_TEXT, NULL, NULL);
    }
}

static void every_field_gives_its_form(void **state)
{
    (void)state;
    static const struct {
        const char *body, *field, *value;
        qn_format_kind kind;
    } cases[] = {
        {"{'response_format':{'type':'json_object'}}", "response_format", NULL, QN_FORMAT_JSON_OBJECT},
        {"{'response_format':{'type':'json_object','schema':null}}", "response_format", NULL, QN_FORMAT_JSON_OBJECT},
        {"{'response_format':{'type':'json_object','schema':{'a':1}}}", "response_format", "{'a':1}",
         QN_FORMAT_JSON_SCHEMA},
        {"{'response_format':{'type':'json_schema','json_schema':{'name':'n','schema':{'a':1},'strict':false}}}",
         "response_format", "{'a':1}", QN_FORMAT_JSON_SCHEMA},
        {"{'response_format':{'type':'json_schema','json_schema':{'schema':true}}}", "response_format", "true",
         QN_FORMAT_JSON_SCHEMA},
        {"{'guided_json':{'a':1}}", "guided_json", "{'a':1}", QN_FORMAT_JSON_SCHEMA},
        {"{'json_schema':{'a':1}}", "json_schema", "{'a':1}", QN_FORMAT_JSON_SCHEMA},
        {"{'guided_json':false}", "guided_json", "false", QN_FORMAT_JSON_SCHEMA},
        {"{'structured_outputs':{'json':{'a':1}}}", "structured_outputs", "{'a':1}", QN_FORMAT_JSON_SCHEMA},
        {"{'structured_outputs':{'json':' true '}}", "structured_outputs", "true", QN_FORMAT_JSON_SCHEMA},
        {"{'guided_json':'{\\'a\\': [1]}'}", "guided_json", "{'a':[1]}", QN_FORMAT_JSON_SCHEMA},
        {"{'structured_outputs':{'json_object':true}}", "structured_outputs", NULL, QN_FORMAT_JSON_OBJECT},
        {"{'guided_regex':'a+'}", "guided_regex", "'a+'", QN_FORMAT_REGEX},
        {"{'regex':'a::=b'}", "regex", "'a::=b'", QN_FORMAT_REGEX},
        {"{'structured_outputs':{'regex':'a+'}}", "structured_outputs", "'a+'", QN_FORMAT_REGEX},
        {"{'guided_choice':['a','']}", "guided_choice", "['a','']", QN_FORMAT_CHOICE},
        {"{'structured_outputs':{'choice':['a']}}", "structured_outputs", "['a']", QN_FORMAT_CHOICE},
        {"{'grammar':'root ::= x'}", "grammar", "'root ::= x'", QN_FORMAT_GBNF},
        {"{'ebnf':'root ::= x'}", "ebnf", "'root ::= x'", QN_FORMAT_GBNF},
        {"{'guided_grammar':'root ::= x'}", "guided_grammar", "'root ::= x'", QN_FORMAT_GBNF},
        {"{'structured_outputs':{'grammar':'root ::= x'}}", "structured_outputs", NULL, QN_FORMAT_GBNF},
        {"{'grammar':'start: x'}", "grammar", "'start: x'", QN_FORMAT_LARK},
        {"{'structured_outputs':{'grammar':'start: x'}}", "structured_outputs", NULL, QN_FORMAT_LARK},
        {"{'response_format':{'type':'text'},'regex':'a','structured_outputs':{'json_object':false}}", "regex", "'a'",
         QN_FORMAT_REGEX},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_form(cases[i].body, cases[i].kind, cases[i].field, cases[i].value);
    }
}

static void white_space_is_free_unless_it_is_disabled(void **state)
{
    (void)state;
    for (int compact = 0; compact < 2; compact++) {
        qn_format_fields form;
        qn_status status;
        qn_error err;
        json_t *document = read(compact ? "{'structured_outputs':{'json_object':true,'disable_any_whitespace':true}}"
                                        : "{'structured_outputs':{'json_object':true,'disable_any_whitespace':false}}",
                                &form, &status, &err);
        assert_int_equal(status, QN_OK);
        assert_int_equal(form.format.compact, compact);
        qn_format_fields_free(&form);
        json_decref(document);
    }
}

static void what_is_wrong_is_refused_by_its_field(void **state)
{
    (void)state;
    static const struct {
        const char *body, *field, *part;
    } cases[] = {
        {"{'response_format':'json_object'}", "response_format", "unknown type"},
        {"{'response_format':{'type':'json_object','schema':7}}", "response_format", "send a JSON Schema"},
        {"{'response_format':{'type':'json_schema','json_schema':{'name':7,'schema':{}}}}", "response_format", "name"},
        {"{'response_format':{'type':'json_schema','json_schema':{'strict':7,'schema':{}}}}", "response_format",
         "strict"},
        {"{'response_format':{}}", "response_format", "unknown type"},
        {"{'response_format':[]}", "response_format", "unknown type"},
        {"{'response_format':{'type':1}}", "response_format", "unknown type"},
        {"{'response_format':{'type':'yaml'}}", "response_format", "unknown type"},
        {"{'response_format':{'type':'json_schema'}}", "response_format", "no schema"},
        {"{'response_format':{'type':'json_schema','schema':{}}}", "response_format", "no schema"},
        {"{'response_format':{'type':'json_schema','json_schema':{'schema':'{}'}}}", "response_format", "no schema"},
        {"{'guided_json':5}", "guided_json", "send a JSON Schema"},
        {"{'guided_json':[]}", "guided_json", "send a JSON Schema"},
        {"{'guided_json':'[]'}", "guided_json", "send a JSON Schema"},
        {"{'guided_json':'{'}", "guided_json", "guided_json"},
        {"{'guided_json':''}", "guided_json", "guided_json"},
        {"{'json_schema':'{} {}'}", "json_schema", "json_schema"},
        {"{'guided_choice':[]}", "guided_choice", "at least one"},
        {"{'guided_choice':'a'}", "guided_choice", "list of strings"},
        {"{'guided_choice':{'a':1}}", "guided_choice", "list of strings"},
        {"{'guided_choice':['a',1]}", "guided_choice", "list of strings"},
        {"{'guided_choice':['a','b\\u0000c']}", "guided_choice", "list of strings"},
        {"{'guided_regex':''}", "guided_regex", "not empty"},
        {"{'regex':1}", "regex", "send a string"},
        {"{'grammar':['a']}", "grammar", "send a string"},
        {"{'ebnf':''}", "ebnf", "not empty"},
        {"{'structured_outputs':[]}", "structured_outputs", "send an object"},
        {"{'structured_outputs':'json'}", "structured_outputs", "send an object"},
        {"{'structured_outputs':{'json_object':1}}", "structured_outputs", "send true or false"},
        {"{'structured_outputs':{'regex':''}}", "structured_outputs", "not empty"},
        {"{'structured_outputs':{'choice':[]}}", "structured_outputs", "at least one"},
        {"{'structured_outputs':{'json':'{'}}", "structured_outputs", "structured_outputs"},
        {"{'structured_outputs':{'disable_any_whitespace':1}}", "structured_outputs", "true or false"},
        {"{'structured_outputs':{'disable_fallback':true}}", "structured_outputs", "disable_fallback: not supported"},
        {"{'structured_outputs':{'structural_tag':'x'}}", "structured_outputs", "structural_tag: not supported"},
        {"{'structured_outputs':{'whitespace_pattern':' '}}", "structured_outputs", "whitespace_pattern"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_refused(cases[i].body, cases[i].field, cases[i].part);
    }
}

/* Each two of them together. */
static void one_form_at_most(void **state)
{
    (void)state;
    static const char *const given[] = {"'response_format':{'type':'json_object'}",
                                        "'structured_outputs':{'regex':'a'}",
                                        "'guided_json':'{}'", /* as text: it is owned */
                                        "'guided_regex':'a'",
                                        "'guided_choice':['a']",
                                        "'guided_grammar':'a'",
                                        "'json_schema':{}",
                                        "'grammar':'a'",
                                        "'regex':'a'",
                                        "'ebnf':'a'"};
    size_t count = sizeof given / sizeof *given;
    for (size_t i = 0; i < count; i++) {
        for (size_t k = i + 1; k < count; k++) {
            char body[256], field[64];
            snprintf(body, sizeof body, "{%s,%s}", given[k], given[i]);
            snprintf(field, sizeof field, "%.*s", (int)strcspn(given[k] + 1, "'"), given[k] + 1);
            check_refused(body, field, "asks for a form already");
        }
    }
    check_refused("{'structured_outputs':{'regex':'a','choice':['a']}}", "structured_outputs",
                  "structured_outputs.choice: structured_outputs.regex asks for a form already");
    check_refused("{'structured_outputs':{'regex':'a'},'regex':'a'}", "regex", "structured_outputs asks for a form");
    check_refused("{'structured_outputs':{'json':3}}", "structured_outputs", "structured_outputs.json: integer given");
    check_refused("{'structured_outputs':{'json':'{'}}", "structured_outputs", "structured_outputs.json: invalid JSON");
    check_refused("{'structured_outputs':{'disable_any_whitespace':1}}", "structured_outputs",
                  "structured_outputs.disable_any_whitespace: integer given");
    check_refused("{'structured_outputs':{'json_object':true,'json':{}}}", "structured_outputs", "already");
}

static void a_format_may_lie_flat(void **state)
{
    (void)state;
    static const struct {
        const char *format;
        qn_status status;
        qn_format_kind kind;
    } cases[] = {
        {"{'type':'text'}", QN_OK, QN_FORMAT_TEXT},
        {"{'type':'json_object'}", QN_OK, QN_FORMAT_JSON_OBJECT},
        {"{'type':'json_schema','name':'n','schema':{'a':1},'strict':true}", QN_OK, QN_FORMAT_JSON_SCHEMA},
        {"{'type':'json_schema','json_schema':{'schema':{}}}", QN_USAGE, QN_FORMAT_TEXT},
        {"{'type':'grammar'}", QN_USAGE, QN_FORMAT_TEXT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        qn_format_fields form = {0};
        qn_error err;
        json_t *format = quoted_json(cases[i].format);
        assert_int_equal(qn_format_read(format, "text.format", false, &form, &err), cases[i].status);
        assert_int_equal(form.format.kind, cases[i].kind);
        if (cases[i].status != QN_OK) {
            assert_error_is(cases[i].format, &err, "text.format", "text.format: ");
        }
        qn_format_fields_free(&form);
        json_decref(format);
    }
    qn_format_fields none = {0};
    qn_error err;
    assert_int_equal(qn_format_read(NULL, "text.format", false, &none, &err), QN_OK);
    assert_int_equal(none.format.kind, QN_FORMAT_TEXT);
}

static void memory_runs_out(void **state)
{
    (void)state;
    json_t *document = quoted_json("{'guided_json':'{\\'a\\': [1, {\\'b\\': null}]}'}");
    bool failed = true;
    for (long n = 1; failed; n++) {
        qn_format_fields form = {0};
        qn_error err;
        qn_fault_arm(QN_FAULT_ALLOC, n);
        qn_status status = qn_format_fields_read(document, &form, &err);
        failed = qn_fault_seen(QN_FAULT_ALLOC) >= n;
        qn_fault_disarm();
        assert_int_equal(status, failed ? QN_RESOURCE : QN_OK);
        qn_format_fields_free(&form);
        assert_true(n < 1000);
    }
    json_decref(document);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_asked_for),
        cmocka_unit_test(every_field_gives_its_form),
        cmocka_unit_test(white_space_is_free_unless_it_is_disabled),
        cmocka_unit_test(what_is_wrong_is_refused_by_its_field),
        cmocka_unit_test(one_form_at_most),
        cmocka_unit_test(a_format_may_lie_flat),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
