/* From tokens to the final norm's output, and from there to logits. */
#include "model/layer.h"
#include "model/parallel.h"
#include "model/state.h"

qn_status qn_model_add_rows(qn_model *model, const qn_row_list *list, size_t *rows, qn_error *err)
{
    qn_workspace *ws = &model->workspace;
    size_t vocab = model->config->vocab_size, end;
    if (list->count > ws->max_rows - *rows)
        return qn_fail(err, QN_USAGE, "model step: more than %zu rows: compute them in several steps", ws->max_rows);
    if (__builtin_add_overflow(list->start, list->count, &end) || end > ws->max_context_tokens)
        return qn_fail(err, QN_USAGE, "model step: positions up to %zu + %zu: the model was opened for %zu",
                       list->start, list->count, ws->max_context_tokens);
    if (list->sequence->block_count * qn_kv_pool_layout(list->sequence->pool)->block_tokens < list->slots)
        return qn_fail(err, QN_INTERNAL, "model step: %zu cache slots are needed and %zu blocks reserved", list->slots,
                       list->sequence->block_count);
    if (list->unwanted > list->count)
        return qn_fail(err, QN_INTERNAL, "model step: %zu of %zu rows are not wanted", list->unwanted, list->count);
    for (size_t i = 0; i < list->count; i++) {
        if (list->ids[i] < 0 || (size_t)list->ids[i] >= vocab)
            return qn_fail(err, QN_USAGE, "token id %ld: the vocabulary has %zu: use ids below that",
                           (long)list->ids[i], vocab);
        ws->row[*rows] = (qn_row){
            .sequence = list->sequence, .position = list->start + i, .unwanted = i < list->unwanted, .call_row = *rows};
        ++*rows;
    }
    return QN_OK;
}

qn_step qn_model_step(qn_model *model, size_t rows, const qn_observer *observer)
{
    return (qn_step){.config = model->config,
                     .kernels = model->kernels,
                     .pool = model->pool,
                     .rope = &model->rope,
                     .ws = &model->workspace,
                     .expert_cache = model->expert_cache,
                     .expert_forecast = model->expert_forecast,
                     .mla_norm_eps = model->mla_norm_eps,
                     .rows = rows,
                     .observer = observer,
                     .clock = model->clock};
}

static void embed(const qn_model *model, const qn_step *step, const qn_segment *segments, size_t segment_count)
{
    size_t row = 0;
    for (size_t s = 0; s < segment_count; s++) {
        for (size_t i = 0; i < segments[s].count; i++, row++) {
            float *x = step->ws->x.rows[row];
            qn_matrix_row_to_f32(&model->weights.embed_tokens, (size_t)segments[s].ids[i], x);
            qn_step_check(step, row, QN_NONFINITE_EMBEDDING, x, model->config->hidden_size);
        }
    }
}

typedef struct final_norm {
    const qn_model *model;
    float *hidden;
} final_norm;

static void norm_row(void *context, size_t row, size_t worker)
{
    (void)worker;
    const final_norm *f = context;
    size_t width = f->model->config->hidden_size;
    const qn_workspace *ws = &f->model->workspace;
    f->model->kernels->rms_norm(f->hidden + ws->row[row].call_row * width, ws->x.rows[row], f->model->weights.norm,
                                width, f->model->config->rms_norm_eps);
}

qn_status qn_model_forward(qn_model *model, const qn_segment *segments, size_t segment_count, float *hidden,
                           const qn_observer *observer, qn_error *err)
{
    size_t rows = 0;
    for (size_t s = 0; s < segment_count; s++) {
        const qn_segment *g = &segments[s];
        const qn_row_list list = {.sequence = g->sequence,
                                  .ids = g->ids,
                                  .start = g->start,
                                  .count = g->count,
                                  .unwanted = g->unwanted,
                                  .slots = g->start + g->count};
        qn_status status = qn_model_add_rows(model, &list, &rows, err);
        if (status != QN_OK)
            return status;
    }
    if (rows == 0)
        return QN_OK;
    qn_step step = qn_model_step(model, rows, observer);
    qn_layers_begin(&step);
    embed(model, &step, segments, segment_count);
    const size_t layers = model->config->num_hidden_layers;
    for (size_t layer = 0; layer < layers; layer++) {
        step.next_layer = layer + 1 < layers ? &model->weights.layers[layer + 1] : NULL;
        step.is_last = layer + 1 == layers;
        qn_status status = qn_layer_run(&step, &model->weights.layers[layer], layer, err);
        if (status != QN_OK)
            return status;
    }
    final_norm f = {.model = model, .hidden = hidden};
    qn_for_rows(model->pool, step.rows, norm_row, &f);
    return QN_OK;
}

typedef struct head_input {
    qn_packed packed;
    const float *const *hidden;
} head_input;

static void pack_hidden(void *context, size_t row, size_t worker)
{
    (void)worker;
    const head_input *input = context;
    qn_packed_put(&input->packed, row, input->hidden[row]);
}

static void run_head(qn_model *model, const qn_matrix *head, const float *const *hidden, size_t rows,
                     float *const *logits)
{
    qn_workspace *ws = &model->workspace;
    if (rows == 0)
        return;
    qn_part_mark(model->clock, QN_PART_HEAD);
    head_input input = {.packed = qn_packed_make(model->kernels, rows, head->cols, qn_dtype_set_of(head), ws->packed_in,
                                                 ws->packed_in_rows),
                        .hidden = hidden};
    qn_for_rows(model->pool, rows, pack_hidden, &input);
    qn_product product = {.w = head, .x = qn_packed_rows(&input.packed, head), .y = logits};
    qn_products_run(model->pool, model->kernels, &product, 1, rows);
    qn_part_mark(model->clock, QN_PART_REST);
}

void qn_model_logits(qn_model *model, const float *const *hidden, size_t rows, float *const *logits)
{
    run_head(model, &model->weights.lm_head, hidden, rows, logits);
}

void qn_model_mtp_logits(qn_model *model, const float *const *hidden, size_t rows, float *const *logits)
{
    run_head(model, &model->weights.mtp.head, hidden, rows, logits);
}
