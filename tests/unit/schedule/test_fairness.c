#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "simulator.h"

static const uint64_t SEED = 31337;
enum { SECOND = 1000000 };

static const qn_fairness_limits no_bounds = {.max_num_batched_tokens = 2048};

static simulator sim;

static qn_fairness_limits gap_of(uint64_t gap_us)
{
    qn_fairness_limits limits = no_bounds;
    limits.max_decode_gap_us = gap_us;
    return limits;
}

static void add_decodes(size_t count, size_t answer_tokens)
{
    for (size_t i = 0; i < count; i++)
        simulator_add(&sim, 1000 * i, 100, answer_tokens);
}

static void orders_requests(void **state)
{
    (void)state;
    qn_place early = {.priority = 5, .arrival = 1}, late = {.priority = -5, .arrival = 2};
    assert_true(qn_waiting_order(&early, &late, false) < 0 && qn_waiting_order(&late, &early, false) > 0);
    assert_true(qn_waiting_order(&early, &late, true) > 0 && qn_waiting_order(&early, &early, true) == 0);
    assert_true(qn_victim_order(&late, &early, false) < 0 && qn_victim_order(&early, &late, true) < 0);
}

/* Plans one step with nothing learned and no bound on time. */
static void plan(const qn_fairness_limits *limits, size_t decode_rows, qn_prefill *prefills, size_t count)
{
    static qn_cost cost;
    qn_fairness fairness;
    qn_cost_start(&cost);
    qn_fairness_start(&fairness, limits);
    qn_step_shape decode = {.decode_rows = decode_rows, .scanned_keys = 10.0 * (double)decode_rows};
    qn_fairness_plan(&fairness, &cost, 1, &decode, 0, prefills, count);
}

static qn_prefill prompt_of(uint64_t arrival, size_t tokens)
{
    return (qn_prefill){.arrival = arrival, .prompt_tokens = tokens, .remaining = tokens};
}

static void alone_a_prompt_takes_all_rows(void **state)
{
    (void)state;
    qn_fairness_limits limits = {.max_num_batched_tokens = 2048,
                                 .long_prefill_token_threshold = 512,
                                 .long_prefill_share = 0.5,
                                 .long_prefill_min_tokens = 1000,
                                 .max_decode_gap_us = 100};
    qn_prefill one[] = {prompt_of(1, 100000)};
    plan(&limits, 0, one, 1);
    assert_int_equal(one[0].rows, 2048);
    plan(&limits, 2048, one, 1);
    assert_int_equal(one[0].rows, 0);
    one[0] = prompt_of(1, 7);
    plan(&limits, 0, one, 1);
    assert_int_equal(one[0].rows, 7);
    plan(&limits, 0, NULL, 0);
}

static void threshold_caps_a_prompt_beside_others(void **state)
{
    (void)state;
    qn_fairness_limits limits = no_bounds;
    limits.long_prefill_token_threshold = 512;
    qn_prefill two[] = {prompt_of(1, 100000), prompt_of(2, 5000)};
    plan(&limits, 0, two, 2);
    assert_int_equal(two[0].rows, 512);
    assert_int_equal(two[1].rows, 512);
    plan(&limits, 3, two, 1);
    assert_int_equal(two[0].rows, 512);
}

static void short_prompts_pass_but_the_earliest_keeps_a_quarter(void **state)
{
    (void)state;
    qn_prefill prompts[] = {prompt_of(1, 100000), prompt_of(2, 60000), prompt_of(3, 300)};
    plan(&no_bounds, 0, prompts, 3);
    assert_int_equal(prompts[2].rows, 300);
    assert_int_equal(prompts[0].rows, 512);
    assert_int_equal(prompts[1].rows, 2048 - 512 - 300);
    /* Of equal length: the one that came first. */
    qn_prefill equals[] = {prompt_of(2, 3000), prompt_of(1, 3500)};
    plan(&no_bounds, 0, equals, 2);
    assert_int_equal(equals[0].rows, 0);
    assert_int_equal(equals[1].rows, 2048);
}

static void priority_goes_first(void **state)
{
    (void)state;
    qn_fairness_limits limits = no_bounds;
    qn_prefill prompts[] = {prompt_of(1, 300), prompt_of(2, 100000)};
    prompts[0].priority = 1;
    plan(&limits, 0, prompts, 2);
    assert_int_equal(prompts[0].rows, 300);
    limits.by_priority = true;
    plan(&limits, 0, prompts, 2);
    assert_int_equal(prompts[0].rows, 0);
    assert_int_equal(prompts[1].rows, 2048);
}

static void starts_small_and_grows(void **state)
{
    (void)state;
    qn_fairness_limits limits = gap_of(2 * SECOND);
    simulator_start(&sim, &test_cpu, &limits, SEED);
    sim.m.outliers = 0;
    add_decodes(2, 4000);
    while (sim.requests[0].generated < 1 || sim.requests[1].generated < 1)
        simulator_step(&sim);
    qn_cost_start(&sim.cost); /* knows nothing again */
    sim_request *prompt = simulator_add(&sim, sim.now_us, 60000, 1);
    size_t before = 0, largest = 0;
    for (int step = 0; step < 12; step++) {
        simulator_step(&sim);
        size_t rows = prompt->computed - before;
        before = prompt->computed;
        assert_true(step > 0 ? rows <= 2 * largest + 4 : rows == 16);
        largest = rows > largest ? rows : largest;
    }
    assert_true(largest >= 300);
    assert_true(sim.largest_gap_us < 4 * SECOND);
}

static void add_random_requests(noise *source, size_t count, uint64_t mean_pause_us)
{
    uint64_t arrival = sim.now_us;
    for (size_t i = 0; i < count; i++) {
        arrival += (uint64_t)(-log(1 - noise_uniform(source)) * (double)mean_pause_us);
        simulator_add(&sim, arrival, 1 + (size_t)exp2(noise_uniform(source) * 15), 1 + noise_below(source, 150));
    }
}

/* The stress of the long prompts: 4 decodes while prompts of 64K and 100K tokens prefill. */
static void long_prompts_beside_decodes(void **state)
{
    (void)state;
    const machine *machines[] = {&test_cpu, &test_server};
    const double gaps[] = {0.25, 0.5, 1, 2, 5}, shares[] = {1, 0.5};
    printf("seed %llu\n", (unsigned long long)SEED);
    for (size_t i = 0; i < 2 * 5 * 2; i++) {
        qn_fairness_limits limits = gap_of((uint64_t)(gaps[i / 2 % 5] * SECOND));
        limits.long_prefill_share = shares[i / 10];
        limits.long_prefill_min_tokens = 32768;
        limits.long_prefill_token_threshold = 4096;
        simulator_start(&sim, machines[i % 2], &limits, SEED + i);
        add_decodes(4, 3000);
        simulator_add(&sim, 3 * SECOND, 100000, 20);
        simulator_add(&sim, 4 * SECOND, 64000, 20);
        simulator_run(&sim, 100000);
        double last = fmax((double)sim.requests[4].first_token_us, (double)sim.requests[5].first_token_us) / SECOND;
        printf("machine %zu gap %.2f s share %.1f: largest gap %.2f s, %.2f %% beyond the gap, prompts done after %.0f "
               "s\n",
               i % 2, gaps[i / 2 % 5], shares[i / 10], (double)sim.largest_gap_us / SECOND,
               100.0 * (double)sim.gaps_beyond / (double)sim.gaps, last);
        assert_true(sim.largest_gap_us < 2 * limits.max_decode_gap_us);
    }
}

static void random_arrivals_keep_the_gap(void **state)
{
    (void)state;
    for (uint64_t run = 0; run < 12; run++) {
        noise source = {.seed = SEED + 100 + run};
        qn_fairness_limits limits = gap_of((uint64_t)exp2(noise_uniform(&source) * 4) * SECOND / 2);
        const machine *m = run % 2 ? &test_server : &test_cpu;
        simulator_start(&sim, m, &limits, SEED + run);
        add_random_requests(&source, 80, run % 3 ? 2 * SECOND : 20 * SECOND);
        simulator_run(&sim, 100000);
        printf("run %llu: gap %.1f s, largest %.2f s, largest step %.2f s\n", (unsigned long long)run,
               (double)limits.max_decode_gap_us / SECOND, (double)sim.largest_gap_us / SECOND,
               (double)sim.largest_model_us / SECOND);
        assert_true(sim.largest_gap_us < 2 * limits.max_decode_gap_us);
    }
}

static void holds_the_share(void **state)
{
    (void)state;
    const double shares[] = {0.1, 0.3, 0.5, 0.8};
    for (size_t i = 0; i < 8; i++) {
        qn_fairness_limits limits = i % 2 ? gap_of(SECOND) : no_bounds;
        limits.long_prefill_share = shares[i / 2];
        limits.long_prefill_min_tokens = 32768;
        simulator_start(&sim, &test_cpu, &limits, SEED + i);
        add_decodes(4, 100000);
        simulator_add(&sim, 3 * SECOND, 400000, 1);
        while (!sim.requests[4].running)
            simulator_step(&sim);
        sim.decoding_us = sim.long_us = 0;
        for (int step = 0; step < 4000 && !sim.requests[4].done_us; step++)
            simulator_step(&sim);
        double share = sim.long_us / sim.decoding_us;
        printf("share %.1f, gap %s: %.3f\n", shares[i / 2], i % 2 ? "1 s" : "off", share);
        assert_true(fabs(share - shares[i / 2]) < 0.04);
    }
}

static double time_to_finish(const qn_fairness_limits *limits)
{
    noise source = {.seed = SEED};
    simulator_start(&sim, &test_cpu, limits, SEED);
    sim.m.outliers = 0;
    add_random_requests(&source, 100, SECOND);
    simulator_run(&sim, 100000);
    return sim.busy_us;
}

static void a_generous_gap_costs_little(void **state)
{
    (void)state;
    double without = time_to_finish(&no_bounds);
    for (int gap = 1; gap <= 8; gap *= 2) {
        qn_fairness_limits limits = gap_of((uint64_t)gap * SECOND);
        double with = time_to_finish(&limits);
        printf("gap %d s: %.3f of the time without bound\n", gap, with / without);
        if (gap >= 4)
            assert_true(with < 1.05 * without);
    }
}

/* Short prompts without end: the long one still gets its quarter. */
static void nobody_starves(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        qn_fairness_limits limits = i % 2 ? gap_of(SECOND) : no_bounds;
        if (i / 2) {
            limits.long_prefill_share = 0.5;
            limits.long_prefill_min_tokens = 10000;
        }
        simulator_start(&sim, &test_cpu, &limits, SEED + i);
        simulator_add(&sim, 0, 20000, 5);
        for (size_t k = 0; k < 500; k++) /* more than the machine can do */
            simulator_add(&sim, 1 + k * 400000, 400, 4);
        sim.watched = 0;
        while (!sim.requests[0].first_token_us)
            assert_true(simulator_step(&sim));
        printf("long prompt done after %.0f s with %.2f of the rows\n", (double)sim.requests[0].first_token_us / SECOND,
               (double)sim.watched_rows / (double)sim.rows_beside);
        assert_true((double)sim.watched_rows > (i / 2 ? 0.1 : 0.24) * (double)sim.rows_beside);
        simulator_run(&sim, 100000);
    }
}

static void short_prompts_wait_little(void **state)
{
    (void)state;
    qn_fairness_limits limits = gap_of(SECOND);
    simulator_start(&sim, &test_cpu, &limits, SEED);
    sim.m.outliers = 0;
    add_decodes(2, 2000);
    simulator_add(&sim, 3 * SECOND, 100000, 5);
    simulator_add(&sim, 4 * SECOND, 64000, 5);
    for (size_t k = 0; k < 40; k++)
        simulator_add(&sim, (10 + 10 * k) * SECOND, 200, 5);
    simulator_run(&sim, 100000);
    uint64_t longest = 0;
    for (size_t i = 4; i < sim.count; i++) {
        uint64_t wait = sim.requests[i].first_token_us - sim.requests[i].arrival_us;
        longest = wait > longest ? wait : longest;
    }
    printf("longest time to first token of 200 tokens beside 164,000: %.2f s\n", (double)longest / SECOND);
    assert_true(longest < 4 * SECOND);
}

/* One decode step alone is longer than the gap: prompts go on, and decodes aren't held up by much. */
static void makes_progress_where_the_gap_cannot_be_held(void **state)
{
    (void)state;
    qn_fairness_limits limits = gap_of(20000);
    simulator_start(&sim, &test_cpu, &limits, SEED);
    sim.m.outliers = 0;
    add_decodes(4, 3000);
    simulator_add(&sim, 3 * SECOND, 3000, 1);
    while (!sim.requests[4].done_us) {
        simulator_step(&sim);
        assert_true(sim.steps < 3000);
    }
    /* A decode step of the four takes some 55 ms. */
    assert_true(sim.largest_gap_us < 160000);
}

/* Just room for the decode step: every gap still below twice the bound, and the prompt goes on. */
static void holds_a_tight_gap(void **state)
{
    (void)state;
    for (uint64_t gap = 60000; gap < 120000; gap += 10000) {
        qn_fairness_limits limits = gap_of(gap);
        simulator_start(&sim, &test_cpu, &limits, SEED + gap);
        add_decodes(4, 100000);
        simulator_add(&sim, 3 * SECOND, 3000, 1);
        while (!sim.requests[4].done_us) {
            simulator_step(&sim);
            assert_true(sim.steps < 6000);
        }
        assert_true(sim.largest_gap_us < 2 * gap);
    }
}

/* A machine that becomes three times slower: the first step is too long, and the next ones no more. */
static void reacts_at_once(void **state)
{
    (void)state;
    qn_fairness_limits limits = gap_of(SECOND);
    simulator_start(&sim, &test_cpu, &limits, SEED);
    sim.m.outliers = 0;
    add_decodes(4, 100000);
    simulator_add(&sim, 3 * SECOND, 400000, 1);
    for (int step = 0; step < 200; step++)
        simulator_step(&sim);
    assert_true(sim.largest_gap_us < 2 * SECOND);
    sim.m.slowness = 2.9;
    simulator_step(&sim);
    sim.largest_gap_us = 0;
    size_t before = sim.requests[4].computed;
    for (int step = 0; step < 400; step++)
        simulator_step(&sim);
    assert_true(sim.largest_gap_us < 2 * SECOND);
    assert_true(sim.requests[4].computed > before + 400 * 40);
}

/* Lists of any kind: rows stay within every bound, and something goes ahead where something may. */
static void plans_stay_within_bounds(void **state)
{
    (void)state;
    noise source = {.seed = SEED};
    static qn_cost cost;
    qn_cost_start(&cost);
    qn_fairness fairness;
    for (int round = 0; round < 2000; round++) {
        if (round % 20 == 0) {
            qn_fairness_limits limits = {.max_num_batched_tokens = 1 + (size_t)exp2(noise_uniform(&source) * 13),
                                         .long_prefill_token_threshold = noise_below(&source, 3) * 100,
                                         .long_prefill_share = 0.05 + 0.95 * noise_uniform(&source),
                                         .long_prefill_min_tokens = noise_below(&source, 5000),
                                         .max_decode_gap_us = noise_below(&source, 2) * noise_below(&source, SECOND),
                                         .by_priority = noise_below(&source, 2)};
            qn_fairness_start(&fairness, &limits);
        }
        qn_prefill prefills[12];
        size_t count = noise_below(&source, 13), rows = 0;
        for (size_t i = 0; i < count; i++) {
            prefills[i] = prompt_of(noise_below(&source, 10), 1 + (size_t)exp2(noise_uniform(&source) * 20));
            prefills[i].priority = (int32_t)noise_below(&source, 3) - 1;
            prefills[i].computed = noise_below(&source, prefills[i].prompt_tokens);
            prefills[i].remaining = prefills[i].prompt_tokens - prefills[i].computed;
            prefills[i].rows = 12345;
            prefills[i].turn = 99;
        }
        qn_step_shape decode = {.decode_rows = noise_below(&source, 2) * noise_below(&source, 20)};
        decode.scanned_keys = (double)decode.decode_rows * 1000;
        qn_fairness_plan(&fairness, &cost, (uint64_t)round * SECOND, &decode, noise_below(&source, SECOND), prefills,
                         count);
        for (size_t i = 0; i < count; i++) {
            assert_true(prefills[i].rows <= prefills[i].remaining);
            rows += prefills[i].rows;
        }
        assert_true(rows == 0 || rows + decode.decode_rows <= fairness.limits.max_num_batched_tokens);
        assert_true(decode.decode_rows > 0 || count == 0 || rows > 0);
        qn_step_shape shape = qn_fairness_shape(&decode, prefills, count);
        uint64_t us = machine_step_us(&test_cpu, &shape, &source);
        qn_fairness_learn(&fairness, &cost, &decode, prefills, count, us, us + noise_below(&source, 10000));
        qn_cost_learn(&cost, &shape, us);
        assert_true(fairness.caution >= 1 && isfinite(fairness.long_credit_us));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(orders_requests),
        cmocka_unit_test(alone_a_prompt_takes_all_rows),
        cmocka_unit_test(threshold_caps_a_prompt_beside_others),
        cmocka_unit_test(short_prompts_pass_but_the_earliest_keeps_a_quarter),
        cmocka_unit_test(priority_goes_first),
        cmocka_unit_test(plans_stay_within_bounds),
        cmocka_unit_test(starts_small_and_grows),
        cmocka_unit_test(long_prompts_beside_decodes),
        cmocka_unit_test(random_arrivals_keep_the_gap),
        cmocka_unit_test(holds_the_share),
        cmocka_unit_test(a_generous_gap_costs_little),
        cmocka_unit_test(nobody_starves),
        cmocka_unit_test(short_prompts_wait_little),
        cmocka_unit_test(makes_progress_where_the_gap_cannot_be_held),
        cmocka_unit_test(holds_a_tight_gap),
        cmocka_unit_test(reacts_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
