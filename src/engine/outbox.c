#include "engine/outbox.h"

#include "base/clock.h"
#include "base/size.h"
#include "engine/engine_internal.h"

static const char *reason_of(const qn_job_end *end)
{
    if (end->status != QN_OK) {
        return end->status == QN_CANCELLED ? "abort" : "error";
    }
    return end->finish == QN_FINISH_CANCELLED ? "abort" : qn_finish_name(end->finish);
}

static void count_end(const qn_job *job, const qn_job_end *end, uint64_t now_us)
{
    const qn_metrics_request told = {.finished_reason = reason_of(end),
                                     .e2e_us = now_us - job->submitted_us,
                                     .prefill_us = job->timings.prefill_us,
                                     .decode_us = job->timings.decode_us,
                                     .prompt_tokens = job->request.prompt_count,
                                     .completion_tokens = qn_job_answered(job),
                                     .max_tokens = job->limit - job->request.prompt_count};
    qn_metrics_on_finish(job->engine->metrics, &told);
}

/* With the mutex held. */
static void publish_end(qn_job *job, const qn_job_end *end)
{
    job->state = QN_JOB_DONE;
    job->shared.end = *end;
    job->shared.done = true;
    job->engine->active_count--;
}

/* With the mutex held. False: no memory. */
static bool append(qn_job *job, const qn_delivery *d)
{
    qn_buffer_append(&job->shared.tokens, d->tokens, d->count * sizeof *d->tokens);
    if (job->request.has_logprobs) {
        for (size_t i = 0; i < d->count; i++) {
            qn_buffer_append(&job->shared.logprobs, d->logprobs[i],
                             (1 + job->request.logprobs) * sizeof *d->logprobs[i]);
        }
        qn_buffer_append(&job->shared.ranks, d->ranks, d->count * sizeof *d->ranks);
    }
    job->shared.started = true;
    return !job->shared.tokens.failed && !job->shared.logprobs.failed && !job->shared.ranks.failed;
}

bool qn_job_deliver(qn_job *job, const qn_delivery *delivery)
{
    qn_engine *engine = job->engine;
    uint64_t now_us = qn_now_us();
    if (delivery->end != NULL) {
        count_end(job, delivery->end, now_us);
    }
    pthread_mutex_lock(&engine->mutex);
    bool fits = delivery->count == 0 || append(job, delivery);
    job->shared.timings = job->timings;
    job->shared.prompt_computed = job->request.prompt_count;
    if (delivery->end != NULL) {
        qn_job_raise(job); /* while the job is there */
        qn_job_end end = *delivery->end;
        if (!fits) {
            end.status = qn_fail_memory(&end.err, "the answer's tokens", job->shared.tokens.size);
        }
        publish_end(job, &end);
        qn_job_drop(job);
        pthread_mutex_unlock(&engine->mutex);
        return fits;
    }
    pthread_mutex_unlock(&engine->mutex);
    qn_job_raise(job); /* the reader wakes at once: it would find the mutex taken, and both would ask the system */
    return fits;
}

bool qn_job_deliver_prompt(qn_job *job, const qn_logprob *logprobs, const uint32_t *ranks, size_t count)
{
    pthread_mutex_lock(&job->engine->mutex);
    qn_buffer_append(&job->shared.prompt_logprobs, logprobs,
                     count * (1 + job->request.prompt_logprobs) * sizeof *logprobs);
    qn_buffer_append(&job->shared.prompt_ranks, ranks, count * sizeof *ranks);
    bool fits = !job->shared.prompt_logprobs.failed && !job->shared.prompt_ranks.failed;
    pthread_mutex_unlock(&job->engine->mutex);
    return fits;
}

void qn_job_tell_progress(qn_job *job)
{
    pthread_mutex_lock(&job->engine->mutex);
    job->shared.prompt_computed = qn_min_size(job->computed, job->request.prompt_count);
    pthread_mutex_unlock(&job->engine->mutex);
    qn_job_raise(job);
}

void qn_job_finish(qn_job *job, const qn_error *reason)
{
    uint64_t now_us = qn_now_us();
    qn_job_end end = {.status = QN_OK, .finish = QN_FINISH_STOP, .stop_token = -1};
    if (reason != NULL) {
        end = (qn_job_end){.status = reason->status, .err = *reason, .finish = QN_FINISH_CANCELLED, .stop_token = -1};
    }
    if (job->state == QN_JOB_WAITING) { /* it never got to run again */
        pthread_mutex_lock(&job->engine->mutex);
        job->engine->waiting_count--;
        pthread_mutex_unlock(&job->engine->mutex);
        if (job->admitted_us == 0) {
            job->timings.queue_us = now_us - job->submitted_us;
        }
    }
    const qn_delivery delivery = {.end = &end};
    qn_job_deliver(job, &delivery);
}
