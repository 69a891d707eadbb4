/* Work by the formulas of docs/model.md, on the shipped model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/work.h"

enum { CONTEXT = 600, ROWS = 4 };

typedef struct fixture {
    qn_checkpoint *checkpoint;
    qn_pool *pool;
    qn_model *model;
    const qn_config *config;
} fixture;

static int set_up(void **state)
{
    static fixture f;
    qn_model_options options = {.max_rows = ROWS, .max_context_tokens = CONTEXT};
    qn_error err;
    assert_int_equal(qn_kernels_select("scalar", &options.kernels, &err), QN_OK);
    assert_int_equal(qn_checkpoint_open("models/quern-tiny", &f.checkpoint, &err), QN_OK);
    assert_int_equal(qn_pool_new(1, &f.pool, &err), QN_OK);
    options.pool = f.pool;
    assert_int_equal(qn_model_open(f.checkpoint, &options, &f.model, &err), QN_OK);
    f.config = qn_model_config(f.model);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    qn_model_close(f->model);
    qn_pool_free(f->pool);
    qn_checkpoint_close(f->checkpoint);
    return 0;
}

static size_t count_layers(const fixture *f, const bool *which)
{
    size_t count = 0;
    for (size_t i = 0; i < f->config->num_hidden_layers; i++)
        count += which[i];
    return count;
}

/* Rows on both sides of index_topk keys: those below attend to all and score none. */
static void keys_at_the_boundary(void **state)
{
    const fixture *f = *state;
    const qn_config *c = f->config;
    size_t topk = c->index_topk;
    assert_true(topk + 2 < CONTEXT);
    const qn_segment segment = {.start = topk - 2, .count = 4}; /* topk - 1, topk, topk + 1 and topk + 2 keys */
    qn_part_work work[QN_PARTS] = {0};
    qn_model_add_work(f->model, &segment, 1, 0, 0, work);
    double pairs = (double)(4 * topk - 1), scored = (double)(2 * topk + 3), layers = (double)c->num_hidden_layers;
    double indexers = (double)count_layers(f, c->layer_has_indexer), latent = (double)c->kv_lora_rank;
    double width = latent + (double)c->qk_rope_head_dim;
    assert_true(work[QN_PART_ATTEND].flops == 2 * layers * pairs * (double)c->num_attention_heads * (width + latent));
    assert_true(work[QN_PART_ATTEND].bytes == layers * (double)(topk + 2) * width * 4);
    double index_width = (double)(c->index_n_heads * c->index_head_dim);
    assert_true(work[QN_PART_INDEX_SCORES].flops == 2 * indexers * scored * index_width);
    assert_true(work[QN_PART_INDEX_SCORES].bytes == indexers * (double)((topk + 2) * c->index_head_dim) * 4);
    assert_true(work[QN_PART_HEAD].flops == 0 && work[QN_PART_HEAD].bytes == 0);
}

/* All weights of the layers are in some part, each once, when every expert is read. */
static void bytes_are_the_weights(void **state)
{
    const fixture *f = *state;
    const qn_config *c = f->config;
    const qn_segment segments[] = {{.start = 0, .count = 1}, {.start = 3, .count = 1}};
    qn_part_work work[QN_PARTS] = {0};
    qn_model_add_work(f->model, segments, 2, count_layers(f, c->layer_is_sparse) * c->n_routed_experts, 2, work);
    double bytes = 0;
    for (qn_model_part p = 0; p < QN_PARTS; p++)
        bytes += p == QN_PART_ATTEND ? 0 : work[p].bytes;
    double matrices = 0;
    for (size_t i = 0; i < qn_checkpoint_tensor_count(f->checkpoint); i++) {
        const char *file;
        const qn_tensor *tensor = qn_checkpoint_tensor(f->checkpoint, i, &file);
        char mtp[64];
        int length = snprintf(mtp, sizeof mtp, "model.layers.%zu.", c->num_hidden_layers);
        bool counts = strncmp(tensor->name, mtp, (size_t)length) != 0 && strstr(tensor->name, "norm") == NULL &&
                      strstr(tensor->name, "embed_tokens") == NULL && strstr(tensor->name, "bias") == NULL;
        matrices += counts ? (double)tensor->bytes : 0;
    }
    if (c->tie_word_embeddings)
        matrices += work[QN_PART_HEAD].bytes;
    assert_true(fabs(bytes - matrices) < 1e-6 * matrices);

    double head = work[QN_PART_HEAD].flops; /* calls add up */
    qn_model_add_work(f->model, segments, 2, 0, 2, work);
    assert_true(head == 2 * 2 * (double)(c->vocab_size * c->hidden_size) && work[QN_PART_HEAD].flops == 2 * head);
}

/* Rows whose output nobody wants cost the last layer their keys and no more, and read nothing that only others need. */
static void unwanted_rows_leave_the_last_layer_early(void **state)
{
    const fixture *f = *state;
    const qn_config *c = f->config;
    const size_t last = c->num_hidden_layers - 1;
    assert_true(c->layer_is_sparse[last] && ROWS <= c->index_topk);
    double hidden = (double)c->hidden_size, heads = (double)c->num_attention_heads;
    double latent = (double)c->kv_lora_rank, rope = (double)c->qk_rope_head_dim, q_rank = (double)c->q_lora_rank;
    double nope = (double)c->qk_nope_head_dim, value = (double)c->v_head_dim, rows = ROWS;
    double inner = (double)c->moe_intermediate_size;
    double index = c->layer_has_indexer[last] ? (double)(c->index_n_heads * c->index_head_dim) : 0;
    const double spared[QN_PARTS] = {
        [QN_PART_PROJECTIONS] = rows * (q_rank * (heads * (nope + rope) + index) + heads * value * hidden),
        [QN_PART_ABSORB] = rows * heads * nope * latent,
        [QN_PART_EXPAND] = rows * heads * value * latent,
        [QN_PART_ATTEND] = rows * (rows + 1) / 2 * heads * (2 * latent + rope),
        [QN_PART_ROUTER] = rows * hidden * (double)c->n_routed_experts,
        [QN_PART_SHARED] = rows * 3 * hidden * inner * (double)c->n_shared_experts,
        [QN_PART_EXPERTS] = rows * 3 * hidden * inner * (double)c->num_experts_per_tok,
    };
    const qn_segment all = {.count = ROWS}, none = {.count = ROWS, .unwanted = ROWS};
    qn_part_work whole[QN_PARTS] = {0}, short_of[QN_PARTS] = {0};
    qn_model_add_work(f->model, &all, 1, 0, 0, whole);
    qn_model_add_work(f->model, &none, 1, 0, 0, short_of);
    for (qn_model_part p = 0; p < QN_PARTS; p++) {
        assert_true(whole[p].flops - short_of[p].flops == 2 * spared[p]);
        assert_true(spared[p] == 0 || p == QN_PART_EXPERTS ? whole[p].bytes == short_of[p].bytes
                                                           : whole[p].bytes > short_of[p].bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(keys_at_the_boundary, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bytes_are_the_weights, set_up, tear_down),
        cmocka_unit_test_setup_teardown(unwanted_rows_leave_the_last_layer_early, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
