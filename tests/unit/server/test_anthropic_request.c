#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/fault.h"
#include "base/json.h"
#include "server/anthropic_request.h"
#include "unit/server/api_texts.h"

/* The body is written with ' for ". */
static qn_status parse_with(const char *body, bool counting, const json_t *kwargs, qn_anthropic_request *out,
                            qn_error *err)
{
    const qn_chat_defaults defaults = {
        .limits = {.sampling = {.temperature = 0.5f, .top_p = 0.75f, .top_k = -1, .repetition_penalty = 1},
                   .vocab_size = 1000},
        .kwargs = kwargs};
    char *copy = double_quoted(body);
    qn_status status = qn_anthropic_request_parse(copy, strlen(copy), counting, &defaults, out, err);
    free(copy);
    return status;
}

static qn_status parse(const char *body, qn_anthropic_request *out, qn_error *err)
{
    return parse_with(body, false, NULL, out, err);
}

/* A minimal request with more fields. */
#define WITH(fields) "{'max_tokens':2048,'messages':[{'role':'user','content':'Hi'}]," fields "}"
#define TOOL "'tools':[{'name':'f','description':'d','input_schema':{'type':'object','properties':{}}}]"

static void assert_refused(const char *body, const char *field, const char *part)
{
    qn_anthropic_request request;
    qn_error err;
    if (parse(body, &request, &err) != QN_USAGE) {
        fail_msg("not refused: %s", body);
    }
    assert_error_is(body, &err, field, part);
}

static void assert_accepted(const char *body)
{
    qn_anthropic_request request;
    qn_error err;
    if (parse(body, &request, &err) != QN_OK) {
        fail_msg("%s: %s", body, err.message);
    }
    assert_int_equal(request.unknown.total + request.unknown_message.total + request.unknown_tool.total, 0);
    qn_anthropic_request_free(&request);
}

static void test_defaults(void **state)
{
    (void)state;
    qn_anthropic_request r;
    qn_error err;
    assert_int_equal(parse("{'max_tokens':7,'messages':[{'role':'user','content':'Hi'}]}", &r, &err), QN_OK);
    assert_null(r.model);
    assert_int_equal(r.generation.max_tokens, 7);
    assert_true(r.generation.sampling.temperature == 0.5f && r.generation.sampling.top_p == 0.75f);
    assert_int_equal(r.generation.n, 1);
    assert_false(r.stream || r.generation.has_thinking_budget || r.hides_thoughts || r.prefill);
    assert_null(r.tools.list);
    assert_int_equal(json_object_size(r.kwargs.values), 0);
    assert_int_equal(json_array_size(r.messages), 1);
    qn_anthropic_request_free(&r);
}

static void test_all_fields(void **state)
{
    (void)state;
    qn_anthropic_request r;
    qn_error err;
    const char *body =
        "{'model':'m','max_tokens':2000,'system':'Be brief.','messages':[{'role':'user','content':'Hi'}],"
        "'stop_sequences':['x','yz'],'stream':true,'temperature':1,'top_p':0.5,'top_k':7,'metadata':{'user_id':'u'},"
        "'service_tier':'standard_only','thinking':{'type':'enabled','budget_tokens':1024,'display':'omitted'},"
        "'output_config':{'effort':'medium'},'cache_control':{'type':'ephemeral'},'seed':3,'ignore_eos':true,"
        "'chat_template_kwargs':{'clear_thinking':true},'tool_choice':{'type':'none'},'mood':'good'," TOOL "}";
    if (parse(body, &r, &err) != QN_OK) {
        fail_msg("%s", err.message);
    }
    assert_string_equal(r.model, "m");
    assert_int_equal(json_array_size(r.messages), 2);
    assert_int_equal(r.generation.stop_count, 2);
    assert_string_equal(r.generation.stop[1], "yz");
    assert_true(r.stream && r.generation.has_thinking_budget && r.hides_thoughts && r.generation.ignore_eos &&
                r.generation.seed_given);
    assert_int_equal(r.generation.sampling.top_k, 7);
    assert_string_equal(json_string_value(json_object_get(r.kwargs.values, "reasoning_effort")), "high");
    assert_true(json_is_true(json_object_get(r.kwargs.values, "clear_thinking")));
    assert_null(json_object_get(r.kwargs.values, "enable_thinking"));
    assert_int_equal(r.unknown.total, 1);
    assert_string_equal(r.unknown.names[0], "mood");
    assert_int_equal(r.tools.demand, QN_TOOLS_NONE);
    assert_int_equal(json_array_size(r.tools.list), 1);
    assert_null(qn_tool_choice_shown(&r.tools));
    qn_anthropic_request_free(&r);
}

static void test_tools(void **state)
{
    (void)state;
    qn_anthropic_request r;
    qn_error err;
    assert_int_equal(parse_with(WITH(TOOL ",'tool_choice':{'type':'auto'}"), true, NULL, &r, &err), QN_OK);
    char *text = json_dumps(qn_tool_choice_shown(&r.tools), JSON_COMPACT);
    assert_string_equal(text, "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":\"d\","
                              "\"parameters\":{\"type\":\"object\",\"properties\":{}}}}]");
    free(text);
    qn_anthropic_request_free(&r);
    assert_accepted(WITH("'tools':[]"));
    assert_accepted(
        WITH("'tool_choice':{'type':'none'},'tools':[{'type':'custom','name':'f','input_schema':{},'strict':false}]"));
    assert_refused(WITH("'tools':{}"), "tools", "list");
    assert_refused(WITH("'tools':[3]"), "tools", "tools[0]");
    assert_refused(WITH("'tools':[{'type':'web_search_20250305','name':'web_search'}]"), "tools",
                   "web_search_20250305: only custom tools are supported: send such tools alone");
    assert_refused(WITH("'tools':[{'name':'f g','input_schema':{}}]"), "tools", "tools[0].name");
    assert_refused(WITH("'tools':[{'name':'f'}]"), "tools", "input_schema");
    assert_refused(WITH("'tools':[{'name':'f','input_schema':{},'description':3}]"), "tools", "description");
    assert_refused(WITH("'tools':[{'name':'f','input_schema':{}},{'name':'f','input_schema':{}}]"), "tools", "already");
    assert_refused(WITH("'tool_choice':{'type':'auto'}"), "tool_choice", "no tools");
    assert_accepted(WITH("'tool_choice':{'type':'none'}"));
    assert_refused(WITH(TOOL ",'tool_choice':'auto'"), "tool_choice", "type");
    assert_refused(WITH(TOOL ",'tool_choice':{'type':'some'}"), "tool_choice", "auto, any");
    assert_refused(WITH(TOOL ",'tool_choice':{'type':'tool'}"), "tool_choice", "name");
    assert_refused(WITH(TOOL ",'tool_choice':{'type':'tool','name':'g'}"), "tool_choice", "none of the tools");
    assert_refused(WITH(TOOL ",'tool_choice':{'type':'auto','disable_parallel_tool_use':1}"), "tool_choice",
                   "true or false");
}

static void test_what_is_held_to_a_grammar(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        qn_tool_demand demand;
        bool several, strict, some_only;
    } cases[] = {
        {WITH(TOOL), QN_TOOLS_AUTO, true, false, false},
        {WITH(TOOL ",'tool_choice':{'type':'any'}"), QN_TOOLS_CALL, false, false, false},
        {WITH(TOOL ",'tool_choice':{'type':'any','disable_parallel_tool_use':false}"), QN_TOOLS_CALL, true, false,
         false},
        {WITH(TOOL ",'tool_choice':{'type':'tool','name':'f'}"), QN_TOOLS_CALL, false, false, true},
        {WITH(TOOL ",'tool_choice':{'type':'auto','disable_parallel_tool_use':true}"), QN_TOOLS_AUTO, false, false,
         false},
        {WITH("'tools':[{'name':'f','input_schema':{},'strict':true}]"), QN_TOOLS_AUTO, true, true, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        qn_anthropic_request r;
        qn_error err;
        assert_int_equal(parse(cases[i].body, &r, &err), QN_OK);
        assert_int_equal(r.tools.demand, cases[i].demand);
        assert_int_equal(r.tools.several, cases[i].several);
        assert_int_equal(r.tools.strict[0], cases[i].strict);
        assert_int_equal(r.tools.callable != NULL, cases[i].some_only);
        qn_anthropic_request_free(&r);
    }
    qn_anthropic_request r;
    qn_error err;
    assert_int_equal(
        parse(WITH("'output_config':{'format':{'type':'json_schema','schema':{'type':'string'}}}"), &r, &err), QN_OK);
    assert_int_equal(r.form.format.kind, QN_FORMAT_JSON_SCHEMA);
    qn_anthropic_request_free(&r);
    assert_accepted(WITH("'output_format':{'type':'json_schema','schema':{}}"));
    assert_refused(WITH("'output_config':{'format':{'type':'json_schema'}}"), "output_config.format", "no schema");
    assert_refused(WITH("'output_format':{'type':'yaml'}"), "output_format", "unknown type");
}

static void test_thinking(void **state)
{
    (void)state;
    qn_anthropic_request r;
    qn_error err;
    assert_int_equal(parse(WITH("'thinking':{'type':'disabled'}"), &r, &err), QN_OK);
    assert_true(json_is_false(json_object_get(r.kwargs.values, "enable_thinking")));
    qn_anthropic_request_free(&r);
    json_t *off = json_pack("{s:b}", "enable_thinking", 0);
    assert_int_equal(parse_with(WITH("'thinking':{'type':'adaptive'}"), false, off, &r, &err), QN_OK);
    assert_true(json_is_true(json_object_get(r.kwargs.values, "enable_thinking")));
    qn_anthropic_request_free(&r);
    json_decref(off);
    assert_refused(WITH("'thinking':true"), "thinking", "enabled");
    assert_refused(WITH("'thinking':{'type':'often'}"), "thinking", "enabled");
    assert_refused(WITH("'thinking':{'type':'enabled'}"), "thinking", "budget_tokens: missing");
    assert_refused(WITH("'thinking':{'type':'enabled','budget_tokens':1000}"), "thinking", "too small");
    assert_refused(WITH("'thinking':{'type':'enabled','budget_tokens':2048}"), "thinking", "max_tokens");
    assert_refused(WITH("'thinking':{'type':'adaptive','budget_tokens':2048}"), "thinking", "only with type enabled");
    assert_refused(WITH("'thinking':{'type':'disabled','budget_tokens':2048}"), "thinking", "only with type enabled");
    assert_accepted(WITH("'thinking':{'type':'disabled'},'output_config':{'effort':'max'}"));
    assert_refused(WITH("'output_config':{'effort':'some'}"), "output_config", "xhigh");
    assert_refused(WITH("'output_config':[]"), "output_config", "object");
}

static void fields_that_contradict_are_both_named(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {WITH("'thinking':{'type':'adaptive'},'reasoning_effort':'none'"),
         "thinking.type: reasoning_effort says otherwise: send one of them"},
        {WITH("'thinking':{'type':'disabled'},'reasoning_effort':'max'"),
         "thinking.type: reasoning_effort says otherwise"},
        {WITH("'thinking':{'type':'disabled'},'chat_template_kwargs':{'enable_thinking':true}"),
         "thinking.type: chat_template_kwargs.enable_thinking says otherwise"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_refused(cases[i][0], "thinking", cases[i][1]);
    }
    assert_refused(WITH("'thinking':{'type':'adaptive'},'output_config':{'effort':'none'}"), "output_config",
                   "output_config.effort: thinking.type says otherwise");
    assert_refused(WITH("'reasoning_effort':'none','output_config':{'effort':'low'}"), "output_config",
                   "output_config.effort: reasoning_effort says otherwise");
    static const char longer[] = "{'max_tokens':4000,'messages':[{'role':'user','content':'Hi'}],"
                                 "'thinking':{'type':'enabled','budget_tokens':2048},'thinking_token_budget':%d}";
    char body[256];
    snprintf(body, sizeof body, longer, 8);
    assert_refused(body, "thinking", "thinking.budget_tokens: thinking_token_budget says otherwise");
    snprintf(body, sizeof body, longer, 2048);
    assert_accepted(body);
}

static void test_refusals(void **state)
{
    (void)state;
    assert_refused("[]", "", "object");
    assert_refused("{'messages':[{'role':'user','content':'Hi'}]}", "max_tokens", "missing");
    assert_refused("{'max_tokens':0,'messages':[{'role':'user','content':'Hi'}]}", "max_tokens", "too small");
    assert_refused("{'max_tokens':4}", "messages", "missing");
    assert_refused("{'max_tokens':4,'messages':[{'role':'assistant','content':''}]}", "messages", "no text");
    assert_refused("{'max_tokens':4,'messages':[{'role':'assistant','content':[{'type':'text','text':'x'},{'type':"
                   "'tool_use','id':'t','name':'f','input':{}}]}]}",
                   "messages", "calls");
    assert_refused(WITH("'temperature':1.5"), "temperature", "0 to 1");
    assert_refused(WITH("'stop_sequences':'x'"), "stop_sequences", "list");
    assert_refused(WITH("'stop_sequences':['']"), "stop_sequences", "stop_sequences: a string of 0 bytes");
    assert_refused(WITH("'stop_sequences':[3]"), "stop_sequences", "strings");
    assert_refused(WITH("'stream':1"), "stream", "true or false");
    assert_refused(WITH("'service_tier':'fast'"), "service_tier", "standard_only");
    assert_refused(WITH("'mcp_servers':[{}]"), "mcp_servers", "only []");
    assert_refused(WITH("'chat_template_kwargs':{'messages':[]}"), "chat_template_kwargs", "set by the server");
    assert_refused(WITH("'system':[{'type':'image'}]"), "system", "text model");
    assert_accepted(WITH("'mcp_servers':[],'speed':'standard','system':null,'tools':null,'thinking':null"));
}

static void test_short_of_memory(void **state)
{
    (void)state;
    qn_json_init();
    const char *body =
        "{'max_tokens':2000,'system':[{'type':'text','text':'x'}],'stop_sequences':['x'],'seed':3,"
        "'messages':[{'role':'user','content':[{'type':'tool_result','tool_use_id':'t','content':'c'}]},"
        "{'role':'assistant','content':[{'type':'thinking','thinking':'t'},{'type':'tool_use','id':'t',"
        "'name':'f','input':{'a':1}}]},{'role':'user','content':'Hi'}],'logit_bias':{'3':1},"
        "'thinking':{'type':'disabled'},'output_config':{'effort':'low'},'tool_choice':{'type':'none'}," TOOL "}";
    qn_anthropic_request r;
    qn_error err;
    bool failed = true;
    long n = 0;
    while (failed) {
        qn_fault_arm(QN_FAULT_ALLOC, ++n);
        qn_status status = parse(body, &r, &err);
        failed = qn_fault_seen(QN_FAULT_ALLOC) >= n;
        qn_fault_disarm();
        if (status == QN_OK) {
            qn_anthropic_request_free(&r);
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
        cmocka_unit_test(test_defaults), cmocka_unit_test(test_all_fields),
        cmocka_unit_test(test_tools),    cmocka_unit_test(test_what_is_held_to_a_grammar),
        cmocka_unit_test(test_thinking), cmocka_unit_test(fields_that_contradict_are_both_named),
        cmocka_unit_test(test_refusals), cmocka_unit_test(test_short_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
