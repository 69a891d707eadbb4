/* Selection against sorting. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/random.h"
#include "sampling/selection.h"
#include "unit/random_stream.h"

static int descending(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return x > y ? -1 : x < y;
}

static void ordered_bits_keep_the_order(void **state)
{
    (void)state;
    static const float rising[] = {-INFINITY, -3e38F, -1.5F, -1e-45F, 0.0F, 1e-45F, 1.5F, 3e38F, INFINITY};
    for (size_t i = 0; i < sizeof rising / sizeof *rising; i++) {
        assert_true(qn_from_ordered_bits(qn_ordered_bits(rising[i])) == rising[i]);
        assert_true(i == 0 || qn_ordered_bits(rising[i]) > qn_ordered_bits(rising[i - 1]));
    }
    assert_int_equal(qn_ordered_bits(-0.0F), qn_ordered_bits(0.0F));
}

static void border_is_the_one_that_sorting_finds(void **state)
{
    (void)state;
    enum { MOST = 500 };
    random_stream r = {.seed = qn_random_seed(), .next = 0};
    print_message("seed %llu\n", (unsigned long long)r.seed);
    float values[MOST], sorted[MOST];
    uint64_t weights[MOST];
    for (int round = 0; round < 2000; round++) {
        size_t n = 1 + random_word(&r) % (MOST - 1);
        bool weighted = random_word(&r) % 2 == 0;
        uint64_t total = 0;
        for (size_t i = 0; i < n; i++) {
            values[i] = (float)(random_word(&r) % 3 == 0 ? floor(3.0 * random_normal(&r)) : 1e3 * random_normal(&r));
            sorted[i] = values[i];
            weights[i] = weighted ? random_word(&r) % 100 : 1; /* 0 among them */
            total += weights[i];
        }
        if (total == 0) {
            continue;
        }
        qsort(sorted, n, sizeof *sorted, descending);
        uint64_t target = 1 + random_word(&r) % total, above = 0, through = 0, before;
        float border = sorted[0];
        for (size_t s = 0; through < target; s++) {
            border = sorted[s];
            above = through = 0;
            for (size_t i = 0; i < n; i++) {
                above += values[i] > border ? weights[i] : 0;
                through += values[i] >= border ? weights[i] : 0;
            }
        }
        assert_int_equal(qn_select_border(values, weighted ? weights : NULL, n, target, &before),
                         qn_ordered_bits(border));
        assert_int_equal(before, above);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ordered_bits_keep_the_order),
        cmocka_unit_test(border_is_the_one_that_sorting_finds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
