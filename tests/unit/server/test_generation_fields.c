#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/buffer.h"
#include "base/fault.h"
#include "base/json.h"
#include "server/generation_fields.h"

static const qn_generation_limits limits = {
    .sampling = {.temperature = 0.5f, .top_p = 0.75f, .top_k = -1, .repetition_penalty = 1},
    .vocab_size = 100,
};

/* The document lives in *kept, to be released by the caller. */
static qn_status read_with(const char *text, const qn_generation_limits *with, json_t **kept, qn_generation_fields *out,
                           qn_error *err)
{
    assert_int_equal(qn_json_parse(text, strlen(text), "test", kept, err), QN_OK);
    return qn_generation_fields_read(*kept, with, out, err);
}

static void assert_refused_by(const char *text, const qn_generation_limits *with, const char *field, const char *part)
{
    json_t *document = NULL;
    qn_generation_fields f;
    qn_error err;
    if (read_with(text, with, &document, &f, &err) != QN_USAGE) {
        fail_msg("not refused: %s", text);
    }
    if (strcmp(err.field, field) != 0 || strstr(err.message, part) == NULL || strstr(err.message, field) == NULL) {
        fail_msg("%s: field %s: %s", text, err.field, err.message);
    }
    qn_generation_fields_free(&f);
    json_decref(document);
}

static void assert_refused(const char *text, const char *field, const char *part)
{
    assert_refused_by(text, &limits, field, part);
}

static void test_nothing_said(void **state)
{
    (void)state;
    json_t *document = NULL;
    qn_generation_fields f;
    qn_error err;
    assert_int_equal(read_with("{}", &limits, &document, &f, &err), QN_OK);
    assert_memory_equal(&f.sampling, &limits.sampling, sizeof f.sampling);
    assert_int_equal(f.n, 1);
    assert_int_equal(f.prompt_logprobs, -1);
    assert_true(f.max_tokens == 0 && f.min_tokens == 0 && f.stop_token_count == 0 && f.timeout_us == 0);
    assert_null(f.cache_salt);
    assert_false(f.seed_given || f.ignore_eos);
    qn_generation_fields_free(&f);
    json_decref(document);
}

static void test_all_are_read(void **state)
{
    (void)state;
    json_t *document = NULL;
    qn_generation_fields f;
    qn_error err;
    assert_int_equal(read_with("{\"presence_penalty\":-2,\"frequency_penalty\":1.5,\"repetition_penalty\":1.25,"
                               "\"logit_bias\":{\"5\":-100,\"99\":0.5,\"0\":100},\"n\":3,\"prompt_logprobs\":0,"
                               "\"stop_token_ids\":[7,99,7],\"min_tokens\":4,\"max_tokens\":4,\"ignore_eos\":true,"
                               "\"priority\":-3,\"cache_salt\":\"a\",\"timeout\":1.5,\"seed\":9}",
                               &limits, &document, &f, &err),
                     QN_OK);
    assert_true(f.sampling.presence_penalty == -2 && f.sampling.frequency_penalty == 1.5f);
    assert_true(f.sampling.repetition_penalty == 1.25f);
    assert_int_equal(f.sampling.logit_bias_count, 3);
    assert_int_equal(f.sampling.logit_bias[1].token, 99);
    assert_true(f.sampling.logit_bias[1].bias == 0.5f);
    assert_int_equal(f.n, 3);
    assert_int_equal(f.prompt_logprobs, 0);
    assert_int_equal(f.stop_token_count, 3);
    assert_int_equal(f.stop_token_ids[1], 99);
    assert_int_equal(f.min_tokens, 4);
    assert_int_equal(f.priority, -3);
    assert_string_equal(f.cache_salt, "a");
    assert_int_equal(f.timeout_us, 1500000);
    assert_true(f.seed_given && f.sampling.seed == 9 && f.ignore_eos);
    qn_generation_fields_free(&f);
    json_decref(document);
}

static void test_bad_values_name_their_field(void **state)
{
    (void)state;
    static const struct {
        const char *text, *field, *part;
    } cases[] = {
        {"{\"presence_penalty\":2.1}", "presence_penalty", "-2 to 2"},
        {"{\"frequency_penalty\":-2.1}", "frequency_penalty", "-2 to 2"},
        {"{\"frequency_penalty\":\"a\"}", "frequency_penalty", "a number"},
        {"{\"repetition_penalty\":0}", "repetition_penalty", "more than 0"},
        {"{\"repetition_penalty\":1e-60}", "repetition_penalty", "more than 0"},
        {"{\"repetition_penalty\":-1}", "repetition_penalty", "0 to 100"},
        {"{\"logit_bias\":[]}", "logit_bias", "an object"},
        {"{\"logit_bias\":{\"x\":1}}", "logit_bias", "below 100"},
        {"{\"logit_bias\":{\"\":1}}", "logit_bias", "below 100"},
        {"{\"logit_bias\":{\"-1\":1}}", "logit_bias", "below 100"},
        {"{\"logit_bias\":{\"05\":1}}", "logit_bias", "below 100"},
        {"{\"logit_bias\":{\"100\":1}}", "logit_bias", "below 100"},
        {"{\"logit_bias\":{\"99999999999999999999\":1}}", "logit_bias", "below 100"},
        {"{\"logit_bias\":{\"5\":\"1\"}}", "logit_bias", "numbers"},
        {"{\"logit_bias\":{\"5\":100.5}}", "logit_bias", "-100 to 100"},
        {"{\"stop_token_ids\":5}", "stop_token_ids", "a list"},
        {"{\"stop_token_ids\":[-1]}", "stop_token_ids", "below 100"},
        {"{\"stop_token_ids\":[1,100]}", "stop_token_ids", "entry 1"},
        {"{\"stop_token_ids\":[1.0]}", "stop_token_ids", "entry 0"},
        {"{\"min_tokens\":-1}", "min_tokens", "at least 0"},
        {"{\"min_tokens\":9,\"max_tokens\":8}", "min_tokens", "more than max_tokens"},
        {"{\"n\":0}", "n", "at least 1"},
        {"{\"n\":129}", "n", "at most 128"},
        {"{\"n\":2,\"temperature\":0}", "n", "temperature 0"},
        {"{\"prompt_logprobs\":-1}", "prompt_logprobs", "at least 0"},
        {"{\"prompt_logprobs\":21}", "prompt_logprobs", "at most 20"},
        {"{\"priority\":2147483648}", "priority", "too large"},
        {"{\"priority\":\"high\"}", "priority", "an integer"},
        {"{\"cache_salt\":\"\"}", "cache_salt", "1 to 1024"},
        {"{\"cache_salt\":\"a\\u0000b\"}", "cache_salt", "NUL"},
        {"{\"timeout\":0}", "timeout", "above 0"},
        {"{\"timeout\":1e-9}", "timeout", "above 0"},
        {"{\"timeout\":-1}", "timeout", "out of range"},
        {"{\"timeout\":1e9}", "timeout", "out of range"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_refused(cases[i].text, cases[i].field, cases[i].part);
    }
}

static void test_choices_are_bounded_by_what_the_server_takes(void **state)
{
    (void)state;
    qn_generation_limits few = limits;
    few.max_choices = 2;
    json_t *document = NULL;
    qn_generation_fields f;
    qn_error err;
    assert_int_equal(read_with("{\"n\":2}", &few, &document, &f, &err), QN_OK);
    qn_generation_fields_free(&f);
    json_decref(document);
    assert_refused_by("{\"n\":3}", &few, "n", "at most 2");
    few.max_choices = 5000;
    assert_refused_by("{\"n\":129}", &few, "n", "at most 128");
}

static void test_lists_are_bounded(void **state)
{
    (void)state;
    qn_generation_limits large = limits;
    large.vocab_size = 100000;
    qn_buffer ids = {0}, biases = {0};
    for (int i = 0; i <= QN_MAX_STOP_TOKENS; i++) {
        qn_buffer_format(&ids, "%s%d", i == 0 ? "{\"stop_token_ids\":[" : ",", i);
    }
    for (int i = 0; i <= QN_REQUEST_MAX_BIASES; i++) {
        qn_buffer_format(&biases, "%s\"%d\":1", i == 0 ? "{\"logit_bias\":{" : ",", i);
    }
    qn_buffer_text(&ids, "]}");
    qn_buffer_text(&biases, "}}");
    assert_refused_by(qn_buffer_string(&ids), &large, "stop_token_ids", "at most 64");
    assert_refused_by(qn_buffer_string(&biases), &large, "logit_bias", "at most 1024");
    qn_buffer_free(&ids);
    qn_buffer_free(&biases);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    static const char text[] = "{\"logit_bias\":{\"5\":1},\"stop_token_ids\":[1]}";
    qn_error err;
    json_t *document = NULL;
    assert_int_equal(qn_json_parse(text, strlen(text), "test", &document, &err), QN_OK);
    for (long n = 1; n <= 3; n++) {
        qn_generation_fields f;
        qn_fault_arm(QN_FAULT_ALLOC, n);
        qn_status status = qn_generation_fields_read(document, &limits, &f, &err);
        qn_fault_disarm();
        assert_int_equal(status, n <= 2 ? QN_RESOURCE : QN_OK);
        qn_generation_fields_free(&f);
    }
    json_decref(document);
}

int main(void)
{
    qn_json_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_said),
        cmocka_unit_test(test_all_are_read),
        cmocka_unit_test(test_bad_values_name_their_field),
        cmocka_unit_test(test_choices_are_bounded_by_what_the_server_takes),
        cmocka_unit_test(test_lists_are_bounded),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
