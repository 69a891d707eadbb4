/* Loops of arithmetic: they run where the CPU has the instructions, and say so where not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "bench/arithmetic.h"

static void runs_what_is_supported(void **state)
{
    (void)state;
    qn_pool *pool;
    qn_error err;
    assert_int_equal(qn_pool_new(2, &pool, &err), QN_OK);
    for (qn_arithmetic kind = QN_ARITHMETIC_FP32; kind <= QN_ARITHMETIC_BF16; kind++) {
        double rate = qn_arithmetic_run(kind, pool, 1);
        assert_true(qn_arithmetic_supported(kind) ? rate > 0 : rate == 0);
    }
    qn_pool_free(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(runs_what_is_supported)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
