#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/fault.h"
#include "base/json.h"
#include "text/tool_arguments.h"

typedef struct rig {
    qn_tool_list *tools;
    qn_output_events events;
    qn_tool_arguments *arguments;
} rig;

static void make_tools(rig *r)
{
    static const char text[] =
        "[{\"type\": \"function\", \"function\": {\"name\": \"find\", \"parameters\": {\"type\": \"object\", "
        "\"properties\": {\"what\": {\"type\": \"string\"}, \"many\": {\"type\": \"integer\"}}}}}]";
    json_t *tools = NULL;
    qn_error err;
    *r = (rig){.tools = NULL};
    assert_int_equal(qn_json_parse(text, strlen(text), "tools", &tools, &err), QN_OK);
    assert_int_equal(qn_tool_list_new(tools, &r->tools, &err), QN_OK);
    json_decref(tools);
}

static void open_rig(rig *r)
{
    qn_error err;
    make_tools(r);
    assert_int_equal(qn_tool_arguments_new(&r->events, &r->arguments, &err), QN_OK);
    assert_int_equal(qn_tool_arguments_begin(r->arguments, 0, qn_tool_list_at(r->tools, 0), &err), QN_OK);
}

static void close_rig(rig *r)
{
    qn_tool_arguments_free(r->arguments);
    qn_output_events_free(&r->events);
    qn_tool_list_free(r->tools);
}

static void begin_value(rig *r, const char *key)
{
    qn_error err;
    qn_tool_arguments_set_key(r->arguments, key, strlen(key));
    assert_int_equal(qn_tool_arguments_begin_value(r->arguments, &err), QN_OK);
}

static void add_text(rig *r, const char *text)
{
    qn_error err;
    assert_int_equal(qn_tool_arguments_text(r->arguments, text, strlen(text), &err), QN_OK);
}

static void end_value(rig *r)
{
    qn_error err;
    assert_int_equal(qn_tool_arguments_end_value(r->arguments, &err), QN_OK);
}

static void add_value(rig *r, const char *key, const char *text)
{
    begin_value(r, key);
    add_text(r, text);
    end_value(r);
}

/* What was told since the last look. */
static void expect_told(rig *r, const char *expected)
{
    size_t count;
    const qn_output_event *events = qn_output_events_read(&r->events, &count);
    assert_int_equal(count, expected[0] != '\0');
    if (count > 0) {
        assert_int_equal(events[0].kind, QN_OUTPUT_ARGUMENTS);
        assert_string_equal(events[0].text, expected);
    }
    qn_output_events_clear(&r->events);
}

static void test_a_string_is_told_as_it_comes(void **state)
{
    (void)state;
    rig r;
    open_rig(&r);
    begin_value(&r, "what");
    expect_told(&r, "{\"what\": \"");
    assert_false(qn_tool_arguments_has_text(r.arguments));
    add_text(&r, "4 \"in");
    assert_true(qn_tool_arguments_has_text(r.arguments));
    expect_told(&r, "4 \\\"in");
    assert_int_equal(qn_tool_arguments_held_bytes(r.arguments), 0);
    end_value(&r);
    qn_tool_arguments_end(r.arguments);
    expect_told(&r, "\"}");
    close_rig(&r);
}

static void test_what_may_be_json_is_held_until_it_is_decided(void **state)
{
    (void)state;
    rig r;
    open_rig(&r);
    begin_value(&r, "many");
    add_text(&r, " 1");
    add_text(&r, "2\n");
    expect_told(&r, "");
    assert_int_equal(qn_tool_arguments_held_bytes(r.arguments), 4);
    end_value(&r);
    expect_told(&r, "{\"many\": 12");
    begin_value(&r, "undeclared");
    add_text(&r, "words");
    expect_told(&r, ", \"undeclared\": \"words");
    end_value(&r);
    qn_tool_arguments_end(r.arguments);
    expect_told(&r, "\"}");
    close_rig(&r);
}

static void test_a_second_value_and_one_without_a_key_are_dropped(void **state)
{
    (void)state;
    rig r;
    open_rig(&r);
    add_value(&r, "", "lost");
    add_value(&r, "what", "first");
    add_value(&r, "what", "second");
    qn_tool_arguments_end(r.arguments);
    expect_told(&r, "{\"what\": \"first\"}");
    close_rig(&r);
}

static void test_a_call_begins_with_nothing_of_the_one_before(void **state)
{
    (void)state;
    rig r;
    qn_error err;
    open_rig(&r);
    add_value(&r, "what", "7");
    qn_tool_arguments_end(r.arguments);
    expect_told(&r, "{\"what\": \"7\"}");
    assert_int_equal(qn_tool_arguments_begin(r.arguments, 1, NULL, &err), QN_OK);
    qn_tool_arguments_end(r.arguments);
    expect_told(&r, "{}");
    assert_int_equal(qn_tool_arguments_begin(r.arguments, 2, NULL, &err), QN_OK);
    add_value(&r, "what", "7"); /* of a tool that is not known: JSON */
    qn_tool_arguments_end(r.arguments);
    expect_told(&r, "{\"what\": 7}");
    close_rig(&r);
}

/* Each allocation fails in turn: an error is told by a status or by qn_tool_arguments_failed and the events' own. */
static void test_short_memory_is_told(void **state)
{
    (void)state;
    bool failed = true;
    for (long n = 1; failed; n++) {
        rig r;
        qn_error err;
        make_tools(&r);
        qn_fault_arm(QN_FAULT_ALLOC, n);
        qn_status status = qn_tool_arguments_new(&r.events, &r.arguments, &err);
        if (status == QN_OK) {
            status = qn_tool_arguments_begin(r.arguments, 0, NULL, &err);
        }
        if (status == QN_OK) {
            qn_tool_arguments_set_key(r.arguments, "key", 3);
            status = qn_tool_arguments_begin_value(r.arguments, &err);
        }
        if (status == QN_OK) {
            status = qn_tool_arguments_text(r.arguments, "[1, 2]", 6, &err);
        }
        if (status == QN_OK) {
            status = qn_tool_arguments_end_value(r.arguments, &err);
        }
        qn_fault_disarm();
        failed = status != QN_OK || qn_tool_arguments_failed(r.arguments) || qn_output_events_failed(&r.events);
        if (status != QN_OK) {
            assert_int_equal(status, QN_RESOURCE);
        }
        close_rig(&r);
        assert_true(n < 1000);
    }
}

static int set_up(void **state)
{
    (void)state;
    qn_json_init();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_string_is_told_as_it_comes),
        cmocka_unit_test(test_what_may_be_json_is_held_until_it_is_decided),
        cmocka_unit_test(test_a_second_value_and_one_without_a_key_are_dropped),
        cmocka_unit_test(test_a_call_begins_with_nothing_of_the_one_before),
        cmocka_unit_test(test_short_memory_is_told),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
