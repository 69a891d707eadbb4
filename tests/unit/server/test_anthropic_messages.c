#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/anthropic_messages.h"
#include "unit/server/api_texts.h"

static void assert_becomes(const char *system, const char *messages, const char *wanted)
{
    json_t *given = quoted_json(messages), *expected = quoted_json(wanted),
           *says = system != NULL ? quoted_json(system) : NULL;
    json_t *before = json_deep_copy(given), *out = NULL;
    qn_unknown_fields unknown = {0};
    qn_error err;
    if (qn_anthropic_messages_translate(says, given, &out, &unknown, &err) != QN_OK) {
        fail_msg("%s: %s", messages, err.message);
    }
    char *text = json_dumps(out, JSON_COMPACT);
    if (!json_equal(out, expected)) {
        fail_msg("%s became %s", messages, text);
    }
    assert_true(json_equal(given, before));
    assert_int_equal(unknown.total, 0);
    free(text);
    json_decref(before);
    json_decref(out);
    json_decref(says);
    json_decref(expected);
    json_decref(given);
}

static void test_text(void **state)
{
    (void)state;
    assert_becomes(NULL, "[{'role':'user','content':'Hi'}]", "[{'role':'user','content':'Hi'}]");
    assert_becomes(NULL, "[{'role':'user','content':[]}]", "[{'role':'user','content':''}]");
    assert_becomes(NULL,
                   "[{'role':'user','content':[{'type':'text','text':'a','cache_control':{'type':'ephemeral'}},"
                   "{'type':'text','text':'b\\u0000c'}]},{'role':'assistant','content':'c'}]",
                   "[{'role':'user','content':'ab\\u0000c'},{'role':'assistant','content':'c'}]");
}

static void test_system(void **state)
{
    (void)state;
    const char *hi = "[{'role':'user','content':'Hi'}]";
    assert_becomes("'Be brief.'", hi, "[{'role':'system','content':'Be brief.'},{'role':'user','content':'Hi'}]");
    assert_becomes("[{'type':'text','text':'x','cache_control':null},{'type':'text','text':'y'}]", hi,
                   "[{'role':'system','content':'xy'},{'role':'user','content':'Hi'}]");
    assert_becomes("[]", hi, hi);
    assert_becomes("[{'type':'text','text':'x-anthropic-billing-header: cc_version=1; cch=3;'},"
                   "{'type':'text','text':'You help.'}]",
                   hi, "[{'role':'system','content':'You help.'},{'role':'user','content':'Hi'}]");
    assert_becomes("[{'type':'text','text':'x-anthropic-billing-header: cch=3;'}]", hi, hi);
}

static void test_tools_in_history(void **state)
{
    (void)state;
    assert_becomes(NULL,
                   "[{'role':'assistant','content':[{'type':'thinking','thinking':'I need ','signature':'s'},"
                   "{'type':'redacted_thinking','data':'zzz'},{'type':'thinking','thinking':'it.'},"
                   "{'type':'text','text':'Let me look.'},{'type':'tool_use','id':'t1','name':'f','input':{'a':1}},"
                   "{'type':'tool_use','id':'t2','name':'g','input':{}}]},"
                   "{'role':'user','content':[{'type':'tool_result','tool_use_id':'t1','content':'one'},"
                   "{'type':'tool_result','tool_use_id':'t2','is_error':true,'content':[{'type':'text','text':'no '},"
                   "{'type':'text','text':'way'}]},{'type':'text','text':'Go on'}]}]",
                   "[{'role':'assistant','content':'Let me look.','reasoning_content':'I need it.','tool_calls':["
                   "{'id':'t1','type':'function','function':{'name':'f','arguments':{'a':1}}},"
                   "{'id':'t2','type':'function','function':{'name':'g','arguments':{}}}]},"
                   "{'role':'tool','content':'one','tool_call_id':'t1'},"
                   "{'role':'tool','content':'Error: no way','tool_call_id':'t2'},{'role':'user','content':'Go on'}]");
    assert_becomes(NULL,
                   "[{'role':'user','content':[{'type':'text','text':'a'},{'type':'tool_result','tool_use_id':'t'},"
                   "{'type':'text','text':'b'}]}]",
                   "[{'role':'user','content':'a'},{'role':'tool','content':'','tool_call_id':'t'},"
                   "{'role':'user','content':'b'}]");
    assert_becomes(NULL, "[{'role':'assistant','content':[{'type':'tool_use','id':'t','name':'f','input':{}}]}]",
                   "[{'role':'assistant','content':'','tool_calls':[{'id':'t','type':'function','function':"
                   "{'name':'f','arguments':{}}}]}]");
}

static void assert_refused(const char *system, const char *messages, const char *field, const char *part)
{
    json_t *given = messages != NULL ? quoted_json(messages) : NULL,
           *says = system != NULL ? quoted_json(system) : NULL;
    json_t *out = NULL;
    qn_unknown_fields unknown = {0};
    qn_error err;
    if (qn_anthropic_messages_translate(says, given, &out, &unknown, &err) != QN_USAGE) {
        fail_msg("not refused: %s", messages);
    }
    assert_string_equal(err.field, field);
    if (strstr(err.message, part) == NULL) {
        fail_msg("%s: '%s' does not say '%s'", messages, err.message, part);
    }
    assert_null(out);
    json_decref(says);
    json_decref(given);
}

static void test_refusals(void **state)
{
    (void)state;
    const char *hi = "[{'role':'user','content':'Hi'}]";
    assert_refused(NULL, NULL, "messages", "missing");
    assert_refused(NULL, "{}", "messages", "object");
    assert_refused(NULL, "[]", "messages", "0 messages");
    assert_refused(NULL, "[3]", "messages", "messages[0].role");
    assert_refused(NULL, "[{'role':'system','content':'x'}]", "messages", "field system");
    assert_refused(NULL, "[{'role':'user'}]", "messages", "messages[0].content: missing");
    assert_refused(NULL, "[{'role':'user','content':null}]", "messages", "null");
    assert_refused(NULL, "[{'role':'user','content':['x']}]", "messages", "messages[0].content[0]");
    assert_refused(NULL, "[{'role':'user','content':[{'type':'image','source':{}}]}]", "messages", "text model");
    assert_refused(NULL, "[{'role':'user','content':[{'type':'text'}]}]", "messages", "text: missing");
    assert_refused(NULL, "[{'role':'user','content':[{'type':'tool_use','id':'t','name':'f','input':{}}]}]", "messages",
                   "type tool_use");
    assert_refused(NULL, "[{'role':'assistant','content':[{'type':'tool_use','id':'t','name':'f','input':'x'}]}]",
                   "messages", "\"input\": {...}");
    assert_refused(NULL, "[{'role':'assistant','content':[{'type':'thinking','signature':'x'}]}]", "messages",
                   "thinking: missing");
    assert_refused(NULL, "[{'role':'user','content':[{'type':'tool_result','content':'x'}]}]", "messages",
                   "tool_use_id");
    assert_refused(NULL, "[{'role':'user','content':[{'type':'tool_result','tool_use_id':'t','is_error':1}]}]",
                   "messages", "is_error");
    assert_refused(NULL,
                   "[{'role':'user','content':[{'type':'tool_result','tool_use_id':'t','content':[{'type':"
                   "'image'}]}]}]",
                   "messages", "text model");
    assert_refused("3", hi, "system", "integer");
    assert_refused("[{'type':'tool_result','tool_use_id':'t'}]", hi, "system", "system[0]");
    assert_refused("['x']", hi, "system", "system[0]");
}

static void test_unknown_fields_are_told(void **state)
{
    (void)state;
    json_t *given = quoted_json("[{'role':'user','name':'n','content':[{'type':'text','text':'x','mood':'good'}]}]");
    json_t *out = NULL;
    qn_unknown_fields unknown = {0};
    qn_error err;
    assert_int_equal(qn_anthropic_messages_translate(NULL, given, &out, &unknown, &err), QN_OK);
    assert_int_equal(unknown.total, 2);
    assert_string_equal(unknown.names[0], "name");
    assert_string_equal(unknown.names[1], "mood");
    json_decref(out);
    json_decref(given);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_system),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_tools_in_history),
        cmocka_unit_test(test_unknown_fields_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
