/* The reduction of eight dot products at once gives the bits of eight single ones. Compiled with AVX2; run where the
 * CPU has it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "kernels/x86/avx2_lanes.h"
#include "unit/kernels/support.h"

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
        size_t stride = QN_LANES + random_below(&random, 3) * 8;
        float *lanes = guarded((7 * stride + QN_LANES) * sizeof(float), 1), at_once[8];
        for (size_t i = 0; i < 7 * stride + QN_LANES; i++)
            lanes[i] = random_sum(&random);
        _mm256_storeu_ps(at_once, qn_reduce16x8(lanes, stride));
        for (size_t i = 0; i < 8; i++) {
            const float *row = lanes + i * stride;
            float single = qn_reduce16(_mm256_loadu_ps(row), _mm256_loadu_ps(row + 8));
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
