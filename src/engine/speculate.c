#include "engine/speculate.h"

#include <assert.h>
#include <string.h>

#include "base/finite.h"
#include "base/memory.h"

struct qn_drafter {
    qn_model *model;
    const qn_config *config;
    size_t max_drafts, max_rows;
    float *followed;    /* [max_rows, hidden_size]: the layer's output of a follow */
    float *state[2];    /* [hidden_size] each: what the next draft comes from, and room for the one after */
    float *logits;      /* [max_drafts, vocab_size] */
    float **logit_rows; /* [max_drafts], into logits */
    int32_t *selected;  /* [index_topk]: the indexer's choice at the last followed position */
    qn_mtp_selection selection;
};

size_t qn_drafter_bytes(const qn_config *config, size_t max_drafts, size_t max_rows)
{
    return (max_rows + 2) * config->hidden_size * sizeof(float) + max_drafts * config->vocab_size * sizeof(float) +
           config->index_topk * sizeof(int32_t);
}

static bool allocate(qn_drafter *d)
{
    size_t hidden = d->config->hidden_size, logits;
    if (!qn_size_mul(d->max_drafts, d->config->vocab_size, &logits)) {
        return false;
    }
    d->followed = qn_alloc_aligned(d->max_rows, hidden * sizeof(float));
    d->state[0] = qn_alloc_aligned(hidden, sizeof(float));
    d->state[1] = qn_alloc_aligned(hidden, sizeof(float));
    d->logits = qn_alloc_aligned(logits, sizeof(float));
    d->logit_rows = qn_alloc(d->max_drafts, sizeof *d->logit_rows);
    d->selected = qn_alloc(d->config->index_topk, sizeof *d->selected);
    return d->followed != NULL && d->state[0] != NULL && d->state[1] != NULL && d->logits != NULL &&
           d->logit_rows != NULL && d->selected != NULL;
}

qn_status qn_drafter_new(qn_model *model, size_t max_drafts, size_t max_rows, qn_drafter **out, qn_error *err)
{
    qn_drafter *d = qn_alloc_zero(1, sizeof *d);
    if (d == NULL) {
        return qn_fail_memory(err, "drafts", sizeof *d);
    }
    d->model = model;
    d->config = qn_model_config(model);
    d->max_drafts = max_drafts;
    d->max_rows = max_rows;
    if (!allocate(d)) {
        size_t bytes = qn_drafter_bytes(d->config, max_drafts, max_rows);
        qn_drafter_free(d);
        return qn_fail_memory(err, "drafts", bytes);
    }
    for (size_t i = 0; i < max_drafts; i++) {
        d->logit_rows[i] = d->logits + i * d->config->vocab_size;
    }
    d->selection.positions = d->selected;
    *out = d;
    return QN_OK;
}

void qn_drafter_free(qn_drafter *drafter)
{
    if (drafter == NULL) {
        return;
    }
    qn_free(drafter->followed);
    qn_free(drafter->state[0]);
    qn_free(drafter->state[1]);
    qn_free(drafter->logits);
    qn_free(drafter->logit_rows);
    qn_free(drafter->selected);
    qn_free(drafter);
}

qn_status qn_drafter_follow(qn_drafter *drafter, qn_kv_sequence *sequence, const int32_t *next_ids, const float *hidden,
                            size_t start, size_t count, qn_error *err)
{
    assert(count > 0 && count <= drafter->max_rows);
    const qn_mtp_segment segment = {.sequence = sequence,
                                    .next_ids = next_ids,
                                    .hidden = hidden,
                                    .start = start,
                                    .count = count,
                                    .selection = &drafter->selection,
                                    .reuse_selection = false};
    qn_status status = qn_model_mtp(drafter->model, &segment, 1, drafter->followed, NULL, err);
    if (status == QN_OK) {
        size_t width = drafter->config->hidden_size;
        memcpy(drafter->state[0], drafter->followed + (count - 1) * width, width * sizeof(float));
    }
    return status;
}

/* One step of the chain: the draft before it becomes the next token at `position`, the layer's output its hidden. */
static qn_status chain(qn_drafter *d, qn_kv_sequence *sequence, int32_t draft, size_t position, size_t step,
                       qn_error *err)
{
    const bool share = d->config->index_share_for_mtp_iteration;
    const qn_mtp_segment segment = {.sequence = sequence,
                                    .next_ids = &draft,
                                    .hidden = d->state[(step - 1) % 2],
                                    .start = position,
                                    .count = 1,
                                    .selection = share ? &d->selection : NULL,
                                    .reuse_selection = share};
    return qn_model_mtp(d->model, &segment, 1, d->state[step % 2], NULL, err);
}

qn_status qn_drafter_propose(qn_drafter *drafter, qn_kv_sequence *sequence, qn_sampler *sampler,
                             const qn_sampling *sampling, size_t length, size_t count, int32_t *drafts, qn_error *err)
{
    assert(count <= drafter->max_drafts && length >= 2);
    for (size_t i = 0; i < count; i++) {
        if (i > 0) {
            qn_status status = chain(drafter, sequence, drafts[i - 1], length - 2 + i, i, err);
            if (status != QN_OK) {
                return status;
            }
        }
        const float *state = drafter->state[i % 2];
        qn_model_mtp_logits(drafter->model, &state, 1, &drafter->logit_rows[i]);
        if (!qn_all_finite(drafter->logit_rows[i], drafter->config->vocab_size)) {
            return qn_fail(err, QN_FAILED,
                           "MTP logits: a value is not finite at position %zu: the checkpoint's MTP "
                           "layer is damaged, or turn speculation off",
                           length + i);
        }
        drafts[i] = qn_sample(sampler, sampling, drafter->logit_rows[i], length + i);
    }
    return QN_OK;
}

const float *const *qn_drafter_logits(const qn_drafter *drafter)
{
    return (const float *const *)drafter->logit_rows;
}
