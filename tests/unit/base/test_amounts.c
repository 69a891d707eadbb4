#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/amounts.h"

static void memory_has_the_unit_that_suits(void **state)
{
    (void)state;
    char text[QN_MEMORY_TEXT_BYTES];
    assert_string_equal(qn_memory_text(0, text), "0 B");
    assert_string_equal(qn_memory_text(1023, text), "1023 B");
    assert_string_equal(qn_memory_text(1536, text), "1.5 KiB");
    assert_string_equal(qn_memory_text((size_t)399 << 30, text), "399.0 GiB");
    assert_string_equal(qn_memory_text(SIZE_MAX, text), "16.0 EiB");
}

static void counts_have_three_places(void **state)
{
    (void)state;
    char text[QN_COUNT_TEXT_BYTES];
    assert_string_equal(qn_count_text(0, text), "0");
    assert_string_equal(qn_count_text(999, text), "999");
    assert_string_equal(qn_count_text(4352000, text), "4.35 M");
    assert_string_equal(qn_count_text(753329921024, text), "753.3 B");
    assert_string_equal(qn_count_text(UINT64_MAX, text), "18446744.1 T");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_has_the_unit_that_suits),
        cmocka_unit_test(counts_have_three_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
