/* The figures' names: one each, and what the documents call them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "bench/hardware.h"

static void each_figure_has_a_name_of_its_own(void **state)
{
    (void)state;
    for (qn_figure i = 0; i < QN_FIGURES; i++) {
        qn_figure_info info = qn_figure_describe(i);
        assert_true(info.name[0] != '\0' && info.unit && info.label);
        for (qn_figure k = 0; k < i; k++)
            assert_string_not_equal(info.name, qn_figure_describe(k).name);
    }
    assert_string_equal(qn_figure_describe(QN_FIGURE_MXFP4_ROWS).name, "mxfp4_rows_1");
    assert_string_equal(qn_figure_describe(QN_FIGURE_MXFP4_ROWS).unit, "GB/s");
    assert_string_equal(qn_figure_describe(QN_FIGURE_BF16_ROWS + QN_ROW_POINTS - 1).name, "bf16_rows_512");
    assert_string_equal(qn_figure_describe(QN_FIGURE_BF16_ROWS + 5).label, "BF16 weights, 64 rows");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_figure_has_a_name_of_its_own)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
