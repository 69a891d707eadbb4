/* One request on its way through the engine, as tokens.
 *
 * Any thread submits a request and reads its job; the engine's thread computes it together with others and appends what
 * is new to the job, never waiting for the reader. News raise an eventfd, so that a reader can wait for them and for
 * something else in one poll. What waits to be read is bounded by the answer's own length. Text is made elsewhere
 * (engine/stream.h).
 *
 * Functions may be called from any thread; a job's reader is one thread at a time. */
#ifndef QN_ENGINE_JOB_H
#define QN_ENGINE_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "engine/request.h"

typedef struct qn_engine qn_engine;
typedef struct qn_job qn_job;

/* Queues a copy of the request (what tokens need of it: the stop strings are the reader's). QN_USAGE names the field
 * that is wrong; QN_RESOURCE: the queue is full (err->field "queue"), closed, or memory is short. */
qn_status qn_engine_submit(qn_engine *engine, const qn_request *request, qn_job **out, qn_error *err);

/* No more tokens are wanted; the engine drops the job within a step. answered: its answer is complete (a stop string
 * came), so that it counts as one. */
void qn_job_cancel(qn_job *job, bool answered);

/* The reader lets go: a job that is not done is cancelled. NULL is fine. */
void qn_job_release(qn_job *job);

/* Readable when there is news. */
int qn_job_fd(const qn_job *job);

typedef struct qn_job_end {
    qn_status status; /* not QN_OK: err tells why. QN_CANCELLED: called off, the engine was stopped, or (err.field
                         "timeout") the request's time was over */
    qn_error err;
    qn_finish finish;
    int32_t stop_token; /* one of stop_token_ids that ended the answer; -1 */
    bool by_token;      /* the answer's last token is one that ended it: it is not text */
} qn_job_end;

/* What came since the last call; start from {0}, release with qn_job_news_free. */
typedef struct qn_job_news {
    qn_buffer tokens;          /* int32_t */
    qn_buffer logprobs, ranks; /* of each token: qn_logprob [1 + request.logprobs], uint32_t */
    qn_buffer prompt_logprobs; /* of prompt tokens from the second on: qn_logprob [1 + request.prompt_logprobs] */
    qn_buffer prompt_ranks;
    size_t prompt_computed; /* tokens of the prompt that are in the cache */
    bool started;           /* the prompt is computed: the first token is decided */
    qn_timings timings;     /* so far */
    const qn_job_end *end;  /* NULL while the job is not done; lives as long as the job */
} qn_job_news;

/* Replaces *news. */
void qn_job_take(qn_job *job, qn_job_news *news);
void qn_job_news_free(qn_job_news *news);

#endif
