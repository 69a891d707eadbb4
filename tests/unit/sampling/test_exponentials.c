/* Sums of exponentials against exp in double. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "base/random.h"
#include "sampling/exponentials.h"
#include "unit/random_stream.h"

static void sums_equal_those_in_double(void **state)
{
    (void)state;
    enum { MOST = 3000 };
    random_stream r = {.seed = qn_random_seed(), .next = 0};
    print_message("seed %llu\n", (unsigned long long)r.seed);
    static const double scales[] = {1.0, 0.5, 3.0, 1e-6, 1e6, 1e45};
    float logits[MOST];
    for (int round = 0; round < 1000; round++) {
        size_t n = 1 + random_word(&r) % (round % 2 == 0 ? 40 : MOST - 1);
        float highest = -INFINITY;
        double spread = pow(10.0, 4.0 * random_unit(&r) - 2.0), scale = scales[random_word(&r) % 6], sum = 0.0;
        for (size_t i = 0; i < n; i++) {
            logits[i] = random_word(&r) % 30 == 0 && i > 0 ? -INFINITY : (float)(spread * random_normal(&r));
            highest = logits[i] > highest ? logits[i] : highest;
        }
        for (size_t i = 0; i < n; i++) {
            sum += exp(((double)logits[i] - (double)highest) * scale);
        }
        double got = qn_sum_exponentials(logits, n, highest, scale);
        assert_true(got >= 1.0);
        assert_true(fabs(got / sum - 1.0) < QN_EXPONENTIALS_ERROR);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums_equal_those_in_double)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
