#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "base/log.h"
#include "server/request_log.h"
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

static qn_tokens encode(const char *text)
{
    qn_tokens tokens = {0};
    qn_error err;
    assert_int_equal(qn_tokenizer_encode(tokenizer, text, strlen(text), NULL, 0, &tokens, &err), QN_OK);
    return tokens;
}

static void test_describes(void **state)
{
    (void)state;
    const qn_request_log log = {.requests = true, .max_characters = 100};
    qn_tokens prompts[2] = {encode("<|user|>a \"b\"\n"), encode("x")};
    qn_request base = {.sampling = qn_sampling_greedy(), .max_tokens = 9, .timeout_us = 1500000};
    base.sampling.seed = 5;
    char expected[300];
    qn_buffer out = {0};
    qn_request_log_describe(&log, tokenizer, &base, prompts, 1, 3, &out);
    snprintf(expected, sizeof expected,
             "%zu prompt tokens, n 3, temperature 0, top_p 1, top_k %d, min_p 0, seed 5, max_tokens 9, timeout 1.5; "
             "prompt: \"<|user|>a \\\"b\\\"\\n\"",
             prompts[0].count, (int)base.sampling.top_k);
    assert_string_equal(qn_buffer_string(&out), expected);
    qn_buffer_clear(&out);
    base.priority = -2;
    base.ignore_eos = true;
    base.stop_token_count = 2;
    base.sampling.repetition_penalty = 1.5F;
    qn_request_log_describe(&log, tokenizer, &base, prompts, 2, 1, &out);
    assert_non_null(strstr(qn_buffer_string(&out), " in 2 prompts, n 1, "));
    assert_non_null(strstr(qn_buffer_string(&out), ", repetition_penalty 1.5, max_tokens 9, 2 stops, ignore_eos, "
                                                   "priority -2, timeout 1.5; prompt: \""));
    assert_non_null(strstr(qn_buffer_string(&out), "\", \"x\""));
    qn_buffer_free(&out);
    qn_tokens_free(&prompts[0]);
    qn_tokens_free(&prompts[1]);
}

static void test_texts_are_cut_at_characters(void **state)
{
    (void)state;
    qn_tokens prompt = encode("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80z");
    static const char *const expected[] = {"", "; prompt: \"\xc3\xa4\"...", "; prompt: \"\xc3\xa4\xe2\x82\xac\"...",
                                           "; prompt: \"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\"...",
                                           "; prompt: \"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80z\""};
    for (size_t characters = 0; characters < sizeof expected / sizeof expected[0]; characters++) {
        const qn_request_log log = {.requests = true, .max_characters = characters};
        const qn_request base = {.sampling = qn_sampling_greedy()};
        qn_buffer out = {0};
        qn_request_log_describe(&log, tokenizer, &base, &prompt, 1, 1, &out);
        const char *text = strchr(qn_buffer_string(&out), ';');
        assert_string_equal(text != NULL ? text : "", expected[characters]);
        qn_buffer_free(&out);
    }
    qn_tokens_free(&prompt);
}

static void catch_line(void *context, const char *line)
{
    snprintf(context, 300, "%s", line);
}

static void test_ends(void **state)
{
    (void)state;
    char line[300] = "";
    qn_tokens output = encode("Well.");
    const qn_result result = {.finish = QN_FINISH_STOP, .tokens = output.ids, .completion_tokens = output.count};
    char expected[300];
    qn_log_set_sink(catch_line, line);
    qn_request_log_choice(&(qn_request_log){.requests = true, .max_characters = 9}, tokenizer, "id", 1, &result);
    snprintf(expected, sizeof expected, "quern: request id: choice 1: stop after %zu tokens", output.count);
    assert_string_equal(line, expected);
    qn_request_log_choice(&(qn_request_log){.requests = true, .outputs = true, .max_characters = 9}, tokenizer, "id", 1,
                          &result);
    snprintf(expected, sizeof expected, "quern: request id: choice 1: stop after %zu tokens; output: \"Well.\"",
             output.count);
    assert_string_equal(line, expected);
    qn_request_log_left("id", 1, 2);
    assert_string_equal(line, "quern: request id: ended early: 1 of 2 choices were over");
    qn_fault_arm(QN_FAULT_ALLOC, 1);
    qn_request_log_choice(&(qn_request_log){.requests = true, .outputs = true, .max_characters = 9}, tokenizer, "id", 0,
                          &result);
    qn_fault_disarm();
    assert_non_null(strstr(line, "; no memory to tell more"));
    qn_log_set_sink(NULL, NULL);
    qn_tokens_free(&output);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_describes),
        cmocka_unit_test(test_texts_are_cut_at_characters),
        cmocka_unit_test(test_ends),
    };
    return cmocka_run_group_tests(tests, open_tokenizer, close_tokenizer);
}
