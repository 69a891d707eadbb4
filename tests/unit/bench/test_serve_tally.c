/* Calls to figures: each outcome is counted, only what finished is measured. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "bench/serve_load.h"

static void outcomes_and_samples(void **state)
{
    (void)state;
    uint64_t chunk_us[] = {1500000, 1510000, 1530000};
    qn_call call = {.sent_us = 1000000, .ended_us = 2000000, .refusals = 2, .refusals_untimed = 1};
    call.answer = (qn_serve_answer){.chunk_us = chunk_us,
                                    .chunks = 3,
                                    .has_usage = true,
                                    .prompt_tokens = 100,
                                    .completion_tokens = 6,
                                    .has_cached = true,
                                    .cached_tokens = 25,
                                    .has_drafts = true,
                                    .drafts = 4,
                                    .drafts_accepted = 3};
    qn_serve_tally t = {0};
    qn_serve_tally_add(&t, &call);
    assert_true(t.finished == 1 && t.refusals == 2 && t.refusals_untimed == 1);
    assert_true(t.prompt_tokens == 100 && t.completion_tokens == 6);
    assert_true(t.cached_tokens == 25 && t.cached_of_tokens == 100 && t.drafts == 4 && t.drafts_accepted == 3);
    assert_true(qn_samples_max(&t.first_ms) == 500 && qn_samples_max(&t.whole_ms) == 1000);
    assert_true(qn_samples_max(&t.gap_ms) == 20 && qn_samples_percentile(&t.gap_ms, 50) == 10);
    assert_true(qn_samples_max(&t.token_ms) == 10); /* two tokens share a gap */
    assert_int_equal(t.gap_ms.count, 2);

    call.sent_us = 500000;
    call.ended_us = 2500000;
    call.refusals = call.refusals_untimed = 0;
    call.outcome = QN_CALL_FAILED;
    qn_fail(&call.err, QN_FAILED, "first: reason: way out");
    qn_serve_tally_add(&t, &call);
    qn_fail(&call.err, QN_FAILED, "second: reason: way out");
    qn_serve_tally_add(&t, &call);
    call.outcome = QN_CALL_CUT_OFF;
    qn_serve_tally_add(&t, &call);
    call.outcome = QN_CALL_REFUSED;
    qn_serve_tally_add(&t, &call);
    assert_true(t.finished == 1 && t.failed == 2 && t.cut_off == 1 && t.refused == 1);
    assert_true(t.first_ms.count == 1 && t.completion_tokens == 6);
    assert_true(qn_serve_tally_seconds(&t) == 2);
    assert_string_equal(t.first_error.message, "first: reason: way out");

    json_t *told = qn_serve_tally_json(&t);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(told, "requests"), "failed")), 2);
    assert_true(json_real_value(json_object_get(told, "output_tokens_per_second")) == 3);
    assert_string_equal(json_string_value(json_object_get(told, "first_error")), "first: reason: way out");
    json_decref(told);
    qn_serve_tally_free(&t);
}

static void what_a_server_does_not_tell_is_null(void **state)
{
    (void)state;
    qn_serve_tally t = {0};
    qn_call call = {.sent_us = 1, .ended_us = 1};
    qn_serve_tally_add(&t, &call);
    json_t *told = qn_serve_tally_json(&t);
    assert_true(json_is_null(json_object_get(told, "cached_tokens")));
    assert_true(json_is_null(json_object_get(told, "speculation")));
    assert_true(json_is_null(json_object_get(told, "first_error")));
    json_decref(told);
    qn_serve_tally_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outcomes_and_samples),
        cmocka_unit_test(what_a_server_does_not_tell_is_null),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
