/* Span lists: merging, order, and the two questions the encoder asks. */
#include <stdarg.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/fault.h"
#include "text/span.h"

static void touching_spans_merge(void **state)
{
    (void)state;
    qn_span_list list = {0};
    assert_true(qn_span_list_add(&list, 2, 5));
    assert_true(qn_span_list_add(&list, 5, 7));
    assert_true(qn_span_list_add(&list, 7, 7));
    assert_true(qn_span_list_add(&list, 9, 10));
    assert_int_equal(list.count, 2);
    assert_int_equal(list.items[0].start, 2);
    assert_int_equal(list.items[0].end, 7);
    qn_span_list_clear(&list);
    assert_int_equal(list.count, 0);
    assert_true(qn_span_list_add(&list, 0, 1));
    qn_span_list_free(&list);
    assert_null(list.items);
}

/* Against a plain array of flags, over random lists. */
static void questions_agree_with_flags(void **state)
{
    (void)state;
    unsigned seed = 20240607;
    printf("seed %u\n", seed);
    srand(seed);
    for (int round = 0; round < 200; ++round) {
        bool flags[64] = {false};
        qn_span_list list = {0};
        for (size_t at = 0; at < 60;) {
            size_t start = at + (size_t)rand() % 6, end = start + (size_t)rand() % 5;
            if (end > 64)
                break;
            assert_true(qn_span_list_add(&list, start, end));
            for (size_t i = start; i < end; ++i)
                flags[i] = true;
            at = end;
        }
        for (size_t start = 0; start < 64; ++start) {
            bool any = false, all = true;
            assert_false(qn_span_list_touches(&list, start, start));
            assert_false(qn_span_list_covers(&list, start, start));
            for (size_t end = start + 1; end <= 64; ++end) {
                any = any || flags[end - 1];
                all = all && flags[end - 1];
                assert_int_equal(qn_span_list_touches(&list, start, end), any);
                assert_int_equal(qn_span_list_covers(&list, start, end), all);
            }
        }
        qn_span_list_free(&list);
    }
}

static void failed_growth_leaves_the_list(void **state)
{
    (void)state;
    qn_span_list list = {0};
    for (size_t i = 0; i < 16; ++i)
        assert_true(qn_span_list_add(&list, 2 * i, 2 * i + 1));
    qn_fault_arm(QN_FAULT_ALLOC, 1);
    assert_false(qn_span_list_add(&list, 100, 101));
    qn_fault_disarm();
    assert_int_equal(list.count, 16);
    assert_true(qn_span_list_add(&list, 100, 101));
    qn_span_list_free(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(touching_spans_merge),
        cmocka_unit_test(questions_agree_with_flags),
        cmocka_unit_test(failed_growth_leaves_the_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
