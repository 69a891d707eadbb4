/* Log probabilities against the plain formula, ranked by sorting. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/random.h"
#include "sampling/logprobs.h"
#include "unit/random_stream.h"

static const float *sorted_by; /* of by_rank */

static int by_rank(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    if (sorted_by[x] != sorted_by[y]) {
        return sorted_by[x] > sorted_by[y] ? -1 : 1;
    }
    return x < y ? -1 : 1;
}

static void assert_near(double want, float got)
{
    if (isinf(want)) {
        assert_true(isinf(got) && got < 0.0F);
    } else {
        assert_true(fabs((double)got - want) <= 2e-6 + 6e-8 * fabs(want));
    }
}

static void fill(random_stream *r, float *logits, size_t n)
{
    uint32_t shape = random_word(r) % 5;
    for (size_t i = 0; i < n; i++) {
        double v = random_normal(r);
        logits[i] = (float)(shape == 0   ? 3.0 * v
                            : shape == 1 ? floor(2.0 * v)
                            : shape == 2 ? 0.0
                            : shape == 3 ? 60.0 * v
                                         : 1e36 * v);
        if (random_word(r) % 30 == 0 && i > 0) {
            logits[i] = -INFINITY;
        }
    }
}

static void equals_the_plain_formula(void **state)
{
    (void)state;
    enum { MOST = 5000 };
    random_stream r = {.seed = qn_random_seed(), .next = 0};
    print_message("seed %llu\n", (unsigned long long)r.seed);
    static float logits[MOST];
    static int32_t order[MOST];
    qn_logprob out[1 + QN_MAX_LOGPROBS];
    sorted_by = logits;
    for (int round = 0; round < 1000; round++) {
        size_t n = 1 + random_word(&r) % (round % 3 == 0 ? 30 : round % 10 == 1 ? MOST - 1 : 500);
        fill(&r, logits, n);
        double sum = 0.0;
        uint32_t rank = 0;
        for (size_t i = 0; i < n; i++) {
            order[i] = (int32_t)i;
        }
        qsort(order, n, sizeof *order, by_rank);
        for (size_t i = 0; i < n; i++) {
            sum += exp((double)logits[i] - (double)logits[order[0]]);
        }
        int32_t chosen = order[random_word(&r) % (random_word(&r) % 2 == 0 ? n : 1)];
        for (size_t i = 0; i < n; i++) {
            rank += logits[i] >= logits[chosen];
        }
        size_t top = random_word(&r) % (QN_MAX_LOGPROBS + 1);
        assert_int_equal(qn_logprobs(logits, n, chosen, top, out), rank);
        for (size_t i = 0; i <= top; i++) {
            int32_t want = i == 0 ? chosen : i <= n ? order[i - 1] : -1;
            assert_int_equal(out[i].token, want);
            assert_near(want < 0 ? -INFINITY : (double)logits[want] - (double)logits[order[0]] - log(sum),
                        out[i].logprob);
        }
    }
}

/* 40 equal ones everywhere: the lowest ids are the top, and a stretch of the row full of them is no trap. */
static void ties_go_to_the_lowest_ids(void **state)
{
    (void)state;
    static float logits[154880];
    qn_logprob out[1 + QN_MAX_LOGPROBS];
    for (size_t i = 0; i < 40; i++) {
        logits[100000 + 1000 * i] = 2.0F;
    }
    logits[5] = 3.0F;
    assert_int_equal(qn_logprobs(logits, 154880, 7, QN_MAX_LOGPROBS, out), 154880);
    assert_int_equal(out[1].token, 5);
    for (int32_t i = 0; i < QN_MAX_LOGPROBS - 1; i++) {
        assert_int_equal(out[2 + i].token, 100000 + 1000 * i);
    }
    assert_int_equal(qn_logprobs(logits, 154880, 101000, 0, out), 41);
}

/* Not a test of speed, a look at it. */
static void cost_at_full_vocabulary(void **state)
{
    (void)state;
    enum { N = 154880, ROUNDS = 20 };
    static float logits[N];
    random_stream r = {.seed = 3, .next = 0};
    for (size_t i = 0; i < N; i++) {
        logits[i] = (float)(2.5 * random_normal(&r));
    }
    qn_logprob out[1 + QN_MAX_LOGPROBS];
    static const size_t tops[] = {0, 5, 20};
    for (size_t t = 0; t < 3; t++) {
        uint64_t start = qn_now_us(), sum = 0;
        for (int32_t i = 0; i < ROUNDS; i++) {
            sum += qn_logprobs(logits, N, i, tops[t], out);
        }
        print_message("top %zu: %.0f us a row (%llu)\n", tops[t], (double)(qn_now_us() - start) / ROUNDS,
                      (unsigned long long)sum);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_the_plain_formula),
        cmocka_unit_test(ties_go_to_the_lowest_ids),
        cmocka_unit_test(cost_at_full_vocabulary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
