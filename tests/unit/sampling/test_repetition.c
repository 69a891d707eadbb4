/* The loop guard against a search of the whole answer after each token. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/random.h"
#include "sampling/repetition.h"
#include "unit/random_stream.h"

enum { MOST = 2000 };

static bool ends_with_a_loop(const int32_t *tokens, size_t count, qn_repetition_limits limits)
{
    for (size_t n = 1; n <= limits.max_ngram && n <= count; n++) {
        size_t covered = n;
        while (covered < count && tokens[count - 1 - covered] == tokens[count - 1 - covered + n]) {
            covered++;
        }
        if (covered >= n * limits.repeats && covered >= QN_REPETITION_LEAST_TOKENS) {
            return true;
        }
    }
    return false;
}

static void finds_what_a_search_finds(void **state)
{
    (void)state;
    random_stream r = {.seed = qn_random_seed(), .next = 0};
    print_message("seed %llu\n", (unsigned long long)r.seed);
    static int32_t tokens[MOST];
    qn_repetition guard;
    size_t loops = 0;
    for (int round = 0; round < 60; round++) {
        qn_repetition_limits limits = {.max_ngram = 1 + random_word(&r) % (round % 3 == 0 ? 256 : 20),
                                       .repeats = 2 + random_word(&r) % 12};
        qn_repetition_start(&guard, limits);
        size_t period = 1, kept = 0;
        for (size_t i = 0; i < MOST; i++) {
            if (kept == 0) { /* another stretch: noise, or a loop of some period */
                kept = 1 + random_word(&r) % 400;
                period = random_word(&r) % 3 == 0 ? 0 : 1 + random_word(&r) % 40;
            }
            kept--;
            tokens[i] = period > 0 && i >= period ? tokens[i - period] : (int32_t)(random_word(&r) % 3);
            bool found = qn_repetition_add(&guard, tokens[i]);
            assert_int_equal(found, ends_with_a_loop(tokens, i + 1, limits));
            loops += found;
        }
    }
    assert_true(loops > 0);
}

static size_t tokens_until_a_loop(qn_repetition_limits limits, size_t period)
{
    qn_repetition guard;
    qn_repetition_start(&guard, limits);
    for (size_t i = 0; i < MOST; i++) {
        if (qn_repetition_add(&guard, (int32_t)(i % period))) {
            return i + 1;
        }
    }
    return 0;
}

static void short_repetitions_are_left_alone(void **state)
{
    (void)state;
    qn_repetition_limits limits = {.max_ngram = 64, .repeats = 8};
    assert_int_equal(tokens_until_a_loop(limits, 1), QN_REPETITION_LEAST_TOKENS);
    assert_int_equal(tokens_until_a_loop(limits, 2), QN_REPETITION_LEAST_TOKENS);
    assert_int_equal(tokens_until_a_loop(limits, 40), 320);
    assert_int_equal(tokens_until_a_loop(limits, 64), 512);
    assert_int_equal(tokens_until_a_loop(limits, 65), 0);
    assert_int_equal(tokens_until_a_loop((qn_repetition_limits){0}, 1), 0);
    limits.max_ngram = QN_REPETITION_MAX_NGRAM, limits.repeats = 2;
    assert_int_equal(tokens_until_a_loop(limits, QN_REPETITION_MAX_NGRAM), 2 * QN_REPETITION_MAX_NGRAM);
}

static void limits_are_read_and_refused(void **state)
{
    (void)state;
    qn_error err;
    qn_repetition_limits limits;
    assert_int_equal(qn_repetition_limits_parse("8", "--repetition-guard", &limits, &err), QN_OK);
    assert_int_equal(limits.repeats, 8);
    assert_int_equal(limits.max_ngram, QN_REPETITION_NGRAM);
    assert_int_equal(qn_repetition_limits_parse("1000:256", "--repetition-guard", &limits, &err), QN_OK);
    assert_int_equal(limits.repeats, 1000);
    assert_int_equal(limits.max_ngram, 256);
    static const char *const bad[] = {"",
                                      "1",
                                      "0",
                                      "1001",
                                      "8:",
                                      "8:0",
                                      "8:257",
                                      ":8",
                                      "8:8:",
                                      " 8",
                                      "8 ",
                                      "-8",
                                      "+8",
                                      "8,64",
                                      "8:64x",
                                      "0x8",
                                      "8:-1",
                                      "99999999999999999999999",
                                      "8:99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(qn_repetition_limits_parse(bad[i], "--repetition-guard", &limits, &err), QN_USAGE);
        assert_string_equal(err.field, "--repetition-guard");
        assert_int_equal(limits.repeats, 1000); /* untouched */
    }
    limits = (qn_repetition_limits){0};
    assert_int_equal(qn_repetition_limits_check(&limits, "repetition", &err), QN_OK);
    limits.repeats = 2;
    assert_int_equal(qn_repetition_limits_check(&limits, "repetition", &err), QN_USAGE);
    limits.max_ngram = 1;
    assert_int_equal(qn_repetition_limits_check(&limits, "repetition", &err), QN_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_what_a_search_finds),
        cmocka_unit_test(short_repetitions_are_left_alone),
        cmocka_unit_test(limits_are_read_and_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
