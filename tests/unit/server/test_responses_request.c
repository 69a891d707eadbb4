#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/fault.h"
#include "base/json.h"
#include "server/responses_request.h"
#include "unit/server/api_texts.h"

/* The body is written with ' for ". */
static qn_status parse(const char *body, qn_responses_request *out, qn_error *err)
{
    const qn_chat_defaults defaults = {
        .limits = {.sampling = {.temperature = 0.5f, .top_p = 0.75f, .top_k = -1, .repetition_penalty = 1},
                   .vocab_size = 1000}};
    char *copy = double_quoted(body);
    qn_status status = qn_responses_request_parse(copy, strlen(copy), &defaults, out, err);
    free(copy);
    return status;
}

/* A minimal request with more fields. */
#define WITH(fields) "{'input':'Hi'," fields "}"
#define TOOL "'tools':[{'type':'function','name':'f','description':'d','parameters':{'type':'object'},'strict':false}]"

static void assert_refused(const char *body, const char *field, const char *part)
{
    qn_responses_request request;
    qn_error err;
    if (parse(body, &request, &err) != QN_USAGE) {
        fail_msg("not refused: %s", body);
    }
    assert_error_is(body, &err, field, part);
}

static void assert_accepted(const char *body)
{
    qn_responses_request request;
    qn_error err;
    if (parse(body, &request, &err) != QN_OK) {
        fail_msg("%s: %s", body, err.message);
    }
    assert_int_equal(request.unknown.total + request.unknown_item.total, 0);
    qn_responses_request_free(&request);
}

static void test_all_fields(void **state)
{
    (void)state;
    qn_responses_request r;
    qn_error err;
    const char *body =
        "{'model':'m','input':[{'role':'user','content':'Hi'}],'instructions':'Be brief.','max_output_tokens':20,"
        "'temperature':2,'top_p':0.5,'stream':true,'stream_options':{'include_obfuscation':true},'store':true,"
        "'text':{'format':{'type':'text'},'verbosity':'medium'},'reasoning':{'effort':'xhigh','summary':'auto'},"
        "'include':['reasoning.encrypted_content'],'parallel_tool_calls':false,'metadata':{'a':'b'},'user':'u',"
        "'truncation':'disabled','tool_choice':'none','previous_response_id':'resp_1','request_id':'q','stop':['x'],"
        "'seed':3,'mood':'good'," TOOL "}";
    if (parse(body, &r, &err) != QN_OK) {
        fail_msg("%s", err.message);
    }
    assert_string_equal(r.model, "m");
    assert_string_equal(r.previous, "resp_1");
    assert_string_equal(r.generation.request_id, "q");
    assert_null(r.messages); /* before the conversation is there that it goes on from */
    json_t *history = quoted_json("[{'role':'user','content':'a'},{'role':'assistant','content':'b'}]");
    assert_int_equal(qn_responses_request_continue(&r, history, NULL, &err), QN_OK);
    json_decref(history);
    char *messages = json_dumps(r.messages, JSON_COMPACT);
    assert_string_equal(messages, "[{\"role\":\"system\",\"content\":\"Be brief.\"},{\"role\":\"user\",\"content\":"
                                  "\"a\"},{\"role\":\"assistant\",\"content\":\"b\"},{\"role\":\"user\",\"content\":"
                                  "\"Hi\"}]");
    free(messages);
    assert_true(r.store);
    assert_int_equal(r.generation.max_tokens, 20);
    assert_string_equal(r.generation.max_tokens_field, "max_output_tokens");
    assert_int_equal(r.generation.stop_count, 1);
    assert_true(r.stream && r.tools.demand == QN_TOOLS_NONE && r.generation.seed_given);
    assert_string_equal(json_string_value(json_object_get(r.kwargs.values, "reasoning_effort")), "max");
    char *tools = json_dumps(r.tools.list, JSON_COMPACT);
    assert_string_equal(tools, "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":\"d\","
                               "\"parameters\":{\"type\":\"object\"}}}]");
    free(tools);
    assert_int_equal(r.unknown.total, 1);
    assert_string_equal(r.unknown.names[0], "mood");
    qn_responses_request_free(&r);
}

static void test_defaults(void **state)
{
    (void)state;
    qn_responses_request r;
    qn_error err;
    assert_int_equal(parse("{'input':'Hi'}", &r, &err), QN_OK);
    assert_int_equal(r.generation.max_tokens, 0);
    assert_null(r.tools.list);
    assert_false(r.stream || r.tools.demand == QN_TOOLS_NONE);
    assert_true(r.generation.sampling.temperature == 0.5f);
    qn_responses_request_free(&r);
    assert_accepted(WITH("'tools':[],'tool_choice':'auto','text':null,'reasoning':null,'service_tier':'auto'"));
}

static void test_refusals(void **state)
{
    (void)state;
    assert_refused("{}", "input", "missing");
    assert_refused("{'input':[{'type':'reasoning','summary':[]}]}", "input", "send a message");
    assert_refused(WITH("'instructions':['x']"), "instructions", "string");
    assert_refused(WITH("'max_output_tokens':0"), "max_output_tokens", "max_output_tokens: 0 is too small");
    assert_refused(WITH("'temperature':3"), "temperature", "range");
    assert_refused(WITH("'stream_options':1"), "stream_options", "object");
    assert_refused(WITH("'include':'x'"), "include", "list");
    assert_refused(WITH("'include':['message.output_text.logprobs']"), "include", "logprobs");
    assert_refused(WITH("'text':{'format':{'type':'json_schema'}}"), "text.format", "no schema");
    assert_refused(WITH("'text':{'verbosity':'high'}"), "text", "text.verbosity");
    assert_refused(WITH("'metadata':[]"), "metadata", "object");
    assert_refused(WITH("'reasoning':{'effort':'some'}"), "reasoning", "xhigh");
    assert_refused(WITH("'reasoning':{'effort':3}"), "reasoning", "reasoning.effort");
    assert_refused(WITH("'background':true"), "background", "false");
    assert_refused(WITH("'truncation':'auto'"), "truncation", "disabled");
    assert_refused(WITH("'previous_response_id':3"), "previous_response_id", "string");
    assert_refused(WITH("'tools':{}"), "tools", "list");
    assert_refused(WITH("'tools':[{'type':'web_search'}]"), "tools", "web_search");
    assert_refused(WITH("'tools':[{'type':'function'}]"), "tools", "name");
    assert_refused(WITH("'tools':[{'type':'function','name':'f','parameters':3}]"), "tools", "parameters");
    assert_accepted(WITH(TOOL ",'parallel_tool_calls':true"));
    assert_accepted(WITH(TOOL ",'parallel_tool_calls':false"));
    assert_accepted(WITH(TOOL ",'tool_choice':'required'"));
    assert_accepted(WITH(TOOL ",'tool_choice':{'type':'function','name':'f'}"));
    assert_accepted(WITH(TOOL ",'tool_choice':{'type':'allowed_tools','mode':'auto','tools':[{'type':'function',"
                              "'name':'f'}]}"));
    assert_refused(WITH(TOOL ",'tool_choice':{'type':'function','name':'g'}"), "tool_choice", "none of the tools");
    assert_refused(WITH(TOOL ",'tool_choice':{'type':'function','function':{'name':'f'}}"), "tool_choice", "allowed");
    assert_refused(WITH("'tool_choice':'required'"), "tool_choice", "no tools");
    assert_accepted(WITH("'text':{'format':{'type':'json_schema','name':'x','schema':{},'strict':true}}"));
    assert_accepted(WITH("'text':{'format':{'type':'json_object'}}"));
}

static void test_short_of_memory(void **state)
{
    (void)state;
    qn_json_init();
    const char *body = "{'instructions':'i','input':[{'role':'user','content':[{'type':'input_text','text':'x'}]},"
                       "{'type':'reasoning','content':[{'type':'reasoning_text','text':'t'}]},{'type':'function_call',"
                       "'call_id':'c','name':'f','arguments':'{}'},{'type':'function_call_output','call_id':'c',"
                       "'output':'o'}],'reasoning':{'effort':'low'},'tool_choice':'none','stop':'x'," TOOL "}";
    bool failed = true;
    long n = 0;
    while (failed) {
        qn_responses_request r;
        qn_error err;
        qn_fault_arm(QN_FAULT_ALLOC, ++n);
        qn_status status = parse(body, &r, &err);
        failed = qn_fault_seen(QN_FAULT_ALLOC) >= n;
        qn_fault_disarm();
        if (status == QN_OK) {
            qn_responses_request_free(&r);
        } else {
            assert_int_equal(status, QN_RESOURCE);
        }
        assert_true(failed || status == QN_OK);
    }
    assert_true(n > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_fields),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_short_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
