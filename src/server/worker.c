/* One mutex guards the queue and every job's shared part: it is held for the time of an append, once a step, and
 * nothing ever waits for something else under it. A job has two owners, the reader and the queue (or the running
 * worker), and is freed by the second to let go. */
#include "server/worker.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "text/stop.h"

/* A stretch of one channel in a job's pending text. */
typedef struct run {
    qn_channel channel;
    size_t bytes;
} run;

struct qn_job {
    qn_worker *worker;
    qn_job *next; /* in the queue */
    int owners;
    int news_fd;
    atomic_bool cancelled;
    qn_request request; /* pointers into the two blocks below */
    int32_t *prompt_ids;
    char *stop_text;
    const char *stop[QN_STOP_MAX_STRINGS];
    uint64_t submitted_us;
    qn_buffer text, runs; /* pending */
    bool fell_behind, done;
    qn_job_end end;
};

struct qn_worker {
    qn_engine *engine;
    size_t max_waiting;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    qn_job *first, **last; /* waiting */
    size_t waiting;
    qn_job *running;
    bool closed, stopping, joined;
};

static void free_job(qn_job *job)
{
    if (job->news_fd >= 0) {
        close(job->news_fd);
    }
    qn_buffer_free(&job->text);
    qn_buffer_free(&job->runs);
    qn_free(job->prompt_ids);
    qn_free(job->stop_text);
    qn_free(job);
}

/* With the mutex held. */
static void drop_owner(qn_job *job)
{
    if (--job->owners == 0) {
        free_job(job);
    }
}

static void raise_news(qn_job *job)
{
    eventfd_write(job->news_fd, 1); /* fails only when the counter is full: then it is readable already */
}

/* Appends to the pending text; a failure (too far behind, no memory) gives the reader up. */
static void append_output(qn_job *job, const qn_output *output)
{
    run *last = job->runs.size > 0 ? (run *)(void *)(job->runs.data + job->runs.size) - 1 : NULL;
    if (last != NULL && last->channel == output->channel) {
        last->bytes += output->bytes;
    } else {
        run added = {.channel = output->channel, .bytes = output->bytes};
        qn_buffer_append(&job->runs, &added, sizeof added);
    }
    qn_buffer_append(&job->text, output->text, output->bytes);
    if (job->text.failed || job->runs.failed) {
        job->fell_behind = true;
        atomic_store(&job->cancelled, true);
    }
}

static bool on_output(void *context, const qn_output *output)
{
    qn_job *job = context;
    if (output->bytes > 0) {
        pthread_mutex_lock(&job->worker->mutex);
        append_output(job, output);
        pthread_mutex_unlock(&job->worker->mutex);
        raise_news(job);
    }
    return !atomic_load(&job->cancelled);
}

static bool still_wanted(void *context)
{
    qn_job *job = context;
    return !atomic_load(&job->cancelled);
}

static bool on_step(void *context, const qn_step *step)
{
    (void)step;
    return still_wanted(context);
}

static void fill_end(qn_job *job, qn_status status, const qn_error *err, const qn_result *result, uint64_t started_us)
{
    qn_job_end *end = &job->end;
    end->status = status;
    if (status != QN_OK) {
        end->err = *err;
        return;
    }
    if (job->fell_behind) { /* whatever the finish: some text is lost */
        end->fell_behind = true;
        end->status = qn_fail(&end->err, QN_CANCELLED,
                              "answer: read too slowly: more than %d bytes of it wait: read faster or ask for less",
                              QN_JOB_MAX_PENDING_BYTES);
    } else if (result->finish == QN_FINISH_CANCELLED) {
        end->status = qn_fail(&end->err, QN_CANCELLED, "request: the server is stopping: send it again later");
    }
    end->finish = result->finish;
    end->stop_matched = result->stop_matched;
    end->prompt_tokens = result->prompt_tokens;
    end->completion_tokens = result->completion_tokens;
    end->reasoning_tokens = result->reasoning_tokens;
    end->drafts = result->drafts_proposed;
    end->drafts_accepted = result->drafts_accepted;
    end->queue_us = started_us - job->submitted_us + result->queue_us;
    end->prefill_us = result->prefill_us;
    end->decode_us = result->decode_us;
}

static void run_job(qn_worker *worker, qn_job *job)
{
    const qn_listener listener = {
        .context = job, .on_start = still_wanted, .on_output = on_output, .on_step = on_step, .on_idle = still_wanted};
    uint64_t started_us = qn_now_us();
    qn_result result = {0};
    qn_error err;
    qn_status status = qn_engine_generate(worker->engine, &job->request, &listener, &result, &err);
    pthread_mutex_lock(&worker->mutex);
    fill_end(job, status, &err, &result, started_us);
    job->done = true;
    worker->running = NULL;
    pthread_mutex_unlock(&worker->mutex);
    raise_news(job);
    qn_result_free(&result);
}

/* With the mutex held: the first waiting job, or NULL. */
static qn_job *pop(qn_worker *worker)
{
    qn_job *job = worker->first;
    if (job != NULL) {
        worker->first = job->next;
        worker->last = worker->first == NULL ? &worker->first : worker->last;
        worker->waiting--;
        job->next = NULL;
    }
    return job;
}

static void *worker_main(void *context)
{
    qn_worker *worker = context;
    pthread_mutex_lock(&worker->mutex);
    while (!worker->stopping) {
        qn_job *job = pop(worker);
        if (job == NULL) {
            pthread_cond_wait(&worker->wake, &worker->mutex);
            continue;
        }
        worker->running = job;
        pthread_mutex_unlock(&worker->mutex);
        run_job(worker, job);
        pthread_mutex_lock(&worker->mutex);
        drop_owner(job);
    }
    pthread_mutex_unlock(&worker->mutex);
    return NULL;
}

qn_status qn_worker_new(qn_engine *engine, size_t max_waiting, qn_worker **out, qn_error *err)
{
    qn_worker *worker = qn_alloc_zero(1, sizeof *worker);
    if (worker == NULL) {
        return qn_fail_memory(err, "engine thread", sizeof *worker);
    }
    worker->engine = engine;
    worker->max_waiting = max_waiting;
    worker->last = &worker->first;
    pthread_mutex_init(&worker->mutex, NULL);
    pthread_cond_init(&worker->wake, NULL);
    int failed = pthread_create(&worker->thread, NULL, worker_main, worker);
    if (failed != 0) {
        worker->joined = true;
        qn_worker_free(worker);
        return qn_fail(err, QN_RESOURCE, "engine thread: %s: raise the limit on threads", strerror(failed));
    }
    pthread_setname_np(worker->thread, "quern-engine");
    *out = worker;
    return QN_OK;
}

void qn_worker_close(qn_worker *worker)
{
    pthread_mutex_lock(&worker->mutex);
    worker->closed = true;
    pthread_mutex_unlock(&worker->mutex);
}

void qn_worker_stop(qn_worker *worker)
{
    pthread_mutex_lock(&worker->mutex);
    worker->closed = true;
    worker->stopping = true;
    if (worker->running != NULL) {
        atomic_store(&worker->running->cancelled, true);
    }
    for (qn_job *job = pop(worker); job != NULL; job = pop(worker)) {
        job->end.status = qn_fail(&job->end.err, QN_CANCELLED, "request: the server is stopping: send it again later");
        job->done = true;
        raise_news(job);
        drop_owner(job);
    }
    bool join = !worker->joined;
    worker->joined = true;
    pthread_cond_signal(&worker->wake);
    pthread_mutex_unlock(&worker->mutex);
    if (join) {
        pthread_join(worker->thread, NULL);
    }
}

void qn_worker_free(qn_worker *worker)
{
    if (worker == NULL) {
        return;
    }
    qn_worker_stop(worker);
    pthread_cond_destroy(&worker->wake);
    pthread_mutex_destroy(&worker->mutex);
    qn_free(worker);
}

/* Stop strings back to back with NULs, so that one block holds them. */
static bool copy_stop(qn_job *job, const qn_request *request)
{
    size_t bytes = 0;
    for (size_t i = 0; i < request->stop_count; i++) {
        bytes += strlen(request->stop[i]) + 1;
    }
    job->stop_text = qn_alloc(bytes, 1);
    if (job->stop_text == NULL) {
        return false;
    }
    char *at = job->stop_text;
    for (size_t i = 0; i < request->stop_count; i++) {
        size_t length = strlen(request->stop[i]) + 1;
        memcpy(at, request->stop[i], length);
        job->stop[i] = at;
        at += length;
    }
    job->request.stop = job->stop;
    return true;
}

static qn_status new_job(qn_worker *worker, const qn_request *request, qn_job **out, qn_error *err)
{
    qn_job *job = qn_alloc_zero(1, sizeof *job);
    if (job == NULL) {
        return qn_fail_memory(err, "request", sizeof *job);
    }
    job->worker = worker;
    job->request = *request;
    job->owners = 2;
    job->submitted_us = qn_now_us();
    job->text.limit = QN_JOB_MAX_PENDING_BYTES;
    job->runs.limit = QN_JOB_MAX_PENDING_BYTES;
    job->news_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    job->prompt_ids = qn_alloc(request->prompt_count, sizeof *job->prompt_ids);
    bool complete = job->prompt_ids != NULL && copy_stop(job, request);
    if (!complete || job->news_fd < 0) {
        free_job(job);
        return complete ? qn_fail(err, QN_RESOURCE, "request: no file descriptor left: raise the limit on open files")
                        : qn_fail_memory(err, "request", request->prompt_count * sizeof *request->prompt_ids);
    }
    memcpy(job->prompt_ids, request->prompt_ids, request->prompt_count * sizeof *job->prompt_ids);
    job->request.prompt_ids = job->prompt_ids;
    *out = job;
    return QN_OK;
}

static qn_status enqueue(qn_worker *worker, qn_job *job, qn_error *err)
{
    if (worker->closed) {
        return qn_fail(err, QN_RESOURCE, "request: the server is stopping: send it again later");
    }
    if (worker->waiting + (worker->running != NULL) >= worker->max_waiting + 1) {
        return qn_fail(err, QN_RESOURCE, "request: %zu requests are waiting already: send it again later",
                       worker->waiting);
    }
    *worker->last = job;
    worker->last = &job->next;
    worker->waiting++;
    pthread_cond_signal(&worker->wake);
    return QN_OK;
}

qn_status qn_worker_submit(qn_worker *worker, const qn_request *request, qn_job **out, qn_error *err)
{
    qn_job *job = NULL;
    qn_status status = new_job(worker, request, &job, err);
    if (status != QN_OK) {
        return status;
    }
    pthread_mutex_lock(&worker->mutex);
    status = enqueue(worker, job, err);
    pthread_mutex_unlock(&worker->mutex);
    if (status != QN_OK) {
        free_job(job);
        return status;
    }
    *out = job;
    return QN_OK;
}

/* With the mutex held: takes the job out of the queue if it is there. */
static bool unlink_waiting(qn_worker *worker, qn_job *job)
{
    for (qn_job **at = &worker->first; *at != NULL; at = &(*at)->next) {
        if (*at == job) {
            *at = job->next;
            worker->last = job->next == NULL ? at : worker->last;
            worker->waiting--;
            return true;
        }
    }
    return false;
}

void qn_job_release(qn_job *job)
{
    if (job == NULL) {
        return;
    }
    qn_worker *worker = job->worker;
    pthread_mutex_lock(&worker->mutex);
    atomic_store(&job->cancelled, true);
    if (unlink_waiting(worker, job)) {
        drop_owner(job);
    }
    drop_owner(job);
    pthread_mutex_unlock(&worker->mutex);
}

int qn_job_fd(const qn_job *job)
{
    return job->news_fd;
}

static void swap_buffers(qn_buffer *a, qn_buffer *b)
{
    qn_buffer kept = *a;
    *a = *b;
    *b = kept;
}

void qn_job_take(qn_job *job, qn_job_news *news)
{
    eventfd_t count;
    eventfd_read(job->news_fd, &count); /* first, so that news after it raises it again */
    qn_buffer_clear(&news->text);
    qn_buffer_clear(&news->runs);
    news->text.limit = QN_JOB_MAX_PENDING_BYTES;
    news->runs.limit = QN_JOB_MAX_PENDING_BYTES;
    news->text_at = 0;
    news->run_at = 0;
    pthread_mutex_lock(&job->worker->mutex);
    swap_buffers(&job->text, &news->text);
    swap_buffers(&job->runs, &news->runs);
    news->end = job->done ? &job->end : NULL;
    pthread_mutex_unlock(&job->worker->mutex);
}

bool qn_job_news_next(qn_job_news *news, qn_output *out)
{
    if (news->run_at >= news->runs.size) {
        return false;
    }
    run next;
    memcpy(&next, news->runs.data + news->run_at, sizeof next);
    *out = (qn_output){.channel = next.channel, .text = news->text.data + news->text_at, .bytes = next.bytes};
    news->run_at += sizeof next;
    news->text_at += next.bytes;
    return true;
}

void qn_job_news_free(qn_job_news *news)
{
    qn_buffer_free(&news->text);
    qn_buffer_free(&news->runs);
    *news = (qn_job_news){0};
}
