/* tools, tool_choice and parallel_tool_calls in both shapes. Bodies are written with ' for ". */
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
#include "server/openai_tools.h"
#include "unit/server/api_texts.h"

#define F "{'type':'function','function':{'name':'f','description':'d','parameters':{'type':'object'},'strict':true}}"
#define G "{'type':'function','function':{'name':'g','description':null,'parameters':null,'strict':null}}"
#define FLAT_F "{'type':'function','name':'f','description':'d','parameters':{'type':'object'},'strict':true}"
#define FLAT_G "{'type':'function','name':'g'}"
#define TOOLS "'tools':[" F "," G "]"
#define FLAT_TOOLS "'tools':[" FLAT_F "," FLAT_G "]"

static int set_up(void **state)
{
    (void)state;
    qn_json_init();
    return 0;
}

/* What was read; the list holds what it needs of the document. */
static qn_tool_choice read(const char *body, bool nested, qn_unknown_fields *unknown)
{
    json_t *document = quoted_json(body);
    qn_tool_choice choice = {0};
    qn_unknown_fields none = {.count = 0};
    qn_error err;
    if (qn_openai_tools_read(document, nested, &choice, unknown != NULL ? unknown : &none, &err) != QN_OK) {
        fail_msg("%s: %s", body, err.message);
    }
    assert_int_equal(unknown == NULL ? none.total : 0, 0);
    json_decref(document);
    return choice;
}

static void refuse(const char *body, bool nested, const char *field, const char *part)
{
    json_t *document = quoted_json(body);
    qn_tool_choice choice = {0};
    qn_unknown_fields unknown = {.count = 0};
    qn_error err;
    qn_status status = qn_openai_tools_read(document, nested, &choice, &unknown, &err);
    if (status != QN_USAGE) {
        fail_msg("%s: status %d", body, (int)status);
    }
    assert_error_is(body, &err, field, part);
    qn_tool_choice_free(&choice);
    json_decref(document);
}

static void check_list(const qn_tool_choice *choice)
{
    json_t *expected = quoted_json("[{'type':'function','function':{'name':'f','description':'d',"
                                   "'parameters':{'type':'object'}}},{'type':'function','function':{'name':'g'}}]");
    assert_true(json_equal(choice->list, expected));
    json_decref(expected);
    assert_true(choice->strict[0] && !choice->strict[1]);
}

static void both_shapes_give_one_list(void **state)
{
    (void)state;
    for (int nested = 0; nested < 2; nested++) {
        qn_tool_choice choice = read(nested ? "{" TOOLS "}" : "{" FLAT_TOOLS "}", nested, NULL);
        check_list(&choice);
        assert_int_equal(choice.demand, QN_TOOLS_AUTO);
        assert_true(choice.several);
        assert_null(choice.callable);
        assert_ptr_equal(qn_tool_choice_shown(&choice), choice.list);
        qn_tool_choice_free(&choice);
        assert_null(choice.list);
    }
}

static void no_tools_ask_for_nothing(void **state)
{
    (void)state;
    static const char *const bodies[] = {"{}",
                                         "{'tools':null,'tool_choice':null,'parallel_tool_calls':null}",
                                         "{'tools':[]}",
                                         "{'tool_choice':'auto','parallel_tool_calls':true}",
                                         "{'tool_choice':'none'}",
                                         "{'tools':[],'tool_choice':'auto'}"};
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        qn_tool_choice choice = read(bodies[i], true, NULL);
        qn_tool_list *list = NULL;
        qn_error err;
        assert_null(qn_tool_choice_shown(&choice));
        assert_int_equal(qn_tool_choice_tools(&choice, &list, &err), QN_OK);
        assert_null(list);
        qn_tool_choice_free(&choice);
    }
}

/* What is wanted, and whether one answer may have several calls. -1: what may be called is not restricted. */
static void choices_demand_and_restrict(void **state)
{
    (void)state;
    static const struct {
        const char *nested, *flat;
        qn_tool_demand demand;
        bool several;
        int f, g;
    } cases[] = {
        {"", "", QN_TOOLS_AUTO, true, -1, -1},
        {",'parallel_tool_calls':false", ",'parallel_tool_calls':false", QN_TOOLS_AUTO, false, -1, -1},
        {",'tool_choice':'auto'", ",'tool_choice':'auto'", QN_TOOLS_AUTO, true, -1, -1},
        {",'tool_choice':'none'", ",'tool_choice':'none'", QN_TOOLS_NONE, false, -1, -1},
        {",'tool_choice':'required'", ",'tool_choice':'required'", QN_TOOLS_CALL, false, -1, -1},
        {",'tool_choice':'required','parallel_tool_calls':null", ",'tool_choice':'required'", QN_TOOLS_CALL, false, -1,
         -1},
        {",'tool_choice':'required','parallel_tool_calls':true", ",'tool_choice':'required','parallel_tool_calls':true",
         QN_TOOLS_CALL, true, -1, -1},
        {",'tool_choice':{'type':'function','function':{'name':'g'}}", ",'tool_choice':{'type':'function','name':'g'}",
         QN_TOOLS_CALL, false, 0, 1},
        {",'tool_choice':{'type':'function','function':{'name':'f'}},'parallel_tool_calls':true",
         ",'tool_choice':{'type':'function','name':'f'},'parallel_tool_calls':true", QN_TOOLS_CALL, false, 1, 0},
        {",'tool_choice':{'type':'allowed_tools','allowed_tools':{'mode':'auto','tools':[{'type':'function',"
         "'function':{'name':'f'}}]}}",
         ",'tool_choice':{'type':'allowed_tools','mode':'auto','tools':[{'type':'function','name':'f'}]}",
         QN_TOOLS_AUTO, true, 1, 0},
        {",'tool_choice':{'type':'allowed_tools','allowed_tools':{'mode':'required','tools':[{'type':'function',"
         "'function':{'name':'f'}},{'type':'function','function':{'name':'g'}}]}}",
         ",'tool_choice':{'type':'allowed_tools','mode':'required','tools':[{'type':'function','name':'g'},"
         "{'type':'function','name':'f'},{'type':'function','name':'f'}]}",
         QN_TOOLS_CALL, false, 1, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int nested = 0; nested < 2; nested++) {
            char body[1024];
            snprintf(body, sizeof body, "{%s%s}", nested ? TOOLS : FLAT_TOOLS,
                     nested ? cases[i].nested : cases[i].flat);
            qn_tool_choice choice = read(body, nested, NULL);
            check_list(&choice);
            bool right = choice.demand == cases[i].demand && choice.several == cases[i].several &&
                         (choice.callable == NULL) == (cases[i].f < 0);
            if (right && choice.callable != NULL) {
                right = choice.callable[0] == cases[i].f && choice.callable[1] == cases[i].g;
            }
            if (!right) {
                fail_msg("%s: demand %d, several %d", body, (int)choice.demand, choice.several);
            }
            assert_int_equal(qn_tool_choice_shown(&choice) == NULL, choice.demand == QN_TOOLS_NONE);
            qn_tool_choice_free(&choice);
        }
    }
}

static void unknown_fields_are_reported(void **state)
{
    (void)state;
    qn_unknown_fields unknown = {.count = 0};
    json_t *document = quoted_json("{'tools':[{'type':'function','outer':1,'function':{'name':'f','inner':2,"
                                   "'defer_loading':false}}]}");
    qn_tool_choice choice = {0};
    qn_error err;
    assert_int_equal(qn_openai_tools_read(document, true, &choice, &unknown, &err), QN_OK);
    assert_int_equal(unknown.total, 2);
    assert_string_equal(unknown.names[0], "outer");
    assert_string_equal(unknown.names[1], "inner");
    qn_tool_choice_free(&choice);
    json_decref(document);
}

static void wrong_tools_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *tools, *part;
    } cases[] = {
        {"{}", "tools: object given"},
        {"'f'", "tools: string given"},
        {"[5]", "tools[0].type"},
        {"[null]", "tools[0].type"},
        {"[{}]", "missing or not a string"},
        {"[{'type':1}]", "missing or not a string"},
        {"[{'type':'web_search'}]", "tools[0].type: web_search: only function is supported: send such tools alone"},
        {"[" F ",{'type':'function'}]", "tools[1].function: missing"},
        {"[{'type':'function','function':'f'}]", "tools[0].function: missing or no object"},
        {"[{'type':'function','function':{}}]", "tools[0].function.name: give 1 to 64"},
        {"[{'type':'function','function':{'name':''}}]", "tools[0].function.name: give 1 to 64"},
        {"[{'type':'function','function':{'name':7}}]", "tools[0].function.name: give 1 to 64"},
        {"[{'type':'function','function':{'name':'f','description':1}}]", "a description"},
        {"[{'type':'function','function':{'name':'f','parameters':[]}}]", "parameters as an object"},
        {"[{'type':'function','function':{'name':'f','parameters':true}}]", "parameters as an object"},
        {"[{'type':'function','function':{'name':'f','strict':'yes'}}]", "strict true or false"},
        {"[{'type':'function','function':{'name':'f','defer_loading':true}}]", "tools[0].defer_loading"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[256];
        snprintf(body, sizeof body, "{'tools':%s}", cases[i].tools);
        refuse(body, true, "tools", cases[i].part);
    }
    refuse("{'tools':[" F "]}", false, "tools", "tools[0].name: give 1 to 64");
    refuse("{'tools':[" FLAT_F "]}", true, "tools", "tools[0].function: missing");
    refuse("{'tools':[{'type':'function','name':'f','strict':0}]}", false, "tools", "strict true or false");
}

static void wrong_choices_are_refused(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "'sometimes'",
        "''",
        "1",
        "true",
        "[]",
        "{}",
        "{'type':'auto'}",
        "{'type':'function'}",
        "{'type':'function','function':{}}",
        "{'type':'function','function':{'name':1}}",
        "{'type':'function','function':'f'}",
        "{'type':'function','name':'f'}",
        "{'type':'function','function':{'name':'h'}}",
        "{'type':'function','function':{'name':''}}",
        "{'type':'allowed_tools'}",
        "{'type':'allowed_tools','allowed_tools':[]}",
        "{'type':'allowed_tools','allowed_tools':{'tools':[{'type':'function','function':{'name':'f'}}]}}",
        "{'type':'allowed_tools','allowed_tools':{'mode':'none','tools':[{'type':'function','function':{'name':'f'}}]}"
        "}",
        "{'type':'allowed_tools','allowed_tools':{'mode':'sometimes','tools':[" F "]}}",
        "{'type':'allowed_tools','allowed_tools':{'mode':'auto','tools':[]}}",
        "{'type':'allowed_tools','allowed_tools':{'mode':'auto','tools':'f'}}",
        "{'type':'allowed_tools','allowed_tools':{'mode':'auto'}}",
        "{'type':'allowed_tools','allowed_tools':{'mode':'auto','tools':['f']}}",
        "{'type':'allowed_tools','allowed_tools':{'mode':'auto','tools':[{'type':'function','name':'f'}]}}",
        "{'type':'allowed_tools','allowed_tools':{'mode':'auto','tools':[{'function':{'name':'f'}}]}}",
        "{'type':'allowed_tools','allowed_tools':{'mode':'auto','tools':[" F ",{'type':'function','function':"
        "{'name':'h'}}]}}",
        "{'type':'allowed_tools','mode':'auto','tools':[" F "]}",
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[1024];
        snprintf(body, sizeof body, "{" TOOLS ",'tool_choice':%s}", cases[i]);
        refuse(body, true, "tool_choice", "tool_choice: ");
    }
    refuse("{" FLAT_TOOLS ",'tool_choice':{'type':'function','function':{'name':'f'}}}", false, "tool_choice", "");
    refuse("{" TOOLS ",'parallel_tool_calls':'no'}", true, "parallel_tool_calls", "true or false");
}

static void a_choice_needs_tools(void **state)
{
    (void)state;
    static const char *const choices[] = {"'required'", "{'type':'function','function':{'name':'f'}}", "'sometimes'"};
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        char body[256];
        snprintf(body, sizeof body, "{'tool_choice':%s}", choices[i]);
        refuse(body, true, "tool_choice", "there are no tools");
        snprintf(body, sizeof body, "{'tools':[],'tool_choice':%s}", choices[i]);
        refuse(body, true, "tools", "none to choose from");
    }
}

static void memory_runs_out(void **state)
{
    (void)state;
    json_t *document = quoted_json("{" TOOLS ",'tool_choice':{'type':'function','function':{'name':'g'}}}");
    bool failed = true;
    for (long n = 1; failed; n++) {
        qn_tool_choice choice = {0};
        qn_unknown_fields unknown = {.count = 0};
        qn_error err;
        qn_fault_arm(QN_FAULT_ALLOC, n);
        qn_status status = qn_openai_tools_read(document, true, &choice, &unknown, &err);
        failed = qn_fault_seen(QN_FAULT_ALLOC) >= n;
        qn_fault_disarm();
        assert_int_equal(status, failed ? QN_RESOURCE : QN_OK);
        if (status == QN_OK) {
            check_list(&choice);
        }
        qn_tool_choice_free(&choice);
        assert_true(n < 1000);
    }
    json_decref(document);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_shapes_give_one_list),   cmocka_unit_test(no_tools_ask_for_nothing),
        cmocka_unit_test(choices_demand_and_restrict), cmocka_unit_test(unknown_fields_are_reported),
        cmocka_unit_test(wrong_tools_are_refused),     cmocka_unit_test(wrong_choices_are_refused),
        cmocka_unit_test(a_choice_needs_tools),        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
