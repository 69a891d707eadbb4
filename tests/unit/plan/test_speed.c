/* Predicted times, on made-up hardware whose times can be worked out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "configs.h"
#include "plan/speed.h"

static qn_config config;
static qn_hardware hardware;

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-6 * fabs(b);
}

static qn_speed speed_of(double rate, qn_plan_form form)
{
    read_config(GLM_CONFIG, &config);
    make_hardware(rate, &hardware);
    return (qn_speed){.config = &config, .hardware = &hardware, .form = form};
}

/* At one rate for everything, one stream's matrices take their bytes over it. */
static void one_stream_reads_what_is_active(void **state)
{
    (void)state;
    for (qn_plan_form form = 0; form < QN_PLAN_FORMS; form++) {
        qn_speed speed = speed_of(10, form);
        qn_plan_sizes sizes;
        qn_error err;
        assert_int_equal(qn_plan_count(&config, &sizes, &err), QN_OK);
        qn_step_time t = qn_speed_decode(&speed, 1, 0, 0);
        double read = t.projections + t.routed + t.shared + t.absorbed + t.head;
        /* norms and the routers' biases are vectors */
        double vectors = 2.0 * (double)sizes.kind[QN_KIND_NORMS].parameters + 4.0 * 75 * 256;
        vectors += 2.0 * 78 * (2048 + 512) + 2.0 * 21 * 256;
        assert_true(near(read, ((double)sizes.active_bytes[form] - vectors) / 10e9));
        assert_true(t.indexer == 0);
        assert_true(near(t.total, read + t.attention + t.row_work + t.loops));
    }
}

static void context_costs_attention_up_to_topk_and_the_indexer_beyond(void **state)
{
    (void)state;
    qn_speed speed = speed_of(10, QN_PLAN_MXFP4);
    qn_step_time at[] = {qn_speed_decode(&speed, 1, 1000, 0), qn_speed_decode(&speed, 1, 2047, 0),
                         qn_speed_decode(&speed, 1, 4095, 0), qn_speed_decode(&speed, 1, 8191, 0)};
    assert_true(at[0].attention < at[1].attention);
    assert_true(near(at[1].attention, at[2].attention) && near(at[2].attention, at[3].attention));
    assert_true(at[1].indexer == 0 && near(2 * at[2].indexer, at[3].indexer));
    /* 78 layers x 2048 keys x 64 heads x 2 x 1088 operations, and the keys' bytes, at 10 GFLOP/s and GB/s */
    assert_true(near(at[3].attention, 78 * 2048.0 * (64 * 2 * 1088 + 576 * 2) / 10e9));
    assert_true(near(at[3].indexer, 21 * 8192.0 * (32 * 128 * 2 + 128 * 2) / 10e9 + 21 * 8192 / 1e18));
}

static void experts_of_a_batch_are_counted_once(void **state)
{
    (void)state;
    read_config(GLM_CONFIG, &config);
    assert_true(near(qn_distinct_experts(&config, 1), 8));
    assert_true(near(qn_distinct_experts(&config, 2), 256 * (1 - pow(248.0 / 256, 2))));
    assert_true(qn_distinct_experts(&config, 4) < 32);
    assert_true(near(qn_distinct_experts(&config, 1e6), 256));
}

static void a_batch_takes_longer_than_one_and_less_than_each(void **state)
{
    (void)state;
    qn_speed speed = speed_of(10, QN_PLAN_MXFP4);
    /* rates of products with more rows, as a machine bound by memory has them */
    for (size_t i = 1; i < QN_ROW_POINTS; i++) {
        double rate = 10 * fmin((double)qn_row_points[i], 16);
        hardware.figure[QN_FIGURE_BF16_ROWS + i].median = hardware.figure[QN_FIGURE_MXFP4_ROWS + i].median = rate;
    }
    double one = qn_speed_decode(&speed, 1, 4096, 0).total, last = one;
    for (size_t sequences = 2; sequences <= 64; sequences *= 2) {
        double all = qn_speed_decode(&speed, sequences, 4096, 0).total;
        assert_true(all > last && all < (double)sequences * one);
        last = all;
    }
}

static void drafts_cost_rows_and_a_layer(void **state)
{
    (void)state;
    qn_speed speed = speed_of(10, QN_PLAN_MXFP4);
    double none = qn_speed_decode(&speed, 1, 100, 0).total, one = qn_speed_decode(&speed, 1, 100, 1).total,
           two = qn_speed_decode(&speed, 1, 100, 2).total;
    assert_true(none < one && one < two);
    assert_true(near(qn_tokens_per_step(0.5, 0), 1));
    assert_true(near(qn_tokens_per_step(0.5, 1), 1.5));
    assert_true(near(qn_tokens_per_step(0.5, 2), 1.75));
    assert_true(near(qn_tokens_per_step(1, 3), 4));
}

static void a_prompt_is_the_sum_of_its_chunks(void **state)
{
    (void)state;
    qn_speed speed = speed_of(10, QN_PLAN_BF16);
    qn_step_time whole = qn_speed_prefill(&speed, 8192, 512), head = qn_speed_prefill(&speed, 4096, 512);
    assert_true(whole.total > 2 * head.total);
    assert_true(near(whole.head, head.head));
    qn_step_time longer = qn_speed_prefill(&speed, 12288, 512);
    assert_true(near(longer.shared - whole.shared, whole.shared - head.shared));
    /* keys: positions below 2048 attend to those before them and to themselves, later ones to 2048; in the last layer
     * the last one alone */
    double keys = 77 * (2048 * 2049 / 2.0 + (8192 - 2048) * 2048.0) + 2048;
    assert_true(near(whole.attention, keys * 64 * 2 * 1088 / 10e9));
    /* scores: positions from 2048 on look at all before them */
    double scores = (8192 - 2048) * (2049 + 8192) / 2.0;
    assert_true(near(whole.indexer, 21 * (scores * 32 * 128 * 2 / 10e9 + scores / 2e18)));
    assert_true(qn_speed_prefill(&speed, 100, 512).indexer == 0);
}

static void a_missing_figure_is_named(void **state)
{
    (void)state;
    qn_figure missing;
    make_hardware(1, &hardware);
    assert_true(qn_speed_possible(&hardware, &missing));
    hardware.figure[QN_FIGURE_INDEXER].samples = 0;
    assert_false(qn_speed_possible(&hardware, &missing));
    assert_int_equal(missing, QN_FIGURE_INDEXER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_stream_reads_what_is_active),
        cmocka_unit_test(context_costs_attention_up_to_topk_and_the_indexer_beyond),
        cmocka_unit_test(experts_of_a_batch_are_counted_once),
        cmocka_unit_test(a_batch_takes_longer_than_one_and_less_than_each),
        cmocka_unit_test(drafts_cost_rows_and_a_layer),
        cmocka_unit_test(a_prompt_is_the_sum_of_its_chunks),
        cmocka_unit_test(a_missing_figure_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
