#include "engine/pass.h"

#include "base/finite.h"
#include "base/memory.h"

enum { LOGIT_ROWS = 16 };

/* Room for the logits of a few rows at once, so that the head's weights are read once for all of them. */
typedef struct logit_block {
    float *data;
    float *rows[LOGIT_ROWS];
} logit_block;

typedef void (*head_function)(qn_model *model, const float *const *hidden, size_t rows, float *const *logits);

static qn_status logit_block_new(const qn_engine *engine, logit_block *out, qn_error *err)
{
    size_t vocab = engine->config->vocab_size;
    out->data = qn_alloc_aligned(LOGIT_ROWS, vocab * sizeof *out->data);
    if (out->data == NULL) {
        return qn_fail_memory(err, "logits", LOGIT_ROWS * vocab * sizeof *out->data);
    }
    for (size_t i = 0; i < LOGIT_ROWS; i++) {
        out->rows[i] = out->data + i * vocab;
    }
    return QN_OK;
}

static qn_status hand_out_logits(const qn_engine *engine, logit_block *block, head_function head, const float *hidden,
                                 size_t start, size_t count, const qn_row_sink *sink, qn_error *err)
{
    const float *inputs[LOGIT_ROWS];
    size_t skipped = sink->first_logits > start ? sink->first_logits - start : 0;
    for (size_t first = skipped; first < count; first += LOGIT_ROWS) {
        size_t rows = count - first < LOGIT_ROWS ? count - first : LOGIT_ROWS;
        for (size_t i = 0; i < rows; i++) {
            inputs[i] = hidden + (first + i) * engine->config->hidden_size;
        }
        head(engine->model, inputs, rows, block->rows);
        for (size_t i = 0; i < rows; i++) {
            if (!qn_all_finite(block->rows[i], engine->config->vocab_size)) {
                return qn_fail(err, QN_FAILED,
                               "logits: a value is not finite at position %zu: the checkpoint's head is damaged",
                               start + first + i);
            }
            qn_status status = sink->on_logits(sink->context, start + first + i, block->rows[i], err);
            if (status != QN_OK) {
                return status;
            }
        }
    }
    return QN_OK;
}

static qn_status hand_out(const qn_engine *engine, logit_block *block, head_function head, const float *hidden,
                          size_t start, size_t count, const qn_row_sink *sink, qn_error *err)
{
    qn_status status = QN_OK;
    if (sink->on_hidden != NULL) {
        status = sink->on_hidden(sink->context, start, count, hidden, err);
    }
    if (status == QN_OK && sink->on_logits != NULL) {
        status = hand_out_logits(engine, block, head, hidden, start, count, sink, err);
    }
    return status;
}

static size_t chunk_rows(const qn_engine *engine, size_t left)
{
    return left < engine->max_rows ? left : engine->max_rows;
}

qn_status qn_pass(qn_engine *engine, const int32_t *ids, size_t count, const qn_observer *observer,
                  const qn_row_sink *sink, qn_progress *progress, uint64_t *done, qn_error *err)
{
    logit_block block = {.data = NULL};
    qn_kv_sequence_truncate(&engine->sequence, 0);
    qn_status status = qn_kv_sequence_reserve(&engine->sequence, count, err);
    if (status == QN_OK && sink->on_logits != NULL) {
        status = logit_block_new(engine, &block, err);
    }
    for (size_t start = 0, rows; status == QN_OK && start < count; start += rows) {
        rows = chunk_rows(engine, count - start);
        const qn_segment segment = {.sequence = &engine->sequence, .ids = ids + start, .start = start, .count = rows};
        status = qn_model_forward(engine->model, &segment, 1, engine->hidden, observer, err);
        if (status == QN_OK) {
            status = hand_out(engine, &block, qn_model_logits, engine->hidden, start, rows, sink, err);
        }
        *done += rows;
        if (progress != NULL) {
            qn_progress_update(progress, *done);
        }
    }
    qn_free(block.data);
    return status;
}

qn_status qn_pass_mtp(qn_engine *engine, const int32_t *next_ids, const float *hidden, size_t count,
                      qn_mtp_selection *selection, const qn_observer *observer, const qn_row_sink *sink, qn_error *err)
{
    logit_block block = {.data = NULL};
    qn_status status = qn_kv_sequence_reserve(&engine->sequence, count + 1, err);
    if (status == QN_OK && sink->on_logits != NULL) {
        status = logit_block_new(engine, &block, err);
    }
    for (size_t start = 0, rows; status == QN_OK && start < count; start += rows) {
        rows = chunk_rows(engine, count - start);
        const qn_mtp_segment segment = {.sequence = &engine->sequence,
                                        .next_ids = next_ids + start,
                                        .hidden = hidden + start * engine->config->hidden_size,
                                        .start = start,
                                        .count = rows,
                                        .selection = selection};
        status = qn_model_mtp(engine->model, &segment, 1, engine->hidden, observer, err);
        if (status == QN_OK) {
            status = hand_out(engine, &block, qn_model_mtp_logits, engine->hidden, start, rows, sink, err);
        }
    }
    qn_free(block.data);
    return status;
}
