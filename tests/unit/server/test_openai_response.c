#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <jansson.h>

#include "server/openai_response.h"

static qn_openai_head head_of(const char *request_id)
{
    qn_openai_head h = {.model = "a \"model\""};
    qn_openai_head_start(&h, "chatcmpl-", request_id);
    return h;
}

static qn_openai_head head(void)
{
    return head_of("r1");
}

static const qn_result result = {
    .finish = QN_FINISH_STOP,
    .stop_token = -1,
    .prompt_tokens = 14,
    .completion_tokens = 4,
    .reasoning_tokens = 3,
    .timings = {.queue_us = 1500,
                .prefill_us = 2000000,
                .decode_us = 500000,
                .prompt_tokens = 14,
                .cached_tokens = 4,
                .completion_tokens = 6, /* the engine went on beyond a stop string */
                .drafts_proposed = 2,
                .drafts_accepted = 1,
                .preemptions = 1},
};

static qn_answer_totals totals_of(const qn_result *first, const qn_result *second)
{
    qn_answer_totals totals = {.seed = -7};
    qn_answer_totals_add(&totals, first, true);
    if (second != NULL) {
        qn_answer_totals_add(&totals, second, false);
    }
    return totals;
}

static void write_one(qn_buffer *out, const qn_openai_head *head, const qn_buffer *content, const qn_buffer *reasoning,
                      const qn_result *of)
{
    const qn_chat_choice choice = {.result = of, .content = content, .reasoning = reasoning};
    qn_answer_totals totals = totals_of(of, NULL);
    qn_chat_write_answer(out, head, &choice, 1, &(qn_chat_prompt_part){0}, &totals);
}

/* The buffer as JSON, emptied. */
static json_t *parse(qn_buffer *out)
{
    json_error_t error;
    json_t *value = json_loadb(qn_buffer_string(out), out->size, 0, &error);
    if (value == NULL) {
        fail_msg("%s: %s", qn_buffer_string(out), error.text);
    }
    assert_null(strchr(qn_buffer_string(out), '\n'));
    qn_buffer_free(out);
    return value;
}

/* The value at a path of keys and indices: "choices", "0", "delta". */
static const json_t *at(const json_t *value, const char *const *path)
{
    for (; *path != NULL; path++) {
        value = json_is_array(value) ? json_array_get(value, (size_t)(**path - '0')) : json_object_get(value, *path);
        assert_non_null(value);
    }
    return value;
}

#define AT(value, ...) at(value, (const char *const[]){__VA_ARGS__, NULL})
#define STRING(value, ...) json_string_value(AT(value, __VA_ARGS__))
#define INTEGER(value, ...) json_integer_value(AT(value, __VA_ARGS__))

static void test_answer(void **state)
{
    (void)state;
    qn_openai_head h = head();
    qn_buffer out = {0}, content = {0}, reasoning = {0};
    qn_buffer_text(&content, "4\n\"2\"\x01");
    qn_buffer_text(&reasoning, "hm");
    qn_result ended = result;
    ended.stop_matched = "\nEND";
    write_one(&out, &h, &content, &reasoning, &ended);
    json_t *answer = parse(&out);
    assert_string_equal(STRING(answer, "object"), "chat.completion");
    assert_string_equal(STRING(answer, "model"), "a \"model\"");
    assert_string_equal(STRING(answer, "id"), h.id);
    assert_string_equal(STRING(answer, "choices", "0", "message", "content"), "4\n\"2\"\x01");
    assert_string_equal(STRING(answer, "choices", "0", "message", "reasoning_content"), "hm");
    assert_string_equal(STRING(answer, "choices", "0", "message", "reasoning"), "hm");
    assert_string_equal(STRING(answer, "choices", "0", "finish_reason"), "stop");
    assert_string_equal(STRING(answer, "choices", "0", "stop_reason"), "\nEND");
    assert_true(json_is_null(AT(answer, "choices", "0", "logprobs")));
    assert_null(json_object_get(AT(answer, "choices", "0"), "token_ids"));
    assert_null(json_object_get(answer, "prompt_logprobs"));
    assert_int_equal(INTEGER(answer, "usage", "total_tokens"), 18);
    assert_int_equal(INTEGER(answer, "usage", "completion_tokens_details", "reasoning_tokens"), 3);
    assert_null(json_object_get(AT(answer, "usage"), "prompt_tokens_details"));
    assert_int_equal(INTEGER(answer, "timings", "seed"), -7);
    assert_true(json_number_value(AT(answer, "timings", "queue_ms")) == 1.5);
    assert_true(json_number_value(AT(answer, "timings", "prompt_per_second")) == 5);    /* what was computed of it */
    assert_true(json_number_value(AT(answer, "timings", "predicted_per_second")) == 6); /* after the first token */
    assert_int_equal(INTEGER(answer, "timings", "prompt_tokens"), 14);
    assert_int_equal(INTEGER(answer, "timings", "cached_tokens"), 4);
    assert_int_equal(INTEGER(answer, "timings", "completion_tokens"), 4);
    assert_int_equal(INTEGER(answer, "timings", "drafts"), 2);
    assert_int_equal(INTEGER(answer, "timings", "drafts_accepted"), 1);
    assert_int_equal(INTEGER(answer, "timings", "draft_n"), 2);
    assert_int_equal(INTEGER(answer, "timings", "draft_n_accepted"), 1);
    assert_int_equal(INTEGER(answer, "timings", "preemptions"), 1);
    json_decref(answer);
    qn_buffer_free(&content);
    qn_buffer_free(&reasoning);
}

static void test_answers_that_lack_a_part(void **state)
{
    (void)state;
    qn_openai_head h = head();
    h.prompt_details = true;
    qn_buffer out = {0}, none = {0}, some = {0};
    qn_buffer_text(&some, "x");
    write_one(&out, &h, &none, &some, &(qn_result){.finish = QN_FINISH_LENGTH, .stop_token = -1});
    json_t *answer = parse(&out);
    assert_true(json_is_null(AT(answer, "choices", "0", "message", "content")));
    assert_string_equal(STRING(answer, "choices", "0", "finish_reason"), "length");
    assert_true(json_is_null(AT(answer, "choices", "0", "stop_reason")));
    assert_int_equal(INTEGER(answer, "usage", "prompt_tokens_details", "cached_tokens"), 0);
    assert_true(json_number_value(AT(answer, "timings", "predicted_per_second")) == 0);
    json_decref(answer);
    write_one(&out, &h, &none, &none, &(qn_result){.finish = QN_FINISH_REPETITION, .stop_token = 77});
    answer = parse(&out);
    assert_string_equal(STRING(answer, "choices", "0", "message", "content"), "");
    assert_true(json_is_null(AT(answer, "choices", "0", "message", "reasoning")));
    assert_string_equal(STRING(answer, "choices", "0", "finish_reason"), "repetition");
    assert_int_equal(INTEGER(answer, "choices", "0", "stop_reason"), 77);
    json_decref(answer);
    qn_buffer_free(&some);
}

static void test_several_choices_add_up(void **state)
{
    (void)state;
    qn_openai_head h = head();
    h.prompt_details = true;
    qn_buffer out = {0}, one = {0}, two = {0}, none = {0}, logprobs = {0}, prompt = {0};
    qn_buffer_text(&one, "one");
    qn_buffer_text(&two, "two");
    qn_buffer_text(&logprobs, "{\"token\":\"o\"}");
    qn_buffer_text(&prompt, "[null,{}]");
    qn_result other = result;
    other.timings.decode_us = 700000;
    other.timings.cached_tokens = 14;
    const int32_t ids[] = {5, 6};
    const qn_chat_choice choices[] = {
        {.index = 0, .result = &result, .content = &one, .reasoning = &none, .tokens = {.logprobs = &logprobs}},
        {.index = 1,
         .result = &other,
         .content = &two,
         .reasoning = &none,
         .tokens = {.ids = ids, .id_count = 2, .with_ids = true}},
    };
    const qn_chat_prompt_part part = {.logprobs = &prompt, .ids = ids, .id_count = 1};
    qn_answer_totals totals = totals_of(&result, &other);
    qn_chat_write_answer(&out, &h, choices, 2, &part, &totals);
    json_t *answer = parse(&out);
    assert_int_equal(json_array_size(AT(answer, "choices")), 2);
    assert_int_equal(INTEGER(answer, "choices", "1", "index"), 1);
    assert_string_equal(STRING(answer, "choices", "1", "message", "content"), "two");
    assert_string_equal(STRING(answer, "choices", "0", "logprobs", "content", "0", "token"), "o");
    assert_int_equal(INTEGER(answer, "choices", "1", "token_ids", "1"), 6);
    assert_int_equal(json_array_size(AT(answer, "prompt_logprobs")), 2);
    assert_int_equal(INTEGER(answer, "prompt_token_ids", "0"), 5);
    assert_int_equal(INTEGER(answer, "usage", "prompt_tokens"), 14);
    assert_int_equal(INTEGER(answer, "usage", "completion_tokens"), 8);
    assert_int_equal(INTEGER(answer, "usage", "prompt_tokens_details", "cached_tokens"), 4);
    assert_int_equal(INTEGER(answer, "timings", "drafts"), 4);
    assert_true(json_number_value(AT(answer, "timings", "decode_ms")) == 700);
    json_decref(answer);
    qn_buffer_free(&one);
    qn_buffer_free(&two);
    qn_buffer_free(&logprobs);
    qn_buffer_free(&prompt);
}

static void test_chunks(void **state)
{
    (void)state;
    qn_openai_head h = head();
    qn_buffer out = {0}, logprobs = {0};
    const int32_t ids[] = {8};
    qn_chat_write_role_chunk(&out, &h, 3, &(qn_chat_prompt_part){.ids = ids, .id_count = 1}, NULL);
    json_t *chunk = parse(&out);
    assert_string_equal(STRING(chunk, "object"), "chat.completion.chunk");
    assert_int_equal(INTEGER(chunk, "choices", "0", "index"), 3);
    assert_string_equal(STRING(chunk, "choices", "0", "delta", "role"), "assistant");
    assert_int_equal(INTEGER(chunk, "prompt_token_ids", "0"), 8);
    assert_null(json_object_get(chunk, "usage"));
    json_decref(chunk);
    qn_chat_write_text_chunk(&out, &h, 0, QN_OUTPUT_REASONING, "\xc3\xa9\"", 3, NULL, NULL);
    chunk = parse(&out);
    assert_string_equal(STRING(chunk, "choices", "0", "delta", "reasoning"), "\xc3\xa9\"");
    assert_string_equal(STRING(chunk, "choices", "0", "delta", "reasoning_content"), "\xc3\xa9\"");
    assert_null(json_object_get(AT(chunk, "choices", "0", "delta"), "content"));
    assert_true(json_is_null(AT(chunk, "choices", "0", "logprobs")));
    json_decref(chunk);
    h.include_usage = true;
    qn_buffer_text(&logprobs, "{\"token\":\"o\"}");
    const qn_chat_tokens tokens = {.logprobs = &logprobs, .ids = ids, .id_count = 1, .with_ids = true};
    qn_chat_write_text_chunk(&out, &h, 1, QN_OUTPUT_CONTENT, "a", 1, &tokens, NULL);
    chunk = parse(&out);
    assert_string_equal(STRING(chunk, "choices", "0", "delta", "content"), "a");
    assert_int_equal(INTEGER(chunk, "choices", "0", "index"), 1);
    assert_string_equal(STRING(chunk, "choices", "0", "logprobs", "content", "0", "token"), "o");
    assert_int_equal(INTEGER(chunk, "choices", "0", "token_ids", "0"), 8);
    assert_true(json_is_null(AT(chunk, "choices", "0", "finish_reason")));
    assert_true(json_is_null(AT(chunk, "usage")));
    json_decref(chunk);
    qn_answer_totals totals = totals_of(&result, NULL);
    qn_result ended = result;
    ended.finish = QN_FINISH_LENGTH;
    qn_chat_write_finish_chunk(&out, &h, 1, &ended, true, &tokens, &totals);
    chunk = parse(&out);
    assert_string_equal(STRING(chunk, "choices", "0", "finish_reason"), "length");
    assert_string_equal(STRING(chunk, "choices", "0", "logprobs", "content", "0", "token"), "o");
    assert_int_equal(json_object_size(AT(chunk, "choices", "0", "delta")), 0);
    assert_int_equal(INTEGER(chunk, "timings", "seed"), -7);
    json_decref(chunk);
    qn_chat_write_usage_chunk(&out, &h, &totals);
    chunk = parse(&out);
    assert_int_equal(json_array_size(AT(chunk, "choices")), 0);
    assert_int_equal(INTEGER(chunk, "usage", "prompt_tokens"), 14);
    json_decref(chunk);
    h.continuous_usage = true;
    qn_chat_write_text_chunk(&out, &h, 1, QN_OUTPUT_CONTENT, "a", 1, &tokens, &totals);
    chunk = parse(&out);
    assert_int_equal(INTEGER(chunk, "usage", "completion_tokens"), 4);
    json_decref(chunk);
    qn_buffer_free(&logprobs);
}

static void test_calls(void **state)
{
    (void)state;
    const qn_openai_head h = head();
    const qn_output_event name = {.kind = QN_OUTPUT_CALL, .call = 1, .text = "f", .bytes = 1};
    const qn_output_event piece = {.kind = QN_OUTPUT_ARGUMENTS, .call = 1, .text = "{\"a\"", .bytes = 4};
    qn_buffer out = {0}, calls = {0}, arguments = {0}, none = {0};
    qn_chat_write_call_chunk(&out, &h, 0, &name, "call_1", NULL, NULL);
    json_t *chunk = parse(&out);
    const json_t *delta = AT(chunk, "choices", "0", "delta", "tool_calls", "0");
    assert_int_equal(INTEGER(delta, "index"), 1);
    assert_string_equal(STRING(delta, "id"), "call_1");
    assert_string_equal(STRING(delta, "type"), "function");
    assert_string_equal(STRING(delta, "function", "name"), "f");
    assert_string_equal(STRING(delta, "function", "arguments"), "");
    json_decref(chunk);
    qn_chat_write_call_chunk(&out, &h, 0, &piece, "call_1", NULL, NULL);
    chunk = parse(&out);
    delta = AT(chunk, "choices", "0", "delta", "tool_calls", "0");
    assert_int_equal(INTEGER(delta, "index"), 1);
    assert_string_equal(STRING(delta, "function", "arguments"), "{\"a\"");
    assert_null(json_object_get(delta, "id"));
    json_decref(chunk);
    qn_buffer_text(&arguments, "{\"a\": \"\\n\"}");
    qn_chat_write_call(&calls, "call_2", &name, &arguments);
    qn_result ended = result;
    ended.finish = QN_FINISH_STOP;
    const qn_chat_choice choice = {.result = &ended, .content = &none, .reasoning = &none, .calls = &calls};
    const qn_answer_totals totals = totals_of(&ended, NULL);
    qn_chat_write_answer(&out, &h, &choice, 1, &(qn_chat_prompt_part){0}, &totals);
    json_t *answer = parse(&out);
    const json_t *message = AT(answer, "choices", "0", "message");
    assert_true(json_is_null(AT(message, "content")));
    assert_string_equal(STRING(message, "tool_calls", "0", "function", "arguments"), "{\"a\": \"\\n\"}");
    assert_string_equal(STRING(answer, "choices", "0", "finish_reason"), "tool_calls");
    json_decref(answer);
    qn_buffer_free(&calls);
    qn_buffer_free(&arguments);
}

static void test_head_tells_id_and_time(void **state)
{
    (void)state;
    char longest[QN_HTTP_REQUEST_ID_MAX + 1];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    qn_openai_head a = head(), b = head_of(longest);
    assert_string_equal(a.id, "chatcmpl-r1");
    assert_int_equal(strlen(b.id), strlen("chatcmpl-") + QN_HTTP_REQUEST_ID_MAX);
    assert_true(a.created > 1600000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answer),
        cmocka_unit_test(test_answers_that_lack_a_part),
        cmocka_unit_test(test_several_choices_add_up),
        cmocka_unit_test(test_chunks),
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_head_tells_id_and_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
