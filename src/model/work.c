/* Counted from the weights' own shapes, so that the formats of a checkpoint need no cases here. */
#include "model/work.h"

#include "base/size.h"
#include "model/state.h"

/* Of one layer's attention over those rows of the call that go through it as a whole. */
typedef struct layer_rows {
    double rows;
    double attended, attended_rows; /* (row, key) pairs; rows of the cache that are read for them */
    double scored, scored_rows;     /* the same of the indexer */
} layer_rows;

static layer_rows count_rows(const qn_model *model, const qn_segment *segments, size_t segment_count, bool wanted_only)
{
    layer_rows all = {0};
    for (size_t s = 0; s < segment_count; s++) {
        size_t end = segments[s].start + segments[s].count, attended = 0;
        size_t first = segments[s].start + (wanted_only ? segments[s].unwanted : 0);
        for (size_t keys = first + 1; keys <= end; keys++) {
            bool chooses = keys > model->workspace.dense_keys;
            attended += chooses ? model->config->index_topk : keys;
            all.scored += chooses ? (double)keys : 0;
        }
        all.rows += (double)(end - first);
        all.attended += (double)attended;
        all.attended_rows += (double)qn_min_size(attended, end);
        all.scored_rows += first < end && end > model->workspace.dense_keys ? (double)end : 0;
    }
    return all;
}

static void add_bytes(qn_part_work *work, double bytes)
{
    work->bytes += bytes;
    work->unpacked_bytes += bytes;
}

/* `share`: of the matrix that is read; or how often. */
static void add_read(qn_part_work *work, const qn_matrix *w, double share)
{
    double bytes = (double)qn_matrix_bytes(w);
    bool packed = w->dtype == QN_DTYPE_PACKED_BF16;
    work->bytes += share * bytes;
    work->unpacked_bytes += share * (packed ? 2 * (double)w->rows * (double)w->cols : bytes);
}

static void add_product(qn_part_work *work, const qn_matrix *w, double rows)
{
    work->flops += 2 * rows * (double)w->rows * (double)w->cols;
    add_read(work, w, rows > 0);
}

/* kv_b_proj's rows of W_k (for absorbing) or W_v (for expanding), of all heads. */
static void add_head_rows(qn_part_work *work, const qn_matrix *kv_b, double share, double rows)
{
    work->flops += 2 * rows * share * (double)kv_b->rows * (double)kv_b->cols;
    add_read(work, kv_b, rows > 0 ? share : 0);
}

/* `cached`: the rows whose keys are computed. */
static void add_attention(const qn_model *model, const qn_attention_weights *w, const layer_rows *whole, double cached,
                          qn_part_work work[QN_PARTS])
{
    const qn_config *c = model->config;
    double value_bytes = (double)qn_dtype_bits(model->kernels->kv_dtype) / 8, latent = (double)c->kv_lora_rank;
    double width = latent + (double)c->qk_rope_head_dim, heads = (double)c->num_attention_heads;
    double nope = (double)c->qk_nope_head_dim / (double)(c->qk_nope_head_dim + c->v_head_dim);
    add_product(&work[QN_PART_PROJECTIONS], &w->q_a_proj, cached);
    add_product(&work[QN_PART_PROJECTIONS], &w->kv_a_proj, cached);
    add_product(&work[QN_PART_PROJECTIONS], &w->q_b_proj, whole->rows);
    add_product(&work[QN_PART_PROJECTIONS], &w->o_proj, whole->rows);
    add_head_rows(&work[QN_PART_ABSORB], &w->kv_b_proj, nope, whole->rows);
    add_head_rows(&work[QN_PART_EXPAND], &w->kv_b_proj, 1 - nope, whole->rows);
    work[QN_PART_ATTEND].flops += 2 * whole->attended * heads * (width + latent);
    add_bytes(&work[QN_PART_ATTEND], whole->attended_rows * width * value_bytes);
    if (!w->has_indexer)
        return;
    double dim = (double)c->index_head_dim;
    add_product(&work[QN_PART_PROJECTIONS], &w->indexer.wk, cached);
    add_product(&work[QN_PART_PROJECTIONS], &w->indexer.weights_proj, cached);
    add_product(&work[QN_PART_PROJECTIONS], &w->indexer.wq_b, whole->rows);
    work[QN_PART_INDEX_SCORES].flops += 2 * whole->scored * (double)c->index_n_heads * dim;
    add_bytes(&work[QN_PART_INDEX_SCORES], whole->scored_rows * dim * value_bytes);
}

/* `experts`: how many of its matrices are read. */
static void add_mlp(const qn_mlp_weights *w, double rows, double experts, qn_part_work *work)
{
    if (w->count == 0)
        return;
    const qn_matrix *const matrices[] = {w->gate, w->up, w->down};
    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++) {
        work->flops += 2 * rows * (double)matrices[i]->rows * (double)matrices[i]->cols;
        add_read(work, matrices[i], experts);
    }
}

static size_t sparse_layers(const qn_config *config)
{
    size_t count = 0;
    for (size_t i = 0; i < config->num_hidden_layers; i++)
        count += config->layer_is_sparse[i];
    return count;
}

void qn_model_add_work(const qn_model *model, const qn_segment *segments, size_t segment_count, size_t experts,
                       size_t logit_rows, qn_part_work work[QN_PARTS])
{
    const qn_config *c = model->config;
    const layer_rows all = count_rows(model, segments, segment_count, false);
    const layer_rows wanted = count_rows(model, segments, segment_count, true);
    const double sparse = (double)sparse_layers(c);
    for (size_t i = 0; i < c->num_hidden_layers; i++) {
        const qn_layer_weights *layer = &model->weights.layers[i];
        const layer_rows *whole = i + 1 < c->num_hidden_layers ? &all : &wanted;
        add_attention(model, &layer->attention, whole, all.rows, work);
        add_mlp(&layer->dense, whole->rows, whole->rows > 0, &work[layer->is_sparse ? QN_PART_SHARED : QN_PART_DENSE]);
        if (layer->is_sparse) {
            add_product(&work[QN_PART_ROUTER], &layer->router, whole->rows);
            add_mlp(&layer->experts, whole->rows * (double)c->num_experts_per_tok, (double)experts / sparse,
                    &work[QN_PART_EXPERTS]);
        }
    }
    if (logit_rows > 0)
        add_product(&work[QN_PART_HEAD], &model->weights.lm_head, (double)logit_rows);
}
