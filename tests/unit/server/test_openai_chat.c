#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/fault.h"
#include "base/json.h"
#include "server/openai_chat.h"
#include "unit/server/api_texts.h"

static qn_chat_defaults defaults(void)
{
    return (qn_chat_defaults){
        .limits = {.sampling = {.temperature = 0.5f, .top_p = 0.75f, .min_p = 0, .top_k = -1, .repetition_penalty = 1},
                   .vocab_size = 1000}};
}

static qn_status parse(const char *body, qn_chat_request *out, qn_error *err)
{
    qn_chat_defaults d = defaults();
    return qn_chat_request_parse(body, strlen(body), &d, out, err);
}

/* A minimal request with more fields. */
#define WITH(fields) "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]," fields "}"

static void assert_refused(const char *body, const char *field, const char *part)
{
    qn_chat_request request;
    qn_error err;
    qn_status status = parse(body, &request, &err);
    if (status == QN_OK) {
        fail_msg("accepted: %s", body);
    }
    assert_int_equal(status, QN_USAGE);
    assert_int_equal(err.status, QN_USAGE);
    assert_error_is(body, &err, field, part);
}

static void assert_accepted(const char *body)
{
    qn_chat_request request;
    qn_error err;
    if (parse(body, &request, &err) != QN_OK) {
        fail_msg("%s: %s", body, err.message);
    }
    qn_chat_request_free(&request);
}

static void test_defaults(void **state)
{
    (void)state;
    qn_chat_request r;
    qn_error err;
    assert_int_equal(parse("{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}", &r, &err), QN_OK);
    assert_null(r.model);
    assert_true(r.generation.sampling.temperature == 0.5f && r.generation.sampling.top_p == 0.75f &&
                r.generation.sampling.top_k == -1);
    assert_false(r.generation.seed_given);
    assert_int_equal(r.generation.max_tokens, 0);
    assert_int_equal(r.generation.stop_count, 0);
    assert_false(r.stream || r.include_usage || r.generation.ignore_eos);
    assert_false(r.return_token_ids);
    assert_int_equal(r.logprobs, -1);
    assert_int_equal(json_object_size(r.kwargs.values), 0);
    assert_int_equal(r.unknown.total, 0);
    qn_chat_request_free(&r);
}

static void test_all_fields(void **state)
{
    (void)state;
    qn_chat_request r;
    qn_error err;
    qn_status status = parse(
        WITH("\"temperature\":0,\"top_p\":1,\"top_k\":40,\"min_p\":0.25,\"seed\":-5,\"max_tokens\":8,"
             "\"max_completion_tokens\":4,\"stop\":[\"a\",\"\\u00e9\"],\"stream\":true,\"ignore_eos\":true,"
             "\"stream_options\":{\"include_usage\":true},\"reasoning_effort\":\"low\","
             "\"chat_template_kwargs\":{\"clear_thinking\":true}"),
        &r, &err);
    assert_int_equal(status, QN_OK);
    assert_string_equal(r.model, "m");
    assert_true(r.generation.sampling.temperature == 0 && r.generation.sampling.top_p == 1 &&
                r.generation.sampling.min_p == 0.25f);
    assert_int_equal(r.generation.sampling.top_k, 40);
    assert_true(r.generation.seed_given);
    assert_true((int64_t)r.generation.sampling.seed == -5);
    assert_int_equal(r.generation.max_tokens, 4);
    assert_string_equal(r.generation.max_tokens_field, "max_completion_tokens");
    assert_int_equal(r.generation.stop_count, 2);
    assert_string_equal(r.generation.stop[1], "\xc3\xa9");
    assert_true(r.stream && r.include_usage && r.generation.ignore_eos);
    assert_string_equal(json_string_value(json_object_get(r.kwargs.values, "reasoning_effort")), "low");
    assert_true(json_is_true(json_object_get(r.kwargs.values, "clear_thinking")));
    qn_chat_request_free(&r);
}

static void test_logprobs(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        int logprobs;
    } cases[] = {
        {WITH("\"logprobs\":false"), -1},
        {WITH("\"logprobs\":true"), 0},
        {WITH("\"logprobs\":true,\"top_logprobs\":20"), 20},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        qn_chat_request r;
        qn_error err;
        assert_int_equal(parse(cases[i].body, &r, &err), QN_OK);
        assert_int_equal(r.logprobs, cases[i].logprobs);
        qn_chat_request_free(&r);
    }
}

static void test_null_counts_as_absent(void **state)
{
    (void)state;
    assert_accepted(WITH("\"temperature\":null,\"top_p\":null,\"top_k\":null,\"min_p\":null,\"seed\":null,"
                         "\"max_tokens\":null,\"max_completion_tokens\":null,\"stop\":null,\"stream\":null,"
                         "\"stream_options\":null,\"reasoning_effort\":null,\"chat_template_kwargs\":null,\"n\":null,"
                         "\"tools\":null,\"tool_choice\":null,\"response_format\":null,\"logprobs\":null,"
                         "\"top_logprobs\":null,\"logit_bias\":null,\"prompt_logprobs\":null,\"ignore_eos\":null"));
}

static void test_what_asks_for_nothing_is_accepted(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        WITH("\"n\":1"),
        WITH("\"logprobs\":false,\"top_logprobs\":0"),
        WITH("\"presence_penalty\":0,\"frequency_penalty\":0.0,\"repetition_penalty\":1.0,\"length_penalty\":1"),
        WITH("\"logit_bias\":{},\"stop_token_ids\":[],\"bad_words\":[],\"min_tokens\":0"),
        WITH("\"tool_choice\":\"none\""),
        WITH("\"tool_choice\":\"auto\",\"parallel_tool_calls\":false"),
        WITH("\"response_format\":{\"type\":\"text\"}"),
        WITH("\"user\":\"u\",\"metadata\":{\"a\":\"b\"},\"store\":false,\"service_tier\":\"auto\""),
        WITH("\"modalities\":[\"text\"],\"skip_special_tokens\":true,\"echo\":false,\"cache_salt\":\"x\""),
        WITH("\"add_generation_prompt\":true,\"continue_final_message\":false,\"priority\":0"),
        WITH("\"top_k\":0"),
        WITH("\"top_k\":-1"),
    };
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        assert_accepted(bodies[i]);
    }
}

static void test_how_a_prompt_ends(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        qn_prompt_end end;
    } cases[] = {
        {WITH("\"n\":1"), QN_PROMPT_OPENS_MESSAGE},
        {WITH("\"add_generation_prompt\":false"), QN_PROMPT_IS_CLOSED},
        {WITH("\"continue_final_message\":true"), QN_PROMPT_CONTINUES},
        {WITH("\"continue_final_message\":true,\"add_generation_prompt\":false"), QN_PROMPT_CONTINUES},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        qn_chat_request request;
        qn_error err;
        assert_int_equal(parse(cases[i].body, &request, &err), QN_OK);
        assert_int_equal(request.prompt_end, cases[i].end);
        assert_true(request.include_reasoning && !request.echo);
        qn_chat_request_free(&request);
    }
    assert_refused(WITH("\"continue_final_message\":true,\"add_generation_prompt\":true"), "continue_final_message",
                   "send one of them");
}

static void test_what_is_not_there_yet_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *body, *field;
    } cases[] = {
        {WITH("\"store\":true"), "store"},
        {WITH("\"functions\":[]"), "functions"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_refused(cases[i].body, cases[i].field, "supported in this version");
    }
    assert_refused(WITH("\"seed\":18446744073709551616"), "seed", "integer beyond 64 bits given: send an integer");
    assert_refused(WITH("\"tool_choice\":\"required\""), "tool_choice", "no tools");
}

static void test_bad_values(void **state)
{
    (void)state;
    static const struct {
        const char *body, *field;
    } cases[] = {
        {WITH("\"temperature\":-0.1"), "temperature"},
        {WITH("\"temperature\":2.1"), "temperature"},
        {WITH("\"temperature\":\"hot\""), "temperature"},
        {WITH("\"top_p\":0"), "top_p"},
        {WITH("\"top_p\":1e-60"), "top_p"},
        {WITH("\"top_p\":1.1"), "top_p"},
        {WITH("\"top_k\":-2"), "top_k"},
        {WITH("\"top_k\":1.5"), "top_k"},
        {WITH("\"top_k\":2147483648"), "top_k"},
        {WITH("\"min_p\":1.5"), "min_p"},
        {WITH("\"seed\":\"x\""), "seed"},
        {WITH("\"seed\":1.0"), "seed"},
        {WITH("\"max_tokens\":0"), "max_tokens"},
        {WITH("\"max_tokens\":-1"), "max_tokens"},
        {WITH("\"max_tokens\":1.5"), "max_tokens"},
        {WITH("\"max_completion_tokens\":true"), "max_completion_tokens"},
        {WITH("\"stop\":\"\""), "stop"},
        {WITH("\"stop\":[\"\"]"), "stop"},
        {WITH("\"stop\":[1]"), "stop"},
        {WITH("\"stop\":{}"), "stop"},
        {WITH("\"stop\":\"a\\u0000b\""), "stop"},
        {WITH("\"stream\":1"), "stream"},
        {WITH("\"stream_options\":{}"), "stream_options"},
        {WITH("\"stream\":true,\"stream_options\":1"), "stream_options"},
        {WITH("\"stream\":true,\"stream_options\":{\"include_usage\":1}"), "stream_options"},
        {WITH("\"stream\":true,\"stream_options\":{\"continuous_usage_stats\":1}"), "stream_options"},
        {WITH("\"n\":0"), "n"},
        {WITH("\"n\":100000"), "n"},
        {WITH("\"top_logprobs\":5"), "top_logprobs"},
        {WITH("\"logprobs\":true,\"top_logprobs\":21"), "top_logprobs"},
        {WITH("\"reasoning_effort\":\"galactic\""), "reasoning_effort"},
        {WITH("\"reasoning_effort\":3"), "reasoning_effort"},
        {WITH("\"thinking\":{\"type\":\"often\"}"), "thinking"},
        {WITH("\"chat_template_kwargs\":[]"), "chat_template_kwargs"},
        {WITH("\"chat_template_kwargs\":{\"messages\":[]}"), "chat_template_kwargs"},
        {WITH("\"chat_template_kwargs\":{\"reasoning_effort\":\"x\"}"), "chat_template_kwargs"},
        {WITH("\"reasoning_effort\":\"low\",\"chat_template_kwargs\":{\"reasoning_effort\":\"high\"}"),
         "reasoning_effort"},
        {WITH("\"stream\":true,\"prompt_logprobs\":0"), "prompt_logprobs"},
        {WITH("\"return_token_ids\":1"), "return_token_ids"},
        {WITH("\"modalities\":[\"audio\"]"), "modalities"},
        {WITH("\"modalities\":\"text\""), "modalities"},
        {"{\"model\":3,\"messages\":[]}", "model"},
        {"{\"model\":\"a\\u0000\",\"messages\":[]}", "model"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_refused(cases[i].body, cases[i].field, cases[i].field);
    }
}

static void test_too_many_stops(void **state)
{
    (void)state;
    char body[2048] = "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"stop\":[\"s\"";
    for (int i = 0; i < QN_STOP_MAX_STRINGS; i++) {
        strcat(body, ",\"s\"");
    }
    strcat(body, "]}");
    assert_refused(body, "stop", "at most 64");
}

static void test_body_and_messages_are_checked(void **state)
{
    (void)state;
    assert_refused("[]", "", "send a JSON object");
    assert_refused("{}", "messages", "missing");
    assert_refused("{\"messages\":[{\"role\":\"wizard\",\"content\":\"x\"}]}", "messages", "unknown role wizard");
}

static void test_unknown_fields_are_reported(void **state)
{
    (void)state;
    qn_chat_request r;
    qn_error err;
    assert_int_equal(
        parse("{\"frobnicate\":1,\"messages\":[{\"role\":\"user\",\"content\":\"x\",\"cache_control\":{}}],"
              "\"stream\":true,\"stream_options\":{\"later\":1}}",
              &r, &err),
        QN_OK);
    assert_int_equal(r.unknown.total, 2);
    assert_string_equal(r.unknown.names[0], "frobnicate");
    assert_string_equal(r.unknown.names[1], "later");
    assert_int_equal(r.unknown_message.count, 1);
    assert_string_equal(r.unknown_message.names[0], "cache_control");
    qn_chat_request_free(&r);
}

static void test_default_kwargs_give_way(void **state)
{
    (void)state;
    json_t *kwargs = json_pack("{s:s, s:b}", "reasoning_effort", "high", "clear_thinking", 1);
    qn_chat_defaults d = defaults();
    d.kwargs = kwargs;
    qn_chat_request r;
    qn_error err;
    const char *body = WITH("\"reasoning_effort\":\"low\",\"chat_template_kwargs\":{\"x\":1}");
    assert_int_equal(qn_chat_request_parse(body, strlen(body), &d, &r, &err), QN_OK);
    assert_string_equal(json_string_value(json_object_get(r.kwargs.values, "reasoning_effort")), "low");
    assert_true(json_is_true(json_object_get(r.kwargs.values, "clear_thinking")));
    assert_int_equal(json_integer_value(json_object_get(r.kwargs.values, "x")), 1);
    assert_int_equal(json_object_size(kwargs), 2);
    qn_chat_request_free(&r);
    json_decref(kwargs);
}

/* Each allocation fails once: always an error, never a wrong request, a leak or a crash. */
static void test_out_of_memory(void **state)
{
    (void)state;
    const char *body = "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"}]},"
                       "{\"role\":\"assistant\",\"reasoning\":\"r\",\"tool_calls\":[{\"id\":\"i\",\"function\":{"
                       "\"name\":\"f\",\"arguments\":\"{\\\"x\\\":1}\"}}]}],\"stop\":[\"s\"],"
                       "\"chat_template_kwargs\":{\"a\":1},\"reasoning_effort\":\"low\",\"store\":false,"
                       "\"logit_bias\":{\"1\":2},\"stop_token_ids\":[3]}";
    bool hit = true;
    long nth = 0;
    while (hit) {
        qn_chat_request r;
        qn_error err;
        qn_fault_arm(QN_FAULT_ALLOC, ++nth);
        qn_status status = parse(body, &r, &err);
        hit = qn_fault_seen(QN_FAULT_ALLOC) >= nth;
        qn_fault_disarm();
        if (status == QN_OK) { /* nothing failed, or what failed was tried again */
            assert_int_equal(json_array_size(r.messages), 2);
            qn_chat_request_free(&r);
        } else {
            assert_true(hit);
            assert_int_equal(status, QN_RESOURCE);
        }
    }
    assert_true(nth > 30);
}

int main(void)
{
    qn_json_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_all_fields),
        cmocka_unit_test(test_logprobs),
        cmocka_unit_test(test_null_counts_as_absent),
        cmocka_unit_test(test_what_asks_for_nothing_is_accepted),
        cmocka_unit_test(test_how_a_prompt_ends),
        cmocka_unit_test(test_what_is_not_there_yet_is_refused),
        cmocka_unit_test(test_bad_values),
        cmocka_unit_test(test_too_many_stops),
        cmocka_unit_test(test_body_and_messages_are_checked),
        cmocka_unit_test(test_unknown_fields_are_reported),
        cmocka_unit_test(test_default_kwargs_give_way),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
