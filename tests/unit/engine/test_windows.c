/* Windows: every token but the first is scored once, with enough before it; what cannot be is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/windows.h"

static void check_cover(size_t count, size_t context, size_t stride)
{
    qn_windows windows;
    qn_window window;
    qn_error err;
    size_t next = 1, work = 0, number = 0; /* the next token to be scored */
    assert_int_equal(qn_windows_start(count, context, stride, context, &windows, &err), QN_OK);
    uint64_t told = qn_windows_work(&windows);
    while (qn_windows_next(&windows, &window)) {
        assert_int_equal(window.begin, number * stride);
        assert_in_range(window.count, 2, context);
        assert_int_equal(window.begin + window.first_row + 1, next);
        if (number > 0) {
            assert_true(window.first_row + 1 >= context - stride);
        }
        next = window.begin + window.count;
        assert_true(next <= count);
        work += window.count;
        number++;
    }
    assert_int_equal(next, count);
    assert_int_equal(work, told);
    assert_false(qn_windows_next(&windows, &window));
}

static void every_token_is_scored_once(void **state)
{
    (void)state;
    for (size_t count = 2; count < 40; count++) {
        for (size_t context = 2; context < 12; context++) {
            for (size_t stride = 1; stride < context; stride++) {
                check_cover(count, context, stride);
            }
        }
    }
}

static void refuses_what_cannot_be(void **state)
{
    (void)state;
    static const struct {
        size_t count, context, stride;
        qn_status status;
        const char *field;
    } bad[] = {{1, 10, 5, QN_BAD_INPUT, ""},      {0, 10, 5, QN_BAD_INPUT, ""},    {10, 1, 1, QN_USAGE, "context"},
               {10, 101, 5, QN_USAGE, "context"}, {10, 10, 0, QN_USAGE, "stride"}, {10, 10, 10, QN_USAGE, "stride"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        qn_windows windows;
        qn_error err;
        assert_int_equal(qn_windows_start(bad[i].count, bad[i].context, bad[i].stride, 100, &windows, &err),
                         bad[i].status);
        assert_string_equal(err.field, bad[i].field);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_token_is_scored_once),
        cmocka_unit_test(refuses_what_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
