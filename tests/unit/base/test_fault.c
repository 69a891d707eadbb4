#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/fault.h"

static void test_off_by_default(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++)
        assert_false(qn_fault_hit(QN_FAULT_ALLOC));
    assert_int_equal(qn_fault_seen(QN_FAULT_ALLOC), 0);
}

static void test_only_nth_call_fails(void **state)
{
    (void)state;
    qn_fault_arm(QN_FAULT_READ, 3);
    for (int call = 1; call <= 6; call++)
        assert_int_equal(qn_fault_hit(QN_FAULT_READ), call == 3);
    assert_int_equal(qn_fault_seen(QN_FAULT_READ), 6);
    qn_fault_disarm();
}

static void test_a_lasting_fault_stays(void **state)
{
    (void)state;
    qn_fault_arm_from(QN_FAULT_READ, 2);
    assert_false(qn_fault_hit(QN_FAULT_READ));
    for (int i = 0; i < 3; i++)
        assert_true(qn_fault_hit(QN_FAULT_READ));
    assert_false(qn_fault_hit(QN_FAULT_ALLOC));
    qn_fault_arm(QN_FAULT_READ, 1);
    assert_true(qn_fault_hit(QN_FAULT_READ));
    assert_false(qn_fault_hit(QN_FAULT_READ));
    qn_fault_disarm();
    assert_false(qn_fault_hit(QN_FAULT_READ));
}

static void test_kinds_are_apart(void **state)
{
    (void)state;
    qn_fault_arm(QN_FAULT_WRITE, 1);
    assert_false(qn_fault_hit(QN_FAULT_READ));
    assert_false(qn_fault_hit(QN_FAULT_ALLOC));
    assert_true(qn_fault_hit(QN_FAULT_WRITE));
    qn_fault_disarm();
}

static void test_arming_again_counts_from_one(void **state)
{
    (void)state;
    qn_fault_arm(QN_FAULT_ALLOC, 2);
    assert_false(qn_fault_hit(QN_FAULT_ALLOC));
    qn_fault_arm(QN_FAULT_ALLOC, 2);
    assert_int_equal(qn_fault_seen(QN_FAULT_ALLOC), 0);
    assert_false(qn_fault_hit(QN_FAULT_ALLOC));
    assert_true(qn_fault_hit(QN_FAULT_ALLOC));
    qn_fault_disarm();
    assert_int_equal(qn_fault_seen(QN_FAULT_ALLOC), 2);
    assert_false(qn_fault_hit(QN_FAULT_ALLOC));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_off_by_default),
        cmocka_unit_test(test_only_nth_call_fails),
        cmocka_unit_test(test_a_lasting_fault_stays),
        cmocka_unit_test(test_kinds_are_apart),
        cmocka_unit_test(test_arming_again_counts_from_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
