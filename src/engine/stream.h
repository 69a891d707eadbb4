/* One request's answer as text: a job read and decoded on its reader's thread, while the engine's thread computes.
 *
 * Stop strings are looked for here. When one is found, the job is cancelled; tokens that the engine computed beyond it
 * are dropped, so that an answer does not depend on when it was read. One thread at a time. */
#ifndef QN_ENGINE_STREAM_H
#define QN_ENGINE_STREAM_H

#include "engine/job.h"
#include "sampling/logprobs.h"
#include "text/output.h"

typedef struct qn_stream qn_stream;

/* Checks the request and submits it; errors as qn_engine_submit, and QN_USAGE with field "stop". The request's stop
 * strings must live as long as the stream. */
qn_status qn_stream_open(qn_engine *engine, const qn_request *request, qn_stream **out, qn_error *err);

/* A request that is not done is cancelled. NULL is fine. */
void qn_stream_close(qn_stream *stream);

/* Cancels what is not done and waits, for a step at most, until the engine's thread has let go of the request: from
 * then on nothing of its trace and mask is used. */
void qn_stream_settle(qn_stream *stream);

/* Readable when there is news. */
int qn_stream_fd(const qn_stream *stream);

/* Takes the news and decodes them; what the call before brought is gone. Failure (QN_RESOURCE) ends the request. */
qn_status qn_stream_take(qn_stream *stream, qn_error *err);

/* The next event of what the last take brought, in order: text of one kind, or a call's (text/output.h; stop strings
 * never leak, special tokens are not shown). It is valid until the next take. False: there is none left. */
bool qn_stream_next(qn_stream *stream, qn_output_event *out);

/* The tokens that the last take brought, up to the answer's end, and where asked for their logprobs
 * [count][1 + request.logprobs] and ranks [count]; NULL: not asked for. */
typedef struct qn_stream_tokens {
    const int32_t *ids;
    size_t count;
    const qn_logprob *logprobs;
    const uint32_t *ranks;
} qn_stream_tokens;
qn_stream_tokens qn_stream_taken(const qn_stream *stream);

/* Of all prompt tokens from the second on, once the stream has started; ids are the request's own. {0}: not asked for
 * or not there yet. */
qn_stream_tokens qn_stream_prompt(const qn_stream *stream);

bool qn_stream_started(const qn_stream *stream);           /* the prompt is computed */
size_t qn_stream_prompt_computed(const qn_stream *stream); /* tokens of it so far */

typedef struct qn_result {
    qn_finish finish;
    const char *stop_matched;                /* one of request->stop, or NULL */
    int32_t stop_token;                      /* one of stop_token_ids that ended the answer; -1 */
    size_t prompt_tokens, completion_tokens; /* the EOS token counts */
    size_t reasoning_tokens;                 /* of the completion; 0 for raw text */
    int32_t *tokens; /* completion_tokens ids; qn_engine_generate's caller releases them with qn_result_free, a stream's
                        are its own and not all there before its end */
    qn_timings timings;
} qn_result;

/* How far it is; complete once qn_stream_end. */
qn_result qn_stream_result(const qn_stream *stream);

/* NULL while the answer goes on. Its status is not QN_OK when the request failed or was cancelled from elsewhere. */
const qn_job_end *qn_stream_end(const qn_stream *stream);

#endif
