#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/histogram.h"

static const double bounds[] = {1, 2.5, 10};

static void test_a_value_on_a_bound_counts_below_it(void **state)
{
    (void)state;
    qn_histogram h;
    qn_histogram_init(&h, bounds, 3);
    static const double values[] = {0, 1, 1.5, 2.5, 2.6, 10, 10.5, 1e9};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        qn_histogram_add(&h, values[i]);
    }
    assert_int_equal(qn_histogram_at_most(&h, 0), 2);
    assert_int_equal(qn_histogram_at_most(&h, 1), 4);
    assert_int_equal(qn_histogram_at_most(&h, 2), 6);
    assert_int_equal(qn_histogram_at_most(&h, 3), 8);
    assert_int_equal(h.count, 8);
    assert_true(h.sum == 0 + 1 + 1.5 + 2.5 + 2.6 + 10 + 10.5 + 1e9);
}

static void test_no_bounds_still_count(void **state)
{
    (void)state;
    qn_histogram h;
    qn_histogram_init(&h, NULL, 0);
    qn_histogram_add(&h, 3);
    assert_int_equal(qn_histogram_at_most(&h, 0), 1);
    assert_int_equal(h.count, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_value_on_a_bound_counts_below_it),
        cmocka_unit_test(test_no_bounds_still_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
