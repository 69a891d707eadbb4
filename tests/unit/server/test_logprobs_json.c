#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/fault.h"
#include "base/json.h"
#include "server/logprobs_json.h"
#include "unit/shipped_tokenizer.h"

static qn_tokenizer *tokenizer;

static int open_tokenizer(void **state)
{
    (void)state;
    return shipped_tokenizer_open(&tokenizer, NULL);
}

static int close_tokenizer(void **state)
{
    (void)state;
    qn_tokenizer_free(tokenizer);
    return 0;
}

/* A token that is a part of a character alone. */
static int32_t find_half_character(void)
{
    for (int32_t id = 0; (size_t)id < qn_tokenizer_size(tokenizer); id++) {
        size_t bytes = 0;
        const char *text = qn_tokenizer_token_bytes(tokenizer, id, &bytes);
        if (text != NULL && bytes == 1 && (unsigned char)text[0] >= 0xc2) {
            return id;
        }
    }
    fail_msg("the tokenizer has no such token");
    return -1;
}

/* The buffer as JSON between the brackets, emptied. */
static json_t *parse(qn_buffer *out, const char *before, const char *after)
{
    qn_buffer text = {0};
    qn_buffer_text(&text, before);
    qn_buffer_append(&text, qn_buffer_string(out), out->size);
    qn_buffer_text(&text, after);
    json_error_t error;
    json_t *value = json_loadb(text.data, text.size, 0, &error);
    if (value == NULL) {
        fail_msg("%s: %s", text.data, error.text);
    }
    qn_buffer_free(&text);
    qn_buffer_free(out);
    return value;
}

static void assert_entry(const json_t *entry, const qn_logprob *expected)
{
    size_t bytes = 0;
    const char *text = qn_tokenizer_token_bytes(tokenizer, expected->token, &bytes);
    const json_t *told = json_object_get(entry, "bytes");
    assert_int_equal(json_array_size(told), bytes);
    for (size_t i = 0; i < bytes; i++) {
        assert_int_equal(json_integer_value(json_array_get(told, i)), (unsigned char)text[i]);
    }
    assert_true((float)json_number_value(json_object_get(entry, "logprob")) == expected->logprob);
    assert_true(json_is_string(json_object_get(entry, "token")));
}

static void test_tokens_in_openais_form(void **state)
{
    (void)state;
    int32_t half = find_half_character();
    const qn_logprob entries[2][3] = {
        {{.token = 40, .logprob = -0.125F}, {.token = 40, .logprob = -0.125F}, {.token = half, .logprob = -2.5F}},
        {{.token = half, .logprob = -7}, {.token = 50, .logprob = -0.1F}, {.token = 60, .logprob = -3.3333333F}},
    };
    qn_buffer out = {0};
    qn_logprobs_write_content(&out, tokenizer, entries[0], 1, 2);
    qn_logprobs_write_content(&out, tokenizer, entries[1], 1, 2);
    json_t *content = parse(&out, "[", "]");
    assert_int_equal(json_array_size(content), 2);
    const json_t *first = json_array_get(content, 0), *second = json_array_get(content, 1);
    assert_entry(first, &entries[0][0]);
    assert_entry(json_array_get(json_object_get(first, "top_logprobs"), 0), &entries[0][1]);
    assert_entry(json_array_get(json_object_get(first, "top_logprobs"), 1), &entries[0][2]);
    /* one that is none of the best: shown in place of the last of them */
    assert_entry(second, &entries[1][0]);
    assert_string_equal(json_string_value(json_object_get(second, "token")), "\xef\xbf\xbd");
    assert_int_equal(json_array_size(json_object_get(second, "top_logprobs")), 2);
    assert_entry(json_array_get(json_object_get(second, "top_logprobs"), 0), &entries[1][1]);
    assert_entry(json_array_get(json_object_get(second, "top_logprobs"), 1), &entries[1][0]);
    json_decref(content);
}

static void test_no_alternatives(void **state)
{
    (void)state;
    const qn_logprob entries[] = {{.token = 40, .logprob = -1}, {.token = 41, .logprob = -INFINITY}};
    qn_buffer out = {0};
    qn_logprobs_write_content(&out, tokenizer, entries, 2, 0);
    json_t *content = parse(&out, "[", "]");
    assert_int_equal(json_array_size(content), 2);
    assert_int_equal(json_array_size(json_object_get(json_array_get(content, 0), "top_logprobs")), 0);
    assert_true(json_number_value(json_object_get(json_array_get(content, 1), "logprob")) == -9999);
    json_decref(content);
}

/* The model's vocabulary may be larger than the tokenizer's, and smaller than what is asked for. */
static void test_tokens_without_a_text(void **state)
{
    (void)state;
    const qn_logprob entries[] = {{.token = 10000000, .logprob = -1},
                                  {.token = 10000000, .logprob = -1},
                                  {.token = -1, .logprob = -INFINITY}};
    qn_buffer out = {0};
    qn_logprobs_write_content(&out, tokenizer, entries, 1, 2);
    json_t *content = parse(&out, "[", "]");
    const json_t *entry = json_array_get(content, 0);
    assert_string_equal(json_string_value(json_object_get(entry, "token")), "");
    assert_int_equal(json_array_size(json_object_get(entry, "bytes")), 0);
    assert_int_equal(json_array_size(json_object_get(entry, "top_logprobs")), 1);
    json_decref(content);
}

static void test_prompt_in_vllms_form(void **state)
{
    (void)state;
    const qn_logprob entries[2][3] = {
        {{.token = 40, .logprob = -4}, {.token = 50, .logprob = -0.5F}, {.token = 60, .logprob = -1}},
        {{.token = 60, .logprob = -1}, {.token = 50, .logprob = -0.5F}, {.token = 60, .logprob = -1}},
    };
    const uint32_t ranks[] = {9, 2};
    qn_buffer out = {0};
    qn_logprobs_write_prompt(&out, tokenizer, entries[0], ranks, 2, 2);
    json_t *prompt = parse(&out, "", "");
    assert_int_equal(json_array_size(prompt), 3);
    assert_true(json_is_null(json_array_get(prompt, 0)));
    const json_t *first = json_array_get(prompt, 1), *second = json_array_get(prompt, 2);
    assert_int_equal(json_object_size(first), 3);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(first, "40"), "rank")), 9);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(first, "50"), "rank")), 1);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(first, "60"), "rank")), 2);
    assert_true(json_is_string(json_object_get(json_object_get(first, "60"), "decoded_token")));
    assert_int_equal(json_object_size(second), 2);
    assert_true(json_number_value(json_object_get(json_object_get(second, "60"), "logprob")) == -1);
    json_decref(prompt);
    qn_logprobs_write_prompt(&out, tokenizer, NULL, NULL, 0, 0);
    prompt = parse(&out, "", "");
    assert_int_equal(json_array_size(prompt), 1);
    json_decref(prompt);
}

static void test_out_of_memory_is_a_failed_buffer(void **state)
{
    (void)state;
    const qn_logprob entries[] = {{.token = 40, .logprob = -1}, {.token = 40, .logprob = -1}};
    const uint32_t rank = 1;
    for (long n = 1;; n++) {
        qn_buffer content = {0}, prompt = {0};
        qn_fault_arm(QN_FAULT_ALLOC, n);
        qn_logprobs_write_content(&content, tokenizer, entries, 1, 1);
        qn_logprobs_write_prompt(&prompt, tokenizer, entries, &rank, 1, 1);
        bool hit = qn_fault_seen(QN_FAULT_ALLOC) >= n;
        qn_fault_disarm();
        assert_true(hit == (content.failed || prompt.failed));
        qn_buffer_free(&content);
        qn_buffer_free(&prompt);
        if (!hit) {
            break;
        }
    }
}

int main(void)
{
    qn_json_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokens_in_openais_form),
        cmocka_unit_test(test_no_alternatives),
        cmocka_unit_test(test_tokens_without_a_text),
        cmocka_unit_test(test_prompt_in_vllms_form),
        cmocka_unit_test(test_out_of_memory_is_a_failed_buffer),
    };
    return cmocka_run_group_tests(tests, open_tokenizer, close_tokenizer);
}
