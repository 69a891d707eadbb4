#include "engine/batch.h"

#include "base/memory.h"
#include "base/size.h"

/* Rows of draft logits: all drafts of a step, or one depth of them at a time. */
static size_t draft_row_count(const qn_batch_sizes *sizes)
{
    return sizes->max_drafts == 0 ? 0 : sizes->max_num_seqs * (sizes->keep_draft_logits ? sizes->max_drafts : 1);
}

static size_t logit_row_count(const qn_batch_sizes *sizes)
{
    return sizes->max_num_seqs * (1 + sizes->max_drafts);
}

static size_t allowed_words(const qn_config *config)
{
    return qn_ceil_div(config->vocab_size, 64);
}

size_t qn_batch_bytes(const qn_config *config, const qn_batch_sizes *sizes)
{
    size_t hidden = config->hidden_size * sizeof(float), row = config->vocab_size * sizeof(float);
    size_t seqs = sizes->max_num_seqs, rows = logit_row_count(sizes);
    size_t bytes = sizes->max_rows * hidden + (rows + draft_row_count(sizes)) * row +
                   rows * ((1 + QN_MAX_LOGPROBS) * sizeof(qn_logprob) + sizeof(qn_choice) + 2 * sizeof(float *)) +
                   rows * (sizeof(int32_t) + sizeof(uint32_t)) +
                   seqs * (sizeof(qn_part) + sizeof(qn_segment) + sizeof(qn_mtp_segment) + sizeof(qn_prefill)) +
                   seqs * (sizeof(qn_draft_slot) + 3 * sizeof(void *)) +
                   sizes->threads * (qn_sampler_bytes(config->vocab_size) + allowed_words(config) * sizeof(uint64_t));
    if (sizes->max_drafts > 0) {
        bytes += (sizes->max_rows + (2 + QN_PENDING_ROWS) * seqs) * hidden +
                 seqs * config->index_topk * sizeof(int32_t) + seqs * sizes->max_drafts * sizeof(float *);
    }
    return bytes;
}

static bool make_rows(const qn_config *config, const qn_batch_sizes *sizes, qn_batch *b)
{
    size_t vocab = config->vocab_size, rows = b->logit_row_count;
    b->logits = qn_alloc_aligned(rows, vocab * sizeof *b->logits);
    b->logit_rows = qn_alloc(rows, sizeof *b->logit_rows);
    b->head_rows = qn_alloc(rows, sizeof *b->head_rows);
    b->choices = qn_alloc(rows, sizeof *b->choices);
    b->sampled = qn_alloc(rows, sizeof *b->sampled);
    b->logprobs = qn_alloc(rows * (1 + QN_MAX_LOGPROBS), sizeof *b->logprobs);
    b->ranks = qn_alloc(rows, sizeof *b->ranks);
    b->hidden = qn_alloc_aligned(sizes->max_rows, config->hidden_size * sizeof *b->hidden);
    if (b->logits == NULL || b->logit_rows == NULL || b->head_rows == NULL || b->sampled == NULL ||
        b->logprobs == NULL || b->ranks == NULL || b->hidden == NULL || b->choices == NULL) {
        return false;
    }
    for (size_t i = 0; i < rows; i++) {
        b->logit_rows[i] = b->logits + i * vocab;
    }
    return true;
}

static bool make_draft_rows(const qn_config *config, const qn_batch_sizes *sizes, qn_batch *b)
{
    size_t seqs = sizes->max_num_seqs, hidden = config->hidden_size, vocab = config->vocab_size;
    if (sizes->max_drafts == 0) {
        return true;
    }
    b->followed = qn_alloc_aligned(sizes->max_rows, hidden * sizeof *b->followed);
    b->states = qn_alloc_aligned(2 * seqs, hidden * sizeof *b->states);
    b->pending = qn_alloc_aligned(QN_PENDING_ROWS * seqs, hidden * sizeof *b->pending);
    b->selections = qn_alloc(seqs * config->index_topk, sizeof *b->selections);
    b->draft_logits = qn_alloc_aligned(draft_row_count(sizes), vocab * sizeof *b->draft_logits);
    b->draft_rows = qn_alloc(seqs * sizes->max_drafts, sizeof *b->draft_rows);
    if (b->followed == NULL || b->states == NULL || b->pending == NULL || b->selections == NULL ||
        b->draft_logits == NULL || b->draft_rows == NULL) {
        return false;
    }
    for (size_t i = 0; i < seqs * sizes->max_drafts; i++) {
        b->draft_rows[i] = b->draft_logits + (sizes->keep_draft_logits ? i : i / sizes->max_drafts) * vocab;
    }
    return true;
}

static bool make_lists(const qn_batch_sizes *sizes, qn_batch *b)
{
    size_t seqs = sizes->max_num_seqs;
    b->parts = qn_alloc(seqs, sizeof *b->parts);
    b->segments = qn_alloc(seqs, sizeof *b->segments);
    b->mtp_segments = qn_alloc(seqs, sizeof *b->mtp_segments);
    b->listed = qn_alloc(seqs, sizeof *b->listed);
    b->prefills = qn_alloc(seqs, sizeof *b->prefills);
    b->prefill_jobs = qn_alloc(seqs, sizeof *b->prefill_jobs);
    b->head_outputs = qn_alloc(seqs, sizeof *b->head_outputs);
    b->drafters = qn_alloc(seqs, sizeof *b->drafters);
    return b->head_outputs != NULL && b->drafters != NULL && b->prefills != NULL && b->prefill_jobs != NULL &&
           b->parts != NULL && b->segments != NULL && b->mtp_segments != NULL && b->listed != NULL;
}

static bool make_samplers(const qn_config *config, const qn_batch_sizes *sizes, qn_batch *b, qn_error *err)
{
    b->allowed_words = allowed_words(config);
    b->allowed = qn_alloc(sizes->threads * b->allowed_words, sizeof *b->allowed);
    b->samplers = qn_alloc_zero(sizes->threads, sizeof *b->samplers);
    if (b->allowed == NULL || b->samplers == NULL) {
        return false;
    }
    b->thread_count = sizes->threads;
    for (size_t i = 0; i < sizes->threads; i++) {
        if (qn_sampler_new(config->vocab_size, &b->samplers[i], err) != QN_OK) {
            return false;
        }
    }
    return true;
}

qn_status qn_batch_make(const qn_config *config, const qn_batch_sizes *sizes, qn_batch *out, qn_error *err)
{
    *out = (qn_batch){.logit_row_count = logit_row_count(sizes), .keeps_draft_logits = sizes->keep_draft_logits};
    if (make_lists(sizes, out) && make_rows(config, sizes, out) && make_draft_rows(config, sizes, out) &&
        make_samplers(config, sizes, out, err)) {
        return QN_OK;
    }
    qn_batch_free(out);
    return qn_fail_memory(err, "step buffers", qn_batch_bytes(config, sizes));
}

void qn_batch_free(qn_batch *batch)
{
    for (size_t i = 0; i < batch->thread_count; i++) {
        qn_sampler_free(batch->samplers[i]);
    }
    qn_free(batch->samplers);
    qn_free(batch->allowed);
    qn_free(batch->parts);
    qn_free(batch->segments);
    qn_free(batch->mtp_segments);
    qn_free(batch->listed);
    qn_free(batch->prefills);
    qn_free(batch->prefill_jobs);
    qn_free(batch->hidden);
    qn_free(batch->followed);
    qn_free(batch->states);
    qn_free(batch->pending);
    qn_free(batch->selections);
    qn_free(batch->logits);
    qn_free(batch->logit_rows);
    qn_free(batch->head_rows);
    qn_free(batch->head_outputs);
    qn_free(batch->choices);
    qn_free(batch->drafters);
    qn_free(batch->draft_logits);
    qn_free(batch->draft_rows);
    qn_free(batch->sampled);
    qn_free(batch->logprobs);
    qn_free(batch->ranks);
    *batch = (qn_batch){.part_count = 0};
}

bool qn_batch_is_machines_fault(qn_status status)
{
    return status == QN_RESOURCE || status == QN_BAD_INPUT;
}
