#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/arena.h"
#include "base/fault.h"

static void test_blocks_are_zeroed_aligned_and_apart(void **state)
{
    (void)state;
    qn_arena *arena = qn_arena_new(64 << 20);
    enum { BLOCKS = 3000 };
    static uint8_t *blocks[BLOCKS];
    static size_t sizes[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        sizes[i] = (i * 37) % 900 + (i % 500 == 0 ? 100000 : 0);
        blocks[i] = qn_arena_alloc(arena, sizes[i], 1);
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % 16, 0);
        for (size_t b = 0; b < sizes[i]; b++)
            assert_int_equal(blocks[i][b], 0);
        memset(blocks[i], (int)(i % 251), sizes[i]);
    }
    for (size_t i = 0; i < BLOCKS; i++)
        for (size_t b = 0; b < sizes[i]; b++)
            assert_int_equal(blocks[i][b], i % 251);
    qn_arena_free(arena);
    qn_arena_free(NULL);
}

static void test_limit_bounds_the_total(void **state)
{
    (void)state;
    qn_arena *arena = qn_arena_new(1000);
    assert_non_null(qn_arena_alloc(arena, 31, 16));
    assert_int_equal(qn_arena_used_bytes(arena), 496);
    assert_null(qn_arena_alloc(arena, 505, 1));
    assert_int_equal(qn_arena_used_bytes(arena), 496);
    assert_non_null(qn_arena_alloc(arena, 496, 1));
    assert_null(qn_arena_alloc(arena, 1, 1));
    qn_arena_free(arena);
}

static void test_empty_blocks_count_towards_the_limit(void **state)
{
    (void)state;
    qn_arena *arena = qn_arena_new(160);
    int made = 0;
    while (qn_arena_alloc(arena, 0, 1))
        made++;
    assert_int_equal(made, 10);
    qn_arena_free(arena);
}

static void test_overflow_gives_null(void **state)
{
    (void)state;
    qn_arena *arena = qn_arena_new(SIZE_MAX);
    assert_null(qn_arena_alloc(arena, SIZE_MAX, 2));
    assert_null(qn_arena_alloc(arena, SIZE_MAX, 1));
    assert_null(qn_arena_alloc(arena, SIZE_MAX - 20, 1));
    assert_null(qn_arena_strndup(arena, "x", SIZE_MAX));
    assert_non_null(qn_arena_alloc(arena, 1, 1));
    qn_arena_free(arena);
}

static void test_strndup(void **state)
{
    (void)state;
    qn_arena *arena = qn_arena_new(1000);
    assert_memory_equal(qn_arena_strndup(arena, "a\0bc", 3), "a\0b", 4);
    assert_string_equal(qn_arena_strndup(arena, NULL, 0), "");
    qn_arena_free(arena);
}

static void test_every_failed_allocation_is_survived(void **state)
{
    (void)state;
    for (long nth = 1;; nth++) {
        qn_fault_arm(QN_FAULT_ALLOC, nth);
        int failures = 0;
        qn_arena *arena = qn_arena_new(1 << 20);
        for (int i = 0; arena && i < 20; i++)
            failures += qn_arena_alloc(arena, 3000, 1) == NULL;
        qn_arena_free(arena);
        long seen = qn_fault_seen(QN_FAULT_ALLOC);
        qn_fault_disarm();
        assert_int_equal(arena == NULL, nth == 1);
        assert_int_equal(failures, nth > 1 && seen >= nth);
        if (seen < nth)
            break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_are_zeroed_aligned_and_apart),
        cmocka_unit_test(test_limit_bounds_the_total),
        cmocka_unit_test(test_empty_blocks_count_towards_the_limit),
        cmocka_unit_test(test_overflow_gives_null),
        cmocka_unit_test(test_strndup),
        cmocka_unit_test(test_every_failed_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
