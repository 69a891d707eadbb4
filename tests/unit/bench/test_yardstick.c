#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/fault.h"
#include "bench/yardstick.h"

/* The peak is of the instruction that a table multiplies with. */
static void limits_of_every_table(void **state)
{
    (void)state;
    qn_pool *pool;
    qn_yardstick y;
    qn_error err;
    size_t count;
    const qn_kernels *const *all = qn_kernels_all(&count);
    assert_int_equal(qn_pool_new(2, &pool, &err), QN_OK);
    assert_int_equal(qn_yardstick_open(pool, &y, &err), QN_OK);
    for (size_t t = 0; t < count; t++) {
        if (!qn_kernels_supported(all[t]))
            continue;
        const qn_limits limits = qn_yardstick_sample(&y, all[t]);
        assert_true(limits.read_small > 0 && limits.read_huge > 0);
        assert_true(limits.peak >= 0); /* 0: a CPU without the instruction */
        assert_int_equal(limits.bf16, strcmp(all[t]->name, "avx512bf16") == 0);
    }
    qn_yardstick_close(&y);
    qn_pool_free(pool);
}

static void no_memory(void **state)
{
    (void)state;
    qn_pool *pool;
    qn_error err;
    assert_int_equal(qn_pool_new(1, &pool, &err), QN_OK);
    size_t refused = 0;
    qn_status status = QN_RESOURCE;
    /* asking what memory is available allocates as well, and does without */
    for (long nth = 1; status != QN_OK || refused == 0; nth++) {
        assert_true(nth < 100);
        qn_yardstick y;
        qn_fault_arm(QN_FAULT_ALLOC, nth);
        status = qn_yardstick_open(pool, &y, &err);
        qn_fault_disarm();
        assert_true(status == QN_OK || status == QN_RESOURCE);
        refused += status != QN_OK;
        qn_yardstick_close(&y);
    }
    assert_int_equal(refused, 2);
    qn_pool_free(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(limits_of_every_table), cmocka_unit_test(no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
