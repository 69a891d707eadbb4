#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/pool.h"
#include "model/parts.h"

enum { THREADS = 3, ITEMS = 20, SPIN_NS = 20000 };

static void spin(uint64_t ns)
{
    uint64_t until = qn_now_ns() + ns;
    while (qn_now_ns() < until) {
    }
}

static qn_part_clock *make(void)
{
    qn_part_clock *clock;
    qn_error err;
    assert_int_equal(qn_part_clock_new(THREADS, &clock, &err), QN_OK);
    return clock;
}

static uint64_t sum_of(const qn_part_clock *clock)
{
    uint64_t sum = 0;
    for (qn_model_part p = 0; p < QN_PARTS; p++)
        sum += qn_part_clock_ns(clock, p);
    return sum;
}

static void test_nobody_asks(void **state)
{
    (void)state;
    qn_part_mark(NULL, QN_PART_HEAD);
    qn_part_enter(NULL, 0, QN_PART_HEAD);
    qn_part_leave(NULL, 0);
    qn_part_count_experts(NULL, 3);
    qn_part_clock_free(NULL);
}

static void test_names_differ(void **state)
{
    (void)state;
    for (qn_model_part a = 0; a < QN_PARTS; a++)
        for (qn_model_part b = 0; b < a; b++)
            assert_string_not_equal(qn_part_name(a), qn_part_name(b));
}

/* Each stretch is in the part that was marked at its beginning, and nothing gets lost. */
static void test_marks(void **state)
{
    (void)state;
    qn_part_clock *clock = make();
    uint64_t before = qn_now_ns();
    qn_part_clock_start(clock);
    qn_part_mark(clock, QN_PART_ROUTER);
    uint64_t inside = qn_now_ns();
    spin(SPIN_NS);
    inside = qn_now_ns() - inside;
    qn_part_mark(clock, QN_PART_REST);
    uint64_t gone = qn_now_ns() - before;
    assert_true(qn_part_clock_ns(clock, QN_PART_ROUTER) >= inside);
    assert_true(inside >= SPIN_NS);
    assert_true(sum_of(clock) <= gone);
    assert_int_equal(sum_of(clock), qn_part_clock_ns(clock, QN_PART_ROUTER) + qn_part_clock_ns(clock, QN_PART_REST));
    qn_part_count_experts(clock, 8);
    qn_part_count_experts(clock, 5);
    assert_int_equal(qn_part_clock_experts(clock), 13);
    qn_part_clock_start(clock);
    assert_int_equal(sum_of(clock) + qn_part_clock_experts(clock), 0);
    qn_part_clock_free(clock);
}

static void two_parts(void *context, size_t item, size_t worker)
{
    (void)item;
    qn_part_clock *clock = context;
    qn_part_enter(clock, worker, QN_PART_EXPERTS);
    spin(SPIN_NS);
    qn_part_enter(clock, worker, QN_PART_SHARED);
    spin(SPIN_NS / 4);
    qn_part_leave(clock, worker);
}

/* A loop's time is its parts', and none of it the mark's own when the workers told theirs. */
static void test_a_loop_of_two_parts(void **state)
{
    (void)state;
    qn_part_clock *clock = make();
    qn_pool *pool;
    qn_error err;
    assert_int_equal(qn_pool_new(THREADS, &pool, &err), QN_OK);
    qn_part_clock_start(clock);
    uint64_t before = qn_now_ns();
    qn_part_mark(clock, QN_PART_DENSE);
    qn_pool_run(pool, ITEMS, two_parts, clock);
    qn_part_mark(clock, QN_PART_REST);
    uint64_t gone = qn_now_ns() - before;
    uint64_t experts = qn_part_clock_ns(clock, QN_PART_EXPERTS), shared = qn_part_clock_ns(clock, QN_PART_SHARED);
    assert_true(experts > 0 && shared > 0);
    assert_true(qn_part_clock_ns(clock, QN_PART_DENSE) < 1000); /* what rounding leaves */
    assert_true(experts + shared <= gone);

    qn_part_mark(clock, QN_PART_DENSE); /* the workers' times were taken */
    spin(SPIN_NS);
    qn_part_mark(clock, QN_PART_REST);
    assert_int_equal(qn_part_clock_ns(clock, QN_PART_EXPERTS), experts);
    assert_true(qn_part_clock_ns(clock, QN_PART_DENSE) >= SPIN_NS);
    qn_pool_free(pool);
    qn_part_clock_free(clock);
}

static void test_memory_short(void **state)
{
    (void)state;
    for (long n = 1; n <= 2; n++) {
        qn_part_clock *clock;
        qn_error err;
        qn_fault_arm(QN_FAULT_ALLOC, n);
        assert_int_equal(qn_part_clock_new(THREADS, &clock, &err), QN_RESOURCE);
        qn_fault_disarm();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nobody_asks),         cmocka_unit_test(test_names_differ), cmocka_unit_test(test_marks),
        cmocka_unit_test(test_a_loop_of_two_parts), cmocka_unit_test(test_memory_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
