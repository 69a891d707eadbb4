#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "schedule/drafts.h"
#include "synthetic.h"

enum { MOST_REQUESTS = 64, NEVER = 1 << 30 };

static const uint64_t SEED = 4711;

/* Requests that decode for ever, each replaced by a new one after `answer` steps. */
typedef struct crowd {
    machine m;
    double call_us, row_us; /* of the chain of drafts */
    size_t requests, ceiling;
    double acceptance[MOST_REQUESTS]; /* of every depth */
    int answer;
    qn_cost cost;
    qn_draft_costs costs;
    qn_draft_history histories[MOST_REQUESTS];
    qn_draft_slot slots[MOST_REQUESTS];
    noise source;
    double tokens, us; /* expected tokens, and the time without noise, of what was chosen */
    size_t drafts;
} crowd;

static void crowd_start(crowd *c, const machine *m, size_t requests, double acceptance, size_t ceiling)
{
    memset(c, 0, sizeof *c);
    c->m = *m;
    c->requests = requests;
    c->ceiling = ceiling;
    c->answer = NEVER;
    c->source.seed = SEED;
    qn_cost_start(&c->cost);
    qn_draft_costs_start(&c->costs);
    for (size_t i = 0; i < requests; i++) {
        c->acceptance[i] = acceptance;
        qn_draft_history_start(&c->histories[i]);
    }
}

static double expected_tokens(double acceptance, size_t drafts)
{
    double tokens = 1, worth = 1;
    for (size_t d = 0; d < drafts; d++)
        tokens += worth *= acceptance;
    return tokens;
}

static size_t accepted_of(crowd *c, size_t request, size_t drafts)
{
    size_t accepted = 0;
    while (accepted < drafts && noise_uniform(&c->source) < c->acceptance[request])
        accepted++;
    return accepted;
}

static double chain_us(const crowd *c, size_t calls, size_t rows)
{
    return c->m.slowness * (c->call_us * (double)calls + c->row_us * (double)rows);
}

static void crowd_step(crowd *c, int step)
{
    const double position = 2000;
    qn_step_shape base = {.decode_rows = c->requests, .scanned_keys = position * (double)c->requests};
    for (size_t i = 0; i < c->requests; i++) {
        if ((step + (int)i * 7) % c->answer == c->answer - 1)
            qn_draft_history_start(&c->histories[i]);
        c->slots[i] = (qn_draft_slot){.history = &c->histories[i], .ceiling = c->ceiling, .position = (size_t)position};
    }
    qn_drafts_choose(&c->cost, &c->costs, &base, c->slots, c->requests);
    qn_step_shape shape = base;
    size_t calls = 0, rows = 0;
    for (size_t i = 0; i < c->requests; i++) {
        size_t drafts = c->slots[i].drafts;
        assert_true(drafts <= c->ceiling);
        rows += drafts;
        calls = drafts > calls ? drafts : calls;
        c->tokens += expected_tokens(c->acceptance[i], drafts);
        qn_draft_history_learn(&c->histories[i], drafts, accepted_of(c, i, drafts));
    }
    shape.decode_rows += rows;
    shape.scanned_keys += position * (double)rows;
    c->drafts += rows;
    c->us += machine_us(&c->m, &shape) + chain_us(c, calls, rows);
    qn_cost_learn(&c->cost, &shape, machine_step_us(&c->m, &shape, &c->source));
    double factor = 1 + c->m.jitter * (2 * noise_uniform(&c->source) - 1);
    qn_draft_costs_learn(&c->costs, calls, rows, (uint64_t)(chain_us(c, calls, rows) * factor));
}

static double crowd_run(crowd *c, int steps)
{
    c->tokens = c->us = 0;
    c->drafts = 0;
    for (int step = 0; step < steps; step++)
        crowd_step(c, step);
    return c->tokens / c->us;
}

/* Tokens per microsecond when every request always makes this many drafts. */
static double always(const crowd *c, size_t drafts)
{
    const double position = 2000;
    size_t rows = c->requests * drafts;
    qn_step_shape shape = {.decode_rows = c->requests + rows, .scanned_keys = position * (double)(c->requests + rows)};
    double tokens = 0;
    for (size_t i = 0; i < c->requests; i++)
        tokens += expected_tokens(c->acceptance[i], drafts);
    return tokens / (machine_us(&c->m, &shape) + chain_us(c, drafts, rows));
}

static void history_estimates_each_depth(void **state)
{
    (void)state;
    qn_draft_history history;
    qn_draft_history_start(&history);
    assert_true(history.acceptance[0] > 0.7f);
    for (int i = 0; i < 200; i++)
        qn_draft_history_learn(&history, 3, 2);
    assert_true(history.acceptance[0] > 0.95f && history.acceptance[1] > 0.95f && history.acceptance[2] < 0.05f);
    for (int i = 0; i < 200; i++)
        qn_draft_history_learn(&history, 3, 0);
    assert_true(history.acceptance[0] < 0.05f && history.acceptance[1] > 0.95f);
    qn_draft_history_learn(&history, 1000, 5000); /* beyond all limits: cut off */
    qn_draft_history_learn(&history, 0, 0);
    assert_true(history.acceptance[QN_MAX_DRAFT_DEPTH - 1] > 0.5f);
}

static void costs_are_fitted(void **state)
{
    (void)state;
    noise source = {.seed = SEED};
    qn_draft_costs costs;
    qn_draft_costs_start(&costs);
    assert_true(qn_draft_costs_predict_us(&costs, 1, 1) == 0);
    for (int i = 0; i < 300; i++) {
        size_t calls = 1 + noise_below(&source, 3), rows = calls * (1 + noise_below(&source, 16));
        double us = (3000.0 * (double)calls + 500.0 * (double)rows) * (0.8 + 0.4 * noise_uniform(&source));
        qn_draft_costs_learn(&costs, calls, rows, (uint64_t)(i % 50 == 49 ? us * 100 : us));
    }
    for (size_t calls = 1; calls <= 3; calls++)
        for (size_t rows = calls; rows <= 16 * calls; rows += 5) {
            double us = 3000.0 * (double)calls + 500.0 * (double)rows;
            assert_true(fabs(qn_draft_costs_predict_us(&costs, calls, rows) / us - 1) < 0.15);
        }
    /* One shape only: right there, and never negative beside it. */
    qn_draft_costs_start(&costs);
    for (int i = 0; i < 50; i++)
        qn_draft_costs_learn(&costs, 1, 4, 8000);
    assert_true(fabs(qn_draft_costs_predict_us(&costs, 1, 4) / 8000 - 1) < 0.01);
    assert_true(costs.call_us >= 0 && costs.row_us >= 0);
    qn_draft_costs_learn(&costs, 0, 0, 100);
    qn_draft_costs_learn(&costs, 2, 1, 100);
    qn_draft_costs_learn(&costs, 1, 1, 0);
    assert_int_equal(costs.count, 50);
}

/* The grid: never more than 3 % below the better of no drafts and all drafts. */
static void beats_fixed_counts(void **state)
{
    (void)state;
    printf("seed %llu\n", (unsigned long long)SEED);
    const machine *machines[] = {&test_cpu, &test_server};
    const double acceptances[] = {0, 0.3, 0.65, 0.8, 0.95};
    const size_t batches[] = {1, 4, 16, 48}, ceilings[] = {1, 3};
    double worst = 2;
    for (size_t i = 0; i < 2 * 5 * 4 * 2; i++) {
        crowd c;
        size_t rest = i;
        const machine *m = machines[rest % 2];
        double acceptance = acceptances[(rest /= 2) % 5];
        size_t batch = batches[(rest /= 5) % 4], ceiling = ceilings[(rest /= 4) % 2];
        crowd_start(&c, m, batch, acceptance, ceiling);
        c.call_us = i / 3 % 2 ? 0.02 * m->fixed_us : 0.2 * m->fixed_us;
        c.row_us = 0.1 * m->row_us;
        c.answer = i % 3 ? 400 : NEVER;
        double rate = crowd_run(&c, 2000), fixed = fmax(always(&c, 0), always(&c, ceiling));
        worst = fmin(worst, rate / fixed);
        if (rate < 0.97 * fixed)
            printf("machine %zu acceptance %.2f batch %zu ceiling %zu call %.0f answer %d: %.3f of the best fixed\n",
                   i % 2, acceptance, batch, ceiling, c.call_us, c.answer, rate / fixed);
    }
    printf("worst: %.3f of the better fixed count\n", worst);
    assert_true(worst >= 0.97);
}

/* Requests that differ: each its own count, which no fixed count can do. */
static void differs_by_request(void **state)
{
    (void)state;
    crowd c;
    crowd_start(&c, &test_server, 8, 0.05, 3);
    for (size_t i = 0; i < 4; i++)
        c.acceptance[i] = 0.95;
    crowd_run(&c, 500);
    double rate = crowd_run(&c, 2000);
    for (size_t drafts = 0; drafts <= 3; drafts++)
        assert_true(rate > 1.02 * always(&c, drafts));
}

static void adapts_when_acceptance_changes(void **state)
{
    (void)state;
    crowd c;
    crowd_start(&c, &test_server, 4, 0.9, 2);
    for (int phase = 0; phase < 6; phase++) {
        for (size_t i = 0; i < c.requests; i++)
            c.acceptance[i] = phase % 2 ? 0.02 : 0.9;
        crowd_run(&c, 300); /* time to find out */
        double rate = crowd_run(&c, 500), fixed = fmax(always(&c, 0), always(&c, 2));
        if (rate < 0.97 * fixed)
            fail_msg("phase %d: %.3f of the better fixed count", phase, rate / fixed);
    }
}

/* A batch that is dear by the row drafts almost never. */
static void high_load_does_not_draft(void **state)
{
    (void)state;
    crowd c;
    machine m = {.fixed_us = 1000, .row_us = 3000, .jitter = 0.2, .slowness = 1};
    crowd_start(&c, &m, 32, 0.8, 3);
    c.row_us = 300;
    crowd_run(&c, 200);
    double rate = crowd_run(&c, 2000);
    assert_true(rate >= 0.99 * always(&c, 0));
    assert_true(c.drafts < 2000 * 32 / 50);
}

static void respects_ceilings(void **state)
{
    (void)state;
    qn_cost cost;
    qn_draft_costs costs;
    qn_draft_history histories[3];
    qn_cost_start(&cost);
    qn_draft_costs_start(&costs);
    qn_draft_slot slots[3];
    for (size_t i = 0; i < 3; i++) {
        qn_draft_history_start(&histories[i]);
        slots[i] = (qn_draft_slot){.history = &histories[i], .ceiling = i * 20, .position = 10};
    }
    qn_step_shape base = {.decode_rows = 3, .scanned_keys = 30};
    qn_drafts_choose(&cost, &costs, &base, slots, 3); /* nothing known: as many as allowed */
    assert_int_equal(slots[0].drafts, 0);
    assert_int_equal(slots[1].drafts, QN_MAX_DRAFT_DEPTH);
    assert_int_equal(slots[2].drafts, QN_MAX_DRAFT_DEPTH);
    qn_drafts_choose(&cost, &costs, &base, slots, 0);
    qn_drafts_choose(&cost, &costs, &base, slots, 1);
    assert_int_equal(slots[0].drafts, 0);
}

/* Beside a chunk of a prompt a verify row adds little, and the choice sees it. */
static void drafts_beside_a_chunk(void **state)
{
    (void)state;
    crowd c;
    machine m = {.fixed_us = 1000, .row_us = 3000, .jitter = 0.1, .slowness = 1};
    crowd_start(&c, &m, 4, 0.6, 1);
    c.row_us = 100;
    crowd_run(&c, 300);
    for (size_t step = 0; step < 200; step++) {
        qn_step_shape mixed = {.decode_rows = 4 + step % 2 * 4, .prefill_rows = 100 + step % 3 * 50};
        qn_cost_learn(&c.cost, &mixed, machine_step_us(&m, &mixed, &c.source));
    }
    qn_step_shape alone = {.decode_rows = 4}, beside = {.decode_rows = 4, .prefill_rows = 150};
    size_t drafts_alone = 0, drafts_beside = 0;
    for (int step = 0; step < 64; step++)
        for (size_t k = 0; k < 2; k++) {
            qn_drafts_choose(&c.cost, &c.costs, k ? &beside : &alone, c.slots, 4);
            for (size_t i = 0; i < 4; i++)
                *(k ? &drafts_beside : &drafts_alone) += c.slots[i].drafts;
        }
    assert_true(drafts_alone < 64 * 4 / 8 && drafts_beside == 64 * 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(history_estimates_each_depth),
        cmocka_unit_test(costs_are_fitted),
        cmocka_unit_test(respects_ceilings),
        cmocka_unit_test(beats_fixed_counts),
        cmocka_unit_test(differs_by_request),
        cmocka_unit_test(adapts_when_acceptance_changes),
        cmocka_unit_test(high_load_does_not_draft),
        cmocka_unit_test(drafts_beside_a_chunk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
