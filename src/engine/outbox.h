/* From the engine's thread to a job's reader: what a step brought is published at once, so that a reader never sees an
 * answer's last token without its end. Internal to this room. */
#ifndef QN_ENGINE_OUTBOX_H
#define QN_ENGINE_OUTBOX_H

#include "engine/job_internal.h"

/* `count` new tokens of the answer; logprobs rows of 1 + QN_MAX_LOGPROBS and ranks, read where the request asks for
 * them. `end` NULL: the answer goes on; else it is published too, and the engine lets go of the job, which is in no
 * list and has no slot. */
typedef struct qn_delivery {
    const int32_t *tokens;
    size_t count;
    const qn_logprob *const *logprobs; /* [count]; NULL: none */
    const uint32_t *ranks;             /* [count] */
    const qn_job_end *end;
} qn_delivery;

/* False: the reader's memory could not grow; a job that was to go on must then be ended by who called. */
bool qn_job_deliver(qn_job *job, const qn_delivery *delivery);

/* Logprobs of prompt tokens, in order: rows [count][1 + request.prompt_logprobs]. False: no memory. */
bool qn_job_deliver_prompt(qn_job *job, const qn_logprob *logprobs, const uint32_t *ranks, size_t count);

/* How much of the prompt is there. */
void qn_job_tell_progress(qn_job *job);

/* The job, in no list and without a slot, is over without new tokens: for this reason, or (NULL) since its reader has
 * found the answer's end. */
void qn_job_finish(qn_job *job, const qn_error *reason);

#endif
