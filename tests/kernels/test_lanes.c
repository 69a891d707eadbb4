/* The reduction of eight dot products at once gives the bits of eight single ones, where the CPU has AVX2. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "kernels/x86/avx2.h"
#include "lanes_avx2.h"
#include "unit/kernels/support.h"

enum { LANES = 16 };

/* Sums of mixed magnitudes and signs, so that any other order of addition shows; now and then what is special. */
static float random_sum(random_state *random)
{
    static const float special[] = {0.0f, -0.0f, INFINITY, 0x1p-140f, 0x1.fffffep127f};
    if (random_below(random, 40) == 0)
        return special[random_below(random, sizeof special / sizeof special[0])];
    return ldexpf(random_normal(random), (int)random_below(random, 12));
}

static void test_eight_reductions_at_once(void **state)
{
    (void)state;
    if (!qn_kernels_supported(&qn_kernels_avx2))
        skip();
    random_state random = random_start();
    for (int round = 0; round < 2000; round++) {
        size_t stride = LANES + random_below(&random, 3) * 8;
        float *lanes = guarded((7 * stride + LANES) * sizeof(float), 1), at_once[8];
        for (size_t i = 0; i < 7 * stride + LANES; i++)
            lanes[i] = random_sum(&random);
        reduce_eight(lanes, stride, at_once);
        for (size_t i = 0; i < 8; i++) {
            float single = reduce_one(lanes + i * stride);
            assert_memory_equal(&at_once[i], &single, sizeof single);
        }
        guarded_release_all();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_eight_reductions_at_once)};
    test_seed();
    return cmocka_run_group_tests_name("lanes", tests, NULL, NULL);
}
