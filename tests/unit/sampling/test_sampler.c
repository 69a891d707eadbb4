/* The sampler against the plain computation that it must equal, and against the distribution that it must draw from. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/memory.h"
#include "base/random.h"
#include "sampling/sampler.h"
#include "unit/random_stream.h"

/* The definition, without any shortcut: every token weighed, ranked by sorting, masked, noised. */

typedef struct ranked {
    float logit;
    int32_t id;
} ranked;

static int by_rank(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->logit != y->logit) {
        return x->logit > y->logit ? -1 : 1;
    }
    return x->id < y->id ? -1 : 1;
}

static int32_t plain_sample(const qn_sampling *s, const float *logits, size_t n, size_t position, bool *kept)
{
    ranked *order = malloc(n * sizeof *order);
    double *depth = malloc(n * sizeof *depth);
    assert_non_null(order);
    assert_non_null(depth);
    for (size_t i = 0; i < n; i++) {
        order[i] = (ranked){logits[i], (int32_t)i};
    }
    qsort(order, n, sizeof *order, by_rank);
    for (size_t i = 0; i < n; i++) {
        depth[i] = ((double)logits[i] - (double)order[0].logit) / (double)s->temperature;
        kept[i] = s->min_p <= 0.0F || depth[i] >= log((double)s->min_p);
    }
    size_t survivors = 0;
    while (survivors < n && kept[order[survivors].id]) {
        survivors++;
    }
    if (s->top_k > 0 && (size_t)s->top_k < survivors) {
        float kth = order[s->top_k - 1].logit;
        for (size_t i = 0; i < n; i++) {
            kept[i] = kept[i] && logits[i] >= kth;
        }
    }
    if (s->top_p < 1.0F) {
        uint64_t total = 0, before = 0;
        for (size_t i = 0; i < n; i++) {
            total += kept[i] ? (uint64_t)(exp(depth[i]) * 0x1p40 + 0.5) : 0;
        }
        for (size_t i = 0; i < n; i++) {
            int32_t id = order[i].id;
            if (kept[id]) {
                kept[id] = (double)before < (double)s->top_p * (double)total;
                before += (uint64_t)(exp(depth[id]) * 0x1p40 + 0.5);
            }
        }
    }
    int32_t winner = -1;
    double best = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        double score = depth[i] + qn_gumbel(qn_noise(s, position, (int32_t)i));
        if (kept[i] && score > best) {
            best = score;
            winner = (int32_t)i;
        }
    }
    free(order);
    free(depth);
    return winner;
}

/* Logits of many shapes: language-like, flat, peaked, full of ties, wide, huge. */
static void fill_logits(random_stream *r, float *logits, size_t n)
{
    uint32_t shape = random_word(r) % 7;
    for (size_t i = 0; i < n; i++) {
        double v = random_normal(r);
        switch (shape) {
        case 0:
            v = 3.0 * v - (random_unit(r) < 0.99 ? 12.0 : 0.0);
            break;
        case 1:
            v = 0.01 * v;
            break;
        case 2:
            v = floor(2.0 * v);
            break;
        case 3:
            v = 0.0;
            break;
        case 4:
            v = 40.0 * v;
            break;
        case 5:
            v = 1e30 * v;
            break;
        default:
            v = random_word(r) % 2 == 0 ? 0.0 : -0.0;
            break;
        }
        logits[i] = (float)v;
    }
}

static qn_sampling random_sampling(random_stream *r)
{
    static const float temperatures[] = {1e-6F, 0.01F, 0.1F, 0.7F, 1.0F, 1.3F, 5.0F, 1e20F};
    qn_sampling s = qn_sampling_greedy();
    s.temperature = temperatures[random_word(r) % 8];
    s.top_p = random_word(r) % 2 == 0 ? 1.0F : (float)fmax(random_unit(r), 1e-6);
    s.min_p = random_word(r) % 2 == 0 ? 0.0F : (float)pow(random_unit(r), 4.0);
    s.top_k = random_word(r) % 2 == 0 ? 0 : (int32_t)(1 + random_word(r) % 60);
    s.seed = ((uint64_t)random_word(r) << 32) | random_word(r);
    s.choice = random_word(r) % 3;
    return s;
}

static void equals_the_plain_computation(void **state)
{
    (void)state;
    random_stream r = {.seed = qn_random_seed(), .next = 0};
    print_message("seed %llu\n", (unsigned long long)r.seed);
    enum { MOST = 700 };
    float logits[MOST];
    bool kept[MOST];
    double probabilities[MOST];
    qn_error err;
    for (int round = 0; round < 1500; round++) {
        size_t n = 1 + random_word(&r) % (round % 3 == 0 ? 9 : MOST - 1);
        qn_sampler *sampler;
        assert_int_equal(qn_sampler_new(n, &sampler, &err), QN_OK);
        fill_logits(&r, logits, n);
        qn_sampling s = random_sampling(&r);
        size_t position = random_word(&r) % 1000;
        int32_t want = plain_sample(&s, logits, n, position, kept);
        int32_t got = qn_sample(sampler, &s, logits, position);
        if (got != want) {
            fail_msg("round %d, n %zu, T %g, top_p %g, min_p %g, top_k %d: %d, plain %d", round, n,
                     (double)s.temperature, (double)s.top_p, (double)s.min_p, s.top_k, got, want);
        }
        qn_sampling_distribution(sampler, &s, logits, probabilities);
        double sum = 0.0;
        for (size_t i = 0; i < n; i++) {
            sum += probabilities[i];
            if (probabilities[i] > 1e-12) {
                assert_true(kept[i]);
            }
        }
        assert_true(fabs(sum - 1.0) < 1e-9);
        qn_sampler_free(sampler);
    }
}

/* The noise that decides is the documented one: key, counter, word and gumbel spelt out. */
static void noise_layout(void **state)
{
    (void)state;
    qn_sampling s = qn_sampling_greedy();
    s.seed = UINT64_C(0x0123456789abcdef);
    s.choice = 7;
    size_t position = (size_t)UINT64_C(0x500000009);
    for (int32_t token = 0; token < 40; token++) {
        uint32_t counter[4] = {(uint32_t)token / 4, 9, 5, 7}, key[2] = {0x89abcdef, 0x01234567}, out[4];
        qn_philox4x32_10(counter, key, out);
        assert_int_equal(qn_noise(&s, position, token), out[token % 4]);
    }
    assert_true(fabs(qn_gumbel(0) - -log(33.0 * log(2.0))) < 1e-12);
    assert_true(fabs(qn_gumbel(UINT32_MAX) - 33.0 * log(2.0)) < 1e-9);
    assert_true(qn_gumbel(0) > -3.14 && qn_gumbel(UINT32_MAX) < 22.88);
}

/* Two tokens 26 apart: the lower wins exactly where the higher draws the least noise and the lower the most. */
static void bound_is_never_beaten(void **state)
{
    (void)state;
    double reach = qn_gumbel(UINT32_MAX) - qn_gumbel(0);
    assert_true(reach < 26.1);
    assert_true(reach > 26.0);
}

/* chi-square over `draws` positions against the masked softmax; 5 sigma above its mean at most. */
static void check_distribution(const qn_sampling *base, const float *logits, size_t n, size_t draws)
{
    qn_error err;
    qn_sampler *sampler;
    double *p = malloc(n * sizeof *p);
    size_t *seen = calloc(n, sizeof *seen);
    assert_non_null(p);
    assert_non_null(seen);
    assert_int_equal(qn_sampler_new(n, &sampler, &err), QN_OK);
    qn_sampling_distribution(sampler, base, logits, p);
    for (size_t i = 0; i < draws; i++) {
        seen[qn_sample(sampler, base, logits, i)]++;
    }
    double chi = 0.0, rest_expected = 0.0, rest_seen = 0.0;
    size_t cells = 0;
    for (size_t i = 0; i < n; i++) {
        double expected = p[i] * (double)draws;
        if (p[i] == 0.0) {
            assert_int_equal(seen[i], 0);
        } else if (expected < 5.0) {
            rest_expected += expected;
            rest_seen += (double)seen[i];
        } else {
            chi += pow((double)seen[i] - expected, 2.0) / expected;
            cells++;
        }
    }
    if (rest_expected >= 5.0) {
        chi += pow(rest_seen - rest_expected, 2.0) / rest_expected;
        cells++;
    }
    if (cells > 1) {
        double freedom = (double)cells - 1.0;
        print_message("T %g top_p %g min_p %g top_k %d: chi-square %.1f, %zu cells\n", (double)base->temperature,
                      (double)base->top_p, (double)base->min_p, base->top_k, chi, cells);
        assert_true(chi < freedom + 5.0 * sqrt(2.0 * freedom) + 5.0);
    }
    qn_sampler_free(sampler);
    free(p);
    free(seen);
}

static void draws_follow_the_masked_softmax(void **state)
{
    (void)state;
    enum { N = 200 };
    float logits[N];
    random_stream r = {.seed = 20, .next = 0};
    for (size_t i = 0; i < N; i++) {
        logits[i] = (float)(2.0 * random_normal(&r));
    }
    qn_sampling s = qn_sampling_greedy();
    s.seed = 1;
    static const float temperatures[] = {0.3F, 0.7F, 1.0F, 2.0F};
    for (size_t t = 0; t < 4; t++) {
        s.temperature = temperatures[t];
        s.top_p = 1.0F, s.min_p = 0.0F, s.top_k = 0;
        check_distribution(&s, logits, N, 40000);
        s.top_p = 0.8F;
        check_distribution(&s, logits, N, 20000);
        s.top_p = 1.0F, s.top_k = 7;
        check_distribution(&s, logits, N, 20000);
        s.top_k = 0, s.min_p = 0.1F;
        check_distribution(&s, logits, N, 20000);
        s.top_p = 0.9F, s.top_k = 20, s.min_p = 0.02F;
        check_distribution(&s, logits, N, 20000);
    }
}

/* Different seeds, positions and choices give unrelated draws; the same give the same. */
static void keyed_by_seed_position_and_choice(void **state)
{
    (void)state;
    enum { N = 64, DRAWS = 3000 };
    float logits[N] = {0};
    qn_error err;
    qn_sampler *sampler;
    assert_int_equal(qn_sampler_new(N, &sampler, &err), QN_OK);
    qn_sampling a = qn_sampling_greedy();
    a.temperature = 1.0F;
    a.seed = 42;
    qn_sampling b = a, c = a;
    b.seed = 42 + (UINT64_C(1) << 40);
    c.choice = 1;
    size_t same_seed = 0, same_choice = 0, same_position = 0;
    for (size_t i = 0; i < DRAWS; i++) {
        int32_t token = qn_sample(sampler, &a, logits, i);
        assert_int_equal(token, qn_sample(sampler, &a, logits, i));
        same_seed += token == qn_sample(sampler, &b, logits, i);
        same_choice += token == qn_sample(sampler, &c, logits, i);
        same_position += token == qn_sample(sampler, &a, logits, i + DRAWS);
    }
    /* 1/64 each by chance: about 47 of 3000. */
    assert_in_range(same_seed, 15, 90);
    assert_in_range(same_choice, 15, 90);
    assert_in_range(same_position, 15, 90);
    qn_sampler_free(sampler);
}

static void greedy_takes_the_lowest_of_ties(void **state)
{
    (void)state;
    float logits[] = {1.0F, 5.0F, 5.0F, -2.0F, 5.0F};
    qn_error err;
    qn_sampler *sampler;
    double p[5];
    assert_int_equal(qn_sampler_new(5, &sampler, &err), QN_OK);
    qn_sampling s = qn_sampling_greedy();
    assert_int_equal(qn_sample(sampler, &s, logits, 0), 1);
    qn_sampling_distribution(sampler, &s, logits, p);
    assert_true(p[1] == 1.0 && p[2] == 0.0);
    s.temperature = 1.0F;
    s.min_p = 1.0F;
    qn_sampling_distribution(sampler, &s, logits, p);
    assert_true(p[0] == 0.0 && fabs(p[1] - 1.0 / 3.0) < 1e-12 && fabs(p[4] - 1.0 / 3.0) < 1e-12);
    s.min_p = 0.0F;
    s.top_k = 1; /* ties at the k-th stay */
    qn_sampling_distribution(sampler, &s, logits, p);
    assert_true(fabs(p[2] - 1.0 / 3.0) < 1e-12);
    s.top_k = 0;
    s.top_p = 0.5F; /* two of the three reach half of the mass: the lower ids */
    qn_sampling_distribution(sampler, &s, logits, p);
    assert_true(fabs(p[1] - 0.5) < 1e-12 && fabs(p[2] - 0.5) < 1e-12 && p[4] == 0.0);
    qn_sampler_free(sampler);
}

static void refuses_values_out_of_range(void **state)
{
    (void)state;
    qn_error err;
    qn_sampling s = qn_sampling_greedy();
    assert_int_equal(qn_sampling_check(&s, &err), QN_OK);
    s.top_k = -1;
    assert_int_equal(qn_sampling_check(&s, &err), QN_OK);
    s.top_k = -2;
    assert_int_equal(qn_sampling_check(&s, &err), QN_USAGE);
    assert_string_equal(err.field, "top_k");
    s = qn_sampling_greedy();
    static const float bad_temperatures[] = {-0.1F, INFINITY, NAN};
    for (size_t i = 0; i < 3; i++) {
        s.temperature = bad_temperatures[i];
        assert_int_equal(qn_sampling_check(&s, &err), QN_USAGE);
        assert_string_equal(err.field, "temperature");
    }
    s = qn_sampling_greedy();
    static const float bad_top_p[] = {0.0F, -1.0F, 1.01F, NAN};
    for (size_t i = 0; i < 4; i++) {
        s.top_p = bad_top_p[i];
        assert_int_equal(qn_sampling_check(&s, &err), QN_USAGE);
        assert_string_equal(err.field, "top_p");
    }
    s = qn_sampling_greedy();
    static const float bad_min_p[] = {-0.1F, 1.01F, NAN};
    for (size_t i = 0; i < 3; i++) {
        s.min_p = bad_min_p[i];
        assert_int_equal(qn_sampling_check(&s, &err), QN_USAGE);
        assert_string_equal(err.field, "min_p");
    }
}

/* Rows long enough for the shortcuts that look at stretches of a row, with any share of it masked; only top_p in half
 * of them, whose nucleus is then found by an estimate. */
static void masked_logits_never_come(void **state)
{
    (void)state;
    random_stream r = {.seed = qn_random_seed(), .next = 0};
    print_message("seed %llu\n", (unsigned long long)r.seed);
    enum { LONGEST = 20000 };
    static float logits[LONGEST];
    static bool kept[LONGEST];
    static double probabilities[LONGEST];
    qn_error err;
    for (int round = 0; round < 400; round++) {
        size_t n = 1 + random_word(&r) % (round % 8 == 0 ? LONGEST - 1 : 300);
        qn_sampler *sampler;
        assert_int_equal(qn_sampler_new(n, &sampler, &err), QN_OK);
        fill_logits(&r, logits, n);
        double share = pow(random_unit(&r), 4.0);
        size_t spared = random_word(&r) % n;
        for (size_t i = 0; i < n; i++) {
            if (i != spared && random_unit(&r) > share) {
                logits[i] = -INFINITY;
            }
        }
        qn_sampling s = random_sampling(&r);
        if (round % 2 == 0) {
            s.top_p = (float)fmax(random_unit(&r), 1e-6);
            s.top_k = 0, s.min_p = 0.0F;
        }
        int32_t want = plain_sample(&s, logits, n, 7, kept), got = qn_sample(sampler, &s, logits, 7);
        if (got != want) {
            fail_msg("round %d, n %zu, T %g, top_p %g, min_p %g, top_k %d: %d, plain %d", round, n,
                     (double)s.temperature, (double)s.top_p, (double)s.min_p, s.top_k, got, want);
        }
        qn_sampling_distribution(sampler, &s, logits, probabilities);
        double sum = 0.0;
        for (size_t i = 0; i < n; i++) {
            assert_true(probabilities[i] == 0.0 || !isinf(logits[i]));
            sum += probabilities[i];
        }
        assert_true(fabs(sum - 1.0) < 1e-9);
        qn_sampler_free(sampler);
    }
}

static void no_token_where_all_are_masked(void **state)
{
    (void)state;
    enum { N = 100 };
    float logits[N];
    double probabilities[N];
    qn_error err;
    qn_sampler *sampler;
    assert_int_equal(qn_sampler_new(N, &sampler, &err), QN_OK);
    for (size_t i = 0; i < N; i++) {
        logits[i] = -INFINITY;
    }
    qn_sampling s = qn_sampling_greedy();
    assert_int_equal(qn_sample(sampler, &s, logits, 0), -1);
    s.temperature = 1.0F, s.top_p = 0.5F;
    assert_int_equal(qn_sample(sampler, &s, logits, 0), -1);
    s.top_k = 3, s.min_p = 0.1F;
    assert_int_equal(qn_sample(sampler, &s, logits, 0), -1);
    qn_sampling_distribution(sampler, &s, logits, probabilities);
    for (size_t i = 0; i < N; i++) {
        assert_true(probabilities[i] == 0.0);
    }
    float finite[N] = {0};
    const uint64_t nothing[2] = {0, 0}, one[2] = {0, 1};
    qn_rules rules = {.sampling = &s, .allowed = nothing};
    assert_int_equal(qn_sample_with_rules(sampler, &rules, finite, 0), -1);
    rules.allowed = one;
    assert_int_equal(qn_sample_with_rules(sampler, &rules, finite, 0), 64);
    const int32_t banned[1] = {64};
    rules.banned = banned, rules.banned_count = 1;
    assert_int_equal(qn_sample_with_rules(sampler, &rules, finite, 0), -1);
    qn_sampler_free(sampler);
}

static void rules_come_first_and_leave_the_row_alone(void **state)
{
    (void)state;
    enum { N = 500 };
    random_stream r = {.seed = qn_random_seed(), .next = 0};
    print_message("seed %llu\n", (unsigned long long)r.seed);
    float logits[N], before[N], row[N];
    qn_error err;
    qn_sampler *sampler;
    assert_int_equal(qn_sampler_new(N, &sampler, &err), QN_OK);
    for (int round = 0; round < 500; round++) {
        fill_logits(&r, logits, N);
        memcpy(before, logits, sizeof before);
        qn_sampling s = random_sampling(&r);
        qn_logit_bias bias = {.token = (int32_t)(random_word(&r) % N), .bias = (float)(20.0 * random_unit(&r))};
        s.logit_bias = &bias, s.logit_bias_count = random_word(&r) % 2;
        s.presence_penalty = random_word(&r) % 2 == 0 ? 0.0F : 1.5F;
        int32_t ahead[3] = {(int32_t)(random_word(&r) % N), (int32_t)(random_word(&r) % N), 3};
        qn_rules rules = {.sampling = &s, .ahead = ahead, .ahead_count = random_word(&r) % 4};
        int32_t got = qn_sample_with_rules(sampler, &rules, logits, 11);
        assert_memory_equal(logits, before, sizeof before);
        qn_rules_apply(&rules, logits, N, row);
        assert_int_equal(got, qn_sample(sampler, &s, row, 11));
    }
    qn_sampler_free(sampler);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    qn_error err;
    for (long n = 1;; n++) {
        qn_sampler *sampler;
        qn_fault_arm(QN_FAULT_ALLOC, n);
        qn_status status = qn_sampler_new(100, &sampler, &err);
        qn_fault_disarm();
        if (status == QN_OK) {
            qn_sampler_free(sampler);
            assert_true(n > 1);
            break;
        }
        assert_int_equal(status, QN_RESOURCE);
    }
}

/* Not a test of speed, a look at it: the vocabulary of GLM-5, once with language-like logits, once nearly flat. */
static void cost_at_full_vocabulary(void **state)
{
    (void)state;
    enum { N = 154880, ROUNDS = 5 };
    random_stream r = {.seed = 3, .next = 0};
    float *logits = malloc(N * sizeof *logits);
    assert_non_null(logits);
    qn_error err;
    qn_sampler *sampler;
    assert_int_equal(qn_sampler_new(N, &sampler, &err), QN_OK);
    static const struct {
        float temperature, top_p;
        int32_t top_k;
    } cases[] = {{0.0F, 1.0F, 0}, {1.0F, 1.0F, 0}, {1.0F, 0.95F, 0}, {1.0F, 1.0F, 40}, {0.7F, 0.95F, 40}};
    for (int flat = 0; flat < 2; flat++) {
        for (size_t i = 0; i < N; i++) {
            logits[i] = (float)(2.5 * random_normal(&r)) + (flat == 0 && i % 997 == 0 ? 20.0F : 0.0F);
        }
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            qn_sampling s = qn_sampling_greedy();
            s.temperature = cases[c].temperature;
            s.top_p = cases[c].top_p;
            s.top_k = cases[c].top_k;
            uint64_t start = qn_now_us();
            int64_t sum = 0;
            for (size_t i = 0; i < ROUNDS; i++) {
                sum += qn_sample(sampler, &s, logits, i);
            }
            print_message("%s, T %.1f top_p %.2f top_k %d: %.2f ms a token (%lld)\n", flat ? "flat" : "peaked",
                          (double)s.temperature, (double)s.top_p, s.top_k,
                          (double)(qn_now_us() - start) / 1000.0 / ROUNDS, (long long)sum);
        }
    }
    qn_sampler_free(sampler);
    free(logits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_the_plain_computation),
        cmocka_unit_test(noise_layout),
        cmocka_unit_test(bound_is_never_beaten),
        cmocka_unit_test(draws_follow_the_masked_softmax),
        cmocka_unit_test(keyed_by_seed_position_and_choice),
        cmocka_unit_test(greedy_takes_the_lowest_of_ties),
        cmocka_unit_test(refuses_values_out_of_range),
        cmocka_unit_test(masked_logits_never_come),
        cmocka_unit_test(no_token_where_all_are_masked),
        cmocka_unit_test(rules_come_first_and_leave_the_row_alone),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(cost_at_full_vocabulary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
