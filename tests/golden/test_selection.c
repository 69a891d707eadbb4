/* What decides which keys a query sees, and which matrices stand in for others: dsa_dense_below, selections that MTP
 * steps reuse, tied embeddings and an MTP layer's own head. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "checkpoint/safetensors.h"
#include "golden/random_checkpoint.h"
#include "golden/rig.h"

enum { TOKENS = 90, SEED = 11, MANY = 4000 };

typedef struct result {
    float *hidden, *mtp, *draft; /* [TOKENS, hidden_size] twice, and one step that reuses the last selection */
    int32_t *topk;               /* [TOKENS, width] of layer 0 */
    size_t hidden_size, width, selected;
} result;

static result run(const random_shape *shape, size_t dsa_dense_below)
{
    char dir[RANDOM_DIR_BYTES];
    random_checkpoint_make(shape, SEED, dir);
    rig r = rig_open(
        dir, (rig_options){.isa = "scalar", .max_context_tokens = TOKENS + 1, .dsa_dense_below = dsa_dense_below});
    result out = {.hidden = rig_alloc(TOKENS * r.hidden_size, sizeof(float)),
                  .mtp = rig_alloc(TOKENS * r.hidden_size, sizeof(float)),
                  .draft = rig_alloc(r.hidden_size, sizeof(float)),
                  .hidden_size = r.hidden_size};
    int32_t ids[TOKENS];
    for (int32_t i = 0; i < TOKENS; i++)
        ids[i] = i * 7 % 96;
    rig_record *record = rig_record_new(TOKENS);
    qn_observer observer = rig_record_observer(record);
    qn_kv_sequence sequence = rig_sequence(&r);
    rig_forward(&r, &sequence, ids, 0, TOKENS, 0, out.hidden, &observer);
    size_t rows;
    const int32_t *topk = rig_record_find(record, QN_OBSERVE_TOPK, 0, &rows, &out.width);
    assert_true(topk && rows == TOKENS);
    out.topk = rig_alloc(TOKENS * out.width, sizeof *topk);
    memcpy(out.topk, topk, TOKENS * out.width * sizeof *topk);

    qn_mtp_selection selection = {.positions = rig_alloc(shape->index_topk, sizeof(int32_t))};
    rig_mtp(&r, &sequence, ids, out.hidden, 0, TOKENS, 0, out.mtp, &selection, NULL);
    out.selected = selection.count;
    qn_mtp_segment step = {.sequence = &sequence,
                           .next_ids = ids,
                           .hidden = out.mtp + (TOKENS - 1) * r.hidden_size,
                           .start = TOKENS,
                           .count = 1,
                           .selection = &selection,
                           .reuse_selection = true};
    qn_error err;
    assert_int_equal(qn_kv_sequence_reserve(&sequence, TOKENS + 2, &err), QN_OK);
    if (qn_model_mtp(r.model, &step, 1, out.draft, NULL, &err) != QN_OK)
        fail_msg("%s", err.message);
    qn_free(selection.positions);
    rig_record_free(record);
    qn_kv_sequence_free(&sequence);
    rig_close(&r);
    random_checkpoint_remove(dir);
    return out;
}

static void free_result(result *r)
{
    qn_free(r->hidden);
    qn_free(r->mtp);
    qn_free(r->draft);
    qn_free(r->topk);
}

static bool same_rows(const float *a, const float *b, size_t first, size_t last, size_t width)
{
    return memcmp(a + first * width, b + first * width, (last - first) * width * sizeof *a) == 0;
}

static void test_dense_below(void **state)
{
    (void)state;
    random_shape sparse = random_shape_small(), dense = random_shape_small();
    dense.index_topk = MANY;
    result all = run(&dense, 0), cut = run(&sparse, 0), wide = run(&sparse, MANY), half = run(&sparse, 50);
    size_t width = all.hidden_size, topk = sparse.index_topk;

    /* a limit above the context is as good as a larger index_topk, in the target, the MTP layer and its drafts */
    assert_true(same_rows(all.hidden, wide.hidden, 0, TOKENS, width));
    assert_true(same_rows(all.mtp, wide.mtp, 0, TOKENS, width));
    assert_true(same_rows(all.draft, wide.draft, 0, 1, width));
    assert_int_equal(all.selected, TOKENS);
    assert_int_equal(wide.selected, TOKENS);
    assert_int_equal(cut.selected, topk);

    /* it is per query: the rows up to the limit see all, the others index_topk keys */
    assert_true(same_rows(all.hidden, half.hidden, 0, 50, width));
    assert_true(same_rows(all.hidden, cut.hidden, 0, topk, width));
    assert_false(same_rows(all.hidden, cut.hidden, topk, topk + 1, width));
    for (size_t t = 0; t < TOKENS; t++) {
        assert_int_equal(all.topk[t * all.width + t], t);
        assert_true(t + 1 == all.width || all.topk[t * all.width + t + 1] == -1);
        const int32_t *row = half.topk + t * half.width;
        assert_int_equal(half.width, topk);
        assert_int_equal(row[0] == -1, t + 1 > topk && t + 1 <= 50);
        if (t + 1 > 50)
            for (size_t i = 1; i < topk; i++)
                assert_true(row[i] > row[i - 1] && row[i] <= (int32_t)t);
    }
    free_result(&all);
    free_result(&cut);
    free_result(&wide);
    free_result(&half);
}

/* A head's logits against products of its rows as the file holds them. */
static void check_head(const random_shape *shape, const char *tensor, bool mtp)
{
    char dir[RANDOM_DIR_BYTES], path[RANDOM_DIR_BYTES + 32];
    qn_error err;
    qn_safetensors *file;
    random_checkpoint_make(shape, SEED, dir);
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    assert_int_equal(qn_safetensors_open(path, &file, &err), QN_OK);
    const qn_tensor *head = qn_safetensors_find(file, tensor);
    assert_non_null(head);
    rig r = rig_open(dir, (rig_options){.isa = "scalar", .max_context_tokens = 8});
    float *hidden = rig_alloc(r.hidden_size, sizeof *hidden), *logits = rig_alloc(r.vocab_size, sizeof *logits);
    for (size_t i = 0; i < r.hidden_size; i++)
        hidden[i] = (float)i / 50.0f - 1.0f;
    if (mtp)
        rig_mtp_logits(&r, hidden, 1, logits);
    else
        rig_logits(&r, hidden, 1, logits);
    for (size_t v = 0; v < r.vocab_size; v++) {
        double expected = 0;
        for (size_t i = 0; i < r.hidden_size; i++) {
            uint16_t bits;
            memcpy(&bits, head->data + 2 * (v * r.hidden_size + i), sizeof bits);
            expected += (double)qn_bf16_to_f32(bits) * (double)hidden[i];
        }
        assert_true(fabs(expected - (double)logits[v]) < 1e-5);
    }
    qn_free(hidden);
    qn_free(logits);
    rig_close(&r);
    qn_safetensors_close(file);
    random_checkpoint_remove(dir);
}

static void test_heads(void **state)
{
    (void)state;
    random_shape shape = random_shape_small();
    check_head(&shape, "lm_head.weight", false);
    check_head(&shape, "lm_head.weight", true);
    shape.mtp_has_own_head = true;
    check_head(&shape, "lm_head.weight", false);
    check_head(&shape, "model.layers.3.shared_head.head.weight", true);
    shape.mtp_has_own_head = false;
    shape.tie_word_embeddings = true;
    check_head(&shape, "model.embed_tokens.weight", false);
    check_head(&shape, "model.embed_tokens.weight", true);
}

/* A block is a function of the tokens up to its end, MTP entries included: what prefix reuse rests on. */
static void test_blocks_depend_on_their_own_tokens(void **state)
{
    (void)state;
    enum { BLOCK = 16, SHARED = 2 * BLOCK };
    random_shape shape = random_shape_small();
    char dir[RANDOM_DIR_BYTES];
    random_checkpoint_make(&shape, SEED, dir);
    rig r = rig_open(
        dir, (rig_options){.isa = "scalar", .max_context_tokens = TOKENS, .block_tokens = BLOCK, .sequences = 2});
    float *hidden = rig_alloc(TOKENS * r.hidden_size, sizeof *hidden),
          *out = rig_alloc(TOKENS * r.hidden_size, sizeof *out);
    qn_kv_sequence sequences[2];
    for (size_t s = 0; s < 2; s++) {
        int32_t ids[TOKENS + 1];
        size_t n = s == 0 ? TOKENS : SHARED + 1; /* the second sequence ends one token after the shared ones */
        for (size_t i = 0; i <= n; i++)
            ids[i] = (int32_t)(i < SHARED ? i * 5 % 96 : (i * 11 + s) % 96);
        sequences[s] = rig_sequence(&r);
        rig_forward(&r, &sequences[s], ids, 0, n, 0, hidden, NULL);
        rig_mtp(&r, &sequences[s], ids + 1, hidden, 0, n, 0, out, NULL, NULL);
    }
    size_t bytes = qn_kv_pool_layout(r.kv)->block_bytes;
    for (size_t b = 0; b < SHARED / BLOCK; b++)
        assert_memory_equal(qn_kv_pool_block(r.kv, sequences[0].blocks[b]),
                            qn_kv_pool_block(r.kv, sequences[1].blocks[b]), bytes);
    assert_true(memcmp(qn_kv_pool_block(r.kv, sequences[0].blocks[SHARED / BLOCK]),
                       qn_kv_pool_block(r.kv, sequences[1].blocks[SHARED / BLOCK]), bytes) != 0);
    for (size_t s = 0; s < 2; s++)
        qn_kv_sequence_free(&sequences[s]);
    qn_free(hidden);
    qn_free(out);
    rig_close(&r);
    random_checkpoint_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dense_below),
        cmocka_unit_test(test_heads),
        cmocka_unit_test(test_blocks_depend_on_their_own_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
