#include "engine/job.h"

#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "engine/engine_internal.h"

static void free_job(qn_job *job)
{
    if (job->news_fd >= 0) {
        close(job->news_fd);
    }
    qn_buffer_free(&job->shared.tokens);
    qn_buffer_free(&job->shared.logprobs);
    qn_buffer_free(&job->shared.ranks);
    qn_buffer_free(&job->shared.prompt_logprobs);
    qn_buffer_free(&job->shared.prompt_ranks);
    qn_token_counts_free(job->counts);
    qn_free(job->stop_token_ids);
    qn_free(job->logit_bias);
    qn_free(job->cache_salt);
    qn_free(job->tokens);
    qn_free(job->keys);
    qn_free(job);
}

void qn_job_drop(qn_job *job)
{
    if (--job->owners == 0) {
        free_job(job);
    }
}

void qn_job_raise(const qn_job *job)
{
    eventfd_write(job->news_fd, 1); /* fails only when the counter is full: then it is readable already */
}

/* A copy of count elements, NULL for none. False: no memory. */
static bool copy(const void *from, size_t count, size_t size, void *out)
{
    void *made = NULL;
    if (count > 0) {
        made = qn_alloc(count, size);
        if (made == NULL) {
            return false;
        }
        memcpy(made, from, count * size);
    }
    memcpy(out, &made, sizeof made);
    return true;
}

static qn_status copy_request(qn_job *job, const qn_request *request, qn_error *err)
{
    const qn_engine *engine = job->engine;
    size_t block_tokens = qn_engine_block_tokens(engine), prompt = request->prompt_count;
    job->limit = request->max_tokens > 0 ? prompt + request->max_tokens : engine->max_model_len;
    job->tokens = qn_alloc(job->limit + QN_MAX_SPECULATIVE_TOKENS, sizeof *job->tokens);
    job->keys = qn_alloc(job->limit / block_tokens + 1, sizeof *job->keys);
    const char *salt = request->cache_salt;
    if (job->tokens == NULL || job->keys == NULL ||
        !copy(request->stop_token_ids, request->stop_token_count, sizeof(int32_t), &job->stop_token_ids) ||
        !copy(request->sampling.logit_bias, request->sampling.logit_bias_count, sizeof(qn_logit_bias),
              &job->logit_bias) ||
        !copy(salt, salt == NULL ? 0 : strlen(salt) + 1, 1, &job->cache_salt)) {
        return qn_fail_memory(err, "request", (job->limit + QN_MAX_SPECULATIVE_TOKENS) * sizeof *job->tokens);
    }
    memcpy(job->tokens, request->prompt_ids, prompt * sizeof *job->tokens);
    job->length = prompt;
    job->request = *request;
    job->request.prompt_ids = job->tokens;
    job->request.stop_token_ids = job->stop_token_ids;
    job->request.sampling.logit_bias = job->logit_bias;
    job->request.cache_salt = job->cache_salt;
    job->request.stop = NULL;
    job->request.stop_count = 0;
    if (!qn_sampling_counts_tokens(&request->sampling)) {
        return QN_OK;
    }
    qn_status status = qn_token_counts_new(request->prompt_ids, prompt, &job->counts, err);
    return status == QN_OK ? qn_token_counts_reserve(job->counts, job->limit - prompt, err) : status;
}

static qn_status new_job(qn_engine *engine, const qn_request *request, qn_job **out, qn_error *err)
{
    qn_job *job = qn_alloc_zero(1, sizeof *job);
    if (job == NULL) {
        return qn_fail_memory(err, "request", sizeof *job);
    }
    job->engine = engine;
    job->owners = 2;
    job->news_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    qn_status status = job->news_fd < 0 ? qn_fail(err, QN_RESOURCE,
                                                  "request: no file descriptor is left: raise the limit on open files")
                                        : copy_request(job, request, err);
    if (status != QN_OK) {
        free_job(job);
        return status;
    }
    job->alone_in_cache = !engine->prefix_caching || request->has_prompt_logprobs;
    qn_repetition_start(&job->guard, engine->repetition);
    qn_draft_history_start(&job->history);
    job->timings.prompt_tokens = job->shared.timings.prompt_tokens = request->prompt_count;
    job->submitted_us = qn_now_us();
    *out = job;
    return QN_OK;
}

/* With the mutex held. */
static qn_status enqueue(qn_engine *engine, qn_job *job, qn_error *err)
{
    if (engine->draining) {
        return qn_fail_field(err, QN_RESOURCE, "queue", "request: the server is stopping: send it again later");
    }
    if (engine->measuring) {
        return qn_fail(err, QN_USAGE, "request: the engine is measuring: wait until it is done");
    }
    size_t free_seats = engine->max_num_seqs > engine->running_count ? engine->max_num_seqs - engine->running_count : 0;
    if (engine->max_queue > 0 && engine->waiting_count >= engine->max_queue + free_seats) {
        qn_metrics_on_refusal(engine->metrics);
        return qn_fail_field(err, QN_RESOURCE, "queue",
                             "request: %zu requests are waiting already: send it again later", engine->waiting_count);
    }
    qn_status status = qn_loop_start(engine, err);
    if (status != QN_OK) {
        return status;
    }
    job->arrival = engine->next_arrival++;
    *engine->incoming_last = job;
    engine->incoming_last = &job->next;
    engine->waiting_count++;
    engine->active_count++;
    pthread_cond_signal(&engine->wake);
    return QN_OK;
}

qn_status qn_engine_submit(qn_engine *engine, const qn_request *request, qn_job **out, qn_error *err)
{
    qn_job *job = NULL;
    qn_status status = qn_engine_check_request(engine, request, err);
    if (status == QN_OK) {
        status = new_job(engine, request, &job, err);
    }
    if (status != QN_OK) {
        return status;
    }
    pthread_mutex_lock(&engine->mutex);
    status = enqueue(engine, job, err);
    pthread_mutex_unlock(&engine->mutex);
    if (status != QN_OK) {
        free_job(job);
        return status;
    }
    *out = job;
    return QN_OK;
}

void qn_job_cancel(qn_job *job, bool answered)
{
    int wanted = QN_JOB_WANTED;
    if (atomic_compare_exchange_strong(&job->wish, &wanted, answered ? QN_JOB_ANSWERED : QN_JOB_UNWANTED)) {
        qn_loop_wake(job->engine);
    }
}

void qn_job_release(qn_job *job)
{
    if (job == NULL) {
        return;
    }
    qn_engine *engine = job->engine;
    qn_job_cancel(job, false);
    pthread_mutex_lock(&engine->mutex);
    qn_job_drop(job);
    pthread_mutex_unlock(&engine->mutex);
}

int qn_job_fd(const qn_job *job)
{
    return job->news_fd;
}

/* *to is emptied and takes what *from holds; *from gets its memory for what comes. */
static void hand_over(qn_buffer *from, qn_buffer *to)
{
    qn_buffer_clear(to);
    qn_buffer kept = *to;
    *to = *from;
    *from = kept;
}

void qn_job_take(qn_job *job, qn_job_news *news)
{
    eventfd_t count;
    eventfd_read(job->news_fd, &count); /* first, so that news after it raises it again */
    pthread_mutex_lock(&job->engine->mutex);
    hand_over(&job->shared.tokens, &news->tokens);
    hand_over(&job->shared.logprobs, &news->logprobs);
    hand_over(&job->shared.ranks, &news->ranks);
    hand_over(&job->shared.prompt_logprobs, &news->prompt_logprobs);
    hand_over(&job->shared.prompt_ranks, &news->prompt_ranks);
    news->prompt_computed = job->shared.prompt_computed;
    news->started = job->shared.started;
    news->timings = job->shared.timings;
    news->end = job->shared.done ? &job->shared.end : NULL;
    pthread_mutex_unlock(&job->engine->mutex);
}

void qn_job_news_free(qn_job_news *news)
{
    qn_buffer_free(&news->tokens);
    qn_buffer_free(&news->logprobs);
    qn_buffer_free(&news->ranks);
    qn_buffer_free(&news->prompt_logprobs);
    qn_buffer_free(&news->prompt_ranks);
    *news = (qn_job_news){.end = NULL};
}
