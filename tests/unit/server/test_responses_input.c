#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/responses_input.h"
#include "unit/server/api_texts.h"

static void assert_becomes(const char *input, const char *wanted)
{
    json_t *given = quoted_json(input), *expected = quoted_json(wanted), *out = json_array(),
           *before = json_deep_copy(given);
    qn_unknown_fields unknown = {0};
    qn_error err;
    if (qn_responses_input_translate(NULL, given, out, &unknown, &err) != QN_OK) {
        fail_msg("%s: %s", input, err.message);
    }
    char *text = json_dumps(out, JSON_COMPACT);
    if (!json_equal(out, expected)) {
        fail_msg("%s became %s", input, text);
    }
    assert_true(json_equal(given, before));
    assert_int_equal(unknown.total, 0);
    free(text);
    json_decref(before);
    json_decref(out);
    json_decref(expected);
    json_decref(given);
}

#define CALL(id) "{'id':'" id "','type':'function','function':{'name':'f','arguments':{}}}"
#define CALL_ITEM(id) "{'type':'function_call','call_id':'" id "','name':'f','arguments':'{}','status':'completed'}"

static void test_messages(void **state)
{
    (void)state;
    assert_becomes("'Hi'", "[{'role':'user','content':'Hi'}]");
    assert_becomes(
        "[{'role':'developer','content':'x'},{'type':'message','role':'user','content':[{'type':'input_text',"
        "'text':'a'},{'type':'text','text':'b\\u0000'}]}]",
        "[{'role':'system','content':'x'},{'role':'user','content':'ab\\u0000'}]");
}

static void test_turns_of_the_assistant(void **state)
{
    (void)state;
    assert_becomes(
        "[{'type':'reasoning','id':'r','summary':[],'content':[{'type':'reasoning_text','text':'t'}]},"
        "{'type':'message','role':'assistant','id':'m','content':[{'type':'output_text','text':'x'}]}," CALL_ITEM(
            "1") "," CALL_ITEM("2") ",{'type':'function_call_output','call_id':'1','output':'y'}," CALL_ITEM("3") "]",
        "[{'role':'assistant','content':'x','reasoning_content':'t','tool_calls':[" CALL("1") "," CALL(
            "2") "]},{'role':'tool','content':'y','tool_call_id':'1'},"
                 "{'role':'assistant','content':'','tool_calls':[" CALL("3") "]}]");
    /* thoughts after calls are another turn's; a summary stands for thoughts that are not there */
    assert_becomes("[" CALL_ITEM("1") ",{'type':'reasoning','summary':[{'type':'summary_text','text':'s'}]}]",
                   "[{'role':'assistant','content':'','tool_calls':[" CALL(
                       "1") "]},{'role':'assistant','content':'','reasoning_content':'s'}]");
    assert_becomes("[{'type':'reasoning','summary':'','content':'t'},{'role':'assistant','content':'a'}]",
                   "[{'role':'assistant','content':'a','reasoning_content':'t'}]");
    assert_becomes("[{'type':'reasoning','summary':[],'encrypted_content':'zzz'},{'role':'assistant','content':'a'},"
                   "{'role':'assistant','content':'b'}]",
                   "[{'role':'assistant','content':'a'},{'role':'assistant','content':'b'}]");
}

static void assert_refused(const char *input, const char *part)
{
    json_t *given = quoted_json(input), *out = json_array();
    qn_unknown_fields unknown = {0};
    qn_error err;
    if (qn_responses_input_translate(NULL, given, out, &unknown, &err) != QN_USAGE) {
        fail_msg("not refused: %s", input);
    }
    assert_string_equal(err.field, "input");
    if (strstr(err.message, part) == NULL) {
        fail_msg("%s: '%s' does not say '%s'", input, err.message, part);
    }
    json_decref(out);
    json_decref(given);
}

static void test_refusals(void **state)
{
    (void)state;
    assert_refused("3", "integer");
    assert_refused("[]", "0 items");
    assert_refused("['x']", "input[0]");
    assert_refused("[{'content':'x'}]", "role");
    assert_refused("[{'role':'robot','content':'x'}]", "role");
    assert_refused("[{'role':'user'}]", "input[0].content: missing: send a string");
    assert_refused("[{'role':'user','content':3}]", "input[0].content: integer: send a string");
    assert_refused("[{'type':'function_call_output','call_id':'1','output':{}}]", "input[0].output: object: send");
    assert_refused("[{'type':'function_call_output','call_id':'1','output':[3]}]", "input[0].output[0]: type missing");
    assert_refused("[{'type':'reasoning','summary':[{'type':'x'}]}]", "input[0].summary[0]: type x");
    assert_refused("[{'role':'user','content':[{'type':'input_image'}]}]", "text model");
    assert_refused("[{'role':'user','content':[{'type':'input_text'}]}]", "input[0].content[0].text");
    assert_refused("[{'role':'user','content':'x'},{'type':'item_reference','id':'x'}]",
                   "input[1]: type item_reference");
    assert_refused("[{'type':'function_call','call_id':'1','name':'f'}]", "arguments");
    assert_refused("[{'type':'function_call','call_id':'1','name':'f','arguments':'f'}]",
                   "input[0].arguments: not JSON");
    assert_refused("[{'type':'function_call','call_id':'1','name':'f','arguments':'[]'}]",
                   "input[0].arguments: the text of JSON that is array");
    assert_refused("[{'type':'function_call_output','output':'x'}]", "call_id");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_turns_of_the_assistant),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
