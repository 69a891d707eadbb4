#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <jansson.h>

#include "server/anthropic_response.h"
#include "unit/server/api_texts.h"

#define PART(kind_, text_)                                           \
    {                                                                \
        .kind = (kind_), .text = (text_), .bytes = sizeof(text_) - 1 \
    }

static qn_anthropic_message message(void)
{
    qn_anthropic_message m = {.model = "quern \"tiny\"", .prompt_tokens = 12};
    qn_anthropic_message_start(&m, "q1");
    assert_string_equal(m.id, "msg_q1");
    return m;
}

static qn_result result(qn_finish finish)
{
    return (qn_result){.finish = finish,
                       .stop_token = -1,
                       .prompt_tokens = 12,
                       .completion_tokens = 5,
                       .reasoning_tokens = 2,
                       .timings = {.cached_tokens = 8}};
}

static void assert_json(const json_t *value, const char *wanted)
{
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    assert_string_equal(text, wanted);
    free(text);
}

static void assert_block(const json_t *events, size_t at, size_t index, const char *start, const char *delta)
{
    assert_int_equal(json_integer_value(json_object_get(json_array_get(events, at), "index")), index);
    assert_json(json_object_get(json_array_get(events, at), "content_block"), start);
    assert_json(json_object_get(json_array_get(events, at + 1), "delta"), delta);
}

static void test_stream(void **state)
{
    (void)state;
    const qn_output_event parts[] = {
        PART(QN_OUTPUT_REASONING, "I think"),  PART(QN_OUTPUT_CONTENT, "Hi\n"), PART(QN_OUTPUT_CALL, "f"),
        PART(QN_OUTPUT_ARGUMENTS, "{\"a\": "), PART(QN_OUTPUT_ARGUMENTS, "1}"), PART(QN_OUTPUT_CALL_END, "")};
    qn_anthropic_message m = message();
    qn_buffer out = {0};
    qn_result r = result(QN_FINISH_STOP);
    qn_anthropic_write_start(&m, &out);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        qn_anthropic_write_part(&m, &parts[i], &out);
    }
    qn_anthropic_write_end(&m, &r, &out);
    json_t *events = named_events(&out);
    assert_int_equal(json_array_size(events), 15);
    const json_t *begun = json_object_get(json_array_get(events, 0), "message");
    assert_string_equal(json_string_value(json_object_get(begun, "model")), "quern \"tiny\"");
    assert_int_equal(json_integer_value(json_object_get(json_object_get(begun, "usage"), "input_tokens")), 12);
    assert_json(json_object_get(begun, "content"), "[]");
    assert_block(events, 2, 0, "{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}",
                 "{\"type\":\"thinking_delta\",\"thinking\":\"I think\"}");
    assert_json(json_object_get(json_array_get(events, 4), "delta"),
                "{\"type\":\"signature_delta\",\"signature\":\"cXVlcm4=\"}");
    assert_json(json_array_get(events, 5), "{\"type\":\"content_block_stop\",\"index\":0}");
    assert_block(events, 6, 1, "{\"type\":\"text\",\"text\":\"\"}", "{\"type\":\"text_delta\",\"text\":\"Hi\\n\"}");
    const json_t *call = json_object_get(json_array_get(events, 9), "content_block");
    assert_string_equal(json_string_value(json_object_get(call, "name")), "f");
    assert_memory_equal(json_string_value(json_object_get(call, "id")), "toolu_", 6);
    assert_json(json_object_get(call, "input"), "{}");
    assert_json(json_object_get(json_array_get(events, 11), "delta"),
                "{\"type\":\"input_json_delta\",\"partial_json\":\"1}\"}");
    assert_json(
        json_array_get(events, 13),
        "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\",\"stop_sequence\":null},\"usage\":{"
        "\"input_tokens\":12,\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":0,"
        "\"output_tokens\":5,\"output_tokens_details\":{\"thinking_tokens\":2}}}");
    assert_json(json_array_get(events, 14), "{\"type\":\"message_stop\"}");
    json_decref(events);
}

static json_t *whole(qn_anthropic_message *m, const qn_output_event *parts, size_t count, const qn_result *r)
{
    qn_buffer out = {0};
    qn_anthropic_write_message(m, parts, count, r, &out);
    json_t *body = json_loadb(qn_buffer_string(&out), out.size, 0, NULL);
    assert_non_null(body);
    qn_buffer_free(&out);
    return body;
}

static void test_message(void **state)
{
    (void)state;
    const qn_output_event parts[] = {PART(QN_OUTPUT_REASONING, "hm"),  PART(QN_OUTPUT_CONTENT, "Hi"),
                                     PART(QN_OUTPUT_CALL, "f"),        PART(QN_OUTPUT_ARGUMENTS, "{\"a\": 1}"),
                                     PART(QN_OUTPUT_CALL_END, ""),     PART(QN_OUTPUT_CALL, "g"),
                                     PART(QN_OUTPUT_ARGUMENTS, "{\"b")};
    qn_anthropic_message m = message();
    m.prompt_details = true;
    qn_result r = result(QN_FINISH_LENGTH);
    json_t *body = whole(&m, parts, sizeof parts / sizeof parts[0], &r);
    const json_t *content = json_object_get(body, "content");
    assert_int_equal(json_array_size(content), 3); /* without the call that was cut */
    assert_json(json_array_get(content, 0), "{\"type\":\"thinking\",\"thinking\":\"hm\",\"signature\":\"cXVlcm4=\"}");
    assert_json(json_array_get(content, 1), "{\"type\":\"text\",\"text\":\"Hi\"}");
    assert_json(json_object_get(json_array_get(content, 2), "input"), "{\"a\":1}");
    assert_string_equal(json_string_value(json_object_get(body, "stop_reason")), "max_tokens");
    assert_json(json_object_get(body, "usage"),
                "{\"input_tokens\":4,\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":8,"
                "\"output_tokens\":5,\"output_tokens_details\":{\"thinking_tokens\":2}}");
    json_decref(body);
}

static void test_hidden_thoughts(void **state)
{
    (void)state;
    const qn_output_event parts[] = {PART(QN_OUTPUT_REASONING, "hm"), PART(QN_OUTPUT_CONTENT, "Hi")};
    qn_anthropic_message m = message(), n = message();
    m.hides_thoughts = n.hides_thoughts = true;
    qn_result r = result(QN_FINISH_STOP);
    json_t *body = whole(&m, parts, 2, &r);
    assert_json(json_array_get(json_object_get(body, "content"), 0),
                "{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"cXVlcm4=\"}");
    json_decref(body);
    qn_buffer out = {0};
    qn_anthropic_write_part(&n, &parts[0], &out);
    qn_anthropic_write_part(&n, &parts[1], &out);
    assert_null(strstr(qn_buffer_string(&out), "hm"));
    assert_non_null(strstr(qn_buffer_string(&out), "signature_delta"));
    qn_buffer_free(&out);
}

static void assert_reason(qn_anthropic_message m, qn_result r, const char *reason, const char *sequence)
{
    json_t *body = whole(&m, NULL, 0, &r);
    assert_string_equal(json_string_value(json_object_get(body, "stop_reason")), reason);
    const json_t *told = json_object_get(body, "stop_sequence");
    if (sequence == NULL) {
        assert_true(json_is_null(told));
    } else {
        assert_string_equal(json_string_value(told), sequence);
    }
    assert_json(json_object_get(body, "content"), "[]");
    json_decref(body);
}

static void test_stop_reasons(void **state)
{
    (void)state;
    qn_anthropic_message m = message();
    assert_reason(m, result(QN_FINISH_STOP), "end_turn", NULL);
    assert_reason(m, result(QN_FINISH_LENGTH), "max_tokens", NULL);
    assert_reason(m, result(QN_FINISH_REPETITION), "max_tokens", NULL);
    m.cut_by_context = true;
    assert_reason(m, result(QN_FINISH_LENGTH), "model_context_window_exceeded", NULL);
    assert_reason(m, result(QN_FINISH_STOP), "end_turn", NULL);
    m.calls = 1;
    assert_reason(m, result(QN_FINISH_STOP), "tool_use", NULL);
    qn_result r = result(QN_FINISH_STOP);
    r.stop_matched = "x\"";
    assert_reason(m, r, "stop_sequence", "x\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stream),
        cmocka_unit_test(test_message),
        cmocka_unit_test(test_hidden_thoughts),
        cmocka_unit_test(test_stop_reasons),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
