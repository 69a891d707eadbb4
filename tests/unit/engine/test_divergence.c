/* A model is no distance from itself, chunks change nothing, and its own perplexities are those of the measurement of
 * one model. What the numbers are is held against the logits by tests/api/test_eval_kl.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/fault.h"
#include "engine/divergence.h"
#include "engine/perplexity.h"
#include "unit/engine/support.h"

enum { COUNT = 60 };

static int32_t ids[COUNT];

/* eps: of MLA's norms; a large one makes another model of the same weights. */
static qn_engine *open_tiny(size_t rows, float eps)
{
    const qn_engine_options options = {.model_dir = "models/quern-tiny",
                                       .threads = 2,
                                       .max_model_len = 200,
                                       .max_num_batched_tokens = rows,
                                       .mla_norm_eps = eps,
                                       .without_text = true};
    random_stream r = {.seed = 5, .next = 0};
    for (size_t i = 0; i < COUNT; i++) {
        ids[i] = (int32_t)(random_word(&r) % 1500);
    }
    return open_engine(&options, NULL);
}

static qn_divergence measure(qn_engine *a, qn_engine *b, size_t context, size_t stride)
{
    qn_divergence d;
    qn_error err;
    if (qn_measure_divergence(a, b, ids, COUNT, context, stride, &d, &err) != QN_OK) {
        fail_msg("%s", err.message);
    }
    size_t positions = 0;
    for (size_t i = 0; i < QN_DIVERGENCE_BINS; i++) {
        positions += d.histogram[i];
    }
    assert_int_equal(d.scored, COUNT - 1);
    assert_int_equal(positions, d.scored);
    return d;
}

static void a_model_is_no_distance_from_itself(void **state)
{
    (void)state;
    qn_engine *a = open_tiny(64, 0.0f), *b = open_tiny(64, 0.0f);
    qn_divergence d = measure(a, b, 20, 10);
    assert_true(d.mean_kl == 0.0 && d.mean_kl_error == 0.0 && d.median_kl == 0.0 && d.p99_kl == 0.0 && d.max_kl == 0.0);
    assert_true(d.top1_agreement == 1.0);
    assert_true(d.mean_nll_a == d.mean_nll_b);
    assert_int_equal(d.histogram[0], COUNT - 1);
    qn_engine_close(a);
    qn_engine_close(b);
}

static void perplexities_are_those_of_each_model(void **state)
{
    (void)state;
    qn_engine *a = open_tiny(64, 0.0f), *b = open_tiny(64, 1e-2f);
    qn_divergence d = measure(a, b, 25, 10);
    qn_perplexity p;
    qn_error err;
    assert_int_equal(qn_measure_perplexity(a, ids, COUNT, 25, 10, NULL, &p, &err), QN_OK);
    assert_true(p.mean_nll == d.mean_nll_a);
    assert_int_equal(p.windows, d.windows);
    assert_int_equal(qn_measure_perplexity(b, ids, COUNT, 25, 10, NULL, &p, &err), QN_OK);
    assert_true(p.mean_nll == d.mean_nll_b);
    assert_true(d.mean_kl > 0.0 && d.mean_kl_error > 0.0 && d.median_kl > 0.0);
    assert_true(d.median_kl <= d.p99_kl && d.p99_kl <= d.max_kl && d.mean_kl < d.max_kl);
    assert_true(d.p99_kl == d.max_kl); /* of fewer than 100 positions */
    qn_engine_close(a);
    qn_engine_close(b);
}

static void chunks_change_nothing(void **state)
{
    (void)state;
    qn_engine *a = open_tiny(200, 0.0f), *b = open_tiny(200, 1e-2f);
    qn_engine *small_a = open_tiny(7, 0.0f), *small_b = open_tiny(3, 1e-2f);
    qn_divergence one = measure(a, b, 25, 10), other = measure(small_a, small_b, 25, 10);
    qn_divergence mixed = measure(a, small_b, 25, 10);
    assert_memory_equal(&one, &other, sizeof one);
    assert_memory_equal(&one, &mixed, sizeof one);
    qn_engine_close(a);
    qn_engine_close(b);
    qn_engine_close(small_a);
    qn_engine_close(small_b);
}

static void refuses_what_cannot_be(void **state)
{
    (void)state;
    qn_engine *a = open_tiny(64, 0.0f), *b = open_tiny(64, 0.0f);
    qn_divergence d;
    qn_error err;
    assert_int_equal(qn_measure_divergence(a, b, ids, 1, 10, 5, &d, &err), QN_BAD_INPUT);
    assert_int_equal(qn_measure_divergence(a, b, ids, 10, 201, 5, &d, &err), QN_USAGE);
    ids[30] = 1536; /* the first of a chunk, predicted by the last of the one before */
    assert_int_equal(qn_measure_divergence(a, b, ids, COUNT, 30, 29, &d, &err), QN_USAGE);
    assert_non_null(strstr(err.message, "1536 at 30"));
    qn_engine_close(b);
    const qn_engine_options options = {
        .model_dir = "tests/data/oracle/tiny-sparse", .threads = 1, .max_model_len = 64, .without_text = true};
    b = open_engine(&options, NULL);
    assert_int_equal(qn_measure_divergence(a, b, ids, 10, 10, 5, &d, &err), QN_BAD_INPUT);
    assert_non_null(strstr(err.message, "quern-tiny"));
    assert_non_null(strstr(err.message, "tiny-sparse"));
    qn_engine_close(a);
    qn_engine_close(b);
}

static void bins_ascend(void **state)
{
    (void)state;
    assert_true(qn_divergence_bin_begin(0) == 0.0);
    assert_true(fabs(qn_divergence_bin_begin(1) - 1e-7) < 1e-15);
    assert_true(fabs(qn_divergence_bin_begin(QN_DIVERGENCE_BINS - 1) - 1.0) < 1e-12);
    for (size_t i = 1; i < QN_DIVERGENCE_BINS; i++) {
        assert_true(qn_divergence_bin_begin(i - 1) < qn_divergence_bin_begin(i));
    }
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    qn_engine *a = open_tiny(64, 0.0f), *b = open_tiny(64, 0.0f);
    long refused = 0;
    qn_status status;
    do {
        qn_divergence d;
        qn_error err;
        qn_fault_arm(QN_FAULT_ALLOC, refused + 1);
        status = qn_measure_divergence(a, b, ids, 20, 10, 5, &d, &err);
        qn_fault_disarm();
        assert_true(status == QN_RESOURCE || (status == QN_OK && d.mean_kl == 0.0));
        refused += status != QN_OK;
    } while (status != QN_OK);
    assert_true(refused >= 2);
    qn_engine_close(a);
    qn_engine_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_is_no_distance_from_itself),
        cmocka_unit_test(perplexities_are_those_of_each_model),
        cmocka_unit_test(chunks_change_nothing),
        cmocka_unit_test(refuses_what_cannot_be),
        cmocka_unit_test(bins_ascend),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
