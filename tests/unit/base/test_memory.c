#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/fault.h"
#include "base/memory.h"

static void test_empty_blocks_are_unique(void **state)
{
    (void)state;
    void *blocks[4] = {qn_alloc(0, 8), qn_alloc_zero(8, 0), qn_alloc_aligned(0, 0), qn_realloc(NULL, 0, 1)};
    for (int i = 0; i < 4; i++) {
        assert_non_null(blocks[i]);
        for (int j = 0; j < i; j++)
            assert_ptr_not_equal(blocks[i], blocks[j]);
    }
    for (int i = 0; i < 4; i++)
        qn_free(blocks[i]);
    qn_free(NULL);
}

static void test_overflow_gives_null(void **state)
{
    (void)state;
    assert_null(qn_alloc(SIZE_MAX, 2));
    assert_null(qn_alloc_zero(SIZE_MAX / 2 + 1, 2));
    assert_null(qn_alloc_aligned(SIZE_MAX, 1));
    assert_null(qn_alloc_aligned(PTRDIFF_MAX, 1));
    assert_null(qn_alloc((size_t)PTRDIFF_MAX + 1, 1));
    assert_null(qn_strndup("x", SIZE_MAX));
    char *block = qn_strdup("kept");
    assert_null(qn_realloc(block, SIZE_MAX, 16));
    assert_string_equal(block, "kept");
    qn_free(block);
}

static void test_an_array_grows_or_stays(void **state)
{
    (void)state;
    int32_t *numbers = NULL;
    size_t capacity = 0;
    for (int32_t i = 0; i < 1000; i++) {
        size_t before = capacity;
        assert_true(qn_reserve(&numbers, &capacity, (size_t)i + 1, sizeof *numbers));
        assert_true(capacity > (size_t)i && (capacity == before || capacity >= 2 * before));
        numbers[i] = i;
    }
    size_t before = capacity;
    const int32_t *block = numbers;
    assert_false(qn_reserve(&numbers, &capacity, SIZE_MAX / 2, sizeof *numbers));
    qn_fault_arm(QN_FAULT_ALLOC, 1);
    assert_false(qn_reserve(&numbers, &capacity, capacity + 1, sizeof *numbers));
    qn_fault_disarm();
    assert_true(capacity == before && numbers == block);
    for (int32_t i = 0; i < 1000; i++)
        assert_int_equal(numbers[i], i);
    qn_free(numbers);
}

static void test_zeroed_and_aligned(void **state)
{
    (void)state;
    for (size_t bytes = 1; bytes < 300; bytes += 7) {
        uint8_t *aligned = qn_alloc_aligned(bytes, 1), *zeroed = qn_alloc_zero(1, bytes);
        assert_int_equal((uintptr_t)aligned % 64, 0);
        for (size_t i = 0; i < bytes; i++)
            assert_int_equal(aligned[i] | zeroed[i], 0);
        memset(aligned, 0xFF, bytes); /* so that a reused block would show */
        memset(zeroed, 0xFF, bytes);
        qn_free(aligned);
        qn_free(zeroed);
    }
}

static void test_copies(void **state)
{
    (void)state;
    char *part = qn_strndup("a\0bcd", 4), *empty = qn_strndup(NULL, 0), *whole = qn_strdup("whole");
    assert_memory_equal(part, "a\0bc", 5);
    assert_string_equal(empty, "");
    assert_string_equal(whole, "whole");
    qn_free(part);
    qn_free(empty);
    qn_free(whole);
}

static void test_realloc_keeps_content(void **state)
{
    (void)state;
    char *block = qn_strdup("0123456789");
    block = qn_realloc(block, 1000, 100);
    assert_string_equal(block, "0123456789");
    block = qn_realloc(block, 4, 1);
    assert_memory_equal(block, "0123", 4);
    qn_free(block);
}

static void test_every_function_can_be_made_to_fail(void **state)
{
    (void)state;
    char *block = qn_strdup("kept");
    for (long nth = 1; nth <= 6; nth++) {
        qn_fault_arm(QN_FAULT_ALLOC, nth);
        void *results[6] = {qn_alloc(1, 1), qn_alloc_zero(1, 1), qn_alloc_aligned(1, 1),
                            qn_strdup("x"), qn_strndup("x", 1),  qn_realloc(NULL, 1, 1)};
        qn_fault_disarm();
        for (long i = 0; i < 6; i++) {
            assert_int_equal(results[i] == NULL, i + 1 == nth);
            qn_free(results[i]);
        }
    }
    qn_fault_arm(QN_FAULT_ALLOC, 1);
    assert_null(qn_realloc(block, 100, 1));
    qn_fault_disarm();
    assert_string_equal(block, "kept");
    qn_free(block);
}

static void test_checked_arithmetic(void **state)
{
    (void)state;
    size_t out = 0;
    assert_true(qn_size_mul(SIZE_MAX, 1, &out) && out == SIZE_MAX);
    assert_true(qn_size_mul(0, SIZE_MAX, &out) && out == 0);
    assert_false(qn_size_mul((size_t)1 << 32, (size_t)1 << 32, &out));
    assert_true(qn_size_add(SIZE_MAX - 1, 1, &out) && out == SIZE_MAX);
    assert_false(qn_size_add(SIZE_MAX, 1, &out));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty_blocks_are_unique),
        cmocka_unit_test(test_overflow_gives_null),
        cmocka_unit_test(test_an_array_grows_or_stays),
        cmocka_unit_test(test_zeroed_and_aligned),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_realloc_keeps_content),
        cmocka_unit_test(test_every_function_can_be_made_to_fail),
        cmocka_unit_test(test_checked_arithmetic),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
