/* Choosing a table: the best by default, one by name, and errors that list what there is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"

static void test_scalar_is_last_and_always_there(void **state)
{
    (void)state;
    size_t count;
    const qn_kernels *const *all = qn_kernels_all(&count);
    assert_true(count >= 1);
    assert_string_equal(all[count - 1]->name, "scalar");
    assert_true(qn_kernels_supported(all[count - 1]));
}

static void test_default_is_the_first_supported(void **state)
{
    (void)state;
    size_t count, i = 0;
    const qn_kernels *const *all = qn_kernels_all(&count);
    const qn_kernels *chosen = NULL;
    qn_error err;
    while (!qn_kernels_supported(all[i]))
        i++;
    assert_int_equal(qn_kernels_select(NULL, &chosen, &err), QN_OK);
    assert_ptr_equal(chosen, all[i]);
}

static void test_each_supported_name_selects_its_table(void **state)
{
    (void)state;
    size_t count;
    const qn_kernels *const *all = qn_kernels_all(&count);
    for (size_t i = 0; i < count; i++) {
        const qn_kernels *chosen = NULL;
        qn_error err;
        qn_status status = qn_kernels_select(all[i]->name, &chosen, &err);
        if (qn_kernels_supported(all[i])) {
            assert_int_equal(status, QN_OK);
            assert_ptr_equal(chosen, all[i]);
        } else {
            assert_int_equal(status, QN_USAGE);
            assert_non_null(strstr(err.message, all[i]->name));
            assert_non_null(strstr(err.message, "this CPU does not have it"));
            assert_non_null(strstr(err.message, "scalar"));
        }
    }
}

static void test_unknown_name_is_an_error_that_lists_the_tables(void **state)
{
    (void)state;
    const qn_kernels *chosen = NULL;
    qn_error err;
    assert_int_equal(qn_kernels_select("mmx", &chosen, &err), QN_USAGE);
    assert_null(chosen);
    assert_non_null(strstr(err.message, "mmx: unknown"));
    assert_non_null(strstr(err.message, "scalar"));
    assert_int_equal(qn_kernels_select("", &chosen, &err), QN_USAGE);
}

static void test_environment_forces_a_table(void **state)
{
    (void)state;
    const qn_kernels *chosen = NULL;
    qn_error err;
    setenv("QUERN_ISA", "scalar", 1);
    assert_int_equal(qn_kernels_from_environment(&chosen, &err), QN_OK);
    assert_string_equal(chosen->name, "scalar");
    setenv("QUERN_ISA", "sse9", 1);
    assert_int_equal(qn_kernels_from_environment(&chosen, &err), QN_USAGE);
    assert_non_null(strstr(err.message, "QUERN_ISA"));
    unsetenv("QUERN_ISA");
    assert_int_equal(qn_kernels_from_environment(&chosen, &err), QN_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scalar_is_last_and_always_there),
        cmocka_unit_test(test_default_is_the_first_supported),
        cmocka_unit_test(test_each_supported_name_selects_its_table),
        cmocka_unit_test(test_unknown_name_is_an_error_that_lists_the_tables),
        cmocka_unit_test(test_environment_forces_a_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
