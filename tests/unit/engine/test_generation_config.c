#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "engine/generation_config.h"

enum { VOCAB = 100, LOG_BYTES = 4096 };

static char logged[LOG_BYTES];

static void collect_log(void *context, const char *line)
{
    (void)context;
    size_t used = strlen(logged);
    snprintf(logged + used, sizeof logged - used, "%s\n", line);
}

static int setup(void **state)
{
    (void)state;
    qn_log_set_sink(collect_log, NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    qn_log_set_sink(NULL, NULL);
    return 0;
}

static qn_generation_config defaults(void)
{
    static qn_config config;
    config.vocab_size = VOCAB;
    config.eos_count = 2;
    config.eos_token_id[0] = 7;
    config.eos_token_id[1] = 9;
    qn_generation_config generation;
    qn_generation_config_default(&config, &generation);
    logged[0] = '\0';
    return generation;
}

static qn_status apply(qn_generation_config *generation, const char *json, qn_error *err)
{
    json_t *fields;
    assert_int_equal(qn_json_parse(json, strlen(json), "test", &fields, err), QN_OK);
    qn_status status = qn_generation_config_apply(generation, fields, VOCAB, "test", false, err);
    json_decref(fields);
    return status;
}

static void starts_from_vllm_defaults(void **state)
{
    (void)state;
    qn_error err;
    qn_generation_config g = defaults();
    assert_int_equal(g.eos_count, 2);
    assert_true(g.sampling.temperature == 1.0F && g.sampling.top_p == 1.0F && g.sampling.min_p == 0.0F);
    assert_int_equal(g.sampling.top_k, 0);
    assert_int_equal(apply(&g, "{}", &err), QN_OK);
    assert_true(g.sampling.temperature == 1.0F);
    assert_string_equal(logged, "");
}

static void reads_fields_and_skips_nulls(void **state)
{
    (void)state;
    qn_error err;
    qn_generation_config g = defaults();
    assert_int_equal(apply(&g,
                           "{\"_from_model_config\": true, \"eos_token_id\": [9, 11], \"pad_token_id\": 7, "
                           "\"temperature\": 0.6, \"top_p\": 0.95, \"top_k\": 20, \"min_p\": null, "
                           "\"repetition_penalty\": 1.0, \"transformers_version\": \"5.24.0\"}",
                           &err),
                     QN_OK);
    assert_int_equal(g.eos_count, 3);
    assert_int_equal(g.eos_token_id[2], 11);
    assert_true(g.sampling.temperature == 0.6F && g.sampling.top_p == 0.95F && g.sampling.min_p == 0.0F);
    assert_int_equal(g.sampling.top_k, 20);
    assert_string_equal(logged, "");
}

static void do_sample_false_is_greedy(void **state)
{
    (void)state;
    qn_error err;
    qn_generation_config g = defaults();
    assert_int_equal(apply(&g, "{\"do_sample\": false, \"temperature\": null, \"eos_token_id\": 3}", &err), QN_OK);
    assert_true(g.sampling.temperature == 0.0F);
    assert_int_equal(g.eos_token_id[2], 3);
    assert_int_equal(apply(&g, "{\"temperature\": 0.7}", &err), QN_OK); /* an override on top */
    assert_true(g.sampling.temperature == 0.7F);
    assert_int_equal(apply(&g, "{\"do_sample\": true}", &err), QN_OK);
    assert_true(g.sampling.temperature == 0.7F);
    assert_int_equal(apply(&g, "{\"repetition_penalty\": 1.25, \"presence_penalty\": 0.5, \"frequency_penalty\": -0.5}",
                           &err),
                     QN_OK);
    assert_true(g.sampling.repetition_penalty == 1.25F && g.sampling.presence_penalty == 0.5F &&
                g.sampling.frequency_penalty == -0.5F);
}

static void tells_what_it_does_not_do(void **state)
{
    (void)state;
    qn_error err;
    qn_generation_config g = defaults();
    assert_int_equal(apply(&g, "{\"length_penalty\": 1.1, \"flux\": 3}", &err), QN_OK);
    assert_non_null(strstr(logged, "length_penalty: not supported"));
    assert_non_null(strstr(logged, "flux: unknown field"));
}

static void refuses_others_where_somebody_asked_for_them(void **state)
{
    (void)state;
    static const char *const names[] = {"length_penalty", "temprature", "max_new_tokens"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        qn_error err;
        qn_generation_config g = defaults();
        json_t *fields = json_pack("{s:f}", names[i], 1.5);
        assert_int_equal(qn_generation_config_apply(&g, fields, VOCAB, "test", true, &err), QN_BAD_INPUT);
        assert_non_null(strstr(err.message, names[i]));
        json_decref(fields);
    }
}

static void refuses_what_makes_no_sense(void **state)
{
    (void)state;
    static const struct {
        const char *json, *names;
    } cases[] = {
        {"[1]", "object"},
        {"{\"eos_token_id\": 100}", "eos_token_id"},
        {"{\"eos_token_id\": -1}", "eos_token_id"},
        {"{\"eos_token_id\": \"x\"}", "eos_token_id"},
        {"{\"eos_token_id\": [1, 2.5]}", "eos_token_id"},
        {"{\"eos_token_id\": [10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,"
         "39,40,41,42,43]}",
         "more than"},
        {"{\"temperature\": -1}", "temperature"},
        {"{\"temperature\": \"hot\"}", "temperature"},
        {"{\"temperature\": 1e60}", "temperature"},
        {"{\"top_p\": 0}", "top_p"},
        {"{\"top_p\": 1.5}", "top_p"},
        {"{\"min_p\": 2}", "min_p"},
        {"{\"top_k\": -9999999999}", "top_k"},
        {"{\"top_k\": 1.5}", "top_k"},
        {"{\"do_sample\": 1}", "do_sample"},
    };
    qn_error err;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        qn_generation_config g = defaults();
        assert_int_equal(apply(&g, cases[i].json, &err), QN_BAD_INPUT);
        assert_non_null(strstr(err.message, cases[i].names));
        assert_non_null(strstr(err.message, "test"));
    }
}

static void reads_the_shipped_file_and_does_without_one(void **state)
{
    (void)state;
    qn_error err;
    qn_config config = {.vocab_size = 1536, .eos_count = 1, .eos_token_id = {1515}};
    qn_generation_config g;
    assert_int_equal(qn_generation_config_read("models/quern-tiny", &config, &g, &err), QN_OK);
    assert_int_equal(g.eos_count, 3);
    assert_true(g.sampling.temperature == 0.0F);
    assert_int_equal(qn_generation_config_read("models", &config, &g, &err), QN_OK);
    assert_true(g.sampling.temperature == 1.0F);
    for (long n = 1;; n++) {
        qn_fault_arm(QN_FAULT_READ, n);
        qn_status status = qn_generation_config_read("models/quern-tiny", &config, &g, &err);
        qn_fault_disarm();
        if (status == QN_OK) {
            assert_true(n > 1);
            break;
        }
        assert_int_equal(status, QN_RESOURCE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(starts_from_vllm_defaults),
        cmocka_unit_test(reads_fields_and_skips_nulls),
        cmocka_unit_test(do_sample_false_is_greedy),
        cmocka_unit_test(tells_what_it_does_not_do),
        cmocka_unit_test(refuses_others_where_somebody_asked_for_them),
        cmocka_unit_test(refuses_what_makes_no_sense),
        cmocka_unit_test(reads_the_shipped_file_and_does_without_one),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
