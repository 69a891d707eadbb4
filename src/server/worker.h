/* The engine thread: requests wait in a bounded queue, run one at a time, and hand their text to whoever reads it.
 *
 * A handler (on its connection's thread) submits a job and reads its news; the worker runs the engine. Between them
 * lies the job: the worker appends text and never waits for the reader, so no client, however slow, holds the engine.
 * A reader who falls QN_JOB_MAX_PENDING_BYTES behind is given up and its job cancelled. News raise an eventfd, so that
 * the reader can wait for them and for its client's hanging up in one poll.
 *
 * All functions may be called from any thread; a job's reader is one thread at a time. */
#ifndef QN_SERVER_WORKER_H
#define QN_SERVER_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "engine/engine.h"

typedef struct qn_worker qn_worker;
typedef struct qn_job qn_job;

enum { QN_JOB_MAX_PENDING_BYTES = 4 << 20 };

/* Starts the thread. max_waiting: jobs in the queue besides the running one. The engine must outlive the worker. */
qn_status qn_worker_new(qn_engine *engine, size_t max_waiting, qn_worker **out, qn_error *err);

/* Refuses new jobs; those that were taken go on. */
void qn_worker_close(qn_worker *worker);

/* Also ends every job, the running one within a step (QN_CANCELLED), and joins the thread. */
void qn_worker_stop(qn_worker *worker);

/* Stops it if that was not done. Every job must have been released. NULL is fine. */
void qn_worker_free(qn_worker *worker);

/* Queues a copy of the request (the prompt and stop strings too). QN_RESOURCE when the queue is full or closed. */
qn_status qn_worker_submit(qn_worker *worker, const qn_request *request, qn_job **out, qn_error *err);

/* The reader lets go: a job that is not done is cancelled. NULL is fine. */
void qn_job_release(qn_job *job);

/* Readable when there is news. */
int qn_job_fd(const qn_job *job);

typedef struct qn_job_end {
    qn_status status; /* not QN_OK: err tells why; QN_CANCELLED when the worker was stopped or the reader too slow */
    qn_error err;
    bool fell_behind; /* the reader was too slow: more text was pending than is kept */
    qn_finish finish;
    const char *stop_matched; /* lives as long as the job; NULL: none */
    size_t prompt_tokens, completion_tokens, reasoning_tokens, drafts, drafts_accepted;
    uint64_t queue_us, prefill_us, decode_us;
} qn_job_end;

/* What came since the last call. Start from {0}; release with qn_job_news_free. */
typedef struct qn_job_news {
    qn_buffer text, runs; /* read by qn_job_news_next */
    size_t text_at, run_at;
    const qn_job_end *end; /* NULL while the job is not done; lives as long as the job */
} qn_job_news;

/* Replaces *news. */
void qn_job_take(qn_job *job, qn_job_news *news);

/* The next piece of text, in order; false when there is none left. */
bool qn_job_news_next(qn_job_news *news, qn_output *out);

void qn_job_news_free(qn_job_news *news);

#endif
