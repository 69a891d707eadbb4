/* The buffers of a step and what is in them: rows of several requests on their way through the model and the sampler.
 * Internal to this room; the engine's thread's. */
#ifndef QN_ENGINE_BATCH_H
#define QN_ENGINE_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/job.h"
#include "model/model.h"
#include "sampling/logprobs.h"
#include "sampling/sampler.h"
#include "schedule/drafts.h"
#include "schedule/fairness.h"

enum { QN_PENDING_ROWS = 16 }; /* MTP entries of a request that may be put off */

/* One request's rows: positions start .. start + count - 1. */
typedef struct qn_part {
    qn_job *job;
    size_t first_row, start, count;
    size_t first_sampled, sampled; /* rows of the logits: 0 while a prompt is not at its end, 1, or 1 + drafts */
    size_t kept;                   /* positions that stand after the step: count less the drafts that were wrong */
    bool decodes;                  /* else it is a chunk of a prompt, or of what is computed again */

    /* What came of it. */
    size_t from, emitted;                      /* new tokens: job->tokens[from ...] */
    int32_t drafts[QN_MAX_SPECULATIVE_TOKENS]; /* as they were proposed */
    size_t accepted;                           /* of them */
    size_t wanted;                             /* drafts for the next step */
    bool follows;                              /* its MTP entries are made in this step */
    bool ends;
    qn_job_end end;
} qn_part;

/* One row to be sampled: for `job`, behind its tokens and the first `ahead` of its drafts. */
typedef struct qn_choice {
    qn_job *job;
    const float *logits;
    size_t ahead;
    int32_t *out;         /* the token, or what choose.h says */
    qn_logprob *logprobs; /* [1 + QN_MAX_LOGPROBS], where the request asks for them; NULL: not of drafts */
    uint32_t *rank;
} qn_choice;

typedef struct qn_batch {
    size_t part_count;
    qn_part *parts;       /* [max_num_seqs] */
    qn_step_shape decode; /* the decoding ones' */

    /* [max_num_seqs] each, for calls of the model. */
    qn_segment *segments;
    qn_mtp_segment *mtp_segments;
    qn_part **listed;
    qn_prefill *prefills;
    qn_job **prefill_jobs;
    size_t prefill_count; /* of the two above */

    float *hidden;       /* [max_rows, hidden_size]: the final norm of the rows */
    float *followed;     /* [max_rows, hidden_size]: the MTP layer's; NULL without speculation */
    float *states;       /* [2 * max_num_seqs, hidden_size]: of the slots; NULL without speculation */
    float *pending;      /* [max_num_seqs, QN_PENDING_ROWS, hidden_size]: of the slots; NULL without speculation */
    int32_t *selections; /* [max_num_seqs, index_topk]: of the slots; NULL without speculation */

    size_t logit_row_count;  /* max_num_seqs * (1 + max_drafts) */
    float *logits;           /* [logit_row_count, vocab_size] */
    float **logit_rows;      /* [logit_row_count], into logits */
    const float **head_rows; /* [logit_row_count]: what the head is given */
    float **head_outputs;    /* [max_num_seqs], into draft_logits */
    qn_choice *choices;      /* [logit_row_count] */
    qn_draft_slot *drafters; /* [max_num_seqs]: of listed, at first */
    float *draft_logits;     /* [draft_row_count, vocab_size]; NULL without speculation */
    float **draft_rows; /* [max_drafts * max_num_seqs], into draft_logits; of slot s, draft d: s * max_drafts + d */
    bool keeps_draft_logits; /* else the drafts of one depth share their rows with those of the next */

    /* Of each logit row. */
    int32_t *sampled;     /* a token, or what choose.h says */
    qn_logprob *logprobs; /* [logit_row_count, 1 + QN_MAX_LOGPROBS] */
    uint32_t *ranks;

    /* Of each compute thread. */
    size_t thread_count;
    qn_sampler **samplers;
    uint64_t *allowed; /* [thread_count, allowed_words] */
    size_t allowed_words;

    uint64_t model_us, sampling_us; /* of the step under way */
    uint64_t follow_us;             /* the same, of making MTP entries while nothing but answers was computed */
} qn_batch;

typedef struct qn_batch_sizes {
    size_t max_rows, max_num_seqs, max_drafts, threads;
    bool keep_draft_logits;
} qn_batch_sizes;

size_t qn_batch_bytes(const qn_config *config, const qn_batch_sizes *sizes);
qn_status qn_batch_make(const qn_config *config, const qn_batch_sizes *sizes, qn_batch *out, qn_error *err);
void qn_batch_free(qn_batch *batch); /* {0} is fine */

/* A call of the model that failed so has met the machine's fault, not that of a request's rows: an expert that the disk
 * does not give. Each request by itself would wait for the same disk, so the call is made once more as it was, which
 * reads again what failed, and then all of its requests have failed. */
bool qn_batch_is_machines_fault(qn_status status);

#endif
