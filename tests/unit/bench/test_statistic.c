/* The least, the middle and the most of some values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "bench/statistic.h"

static void of_nothing(void **state)
{
    (void)state;
    assert_int_equal(qn_statistic_of(NULL, 0).samples, 0);
}

static void of_values_in_any_order(void **state)
{
    (void)state;
    double odd[] = {5, 1, 9}, even[] = {4, 3, 2, 1};
    qn_statistic s = qn_statistic_of(odd, 3);
    assert_true(s.min == 1 && s.median == 5 && s.p99 == 9 && s.max == 9 && s.samples == 3);
    s = qn_statistic_of(even, 4);
    assert_true(s.min == 1 && s.median == 2 && s.max == 4 && s.samples == 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_nothing),
        cmocka_unit_test(of_values_in_any_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
