#include "engine/pass.h"

#include "base/finite.h"
#include "base/memory.h"
#include "base/size.h"

typedef void (*head_function)(qn_model *model, const float *const *hidden, size_t rows, float *const *logits);

size_t qn_logit_block_bytes(const qn_engine *engine)
{
    return QN_LOGIT_ROWS * engine->config->vocab_size * sizeof(float);
}

qn_status qn_logit_block_new(const qn_engine *engine, qn_logit_block *out, qn_error *err)
{
    size_t vocab = engine->config->vocab_size;
    out->data = qn_alloc_aligned(QN_LOGIT_ROWS, vocab * sizeof *out->data);
    if (out->data == NULL) {
        return qn_fail_memory(err, "logits", qn_logit_block_bytes(engine));
    }
    for (size_t i = 0; i < QN_LOGIT_ROWS; i++) {
        out->rows[i] = out->data + i * vocab;
    }
    return QN_OK;
}

void qn_logit_block_free(qn_logit_block *block)
{
    qn_free(block->data);
    block->data = NULL;
}

static qn_status compute_logits(const qn_engine *engine, head_function head, const float *hidden, size_t position,
                                size_t rows, qn_logit_block *block, qn_error *err)
{
    const float *inputs[QN_LOGIT_ROWS] = {NULL};
    for (size_t i = 0; i < rows; i++) {
        inputs[i] = hidden + i * engine->config->hidden_size;
    }
    head(engine->model, inputs, rows, block->rows);
    for (size_t i = 0; i < rows; i++) {
        if (!qn_all_finite(block->rows[i], engine->config->vocab_size)) {
            return qn_fail(err, QN_FAILED,
                           "logits: a value is not finite at position %zu: the checkpoint's head is damaged",
                           position + i);
        }
    }
    return QN_OK;
}

qn_status qn_pass_logits(qn_engine *engine, const float *hidden, size_t position, size_t rows, qn_logit_block *block,
                         qn_error *err)
{
    return compute_logits(engine, qn_model_logits, hidden, position, rows, block, err);
}

static qn_status hand_out_logits(const qn_engine *engine, qn_logit_block *block, head_function head,
                                 const float *hidden, size_t start, size_t count, const qn_row_sink *sink,
                                 qn_error *err)
{
    qn_status status = QN_OK;
    size_t skipped = sink->first_logits > start ? sink->first_logits - start : 0;
    for (size_t first = skipped; status == QN_OK && first < count; first += QN_LOGIT_ROWS) {
        size_t rows = qn_min_size(QN_LOGIT_ROWS, count - first);
        status = compute_logits(engine, head, hidden + first * engine->config->hidden_size, start + first, rows, block,
                                err);
        for (size_t i = 0; status == QN_OK && i < rows; i++) {
            status = sink->on_logits(sink->context, start + first + i, block->rows[i], err);
        }
    }
    return status;
}

static qn_status hand_out(const qn_engine *engine, qn_logit_block *block, head_function head, const float *hidden,
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

qn_status qn_pass_begin(qn_engine *engine, size_t count, qn_error *err)
{
    qn_kv_sequence_truncate(&engine->slots[0].sequence, 0);
    return qn_kv_sequence_reserve(&engine->slots[0].sequence, count, err);
}

qn_status qn_pass_chunk(qn_engine *engine, const int32_t *ids, size_t start, size_t rows, const qn_observer *observer,
                        qn_error *err)
{
    const qn_segment segment = {.sequence = &engine->slots[0].sequence, .ids = ids, .start = start, .count = rows};
    return qn_model_forward(engine->model, &segment, 1, engine->batch.hidden, observer, err);
}

qn_status qn_pass(qn_engine *engine, const int32_t *ids, size_t count, const qn_observer *observer,
                  const qn_row_sink *sink, qn_progress *progress, uint64_t *done, qn_error *err)
{
    qn_logit_block block = {.data = NULL};
    qn_status status = qn_pass_begin(engine, count, err);
    if (status == QN_OK && sink->on_logits != NULL) {
        status = qn_logit_block_new(engine, &block, err);
    }
    for (size_t start = 0, rows; status == QN_OK && start < count; start += rows) {
        rows = qn_min_size(engine->max_rows, count - start);
        status = qn_pass_chunk(engine, ids + start, start, rows, observer, err);
        if (status == QN_OK) {
            status = hand_out(engine, &block, qn_model_logits, engine->batch.hidden, start, rows, sink, err);
        }
        *done += rows;
        if (progress != NULL) {
            qn_progress_update(progress, *done);
        }
    }
    qn_logit_block_free(&block);
    return status;
}

qn_status qn_pass_mtp(qn_engine *engine, const int32_t *next_ids, const float *hidden, size_t count,
                      qn_mtp_selection *selection, const qn_observer *observer, const qn_row_sink *sink, qn_error *err)
{
    qn_logit_block block = {.data = NULL};
    qn_status status = qn_kv_sequence_reserve(&engine->slots[0].sequence, count + 1, err);
    if (status == QN_OK && sink->on_logits != NULL) {
        status = qn_logit_block_new(engine, &block, err);
    }
    for (size_t start = 0, rows; status == QN_OK && start < count; start += rows) {
        rows = qn_min_size(engine->max_rows, count - start);
        const qn_mtp_segment segment = {.sequence = &engine->slots[0].sequence,
                                        .next_ids = next_ids + start,
                                        .hidden = hidden + start * engine->config->hidden_size,
                                        .start = start,
                                        .count = rows,
                                        .selection = selection};
        status = qn_model_mtp(engine->model, &segment, 1, engine->batch.hidden, observer, err);
        if (status == QN_OK) {
            status = hand_out(engine, &block, qn_model_mtp_logits, engine->batch.hidden, start, rows, sink, err);
        }
    }
    qn_logit_block_free(&block);
    return status;
}
