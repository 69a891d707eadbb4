/* Windows over a text: each token once; the same numbers whatever the chunks; refusals. What the numbers are is held
 * against the logits by tests/api/test_eval.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "base/fault.h"
#include "engine/perplexity.h"
#include "unit/engine/support.h"

enum { COUNT = 60 };

static int32_t ids[COUNT];

static qn_engine *open_tiny(size_t rows)
{
    const qn_engine_options options = {.model_dir = "models/quern-tiny",
                                       .threads = 2,
                                       .max_model_len = 200,
                                       .max_num_batched_tokens = rows,
                                       .without_text = true};
    random_stream r = {.seed = 4, .next = 0};
    for (size_t i = 0; i < COUNT; i++) {
        ids[i] = (int32_t)(random_word(&r) % 1500);
    }
    return open_engine(&options, NULL);
}

static qn_perplexity measure(qn_engine *engine, size_t count, size_t context, size_t stride)
{
    qn_perplexity p;
    qn_error err;
    if (qn_measure_perplexity(engine, ids, count, context, stride, NULL, &p, &err) != QN_OK) {
        fail_msg("%s", err.message);
    }
    assert_int_equal(p.scored, count - 1);
    assert_true(fabs(p.perplexity - exp(p.mean_nll)) < 1e-9 * p.perplexity);
    return p;
}

static void windows_cover_every_token_once(void **state)
{
    (void)state;
    qn_engine *engine = open_tiny(64);
    assert_int_equal(measure(engine, COUNT, 200, 100).windows, 1);
    assert_int_equal(measure(engine, COUNT, 60, 1).windows, 1);
    assert_int_equal(measure(engine, COUNT, 59, 1).windows, 2);
    assert_int_equal(measure(engine, COUNT, 20, 19).windows, 4);
    assert_int_equal(measure(engine, COUNT, 10, 5).windows, 11);
    assert_int_equal(measure(engine, 2, 2, 1).windows, 1);
    assert_int_equal(measure(engine, 3, 2, 1).windows, 2);
    qn_engine_close(engine);
}

static void chunks_change_nothing(void **state)
{
    (void)state;
    qn_engine *one = open_tiny(200), *other = open_tiny(7);
    assert_true(measure(one, COUNT, 25, 10).mean_nll == measure(other, COUNT, 25, 10).mean_nll);
    /* One window of all the tokens is one pass. */
    assert_true(measure(one, COUNT, 200, 1).mean_nll == measure(other, COUNT, 60, 59).mean_nll);
    qn_engine_close(one);
    qn_engine_close(other);
}

static void refuses_what_cannot_be(void **state)
{
    (void)state;
    static const size_t bad[][3] = {{1, 10, 5}, {0, 10, 5}, {10, 1, 1}, {10, 201, 5}, {10, 10, 0}, {10, 10, 10}};
    qn_engine *engine = open_tiny(64);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        qn_perplexity p;
        qn_error err;
        qn_status status = qn_measure_perplexity(engine, ids, bad[i][0], bad[i][1], bad[i][2], NULL, &p, &err);
        assert_true(status == QN_USAGE || status == QN_BAD_INPUT);
    }
    ids[3] = 1536;
    qn_perplexity p;
    qn_error err;
    assert_int_equal(qn_measure_perplexity(engine, ids, 10, 10, 5, NULL, &p, &err), QN_USAGE);
    qn_engine_close(engine);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    qn_engine *engine = open_tiny(64);
    for (long n = 1;; n++) {
        qn_perplexity p;
        qn_error err;
        qn_fault_arm(QN_FAULT_ALLOC, n);
        qn_status status = qn_measure_perplexity(engine, ids, 20, 10, 5, NULL, &p, &err);
        qn_fault_disarm();
        if (status == QN_OK) {
            assert_true(n > 1);
            break;
        }
        assert_int_equal(status, QN_RESOURCE);
    }
    qn_engine_close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_cover_every_token_once),
        cmocka_unit_test(chunks_change_nothing),
        cmocka_unit_test(refuses_what_cannot_be),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
