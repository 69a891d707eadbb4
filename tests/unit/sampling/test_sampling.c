/* Ranges of the penalties and the bias (those of the rest: test_sampler.c), and what counts as off. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "sampling/sampling.h"

static void assert_refused(const qn_sampling *s, const char *field)
{
    qn_error err;
    assert_int_equal(qn_sampling_check(s, &err), QN_USAGE);
    assert_string_equal(err.field, field);
    assert_memory_equal(err.message, field, strlen(field));
}

static void penalties_out_of_range_are_refused(void **state)
{
    (void)state;
    static const float bad[] = {-2.01F, 2.01F, NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        qn_sampling s = qn_sampling_greedy();
        s.presence_penalty = bad[i];
        assert_refused(&s, "presence_penalty");
        s = qn_sampling_greedy();
        s.frequency_penalty = bad[i];
        assert_refused(&s, "frequency_penalty");
    }
    static const float bad_repetition[] = {-0.5F, NAN, INFINITY};
    for (size_t i = 0; i < 3; i++) {
        qn_sampling s = qn_sampling_greedy();
        s.repetition_penalty = bad_repetition[i];
        assert_refused(&s, "repetition_penalty");
    }
    qn_error err;
    qn_sampling s = qn_sampling_greedy();
    s.presence_penalty = -2.0F, s.frequency_penalty = 2.0F, s.repetition_penalty = 1e-3F;
    assert_int_equal(qn_sampling_check(&s, &err), QN_OK);
}

static void biases_out_of_range_are_refused(void **state)
{
    (void)state;
    qn_logit_bias bias[2] = {{.token = 3, .bias = -100.0F}, {.token = 9, .bias = 100.0F}};
    qn_sampling s = qn_sampling_greedy();
    s.logit_bias = bias, s.logit_bias_count = 2;
    qn_error err;
    assert_int_equal(qn_sampling_check(&s, &err), QN_OK);
    assert_int_equal(qn_sampling_check_tokens(&s, 10, &err), QN_OK);
    assert_int_equal(qn_sampling_check_tokens(&s, 9, &err), QN_USAGE);
    assert_string_equal(err.field, "logit_bias");
    static const float bad[] = {100.5F, -101.0F, NAN, INFINITY};
    for (size_t i = 0; i < 4; i++) {
        bias[1].bias = bad[i];
        assert_refused(&s, "logit_bias");
    }
    bias[1] = (qn_logit_bias){.token = -1, .bias = 0.0F};
    assert_refused(&s, "logit_bias");
    assert_int_equal(qn_sampling_check_tokens(&s, 10, &err), QN_USAGE);
}

static void who_sets_nothing_pays_for_nothing(void **state)
{
    (void)state;
    qn_sampling s = qn_sampling_greedy(), zero = {0};
    assert_false(qn_sampling_counts_tokens(&s) || qn_sampling_counts_prompt(&s));
    assert_false(qn_sampling_counts_tokens(&zero) || qn_sampling_counts_prompt(&zero));
    s.presence_penalty = 0.1F;
    assert_true(qn_sampling_counts_tokens(&s) && !qn_sampling_counts_prompt(&s));
    s = qn_sampling_greedy(), s.frequency_penalty = -0.1F;
    assert_true(qn_sampling_counts_tokens(&s) && !qn_sampling_counts_prompt(&s));
    s = qn_sampling_greedy(), s.repetition_penalty = 0.9F;
    assert_true(qn_sampling_counts_tokens(&s) && qn_sampling_counts_prompt(&s));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(penalties_out_of_range_are_refused),
        cmocka_unit_test(biases_out_of_range_are_refused),
        cmocka_unit_test(who_sets_nothing_pays_for_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
