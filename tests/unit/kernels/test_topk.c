/* The selection against a full sort, on scores rich in ties, zeros of both signs, infinities and NaN. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/topk.h"
#include "support.h"

enum { LARGEST = 1 << 20 };

/* Descending; NaN last; ties by position: a total order, so that qsort has one answer. */
static const float *sorted_scores;

static int compare(const void *a, const void *b)
{
    int32_t left = *(const int32_t *)a, right = *(const int32_t *)b;
    float x = sorted_scores[left], y = sorted_scores[right];
    if (isnan(x) != isnan(y))
        return isnan(x) ? 1 : -1;
    if (x > y || x < y)
        return x > y ? -1 : 1;
    return left < right ? -1 : 1;
}

static int ascending(const void *a, const void *b)
{
    int32_t left = *(const int32_t *)a, right = *(const int32_t *)b;
    return (left > right) - (left < right);
}

static void check(const float *scores, size_t n, size_t k)
{
    int32_t *order = guarded((n + 1) * sizeof *order, 1);
    int32_t *out = guarded((k < n ? k : n) * sizeof *out, 1);
    uint32_t *scratch = guarded(n * sizeof *scratch, 1);
    float margin = -1.0f;
    size_t taken = qn_topk(scores, n, k, out, scratch, &margin);
    assert_int_equal(taken, k < n ? k : n);

    for (size_t i = 0; i < n; i++)
        order[i] = (int32_t)i;
    sorted_scores = scores;
    qsort(order, n, sizeof *order, compare);
    if (k > 0 && k < n) {
        float last = scores[order[k - 1]], left = scores[order[k]];
        bool same = last == left || (isnan(last) && isnan(left));
        float expected = same ? 0.0f : isnan(left) ? INFINITY : last - left;
        assert_true(margin == expected);
    } else {
        assert_true(margin == INFINITY);
    }
    qsort(order, taken, sizeof *order, ascending);
    for (size_t i = 0; i < taken; i++)
        assert_int_equal(out[i], order[i]);
    guarded_release_all();
}

static float random_score(random_state *random, int kind)
{
    static const float special[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 1e-45f, -1e-45f, 3.4e38f, -3.4e38f};
    switch (kind) {
    case 0:
        return random_normal(random);
    case 1:
        return fmaxf(random_normal(random), 0.0f);
    case 2:
        return (float)random_below(random, 5);
    case 3:
        return 1.0f + (float)random_below(random, 64) * 0x1p-23f;
    default:
        return special[random_below(random, sizeof special / sizeof special[0])];
    }
}

static void test_random_scores(void **state)
{
    (void)state;
    static float scores[4096];
    random_state random = random_start();
    for (int round = 0; round < 2000; round++) {
        size_t n = random_below(&random, round % 10 == 0 ? 4097 : 80);
        for (size_t i = 0; i < n; i++)
            scores[i] = random_score(&random, round % 5);
        check(scores, n, random_below(&random, n + 3));
    }
}

static void test_a_million_scores(void **state)
{
    (void)state;
    float *scores = malloc(LARGEST * sizeof *scores);
    assert_non_null(scores);
    random_state random = random_start();
    for (size_t i = 0; i < LARGEST; i++)
        scores[i] = random_score(&random, 1);
    check(scores, LARGEST, 2048);
    check(scores, LARGEST, LARGEST - 5);
    free(scores);
}

static void test_ties_go_to_the_lower_position(void **state)
{
    (void)state;
    const float scores[] = {0.0f, 1.0f, -0.0f, 0.0f, 1.0f, -1.0f, 0.0f};
    int32_t out[4];
    uint32_t scratch[7];
    float margin;
    assert_int_equal(qn_topk(scores, 7, 4, out, scratch, &margin), 4);
    const int32_t expected[] = {0, 1, 2, 4};
    assert_memory_equal(out, expected, sizeof expected);
    assert_true(margin == 0.0f);
    assert_int_equal(qn_topk(scores, 7, 1, out, scratch, NULL), 1);
    assert_int_equal(out[0], 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_scores),
        cmocka_unit_test(test_a_million_scores),
        cmocka_unit_test(test_ties_go_to_the_lower_position),
    };
    test_seed();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
