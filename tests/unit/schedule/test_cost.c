#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "schedule/cost.h"
#include "synthetic.h"

static const uint64_t SEED = 20261202;

static qn_step_shape shape_of(size_t decode_rows, size_t prefill_rows, double position)
{
    return (qn_step_shape){decode_rows, prefill_rows, position * (double)(decode_rows + prefill_rows)};
}

static void learn(qn_cost *cost, const machine *m, noise *source, qn_step_shape shape)
{
    qn_cost_learn(cost, &shape, machine_step_us(m, &shape, source));
}

/* Predicted over true, minus one. */
static double error_of(const qn_cost *cost, const machine *m, qn_step_shape shape)
{
    return qn_cost_predict_us(cost, &shape) / machine_us(m, &shape) - 1;
}

static void assert_within(double value, double bound)
{
    if (!(fabs(value) <= bound))
        fail_msg("%.3f is not within +-%.3f", value, bound);
}

static void knows_nothing_at_first(void **state)
{
    (void)state;
    qn_cost cost;
    qn_cost_start(&cost);
    qn_step_shape one = shape_of(1, 0, 100);
    assert_false(qn_cost_known(&cost, &one));
    assert_true(qn_cost_predict_us(&cost, &one) == 0);
    assert_int_equal(qn_cost_evidence(&cost, &one), 0);
    qn_cost_learn(&cost, &(qn_step_shape){0, 0, 0}, 1000);
    qn_cost_learn(&cost, &one, 0);
    qn_cost_learn(&cost, &(qn_step_shape){1, 0, NAN}, 1000);
    qn_cost_learn(&cost, &(qn_step_shape){1, 0, -1}, 1000);
    assert_false(qn_cost_known(&cost, &one));
    qn_cost_learn(&cost, &one, 50000);
    assert_true(qn_cost_known(&cost, &one));
    assert_within(qn_cost_predict_us(&cost, &one) / 50000 - 1, 0.02);
    /* One row seen: twice that is known, the rest is not, and costs something. */
    assert_true(qn_cost_known(&cost, &(qn_step_shape){2, 0, 200}));
    assert_false(qn_cost_known(&cost, &(qn_step_shape){4, 0, 100}));
    assert_false(qn_cost_known(&cost, &(qn_step_shape){1, 0, 1000}));
    assert_true(qn_cost_predict_us(&cost, &(qn_step_shape){1, 16, 100}) > 55000);
}

static void predicts_decode_steps(void **state)
{
    (void)state;
    const machine *machines[] = {&test_cpu, &test_server};
    for (size_t i = 0; i < 2; i++) {
        noise source = {.seed = SEED + i};
        qn_cost cost;
        qn_cost_start(&cost);
        for (int step = 0; step < 1500; step++)
            learn(&cost, machines[i], &source, shape_of(1 + noise_below(&source, 64), 0, 1000));
        for (size_t rows = 1; rows <= 64; rows++)
            assert_within(error_of(&cost, machines[i], shape_of(rows, 0, 1000)), 0.10);
    }
}

static void predicts_mixed_steps(void **state)
{
    (void)state;
    const machine *machines[] = {&test_cpu, &test_server};
    for (size_t i = 0; i < 2; i++) {
        noise source = {.seed = SEED + i};
        qn_cost cost;
        qn_cost_start(&cost);
        for (int step = 0; step < 4000; step++) {
            size_t chunk = step % 3 ? (size_t)exp2(noise_uniform(&source) * 11) : 0;
            learn(&cost, machines[i], &source,
                  shape_of(1 + noise_below(&source, 16), chunk, 50000 * noise_uniform(&source)));
        }
        for (size_t chunk = 0; chunk <= 2048; chunk = chunk * 2 + 1)
            for (int k = 0; k < 4; k++)
                assert_within(error_of(&cost, machines[i], shape_of(8, chunk, ldexp(500, 2 * k))), 0.12);
    }
}

/* Whatever was learned, a shape with more of anything never costs less. */
static void grows_with_everything(void **state)
{
    (void)state;
    printf("seed %llu\n", (unsigned long long)SEED);
    noise source = {.seed = SEED};
    for (int run = 0; run < 40; run++) {
        qn_cost cost;
        qn_cost_start(&cost);
        for (int step = 0; step < 60; step++) {
            size_t decode_rows = noise_below(&source, 20), prefill_rows = (size_t)exp2(noise_uniform(&source) * 18) - 1;
            qn_step_shape shape = shape_of(decode_rows, prefill_rows, 1e6 * noise_uniform(&source));
            qn_cost_learn(&cost, &shape, (uint64_t)exp2(noise_uniform(&source) * 40));
            qn_step_shape more = shape;
            more.decode_rows += noise_below(&source, 100);
            more.prefill_rows += noise_below(&source, 100);
            more.scanned_keys += 1e6 * noise_uniform(&source);
            double us = qn_cost_predict_us(&cost, &shape), more_us = qn_cost_predict_us(&cost, &more);
            assert_true(isfinite(us) && us >= 0 && more_us >= us);
        }
    }
}

/* Hours of the same decode step leave a chunk's price as it was. */
static void decode_steps_do_not_erase_chunks(void **state)
{
    (void)state;
    noise source = {.seed = SEED};
    qn_cost cost;
    qn_cost_start(&cost);
    for (int step = 0; step < 60; step++)
        learn(&cost, &test_cpu, &source, shape_of(4, 16u << (step % 6), 3000));
    for (int step = 0; step < 20000; step++)
        learn(&cost, &test_cpu, &source, shape_of(4, 0, 3000));
    for (size_t chunk = 16; chunk <= 512; chunk *= 2)
        assert_within(error_of(&cost, &test_cpu, shape_of(4, chunk, 3000)), 0.15);
    assert_within(error_of(&cost, &test_cpu, shape_of(4, 0, 3000)), 0.08);
}

/* Only one batch size seen: what lies beyond is a guess, but neither free nor absurd. */
static void guesses_from_one_shape(void **state)
{
    (void)state;
    noise source = {.seed = SEED};
    qn_cost cost;
    qn_cost_start(&cost);
    for (int step = 0; step < 1000; step++)
        learn(&cost, &test_cpu, &source, shape_of(4, 0, 3000));
    double four = qn_cost_predict_us(&cost, &(qn_step_shape){4, 0, 12000});
    double eight = qn_cost_predict_us(&cost, &(qn_step_shape){8, 0, 24000});
    assert_true(eight > 1.1 * four && eight < 2.1 * four);
}

static void ignores_outliers(void **state)
{
    (void)state;
    noise source = {.seed = SEED};
    qn_cost cost;
    qn_cost_start(&cost);
    machine calm = test_cpu;
    calm.outliers = 0;
    for (int step = 0; step < 300; step++)
        learn(&cost, &calm, &source, shape_of(4, step % 2 ? 128 : 0, 3000));
    qn_step_shape decode = shape_of(4, 0, 3000), chunk = shape_of(4, 128, 3000);
    for (int i = 0; i < 2; i++) { /* a machine that slept for hours */
        double before = qn_cost_predict_us(&cost, &chunk);
        qn_cost_learn(&cost, i ? &decode : &chunk, UINT64_C(40000000000));
        assert_within(qn_cost_predict_us(&cost, &chunk) / before - 1, 0.001);
        for (int step = 0; step < 3; step++)
            learn(&cost, &calm, &source, decode);
    }
    /* An outlier that was the very first step is forgotten with the second. */
    qn_cost_start(&cost);
    qn_cost_learn(&cost, &decode, 20 * (uint64_t)machine_us(&calm, &decode));
    learn(&cost, &calm, &source, decode);
    assert_within(error_of(&cost, &calm, decode), 0.25);
}

static void follows_the_machine(void **state)
{
    (void)state;
    noise source = {.seed = SEED};
    qn_cost cost;
    qn_cost_start(&cost);
    machine changing = test_cpu;
    for (int phase = 0; phase < 4; phase++) {
        changing.slowness = (double[]){1, 5, 1, 1.7}[phase];
        for (int step = 0; step < 200; step++)
            learn(&cost, &changing, &source, shape_of(4, step % 2 ? 128 : 0, 3000));
        assert_within(error_of(&cost, &changing, shape_of(4, 0, 3000)), 0.12);
        assert_within(error_of(&cost, &changing, shape_of(4, 128, 3000)), 0.12);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(knows_nothing_at_first), cmocka_unit_test(predicts_decode_steps),
        cmocka_unit_test(predicts_mixed_steps),   cmocka_unit_test(grows_with_everything),
        cmocka_unit_test(guesses_from_one_shape), cmocka_unit_test(decode_steps_do_not_erase_chunks),
        cmocka_unit_test(ignores_outliers),       cmocka_unit_test(follows_the_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
