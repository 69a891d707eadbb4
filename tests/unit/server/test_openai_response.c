#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <jansson.h>

#include "server/openai_response.h"

static qn_chat_head head(void)
{
    qn_chat_head h = {.model = "a \"model\""};
    qn_chat_head_start(&h);
    return h;
}

static const qn_chat_timings timings = {.queue_us = 1500,
                                        .prefill_us = 2000000,
                                        .decode_us = 500000,
                                        .prompt_tokens = 10,
                                        .completion_tokens = 4,
                                        .reasoning_tokens = 3,
                                        .drafts = 2,
                                        .drafts_accepted = 1,
                                        .seed = -7};

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
    qn_chat_head h = head();
    qn_buffer out = {0}, content = {0}, reasoning = {0};
    qn_buffer_text(&content, "4\n\"2\"\x01");
    qn_buffer_text(&reasoning, "hm");
    qn_chat_write_answer(&out, &h, &content, &reasoning, QN_FINISH_STOP, "\nEND", &timings);
    json_t *answer = parse(&out);
    assert_string_equal(STRING(answer, "object"), "chat.completion");
    assert_string_equal(STRING(answer, "model"), "a \"model\"");
    assert_string_equal(STRING(answer, "id"), h.id);
    assert_string_equal(STRING(answer, "choices", "0", "message", "content"), "4\n\"2\"\x01");
    assert_string_equal(STRING(answer, "choices", "0", "message", "reasoning_content"), "hm");
    assert_string_equal(STRING(answer, "choices", "0", "message", "reasoning"), "hm");
    assert_string_equal(STRING(answer, "choices", "0", "finish_reason"), "stop");
    assert_string_equal(STRING(answer, "choices", "0", "stop_reason"), "\nEND");
    assert_int_equal(INTEGER(answer, "usage", "total_tokens"), 14);
    assert_int_equal(INTEGER(answer, "usage", "completion_tokens_details", "reasoning_tokens"), 3);
    assert_null(json_object_get(AT(answer, "usage"), "prompt_tokens_details"));
    assert_int_equal(INTEGER(answer, "timings", "seed"), -7);
    assert_true(json_number_value(AT(answer, "timings", "queue_ms")) == 1.5);
    assert_true(json_number_value(AT(answer, "timings", "prompt_per_second")) == 5);
    assert_true(json_number_value(AT(answer, "timings", "predicted_per_second")) == 8);
    assert_int_equal(INTEGER(answer, "timings", "draft_n"), 2);
    assert_int_equal(INTEGER(answer, "timings", "draft_n_accepted"), 1);
    json_decref(answer);
    qn_buffer_free(&content);
    qn_buffer_free(&reasoning);
}

static void test_answers_that_lack_a_part(void **state)
{
    (void)state;
    qn_chat_head h = head();
    h.prompt_details = true;
    qn_buffer out = {0}, none = {0}, some = {0};
    qn_buffer_text(&some, "x");
    qn_chat_write_answer(&out, &h, &none, &some, QN_FINISH_LENGTH, NULL, &(qn_chat_timings){0});
    json_t *answer = parse(&out);
    assert_true(json_is_null(AT(answer, "choices", "0", "message", "content")));
    assert_string_equal(STRING(answer, "choices", "0", "finish_reason"), "length");
    assert_true(json_is_null(AT(answer, "choices", "0", "stop_reason")));
    assert_int_equal(INTEGER(answer, "usage", "prompt_tokens_details", "cached_tokens"), 0);
    assert_true(json_number_value(AT(answer, "timings", "predicted_per_second")) == 0);
    json_decref(answer);
    qn_chat_write_answer(&out, &h, &none, &none, QN_FINISH_STOP, NULL, &(qn_chat_timings){0});
    answer = parse(&out);
    assert_string_equal(STRING(answer, "choices", "0", "message", "content"), "");
    assert_true(json_is_null(AT(answer, "choices", "0", "message", "reasoning")));
    json_decref(answer);
    qn_buffer_free(&some);
}

static void test_chunks(void **state)
{
    (void)state;
    qn_chat_head h = head();
    qn_buffer out = {0};
    qn_chat_write_role_chunk(&out, &h);
    json_t *chunk = parse(&out);
    assert_string_equal(STRING(chunk, "object"), "chat.completion.chunk");
    assert_string_equal(STRING(chunk, "choices", "0", "delta", "role"), "assistant");
    assert_null(json_object_get(chunk, "usage"));
    json_decref(chunk);
    qn_chat_write_text_chunk(&out, &h, QN_CHANNEL_REASONING, "\xc3\xa9\"", 3);
    chunk = parse(&out);
    assert_string_equal(STRING(chunk, "choices", "0", "delta", "reasoning"), "\xc3\xa9\"");
    assert_string_equal(STRING(chunk, "choices", "0", "delta", "reasoning_content"), "\xc3\xa9\"");
    assert_null(json_object_get(AT(chunk, "choices", "0", "delta"), "content"));
    json_decref(chunk);
    h.include_usage = true;
    qn_chat_write_text_chunk(&out, &h, QN_CHANNEL_CONTENT, "a", 1);
    chunk = parse(&out);
    assert_string_equal(STRING(chunk, "choices", "0", "delta", "content"), "a");
    assert_true(json_is_null(AT(chunk, "choices", "0", "finish_reason")));
    assert_true(json_is_null(AT(chunk, "usage")));
    json_decref(chunk);
    qn_chat_write_finish_chunk(&out, &h, QN_FINISH_LENGTH, NULL, &timings);
    chunk = parse(&out);
    assert_string_equal(STRING(chunk, "choices", "0", "finish_reason"), "length");
    assert_int_equal(json_object_size(AT(chunk, "choices", "0", "delta")), 0);
    assert_int_equal(INTEGER(chunk, "timings", "seed"), -7);
    json_decref(chunk);
    qn_chat_write_usage_chunk(&out, &h, &timings);
    chunk = parse(&out);
    assert_int_equal(json_array_size(AT(chunk, "choices")), 0);
    assert_int_equal(INTEGER(chunk, "usage", "prompt_tokens"), 10);
    json_decref(chunk);
}

static void test_ids_differ(void **state)
{
    (void)state;
    qn_chat_head a = head(), b = head();
    assert_string_not_equal(a.id, b.id);
    assert_true(a.created > 1600000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answer),
        cmocka_unit_test(test_answers_that_lack_a_part),
        cmocka_unit_test(test_chunks),
        cmocka_unit_test(test_ids_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
