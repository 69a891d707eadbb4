/* Each of the kernels' figures can be sampled, with any table that this CPU runs, and without writing beside its
 * buffers (the sanitized build looks at that). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/fault.h"
#include "bench/kernel_rates.h"

enum { BYTES = 8 << 20 };

static void every_figure_of_the_best_table(void **state)
{
    (void)state;
    qn_pool *pool;
    qn_region region;
    qn_kernel_rates *rates;
    const qn_kernels *kernels;
    qn_error err;
    assert_int_equal(qn_kernels_select(NULL, &kernels, &err), QN_OK);
    assert_int_equal(qn_pool_new(2, &pool, &err), QN_OK);
    assert_int_equal(qn_region_new(BYTES, false, pool, &region, &err), QN_OK);
    assert_int_equal(qn_kernel_rates_new(kernels, pool, &region, &rates, &err), QN_OK);
    for (qn_figure figure = QN_FIGURE_MXFP4_ROWS; figure <= QN_FIGURE_LOOP; figure++) {
        assert_true(qn_kernel_rates_sample(rates, figure, 0.1) > 0);
        assert_true(qn_kernel_rates_sample(rates, figure, 0.1) > 0);
    }
    qn_kernel_rates_free(rates);
    qn_region_free(&region);
    qn_pool_free(pool);
}

static void every_failing_allocation(void **state)
{
    (void)state;
    qn_pool *pool;
    qn_region region;
    qn_kernel_rates *rates;
    qn_error err;
    const qn_kernels *kernels;
    qn_status status = QN_RESOURCE;
    assert_int_equal(qn_kernels_select(NULL, &kernels, &err), QN_OK);
    assert_int_equal(qn_pool_new(1, &pool, &err), QN_OK);
    assert_int_equal(qn_region_new(BYTES, false, pool, &region, &err), QN_OK);
    size_t refused = 0;
    for (long nth = 1; status != QN_OK; nth++) {
        assert_true(nth < 100);
        qn_fault_arm(QN_FAULT_ALLOC, nth);
        status = qn_kernel_rates_new(kernels, pool, &region, &rates, &err);
        qn_fault_disarm();
        assert_true(status == QN_OK || status == QN_RESOURCE);
        refused += status != QN_OK;
    }
    assert_in_range(refused, 16, 99); /* the rig's and its own; then one that nothing was refused to */
    qn_kernel_rates_free(rates);
    qn_kernel_rates_free(NULL);
    qn_region_free(&region);
    qn_pool_free(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_figure_of_the_best_table),
        cmocka_unit_test(every_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
