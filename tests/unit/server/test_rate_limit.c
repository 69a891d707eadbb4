#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/fault.h"
#include "server/rate_limit.h"

enum { SECOND = 1000000 };

static qn_rate_limit *limit_of(unsigned per_minute, unsigned burst)
{
    qn_rate_limit *limit = NULL;
    qn_error err;
    assert_int_equal(qn_rate_limit_new(per_minute, burst, &limit, &err), QN_OK);
    return limit;
}

static void test_a_burst_then_the_rate(void **state)
{
    (void)state;
    qn_rate_limit *limit = limit_of(30, 3);
    uint64_t now = 1000 * SECOND;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(qn_rate_limit_take(limit, 7, now), 0);
    }
    assert_int_equal(qn_rate_limit_take(limit, 7, now), 2);
    assert_int_equal(qn_rate_limit_take(limit, 7, now + SECOND), 1);
    assert_int_equal(qn_rate_limit_take(limit, 8, now), 0); /* another client's own */
    assert_int_equal(qn_rate_limit_take(limit, 7, now + 2 * SECOND + 1), 0);
    assert_int_equal(qn_rate_limit_take(limit, 7, now + 2 * SECOND + 1), 2);
    now += 3600ull * SECOND; /* full, and no more than full */
    for (int i = 0; i < 3; i++) {
        assert_int_equal(qn_rate_limit_take(limit, 7, now), 0);
    }
    assert_int_equal(qn_rate_limit_take(limit, 7, now), 2);
    qn_rate_limit_free(limit);
}

/* What is refused takes nothing: who waits as long as told gets in. */
static void test_the_wait_is_enough(void **state)
{
    (void)state;
    static const unsigned rates[] = {1, 7, 60, 61, 1000000};
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        qn_rate_limit *limit = limit_of(rates[i], 1);
        uint64_t now = 5 * SECOND;
        for (int round = 0; round < 100; round++) {
            assert_int_equal(qn_rate_limit_take(limit, 1, now), 0);
            unsigned wait_s = qn_rate_limit_take(limit, 1, now);
            assert_in_range(wait_s, 1, 60);
            for (int again = 0; again < 10; again++) {
                assert_int_equal(qn_rate_limit_take(limit, 1, now), wait_s);
            }
            now += (uint64_t)wait_s * SECOND + 1;
        }
        qn_rate_limit_free(limit);
    }
}

static void test_time_that_goes_back_gives_nothing(void **state)
{
    (void)state;
    qn_rate_limit *limit = limit_of(60, 1);
    assert_int_equal(qn_rate_limit_take(limit, 1, 10 * SECOND), 0);
    assert_int_equal(qn_rate_limit_take(limit, 1, 5 * SECOND), 1);
    assert_int_equal(qn_rate_limit_take(limit, 1, 10 * SECOND), 1);
    qn_rate_limit_free(limit);
}

/* A hundred thousand addresses in a second, each with one request, and one that sends on: it stays the emptiest. */
static void test_a_crowd_does_not_wash_out_who_sends_most(void **state)
{
    (void)state;
    qn_rate_limit *limit = limit_of(60, 10);
    unsigned taken = 0;
    for (uint64_t i = 0; i < 100000; i++) {
        uint64_t now = SECOND + i * 10;
        assert_int_equal(qn_rate_limit_take(limit, 1000 + i, now), 0);
        taken += qn_rate_limit_take(limit, 1, now) == 0 ? 1 : 0;
    }
    assert_in_range(taken, 10, 11); /* 10 and what a second brings */
    qn_rate_limit_free(limit);
}

static void test_short_memory(void **state)
{
    (void)state;
    qn_rate_limit *limit = NULL;
    qn_error err;
    qn_fault_arm(QN_FAULT_ALLOC, 1);
    qn_status status = qn_rate_limit_new(1, 1, &limit, &err);
    qn_fault_disarm();
    assert_int_equal(status, QN_RESOURCE);
    qn_rate_limit_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_burst_then_the_rate),
        cmocka_unit_test(test_the_wait_is_enough),
        cmocka_unit_test(test_time_that_goes_back_gives_nothing),
        cmocka_unit_test(test_a_crowd_does_not_wash_out_who_sends_most),
        cmocka_unit_test(test_short_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
