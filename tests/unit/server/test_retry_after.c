#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>

#include "server/retry_after.h"

static void test_stays_within_its_bounds(void **state)
{
    (void)state;
    assert_int_equal(qn_retry_after_s(0, 100), 1);
    assert_int_equal(qn_retry_after_s(1000, 0), 1);
    assert_int_equal(qn_retry_after_s(SIZE_MAX, 1e9), 60);
    assert_int_equal(qn_retry_after_s(3, NAN), 1);
}

static void test_grows_with_the_queue_and_the_time_each_takes(void **state)
{
    (void)state;
    assert_int_equal(qn_retry_after_s(10, 0.5), 5);
    assert_int_equal(qn_retry_after_s(20, 0.5), 10);
    assert_int_equal(qn_retry_after_s(20, 2.9), 58);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stays_within_its_bounds),
        cmocka_unit_test(test_grows_with_the_queue_and_the_time_each_takes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
