/* Percentiles by nearest rank, and what happens to samples without room. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/fault.h"
#include "bench/serve_samples.h"

static void percentiles_are_measured_values(void **state)
{
    (void)state;
    qn_samples s = {0};
    assert_true(qn_samples_percentile(&s, 50) == 0 && qn_samples_max(&s) == 0 && qn_samples_mean(&s) == 0);
    for (int i = 100; i >= 1; i--)
        qn_samples_add(&s, i);
    for (int p = 1; p <= 100; p++)
        assert_true(qn_samples_percentile(&s, p) == p);
    assert_true(qn_samples_percentile(&s, 0.5) == 1 && qn_samples_percentile(&s, 99.1) == 100);
    assert_true(qn_samples_mean(&s) == 50.5);
    qn_samples_add(&s, 0); /* after sorting */
    assert_true(qn_samples_percentile(&s, 50) == 50 && qn_samples_percentile(&s, 0.1) == 0);
    qn_samples_free(&s);
}

static void few_values_have_their_maximum_as_p99(void **state)
{
    (void)state;
    qn_samples s = {0};
    qn_samples_add(&s, 7);
    assert_true(qn_samples_percentile(&s, 1) == 7 && qn_samples_percentile(&s, 99) == 7);
    qn_samples_add(&s, 5);
    assert_true(qn_samples_percentile(&s, 50) == 5 && qn_samples_percentile(&s, 51) == 7);
    qn_samples_free(&s);
}

static void sample_without_memory_is_counted(void **state)
{
    (void)state;
    qn_samples s = {0};
    qn_fault_arm(QN_FAULT_ALLOC, 1);
    qn_samples_add(&s, 1);
    qn_fault_disarm();
    qn_samples_add(&s, 2);
    assert_int_equal(s.dropped, 1);
    assert_int_equal(s.count, 1);
    json_t *told = qn_samples_json(&s);
    assert_int_equal(json_integer_value(json_object_get(told, "dropped")), 1);
    assert_true(json_real_value(json_object_get(told, "max")) == 2);
    json_decref(told);
    qn_samples_free(&s);
    told = qn_samples_json(&s);
    assert_int_equal(json_integer_value(json_object_get(told, "count")), 0);
    assert_null(json_object_get(told, "p50"));
    json_decref(told);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(percentiles_are_measured_values),
        cmocka_unit_test(few_values_have_their_maximum_as_p99),
        cmocka_unit_test(sample_without_memory_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
