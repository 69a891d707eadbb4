#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <time.h>

#include "base/clock.h"

static void test_monotonic(void **state)
{
    (void)state;
    uint64_t before = qn_now_us();
    for (int i = 0; i < 10000; i++) {
        uint64_t now = qn_now_us();
        assert_true(now >= before);
        before = now;
    }
}

/* The unit, against the system's own clock read around it. */
static void test_counts_microseconds(void **state)
{
    (void)state;
    struct timespec before, after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    uint64_t now_us = qn_now_us();
    clock_gettime(CLOCK_MONOTONIC, &after);
    assert_true(now_us >= (uint64_t)before.tv_sec * 1000000 + (uint64_t)before.tv_nsec / 1000);
    assert_true(now_us <= (uint64_t)after.tv_sec * 1000000 + (uint64_t)after.tv_nsec / 1000);
}

/* Both units are of one clock. */
static void test_nanoseconds(void **state)
{
    (void)state;
    uint64_t before_us = qn_now_us(), now_ns = qn_now_ns(), after_us = qn_now_us();
    assert_true(now_ns / 1000 >= before_us);
    assert_true(now_ns / 1000 <= after_us);
}

static void test_per_second(void **state)
{
    (void)state;
    assert_true(qn_per_second(3, 1500000) == 2.0);
    assert_true(qn_per_second(0, 5) == 0.0);
    assert_true(qn_per_second(3, 0) == 0.0);
}

static void test_unix_seconds(void **state)
{
    (void)state;
    int64_t before = (int64_t)time(NULL), now = qn_unix_seconds(), after = (int64_t)time(NULL);
    assert_true(before <= now && now <= after);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_monotonic),    cmocka_unit_test(test_counts_microseconds),
        cmocka_unit_test(test_nanoseconds),  cmocka_unit_test(test_per_second),
        cmocka_unit_test(test_unix_seconds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
