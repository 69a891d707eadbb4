#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "cli/serving_options.h"

enum { MAX_WORDS = 32 };

static void ignore_line(void *context, const char *line)
{
    (void)context;
    (void)line;
}

/* The options of a command line of words between spaces. */
static qn_status read(const char *line, qn_engine_options *out, qn_error *err)
{
    static char words[1024]; /* the options point into it */
    static qn_serving_flags flags;
    static qn_option_table table;
    table = (qn_option_table){.command = "try", .arguments = "", .summary = "tries"};
    snprintf(words, sizeof words, "try %s", line);
    char *argv[MAX_WORDS] = {NULL};
    int argc = 0;
    for (char *save = NULL, *word = strtok_r(words, " ", &save); word != NULL; word = strtok_r(NULL, " ", &save)) {
        assert_true(argc < MAX_WORDS - 1);
        argv[argc++] = word;
    }
    qn_serving_flags_add(&flags, &table);
    *out = (qn_engine_options){0};
    qn_status status = qn_options_parse(&table, argc, argv, err);
    return status == QN_OK ? qn_serving_flags_apply(&flags, &table, out, err) : status;
}

static void test_defaults(void **state)
{
    (void)state;
    qn_engine_options o;
    qn_error err;
    assert_int_equal(read("", &o, &err), QN_OK);
    assert_int_equal(o.max_num_seqs, 16);
    assert_int_equal(o.max_queue, 256);
    assert_int_equal(o.kv_cache_bytes, 0);
    assert_true(o.prefault && o.prefix_caching);
    assert_null(o.kv_store_dir);
    assert_false(o.fairness.by_priority);
    assert_int_equal(o.fairness.max_decode_gap_us, 0);
    assert_int_equal(o.fairness.long_prefill_token_threshold, 0);
    assert_int_equal(o.fairness.long_prefill_min_tokens, 32768);
    assert_true(o.fairness.long_prefill_share == 1);
    assert_int_equal(o.repetition.repeats, 0);
}

static void test_all_are_passed_on(void **state)
{
    (void)state;
    qn_engine_options o;
    qn_error err;
    assert_int_equal(read("--max-num-seqs 3 --max-queue 5 --scheduling-policy priority --enable-chunked-prefill "
                          "--long-prefill-token-threshold 4k --long-prefill-share 0.5 --long-prefill-min-tokens 1K "
                          "--max-decode-gap-ms 250 --kv-cache-memory 2G --kv-store /tmp/x --kv-store-size 3G "
                          "--repetition-guard 8:64",
                          &o, &err),
                     QN_OK);
    assert_int_equal(o.max_num_seqs, 3);
    assert_int_equal(o.max_queue, 5);
    assert_true(o.fairness.by_priority);
    assert_int_equal(o.fairness.long_prefill_token_threshold, 4000);
    assert_int_equal(o.fairness.long_prefill_min_tokens, 1024);
    assert_true(o.fairness.long_prefill_share == 0.5);
    assert_int_equal(o.fairness.max_decode_gap_us, 250000);
    assert_int_equal(o.kv_cache_bytes, (size_t)2 << 30);
    assert_string_equal(o.kv_store_dir, "/tmp/x");
    assert_int_equal(o.kv_store_bytes, (uint64_t)3 << 30);
    assert_int_equal(o.repetition.repeats, 8);
    assert_int_equal(o.repetition.max_ngram, 64);
    assert_int_equal(read("--no-enable-prefix-caching --kv-cache-memory-bytes 5", &o, &err), QN_OK);
    assert_false(o.prefix_caching);
    assert_int_equal(o.kv_cache_bytes, 5);
}

static void test_what_cannot_be_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *line, *part;
    } cases[] = {
        {"--max-num-seqs 0", "--max-num-seqs"},
        {"--max-queue 0", "--max-queue"},
        {"--no-enable-chunked-prefill", "always computed in chunks"},
        {"--scheduling-policy sjf", "fcfs, priority"},
        {"--long-prefill-share 0", "--long-prefill-share"},
        {"--long-prefill-share 1.5", "--long-prefill-share"},
        {"--max-decode-gap-ms -1", "--max-decode-gap-ms"},
        {"--kv-store /tmp/x --no-enable-prefix-caching", "--no-enable-prefix-caching"},
        {"--kv-store-size 1G", "needs --kv-store"},
        {"--repetition-guard often", "--repetition-guard"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        qn_engine_options o;
        qn_error err;
        if (read(cases[i].line, &o, &err) != QN_USAGE || strstr(err.message, cases[i].part) == NULL) {
            fail_msg("%s: %s", cases[i].line, err.message);
        }
    }
}

int main(void)
{
    qn_log_set_sink(ignore_line, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_all_are_passed_on),
        cmocka_unit_test(test_what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
