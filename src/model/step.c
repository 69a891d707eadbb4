/* Faults are noted per row by whichever thread finds them and read between loops, so that which one is reported does
 * not depend on threads: the first row's first. */
#include "model/step.h"

#include <string.h>

#include "base/finite.h"

void qn_step_check(const qn_step *step, size_t row, qn_nonfinite place, const float *x, size_t count)
{
    if (!qn_all_finite(x, count) && step->ws->nonfinite[row] == QN_NONFINITE_NONE)
        step->ws->nonfinite[row] = (uint8_t)place;
}

static const char *place_name(unsigned place)
{
    switch (place) {
    case QN_NONFINITE_EMBEDDING:
        return "the embedding";
    case QN_NONFINITE_LATENT:
        return "the latent (kv_a_proj_with_mqa)";
    case QN_NONFINITE_INDEX_KEY:
        return "the indexer's key (wk)";
    case QN_NONFINITE_INDEX_QUERY:
        return "the indexer's query (wq_b, weights_proj)";
    case QN_NONFINITE_ATTENTION:
        return "the attention's output (o_proj)";
    case QN_NONFINITE_ROUTER:
        return "the router's scores (mlp.gate)";
    case QN_NONFINITE_MLP:
        return "the MLP's output (down_proj)";
    case QN_NONFINITE_HIDDEN:
        return "the hidden state that the MTP layer was given";
    default:
        return "the MTP layer's input (eh_proj)";
    }
}

qn_status qn_step_status(const qn_step *step, size_t layer, qn_error *err)
{
    for (size_t r = 0; r < step->rows; r++) {
        unsigned place = step->ws->nonfinite[r];
        if (place != QN_NONFINITE_NONE)
            return qn_fail(err, QN_FAILED,
                           "layer %zu%s: %s at position %zu is not finite: the checkpoint's weights are damaged or "
                           "overflow float32: check its files against their source",
                           layer, layer == step->config->num_hidden_layers ? " (MTP)" : "", place_name(place),
                           step->ws->row[r].position);
    }
    return QN_OK;
}

bool qn_step_drops_rows(const qn_step *step)
{
    bool drops = false;
    for (size_t r = 0; r < step->rows && step->is_last && !step->observer && !drops; r++)
        drops = step->ws->row[r].unwanted;
    return drops;
}

static void copy_row(const qn_row_buffer *buffer, size_t to, size_t from)
{
    memcpy(buffer->rows[to], buffer->rows[from], buffer->width * sizeof(float));
}

/* All that is read of a row from here on. */
static void move_row(qn_workspace *ws, size_t pairs, size_t to, size_t from)
{
    ws->row[to] = ws->row[from];
    ws->selection[to] = ws->selection[from];
    ws->nonfinite[to] = ws->nonfinite[from];
    memcpy(ws->cosines + to * pairs, ws->cosines + from * pairs, pairs * sizeof(float));
    memcpy(ws->sines + to * pairs, ws->sines + from * pairs, pairs * sizeof(float));
    copy_row(&ws->x, to, from);
    copy_row(&ws->q_a, to, from);
    copy_row(&ws->index_weights, to, from);
}

void qn_step_keep_wanted(qn_step *step)
{
    qn_workspace *ws = step->ws;
    size_t kept = 0;
    for (size_t r = 0; r < step->rows; r++) {
        if (ws->row[r].unwanted && ws->nonfinite[r] == QN_NONFINITE_NONE)
            continue;
        if (kept < r)
            move_row(ws, step->rope->pairs, kept, r);
        kept++;
    }
    step->rows = kept;
}

void qn_step_observe(const qn_step *step, qn_observed what, size_t layer, const void *data, size_t width)
{
    if (step->observer && step->observer->observe)
        step->observer->observe(step->observer->context, what, layer, data, step->rows, width);
}
