/* The guess for a layer, held against what its own router takes of the same hidden states. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/fault.h"
#include "base/memory.h"
#include "model/expert_forecast.h"
#include "model/router.h"

static const char MODEL[] = "tests/data/oracle/tiny-sparse-mxfp4-ct";

typedef struct fixture {
    qn_checkpoint *checkpoint;
    qn_weights weights;
    qn_pool *pool;
    qn_workspace workspace;
    qn_expert_cache *cache;
    qn_expert_forecast *forecast;
    qn_step step;
    size_t layer; /* the one that is guessed for */
} fixture;

static void must(qn_status status, const qn_error *err)
{
    if (status != QN_OK)
        fail_msg("%s", err->message);
}

static void open_fixture(fixture *f)
{
    *f = (fixture){0};
    qn_error err = {0};
    const qn_kernels *kernels = NULL;
    must(qn_kernels_select("scalar", &kernels, &err), &err);
    must(qn_pool_new(1, &f->pool, &err), &err);
    must(qn_checkpoint_open(MODEL, &f->checkpoint, &err), &err);
    must(qn_weights_take(f->checkpoint, &f->weights, &err), &err);
    const qn_config *config = qn_checkpoint_config(f->checkpoint);
    const qn_workspace_sizes sizes = {.threads = 1, .max_rows = 64, .max_context_tokens = 64};
    must(qn_workspace_make(config, &f->weights, kernels, sizes, &f->workspace, &err), &err);
    size_t room = 4 * config->num_experts_per_tok + 8;
    must(qn_expert_cache_new(f->checkpoint, &f->weights, qn_expert_cache_bytes(&f->weights, room), 60000000, &f->cache,
                             &err),
         &err);
    must(qn_expert_forecast_new(config, f->weights.layer_count, &f->forecast, &err), &err);
    while (!qn_expert_cache_serves(f->cache, f->layer))
        f->layer++;
    f->step = (qn_step){.config = config,
                        .kernels = kernels,
                        .pool = f->pool,
                        .ws = &f->workspace,
                        .expert_cache = f->cache,
                        .rows = 1};
    for (size_t i = 0; i < config->hidden_size; i++)
        f->workspace.x.rows[0][i] = (float)(i % 7) - 3;
}

static void close_fixture(fixture *f)
{
    qn_expert_forecast_free(f->forecast);
    qn_expert_cache_free(f->cache);
    qn_workspace_free(&f->workspace);
    qn_weights_free(&f->weights);
    qn_checkpoint_close(f->checkpoint);
    qn_pool_free(f->pool);
}

/* What the layer's router takes for row 0 of ws->x, were that what the layer's MLP gets: the best first. */
static size_t true_choice(fixture *f, int32_t *taken)
{
    size_t hidden = f->step.config->hidden_size, count = f->step.config->num_experts_per_tok;
    float *h = qn_alloc_aligned(hidden, sizeof *h);
    const qn_layer_weights *w = &f->weights.layers[f->layer];
    float *scores = qn_alloc_zero(f->step.config->n_routed_experts, sizeof *scores);
    float *weights = qn_alloc_zero(f->step.config->num_experts_per_tok, sizeof *weights);
    assert_true(h && scores && weights);
    f->step.kernels->rms_norm(h, f->workspace.x.rows[0], w->post_attention_norm, hidden, f->step.config->rms_norm_eps);
    f->step.kernels->matmul_f32(&w->router, 0, w->router.rows, (const float *const[]){h}, 1, &scores);
    qn_route(f->step.config, w->router_bias, scores, taken, weights, &f->workspace.worker[0].router);
    const float *choice = f->workspace.worker[0].router.choice;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = i + 1; j < count; j++) {
            int32_t first = taken[i];
            if (choice[taken[j]] > choice[first]) {
                taken[i] = taken[j];
                taken[j] = first;
            }
        }
    }
    qn_free(h);
    qn_free(scores);
    qn_free(weights);
    return count;
}

static void guess(fixture *f)
{
    qn_expert_forecast_read(f->forecast, &f->step, &f->weights.layers[f->layer], f->layer, QN_FORECAST_LATE);
}

static double right_of(const fixture *f, size_t rank)
{
    return qn_expert_forecast_right(f->forecast, f->layer, QN_FORECAST_LATE, rank);
}

static void test_right_guesses_are_read_ahead_once_they_have_proved_right(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f);
    int32_t taken[64];
    size_t count = true_choice(&f, taken);
    guess(&f);
    assert_int_equal(qn_expert_cache_lacks(f.cache, f.layer, taken, count),
                     count); /* nothing is known of its guesses yet */
    for (size_t i = 0; i < 20; i++) {
        guess(&f);
        qn_expert_forecast_check(f.forecast, f.layer, taken, count);
    }
    for (size_t rank = 0; rank < count; rank++)
        assert_true(right_of(&f, rank) > 0.5);
    const qn_expert_forecast_figures *figures = qn_expert_forecast_figures_of(f.forecast);
    assert_int_equal(figures->guessed, 20 * count);
    assert_int_equal(figures->right, 20 * count);
    guess(&f);
    assert_int_equal(qn_expert_cache_lacks(f.cache, f.layer, taken, count), 0);
    close_fixture(&f);
}

static void test_wrong_guesses_are_not_read(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f);
    int32_t taken[64], others[64];
    size_t count = true_choice(&f, taken), other = 0;
    for (size_t e = 0; e < f.step.config->n_routed_experts; e++) {
        bool is_taken = false;
        for (size_t i = 0; i < count; i++)
            is_taken |= taken[i] == (int32_t)e;
        if (!is_taken)
            others[other++] = (int32_t)e;
    }
    for (size_t i = 0; i < 20; i++) {
        guess(&f);
        qn_expert_forecast_check(f.forecast, f.layer, others, other < count ? other : count);
    }
    for (size_t rank = 0; rank < count; rank++)
        assert_true(right_of(&f, rank) < 0.01);
    assert_int_equal(qn_expert_forecast_figures_of(f.forecast)->guessed, 20 * count);
    assert_int_equal(qn_expert_forecast_figures_of(f.forecast)->right, 0);
    guess(&f);
    assert_int_equal(qn_expert_cache_lacks(f.cache, f.layer, taken, count), count);
    close_fixture(&f);
}

/* Of a ranking whose first alone comes true, the first alone is read. */
static void test_only_ranks_that_proved_right_are_read(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f);
    int32_t taken[64];
    size_t count = true_choice(&f, taken);
    assert_true(count > 1);
    for (size_t i = 0; i < 20; i++) {
        guess(&f);
        qn_expert_forecast_check(f.forecast, f.layer, taken, 1);
    }
    assert_true(right_of(&f, 0) > 0.5 && right_of(&f, 1) < 0.01);
    guess(&f);
    assert_int_equal(qn_expert_cache_lacks(f.cache, f.layer, taken, 1), 0);
    assert_int_equal(qn_expert_cache_lacks(f.cache, f.layer, taken + 1, count - 1), count - 1);
    close_fixture(&f);
}

/* Each time's guesses have shares of their own, and the later one is the one that counts. */
static void test_early_and_late_guesses_are_told_apart(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f);
    int32_t taken[64];
    size_t count = true_choice(&f, taken);
    for (size_t i = 0; i < 20; i++) {
        f.workspace.x.rows[0][0] += 1000; /* far from what comes */
        qn_expert_forecast_read(f.forecast, &f.step, &f.weights.layers[f.layer], f.layer, QN_FORECAST_EARLY);
        f.workspace.x.rows[0][0] -= 1000;
        guess(&f);
        qn_expert_forecast_check(f.forecast, f.layer, taken, count);
    }
    double early = 0;
    for (size_t rank = 0; rank < count; rank++)
        early += qn_expert_forecast_right(f.forecast, f.layer, QN_FORECAST_EARLY, rank);
    assert_true(early < (double)count * 0.7 && right_of(&f, count - 1) > 0.7);
    assert_int_equal(qn_expert_forecast_figures_of(f.forecast)->guessed, 20 * count);
    assert_int_equal(qn_expert_forecast_figures_of(f.forecast)->right, 20 * count);
    close_fixture(&f);
}

/* Four rows' guesses are one ranking, without doubles. */
static void test_rows_of_a_step_are_guessed_together(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f);
    int32_t taken[64];
    size_t count = true_choice(&f, taken);
    f.step.rows = 4;
    for (size_t row = 1; row < 4; row++)
        memcpy(f.workspace.x.rows[row], f.workspace.x.rows[0], f.step.config->hidden_size * sizeof(float));
    guess(&f);
    qn_expert_forecast_check(f.forecast, f.layer, taken, count);
    assert_int_equal(qn_expert_forecast_figures_of(f.forecast)->guessed, count);
    assert_int_equal(qn_expert_forecast_figures_of(f.forecast)->right, count);
    close_fixture(&f);
}

static void test_steps_of_many_rows_are_not_guessed_for(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f);
    int32_t taken[64];
    size_t count = true_choice(&f, taken);
    f.step.rows = 64;
    guess(&f);
    qn_expert_forecast_check(f.forecast, f.layer, taken, count);
    assert_true(right_of(&f, 0) <= 0);
    close_fixture(&f);
}

static void test_every_failing_allocation_is_told(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f);
    qn_status status;
    long refused = 0;
    do {
        qn_expert_forecast *forecast = NULL;
        qn_error err = {0};
        qn_fault_arm(QN_FAULT_ALLOC, refused + 1);
        status = qn_expert_forecast_new(f.step.config, f.weights.layer_count, &forecast, &err);
        qn_fault_disarm();
        assert_true((status == QN_OK) == (forecast != NULL));
        refused += status != QN_OK;
        qn_expert_forecast_free(forecast);
    } while (status != QN_OK);
    assert_int_equal(refused, 12);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right_guesses_are_read_ahead_once_they_have_proved_right),
        cmocka_unit_test(test_wrong_guesses_are_not_read),
        cmocka_unit_test(test_only_ranks_that_proved_right_are_read),
        cmocka_unit_test(test_early_and_late_guesses_are_told_apart),
        cmocka_unit_test(test_rows_of_a_step_are_guessed_together),
        cmocka_unit_test(test_steps_of_many_rows_are_not_guessed_for),
        cmocka_unit_test(test_every_failing_allocation_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
