/* Memory in large pages: where it lies, what it holds, and what it tells of itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/fault.h"
#include "base/huge_memory.h"

enum { BYTES = 4 * QN_HUGE_PAGE_BYTES + 12345 };

static void all_bytes_are_there_and_zero(void **state)
{
    (void)state;
    for (int huge = 0; huge < 2; huge++) {
        qn_huge_memory memory;
        qn_error err;
        assert_int_equal(qn_huge_memory_new(BYTES, huge != 0, "a test", &memory, &err), QN_OK);
        assert_int_equal(memory.bytes, BYTES);
        assert_int_equal((uintptr_t)memory.data % QN_HUGE_PAGE_BYTES, 0);
        for (size_t i = 0; i < BYTES; i++)
            assert_int_equal(memory.data[i], 0);
        memset(memory.data, 1, BYTES);
        qn_huge_memory_free(&memory);
        assert_null(memory.data);
        qn_huge_memory_free(&memory);
    }
}

static void refused_huge_pages_are_not_claimed(void **state)
{
    (void)state;
    qn_huge_memory small, huge, none = {0};
    qn_error err;
    assert_int_equal(qn_huge_memory_new(BYTES, false, "a test", &small, &err), QN_OK);
    assert_int_equal(qn_huge_memory_new(BYTES, true, "a test", &huge, &err), QN_OK);
    assert_int_equal(qn_huge_memory_in_huge_pages(&huge), 0); /* nothing was touched */
    memset(small.data, 1, BYTES);
    memset(huge.data, 1, BYTES);
    assert_int_equal(qn_huge_memory_in_huge_pages(&small), 0);
    size_t got = qn_huge_memory_in_huge_pages(&huge); /* as many as this system gives */
    assert_true(got % QN_HUGE_PAGE_BYTES == 0 && got <= BYTES);
    print_message("%zu of %d bytes in huge pages\n", got, BYTES);
    assert_int_equal(qn_huge_memory_in_huge_pages(&none), 0);
    qn_fault_arm(QN_FAULT_READ, 1);
    assert_int_equal(qn_huge_memory_in_huge_pages(&huge), 0);
    qn_fault_disarm();
    qn_huge_memory_free(&small);
    qn_huge_memory_free(&huge);
}

static void too_much_is_an_error_that_says_what_for(void **state)
{
    (void)state;
    qn_huge_memory memory;
    qn_error err;
    static const size_t too_much[] = {SIZE_MAX, SIZE_MAX / 2};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(qn_huge_memory_new(too_much[i], true, "the moon", &memory, &err), QN_RESOURCE);
        assert_non_null(strstr(err.message, "the moon"));
        assert_null(memory.data);
    }
    qn_fault_arm(QN_FAULT_ALLOC, 1);
    assert_int_equal(qn_huge_memory_new(BYTES, true, "a test", &memory, &err), QN_RESOURCE);
    qn_fault_disarm();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_bytes_are_there_and_zero),
        cmocka_unit_test(refused_huge_pages_are_not_claimed),
        cmocka_unit_test(too_much_is_an_error_that_says_what_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
