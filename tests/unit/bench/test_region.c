/* The bytes that stand for weights: harmless in every form, aligned, all there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "base/dtype.h"
#include "base/fault.h"
#include "bench/region.h"

enum { BYTES = 6 << 20 };

static void bytes_are_good_weights_and_scales(void **state)
{
    (void)state;
    for (int huge = 0; huge < 2; huge++) {
        qn_pool *pool;
        qn_region region;
        qn_error err;
        assert_int_equal(qn_pool_new(2, &pool, &err), QN_OK);
        assert_int_equal(qn_region_new(BYTES + 12345, huge != 0, pool, &region, &err), QN_OK);
        assert_int_equal(region.bytes, BYTES);
        assert_int_equal((uintptr_t)region.data % (2 << 20), 0);
        for (size_t i = 0; i < region.bytes; i += 2) {
            float value = qn_bf16_to_f32((uint16_t)(region.data[i] | region.data[i + 1] << 8));
            assert_true(isnormal(value) && fabsf(value) <= 2);
            assert_true(region.data[i] > 1 && region.data[i] < 253);
        }
        assert_true(qn_region_read(&region, pool) > 0);
        qn_region_free(&region);
        qn_region_free(&region);
        qn_pool_free(pool);
    }
}

static void no_memory_is_an_error(void **state)
{
    (void)state;
    qn_pool *pool;
    qn_region region;
    qn_error err;
    assert_int_equal(qn_pool_new(1, &pool, &err), QN_OK);
    qn_fault_arm(QN_FAULT_ALLOC, 1);
    assert_int_equal(qn_region_new(BYTES, true, pool, &region, &err), QN_RESOURCE);
    qn_fault_disarm();
    qn_region_free(&region);
    qn_pool_free(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_good_weights_and_scales),
        cmocka_unit_test(no_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
