#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/responses_response.h"
#include "unit/server/api_texts.h"

#define PART(kind_, text_)                                           \
    {                                                                \
        .kind = (kind_), .text = (text_), .bytes = sizeof(text_) - 1 \
    }

static void start(qn_response *r, const char *body)
{
    const qn_chat_defaults defaults = {.limits = {.sampling = {.temperature = 1, .top_p = 1, .top_k = -1}}};
    qn_responses_request request;
    qn_error err;
    *r = (qn_response){0};
    assert_int_equal(qn_responses_request_parse(body, strlen(body), &defaults, &request, &err), QN_OK);
    qn_response_name(r);
    assert_int_equal(qn_response_start(r, "quern-tiny", &request, &err), QN_OK);
    qn_responses_request_free(&request);
    assert_int_equal(strlen(r->id), strlen("resp_") + 32);
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

/* The events as a list; each has to carry its name and its number. */
static json_t *events_of(qn_buffer *out)
{
    json_t *events = named_events(out);
    for (size_t i = 0; i < json_array_size(events); i++) {
        assert_int_equal(json_integer_value(json_object_get(json_array_get(events, i), "sequence_number")), i);
    }
    return events;
}

static const qn_output_event parts[] = {PART(QN_OUTPUT_REASONING, "I "),       PART(QN_OUTPUT_REASONING, "think"),
                                        PART(QN_OUTPUT_CONTENT, "Hi\n"),       PART(QN_OUTPUT_CALL, "f"),
                                        PART(QN_OUTPUT_ARGUMENTS, "{\"a\": "), PART(QN_OUTPUT_ARGUMENTS, "1}"),
                                        PART(QN_OUTPUT_CALL_END, "")};
enum { PARTS = sizeof parts / sizeof parts[0] };

static void assert_types(const json_t *events)
{
    static const char *const types[] = {
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "reasoning_text.delta",
        "reasoning_text.delta",
        "reasoning_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    };
    assert_int_equal(json_array_size(events), sizeof types / sizeof types[0]);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        char type[64];
        snprintf(type, sizeof type, "response.%s", types[i]);
        assert_string_equal(json_string_value(json_object_get(json_array_get(events, i), "type")), type);
    }
}

static void test_stream_and_whole(void **state)
{
    (void)state;
    qn_response streamed, whole;
    start(&streamed, "{\"input\":\"Hi\",\"metadata\":{\"k\":\"v\"}}");
    start(&whole, "{\"input\":\"Hi\",\"metadata\":{\"k\":\"v\"}}");
    whole.salt = streamed.salt;
    whole.created = streamed.created;
    memcpy(whole.id, streamed.id, sizeof whole.id);
    qn_buffer out = {0}, body = {0};
    qn_result r = result(QN_FINISH_STOP);
    qn_response_write_start(&streamed, &out);
    for (size_t i = 0; i < PARTS; i++) {
        qn_response_add(&streamed, &parts[i], &out);
        qn_response_add(&whole, &parts[i], NULL);
    }
    qn_response_finish(&streamed, &r, &out);
    qn_response_finish(&whole, &r, NULL);
    size_t output_at = 0, output_bytes = 0;
    qn_response_write(&whole, &r, &body, &output_at, &output_bytes);
    json_t *events = events_of(&out);
    assert_types(events);
    const json_t *last = json_object_get(json_array_get(events, json_array_size(events) - 1), "response");
    json_t *response = json_loadb(qn_buffer_string(&body), body.size, 0, NULL);
    assert_true(json_equal(last, response));
    assert_string_equal(json_string_value(json_object_get(response, "status")), "completed");
    assert_string_equal(json_string_value(json_object_get(json_object_get(response, "metadata"), "k")), "v");
    const json_t *output = json_object_get(response, "output");
    assert_int_equal(json_array_size(output), 3);
    json_t *told_output = json_loadb(qn_buffer_string(&body) + output_at, output_bytes, 0, NULL);
    assert_true(json_equal(told_output, output));
    json_decref(told_output);
    const json_t *call = json_array_get(output, 2);
    assert_string_equal(json_string_value(json_object_get(call, "arguments")), "{\"a\": 1}");
    assert_string_equal(json_string_value(json_object_get(call, "name")), "f");
    assert_int_equal(json_integer_value(json_object_get(json_object_get(response, "usage"), "total_tokens")), 17);
    json_decref(response);
    json_decref(events);
    qn_buffer_free(&body);
    qn_response_free(&streamed);
    qn_response_free(&whole);
}

static void test_what_was_cut(void **state)
{
    (void)state;
    qn_response response;
    qn_buffer out = {0};
    qn_result r = result(QN_FINISH_LENGTH);
    start(&response, "{\"input\":\"Hi\"}");
    for (size_t i = 0; i < PARTS - 1; i++) { /* without the call's end */
        qn_response_add(&response, &parts[i], NULL);
    }
    qn_response_finish(&response, &r, NULL);
    size_t output_at, output_bytes;
    qn_response_write(&response, &r, &out, &output_at, &output_bytes);
    json_t *told = json_loadb(qn_buffer_string(&out), out.size, 0, NULL);
    assert_string_equal(json_string_value(json_object_get(told, "status")), "incomplete");
    const json_t *details = json_object_get(told, "incomplete_details");
    assert_string_equal(json_string_value(json_object_get(details, "reason")), "max_output_tokens");
    const json_t *output = json_object_get(told, "output");
    assert_string_equal(json_string_value(json_object_get(json_array_get(output, 1), "status")), "completed");
    assert_string_equal(json_string_value(json_object_get(json_array_get(output, 2), "status")), "incomplete");
    json_decref(told);
    qn_buffer_free(&out);
    qn_response_free(&response);
}

static void test_failure(void **state)
{
    (void)state;
    qn_response response;
    qn_buffer out = {0};
    start(&response, "{\"input\":\"Hi\"}");
    qn_response_write_failure(&response, "it \"broke\"", &out);
    json_t *events = events_of(&out);
    const json_t *failed = json_object_get(json_array_get(events, 0), "response");
    assert_string_equal(json_string_value(json_object_get(failed, "status")), "failed");
    assert_string_equal(json_string_value(json_object_get(json_object_get(failed, "error"), "message")),
                        "it \"broke\"");
    json_decref(events);
    qn_response_free(&response);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stream_and_whole),
        cmocka_unit_test(test_what_was_cut),
        cmocka_unit_test(test_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
