/* The MTP layer, with vLLM's semantics: at index i it takes token i + 1 and the target's final norm at i,
 *     e = RMSNorm(embed(token i + 1); enorm), the embedding zeroed where i = 0
 *     g = RMSNorm(final_norm[i]; hnorm)
 *     x = eh_proj [e; g], one decoder block at position i, RMSNorm(x; shared_head.norm)
 * and the head on that drafts token i + 2. Its entry of index i is cached in slot i + 1 (kv/sequence.h). */
#include <string.h>

#include "model/layer.h"
#include "model/parallel.h"
#include "model/state.h"

typedef struct mtp_input {
    const qn_model *model;
    const qn_step *step;
    qn_packed packed;
} mtp_input;

static void norm_and_pack(void *context, size_t row, size_t worker)
{
    (void)worker;
    const mtp_input *in = context;
    const qn_mtp_weights *w = &in->model->weights.mtp;
    const qn_kernels *kernels = in->model->kernels;
    size_t hidden = in->model->config->hidden_size;
    float eps = in->model->config->rms_norm_eps, *embedding = in->step->ws->mtp_input.rows[row];
    kernels->rms_norm(embedding, embedding, w->enorm, hidden, eps);
    kernels->rms_norm(embedding + hidden, embedding + hidden, w->hnorm, hidden, eps);
    qn_packed_put(&in->packed, row, embedding);
}

/* The rows' [embedding, hidden], not normed yet, in ws->mtp_input. */
static void gather_input(const qn_model *model, const qn_step *step, const qn_mtp_segment *segments,
                         size_t segment_count)
{
    size_t row = 0, hidden = model->config->hidden_size;
    for (size_t s = 0; s < segment_count; s++) {
        for (size_t i = 0; i < segments[s].count; i++, row++) {
            float *out = step->ws->mtp_input.rows[row];
            if (segments[s].start + i == 0)
                memset(out, 0, hidden * sizeof *out);
            else
                qn_matrix_row_to_f32(&model->weights.mtp.embed_tokens, (size_t)segments[s].next_ids[i], out);
            qn_step_check(step, row, QN_NONFINITE_EMBEDDING, out, hidden);
            memcpy(out + hidden, segments[s].hidden + i * hidden, hidden * sizeof *out);
            qn_step_check(step, row, QN_NONFINITE_HIDDEN, out + hidden, hidden);
        }
    }
}

static void project_input(const qn_model *model, const qn_step *step)
{
    const qn_matrix *eh_proj = &model->weights.mtp.eh_proj;
    qn_workspace *ws = step->ws;
    mtp_input in = {.model = model,
                    .step = step,
                    .packed = qn_packed_make(model->kernels, step->rows, eh_proj->cols, qn_dtype_set_of(eh_proj),
                                             ws->packed_in, ws->packed_in_rows)};
    qn_for_rows(model->pool, step->rows, norm_and_pack, &in);
    qn_product product = {.w = eh_proj, .x = qn_packed_rows(&in.packed, eh_proj), .y = ws->x.rows};
    qn_products_run(model->pool, model->kernels, &product, 1, step->rows);
    for (size_t r = 0; r < step->rows; r++)
        qn_step_check(step, r, QN_NONFINITE_MTP_INPUT, ws->x.rows[r], eh_proj->rows);
}

/* Rows of a segment that brings its selection. */
static qn_status keep_selection(qn_workspace *ws, const qn_mtp_segment *g, size_t first_row, size_t topk, qn_error *err)
{
    if (g->selection && g->unwanted == g->count && g->count > 0)
        return qn_fail(err, QN_INTERNAL, "MTP step: a selection is wanted of a row that is not");
    if (!g->reuse_selection || g->count == 0)
        return QN_OK;
    if (!g->selection || g->selection->count == 0)
        return qn_fail(err, QN_INTERNAL, "MTP step: no selection to reuse");
    qn_selection selection = {.count = g->selection->count,
                              .positions = g->selection->count <= topk ? g->selection->positions : NULL};
    size_t last = selection.positions ? (size_t)selection.positions[selection.count - 1] : selection.count - 1;
    if (last > g->start || selection.count > ws->max_keys)
        return qn_fail(err, QN_INTERNAL, "MTP step: the selection reaches to position %zu and the step starts at %zu",
                       last, g->start);
    for (size_t i = 0; i < g->count; i++) {
        ws->row[first_row + i].keeps_selection = true;
        ws->selection[first_row + i] = selection;
    }
    return QN_OK;
}

static qn_status list_rows(qn_model *model, const qn_mtp_segment *segments, size_t segment_count, size_t *rows,
                           qn_error *err)
{
    for (size_t s = 0; s < segment_count; s++) {
        const qn_mtp_segment *g = &segments[s];
        size_t first_row = *rows;
        const qn_row_list list = {.sequence = g->sequence,
                                  .ids = g->next_ids,
                                  .start = g->start,
                                  .count = g->count,
                                  .unwanted = g->unwanted,
                                  .slots = g->start + g->count + 1};
        qn_status status = qn_model_add_rows(model, &list, rows, err);
        if (status == QN_OK)
            status = keep_selection(&model->workspace, g, first_row, model->config->index_topk, err);
        if (status != QN_OK)
            return status;
    }
    return QN_OK;
}

/* Gives each segment that wants it the choice of its last row. */
static void store_selections(const qn_model *model, const qn_mtp_segment *segments, size_t segment_count)
{
    const qn_workspace *ws = &model->workspace;
    size_t end = 0, row = 0;
    for (size_t s = 0; s < segment_count; s++) {
        const qn_mtp_segment *g = &segments[s];
        end += g->count;
        if (!g->selection || g->reuse_selection || g->count == 0)
            continue;
        while (ws->row[row].call_row < end - 1)
            row++;
        const qn_selection *last = &ws->selection[row];
        g->selection->count = last->count;
        if (last->count > model->config->index_topk)
            continue;
        for (size_t i = 0; i < last->count; i++)
            g->selection->positions[i] = last->positions ? last->positions[i] : (int32_t)i;
    }
}

typedef struct head_norm {
    const qn_model *model;
    float *out;
} head_norm;

static void norm_row(void *context, size_t row, size_t worker)
{
    (void)worker;
    const head_norm *n = context;
    size_t width = n->model->config->hidden_size;
    const qn_workspace *ws = &n->model->workspace;
    n->model->kernels->rms_norm(n->out + ws->row[row].call_row * width, ws->x.rows[row],
                                n->model->weights.mtp.head_norm, width, n->model->config->rms_norm_eps);
}

qn_status qn_model_mtp(qn_model *model, const qn_mtp_segment *segments, size_t segment_count, float *out,
                       const qn_observer *observer, qn_error *err)
{
    if (!model->weights.has_mtp)
        return qn_fail(err, QN_USAGE, "MTP: the checkpoint has no MTP layer: run without speculative tokens");
    size_t rows = 0, layer = model->config->num_hidden_layers;
    qn_status status = list_rows(model, segments, segment_count, &rows, err);
    if (status != QN_OK || rows == 0)
        return status;
    qn_step step = qn_model_step(model, rows, observer);
    step.first_slot = 1;
    step.is_last = true;
    qn_layers_begin(&step);
    gather_input(model, &step, segments, segment_count);
    project_input(model, &step);
    status = qn_layer_run(&step, &model->weights.layers[layer], layer, err);
    if (status != QN_OK)
        return status;
    store_selections(model, segments, segment_count);
    head_norm n = {.model = model, .out = out};
    qn_for_rows(model->pool, step.rows, norm_row, &n);
    return QN_OK;
}
