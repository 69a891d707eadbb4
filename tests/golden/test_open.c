/* Opening, refusing and failing: memory that runs out at any allocation, sizes that cannot be, calls that ask for what
 * is not there, and checkpoints whose numbers overflow. Each gives an error that says what, and leaks nothing. */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/fault.h"
#include "base/memory.h"
#include "golden/draw.h"
#include "golden/random_checkpoint.h"
#include "golden/rig.h"

enum { TOKENS = 40, SEED = 7 };

typedef struct opened {
    qn_checkpoint *checkpoint;
    qn_pool *pool;
    qn_model_options options;
} opened;

static opened open_checkpoint(const char *dir)
{
    opened o = {0};
    qn_error err;
    assert_int_equal(qn_pool_new(2, &o.pool, &err), QN_OK);
    if (qn_checkpoint_open(dir, &o.checkpoint, &err) != QN_OK)
        fail_msg("%s", err.message);
    o.options = (qn_model_options){.pool = o.pool, .max_rows = 8, .max_context_tokens = 64};
    assert_int_equal(qn_kernels_select("scalar", &o.options.kernels, &err), QN_OK);
    return o;
}

static void close_checkpoint(opened *o)
{
    qn_checkpoint_close(o->checkpoint);
    qn_pool_free(o->pool);
}

static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    random_shape shape = random_shape_small();
    char dir[RANDOM_DIR_BYTES];
    random_checkpoint_make(&shape, SEED, dir);
    long nth = 1;
    for (bool failed = true; failed; nth++) {
        opened o = open_checkpoint(dir);
        qn_model *model = NULL;
        qn_error err;
        qn_fault_arm(QN_FAULT_ALLOC, nth);
        qn_status status = qn_model_open(o.checkpoint, &o.options, &model, &err);
        failed = qn_fault_seen(QN_FAULT_ALLOC) >= nth;
        qn_fault_disarm();
        assert_int_equal(status, failed ? QN_RESOURCE : QN_OK);
        assert_true(failed == (model == NULL));
        qn_model_close(model);
        close_checkpoint(&o);
    }
    printf("%ld allocations\n", nth - 2);
    assert_true(nth > 50);
    random_checkpoint_remove(dir);
}

/* What is printed at start is what is taken; whether the context is known at once or later. */
static void test_step_bytes_are_what_is_allocated(void **state)
{
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(NDEBUG)
    print_message("not measured: a sanitizer's allocator keeps no such count\n");
#else
    opened o = open_checkpoint("models/quern-tiny");
    o.options.max_rows = 512;
    o.options.max_context_tokens = 0;
    qn_model *model;
    qn_error err;
    assert_int_equal(qn_model_open(o.checkpoint, &o.options, &model, &err), QN_OK);
    size_t told = qn_model_measure(model, 8192);
    struct mallinfo2 before = mallinfo2();
    assert_int_equal(qn_model_reserve(model, 8192, &err), QN_OK);
    struct mallinfo2 after = mallinfo2();
    size_t taken = after.uordblks + after.hblkhd - before.uordblks - before.hblkhd;
    printf("step buffers: %zu bytes told, %zu taken\n", told, taken);
    assert_int_equal(qn_model_step_bytes(model), told);
    assert_true(taken >= told && taken - told < 100000);
    assert_int_equal(qn_model_reserve(model, 8192, &err), QN_INTERNAL);
    assert_true(qn_model_weight_bytes(model) > 8700000 && qn_model_weight_bytes(model) < 8800000);
    qn_model_close(model);
    close_checkpoint(&o);
#endif
}

static void expect_open(const char *dir, size_t max_rows, size_t max_context, qn_status expected, const char *words)
{
    opened o = open_checkpoint(dir);
    qn_model *model = NULL;
    qn_error err;
    o.options.max_rows = max_rows;
    o.options.max_context_tokens = max_context;
    assert_int_equal(qn_model_open(o.checkpoint, &o.options, &model, &err), expected);
    assert_null(model);
    if (!strstr(err.message, words))
        fail_msg("\"%s\" does not say \"%s\"", err.message, words);
    close_checkpoint(&o);
}

static void test_refuses_sizes_and_first_layers(void **state)
{
    (void)state;
    random_shape shape = random_shape_small();
    char dir[RANDOM_DIR_BYTES];
    random_checkpoint_make(&shape, SEED, dir);
    expect_open(dir, 0, 64, QN_USAGE, "rows of one step: 0");
    expect_open(dir, (size_t)1 << 20, 64, QN_USAGE, "rows of one step");
    expect_open(dir, 8, (size_t)1 << 40, QN_USAGE, "context");
    random_checkpoint_remove(dir);
}

static void expect_forward(rig *r, qn_kv_sequence *sequence, const int32_t *ids, size_t start, size_t count,
                           qn_status expected, const char *words)
{
    qn_segment segment = {.sequence = sequence, .ids = ids, .start = start, .count = count};
    float *hidden = rig_alloc((count + 1) * r->hidden_size, sizeof *hidden);
    qn_error err;
    assert_int_equal(qn_model_forward(r->model, &segment, 1, hidden, NULL, &err), expected);
    if (expected != QN_OK && !strstr(err.message, words))
        fail_msg("\"%s\" does not say \"%s\"", err.message, words);
    qn_free(hidden);
}

static void test_refuses_calls(void **state)
{
    (void)state;
    random_shape shape = random_shape_small();
    char dir[RANDOM_DIR_BYTES];
    shape.has_mtp = false;
    random_checkpoint_make(&shape, SEED, dir);
    rig r = rig_open(dir,
                     (rig_options){.isa = "scalar", .max_rows = 8, .max_context_tokens = TOKENS, .block_tokens = 16});
    qn_kv_sequence sequence = rig_sequence(&r);
    int32_t ids[TOKENS] = {0};
    qn_error err;
    expect_forward(&r, &sequence, ids, 0, 1, QN_INTERNAL, "cache slots");
    assert_int_equal(qn_kv_sequence_reserve(&sequence, TOKENS, &err), QN_OK);
    expect_forward(&r, &sequence, ids, 0, 0, QN_OK, NULL);
    expect_forward(&r, &sequence, ids, 0, 9, QN_USAGE, "more than 8 rows");
    expect_forward(&r, &sequence, ids, TOKENS - 1, 2, QN_USAGE, "opened for 40");
    expect_forward(&r, &sequence, ids, SIZE_MAX, 2, QN_USAGE, "opened for 40");
    ids[1] = 96;
    expect_forward(&r, &sequence, ids, 0, 2, QN_USAGE, "token id 96");
    ids[1] = -1;
    expect_forward(&r, &sequence, ids, 0, 2, QN_USAGE, "token id -1");
    ids[1] = 95;
    expect_forward(&r, &sequence, ids, 0, 8, QN_OK, NULL);
    float row[512];
    qn_mtp_segment segment = {.sequence = &sequence, .next_ids = ids, .hidden = row, .count = 1};
    assert_int_equal(qn_model_mtp(r.model, &segment, 1, row, NULL, &err), QN_USAGE);
    assert_non_null(strstr(err.message, "no MTP layer"));
    qn_kv_sequence_free(&sequence);
    rig_close(&r);
    random_checkpoint_remove(dir);
}

static void test_refuses_selections(void **state)
{
    (void)state;
    random_shape shape = random_shape_small();
    char dir[RANDOM_DIR_BYTES];
    random_checkpoint_make(&shape, SEED, dir);
    rig r = rig_open(dir, (rig_options){.isa = "scalar", .max_context_tokens = TOKENS});
    qn_kv_sequence sequence = rig_sequence(&r);
    qn_error err;
    assert_int_equal(qn_kv_sequence_reserve(&sequence, TOKENS, &err), QN_OK);
    float row[512] = {0};
    int32_t id = 1, positions[24] = {0, 9};
    qn_mtp_selection selection = {.positions = positions, .count = 2};
    qn_mtp_segment segment = {
        .sequence = &sequence, .next_ids = &id, .hidden = row, .start = 8, .count = 1, .reuse_selection = true};
    assert_int_equal(qn_model_mtp(r.model, &segment, 1, row, NULL, &err), QN_INTERNAL);
    segment.selection = &selection;
    assert_int_equal(qn_model_mtp(r.model, &segment, 1, row, NULL, &err), QN_INTERNAL);
    assert_non_null(strstr(err.message, "position 9"));
    qn_kv_sequence_free(&sequence);
    rig_close(&r);
    random_checkpoint_remove(dir);
}

/* A checkpoint in which one matrix overflows: the step fails and names the layer and the part. */
static void expect_not_finite(const char *tensor, const char *words)
{
    random_shape shape = random_shape_small();
    char dir[RANDOM_DIR_BYTES];
    shape.infinite = tensor;
    random_checkpoint_make(&shape, SEED, dir);
    rig r = rig_open(dir, (rig_options){.isa = "scalar", .max_context_tokens = TOKENS});
    qn_kv_sequence sequence = rig_sequence(&r);
    qn_error err = {.message = ""};
    int32_t ids[TOKENS];
    for (int32_t i = 0; i < TOKENS; i++)
        ids[i] = i;
    assert_int_equal(qn_kv_sequence_reserve(&sequence, TOKENS + 1, &err), QN_OK);
    float *hidden = rig_alloc(TOKENS * r.hidden_size, sizeof *hidden),
          *out = rig_alloc(TOKENS * r.hidden_size, sizeof *out);
    qn_segment segment = {.sequence = &sequence, .ids = ids, .count = TOKENS};
    qn_mtp_segment mtp = {.sequence = &sequence, .next_ids = ids, .hidden = hidden, .count = TOKENS};
    qn_status status = qn_model_forward(r.model, &segment, 1, hidden, NULL, &err);
    if (status == QN_OK)
        status = qn_model_mtp(r.model, &mtp, 1, out, NULL, &err);
    if (status != QN_FAILED || strstr(err.message, words) != err.message)
        fail_msg("%s: status %d, \"%s\" does not begin with \"%s\"", tensor, (int)status, err.message, words);
    qn_free(hidden);
    qn_free(out);
    qn_kv_sequence_free(&sequence);
    rig_close(&r);
    random_checkpoint_remove(dir);
}

static void test_names_where_numbers_overflow(void **state)
{
    (void)state;
    expect_not_finite("model.embed_tokens.weight", "layer 0: the embedding at position 0 is not finite");
    expect_not_finite("model.layers.0.self_attn.kv_a_proj_with_mqa.weight", "layer 0: the latent");
    expect_not_finite("model.layers.0.self_attn.q_a_proj.weight", "layer 0: the attention's output");
    expect_not_finite("model.layers.0.self_attn.q_b_proj.weight", "layer 0: the attention's output");
    expect_not_finite("model.layers.1.self_attn.indexer.wk.weight", "layer 1: the indexer's key");
    expect_not_finite("model.layers.1.self_attn.indexer.wq_b.weight",
                      "layer 1: the indexer's query (wq_b, weights_proj) at position 24");
    expect_not_finite("model.layers.1.self_attn.indexer.weights_proj.weight",
                      "layer 1: the indexer's query (wq_b, weights_proj) at position 0");
    expect_not_finite("model.layers.2.self_attn.kv_b_proj.weight", "layer 2: the attention's output");
    expect_not_finite("model.layers.2.self_attn.o_proj.weight", "layer 2: the attention's output (o_proj)");
    expect_not_finite("model.layers.1.mlp.gate.weight", "layer 1: the router's scores");
    expect_not_finite("model.layers.0.mlp.up_proj.weight", "layer 0: the MLP's output");
    expect_not_finite("model.layers.2.mlp.shared_experts.down_proj.weight", "layer 2: the MLP's output");
    expect_not_finite("model.layers.2.mlp.experts.5.gate_proj.weight", "layer 2: the MLP's output");
    expect_not_finite("model.layers.3.eh_proj.weight", "layer 3 (MTP): the MTP layer's input");
    expect_not_finite("model.layers.3.self_attn.o_proj.weight", "layer 3 (MTP): the attention's output");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_allocation_may_fail),
        cmocka_unit_test(test_step_bytes_are_what_is_allocated),
        cmocka_unit_test(test_refuses_sizes_and_first_layers),
        cmocka_unit_test(test_refuses_calls),
        cmocka_unit_test(test_refuses_selections),
        cmocka_unit_test(test_names_where_numbers_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
