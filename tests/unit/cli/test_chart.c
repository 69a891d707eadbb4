#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "cli/chart.h"

static void test_bars_fill_their_cells(void **state)
{
    (void)state;
    char bar[QN_BAR_BYTES];
    assert_string_equal(qn_chart_bar(0, 4, false, bar), "    ");
    assert_string_equal(qn_chart_bar(0.5, 4, false, bar), "##  ");
    assert_string_equal(qn_chart_bar(1, 4, false, bar), "####");
    assert_string_equal(qn_chart_bar(0.5, 4, true, bar), "██  ");
    assert_string_equal(qn_chart_bar(0.28125, 4, true, bar), "█▏  ");
    assert_string_equal(qn_chart_bar(1, 1, true, bar), "█");
    assert_string_equal(qn_chart_bar(1, QN_BAR_MAX_CELLS, true, bar) + QN_BAR_BYTES - 4, "█");
}

static void test_little_shows_and_too_much_does_not_overflow(void **state)
{
    (void)state;
    char bar[QN_BAR_BYTES];
    assert_string_equal(qn_chart_bar(1e-9, 4, false, bar), "#   ");
    assert_string_equal(qn_chart_bar(1e-9, 4, true, bar), "▏   ");
    assert_string_equal(qn_chart_bar(1e300, 4, true, bar), "████");
    assert_string_equal(qn_chart_bar(-1, 4, true, bar), "    ");
    assert_string_equal(qn_chart_bar((double)NAN, 4, true, bar), "    ");
}

static void test_levels(void **state)
{
    (void)state;
    assert_string_equal(qn_chart_level(0, true), " ");
    assert_string_equal(qn_chart_level(1e-9, true), "▁");
    assert_string_equal(qn_chart_level(0.5, true), "▄");
    assert_string_equal(qn_chart_level(1, true), "█");
    assert_string_equal(qn_chart_level(0.5, false), "4");
    assert_string_equal(qn_chart_level(2, false), "8");
}

static void test_first_variable_that_is_set_decides(void **state)
{
    (void)state;
    unsetenv("LC_ALL");
    unsetenv("LC_CTYPE");
    unsetenv("LANG");
    assert_false(qn_locale_has_utf8());
    setenv("LANG", "de_DE.UTF-8", 1);
    assert_true(qn_locale_has_utf8());
    setenv("LC_CTYPE", "C", 1);
    assert_false(qn_locale_has_utf8());
    setenv("LC_ALL", "en_US.utf8", 1);
    assert_true(qn_locale_has_utf8());
    setenv("LC_ALL", "", 1);
    assert_false(qn_locale_has_utf8());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bars_fill_their_cells),
        cmocka_unit_test(test_little_shows_and_too_much_does_not_overflow),
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_first_variable_that_is_set_decides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
