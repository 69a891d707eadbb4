/* Given tokens through the model, rows handed out in order: what the commands that measure a model are made of.
 * Internal to this room: whoever calls is between qn_measuring_begin and _end.
 * The first seat's sequence is used. */
#ifndef QN_ENGINE_PASS_H
#define QN_ENGINE_PASS_H

#include "base/progress.h"
#include "engine/engine_internal.h"

/* Each may be NULL; a status other than QN_OK ends the pass with it. Data live during the call only. */
typedef struct qn_row_sink {
    void *context;
    /* hidden [count, hidden_size]: positions start .. start + count - 1 */
    qn_status (*on_hidden)(void *context, size_t start, size_t count, const float *hidden, qn_error *err);
    qn_status (*on_logits)(void *context, size_t position, const float *logits, qn_error *err);
    size_t first_logits; /* positions below get none */
} qn_row_sink;

/* One chunk after the other by hand, for who walks two models at once: begin empties the cache and reserves it for
 * `count` tokens; chunk computes positions start .. start + rows - 1 (rows <= max_rows) into engine->batch.hidden. */
qn_status qn_pass_begin(qn_engine *engine, size_t count, qn_error *err);
qn_status qn_pass_chunk(qn_engine *engine, const int32_t *ids, size_t start, size_t rows, const qn_observer *observer,
                        qn_error *err);

/* Room for the logits of a few rows at once, so that the head's weights are read once for all of them. Start from {0};
 * free takes that too. */
enum { QN_LOGIT_ROWS = 16 };
typedef struct qn_logit_block {
    float *data;
    float *rows[QN_LOGIT_ROWS]; /* [vocab_size] each */
} qn_logit_block;
size_t qn_logit_block_bytes(const qn_engine *engine);
qn_status qn_logit_block_new(const qn_engine *engine, qn_logit_block *out, qn_error *err);
void qn_logit_block_free(qn_logit_block *block);

/* block = head hidden for rows <= QN_LOGIT_ROWS; hidden [rows, hidden_size]. QN_FAILED when a value is not finite,
 * naming the position: that of the first row is given. */
qn_status qn_pass_logits(qn_engine *engine, const float *hidden, size_t position, size_t rows, qn_logit_block *block,
                         qn_error *err);

/* `count` tokens from an empty cache on: hidden is the final norm's output. progress may be NULL; positions are added
 * to *done as they are computed. */
qn_status qn_pass(qn_engine *engine, const int32_t *ids, size_t count, const qn_observer *observer,
                  const qn_row_sink *sink, qn_progress *progress, uint64_t *done, qn_error *err);

/* The MTP layer at the `count` positions that qn_pass has just computed: next_ids[i] is the token after position i,
 * hidden [count, hidden_size] the target's final norm. The sink's hidden is the layer's output after shared_head.norm;
 * selection gets the last row's. */
qn_status qn_pass_mtp(qn_engine *engine, const int32_t *next_ids, const float *hidden, size_t count,
                      qn_mtp_selection *selection, const qn_observer *observer, const qn_row_sink *sink, qn_error *err);

#endif
