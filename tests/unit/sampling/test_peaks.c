/* Peaks against a plain scan, and their bound against a sorted row. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/random.h"
#include "sampling/peaks.h"
#include "unit/random_stream.h"

static void peaks_equal_a_plain_scan(void **state)
{
    (void)state;
    enum { MOST = 40000 };
    random_stream r = {.seed = qn_random_seed(), .next = 0};
    print_message("seed %llu\n", (unsigned long long)r.seed);
    static float logits[MOST];
    qn_peaks peaks;
    for (int round = 0; round < 300; round++) {
        size_t n = 1 + random_word(&r) % (round % 10 == 0 ? MOST - 1 : 200);
        bool masked = random_word(&r) % 4 == 0, all = random_word(&r) % 20 == 0;
        for (size_t i = 0; i < n; i++) {
            bool out = all || (masked && random_word(&r) % 10 != 0);
            logits[i] = out ? -INFINITY : (float)floor(4.0 * random_normal(&r));
        }
        qn_peaks_find(logits, n, &peaks);
        int32_t first = -1;
        for (size_t i = 0; i < n; i++) {
            if (logits[i] > -INFINITY && (first < 0 || logits[i] > logits[first])) {
                first = (int32_t)i;
            }
        }
        assert_int_equal(peaks.first, first);
        assert_true(peaks.highest == (first < 0 ? -INFINITY : logits[first]));
        assert_true(peaks.count >= 1 && peaks.count <= QN_PEAKS && peaks.count * peaks.width >= n &&
                    (peaks.count - 1) * peaks.width < n);
        for (size_t k = 1; k < 30; k++) {
            float bound = qn_peaks_bound(&peaks, k);
            size_t reach = 0;
            for (size_t i = 0; i < n; i++) {
                reach += logits[i] >= bound;
            }
            assert_true(reach >= (k < n ? k : n));
            assert_true(k > peaks.count || k > 1 || bound == peaks.highest);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(peaks_equal_a_plain_scan)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
