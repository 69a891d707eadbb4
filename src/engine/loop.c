/* The engine's thread: takes in what came, drops what is no longer wanted, plans a step, runs it, and again; it sleeps
 * when there is nothing to do, and while somebody measures. All that it shares with other threads is under one mutex,
 * which is held for the time of a few assignments; the only lock taken under it is that of the metrics. */
#include "base/clock.h"
#include "base/thread.h"
#include "engine/engine_internal.h"

/* With the mutex held: the jobs that came in go to the engine's own list. */
static void take_in(qn_engine *engine)
{
    qn_job *job = engine->incoming_first;
    engine->incoming_first = NULL;
    engine->incoming_last = &engine->incoming_first;
    while (job != NULL) {
        qn_job *next = job->next;
        qn_enlist(engine, job);
        job = next;
    }
}

static bool timed_out(const qn_job *job, uint64_t now_us)
{
    return job->request.timeout_us > 0 && now_us - job->submitted_us >= job->request.timeout_us;
}

static bool is_over(const qn_job *job, uint64_t now_us)
{
    return atomic_load(&job->wish) != QN_JOB_WANTED || timed_out(job, now_us);
}

/* Ends a job that is_over, or any when the engine stops; it is in no list and has no slot. */
static void end_unwanted(qn_job *job, bool stopping)
{
    qn_error err;
    int wish = atomic_load(&job->wish);
    if (wish == QN_JOB_ANSWERED) {
        qn_job_finish(job, NULL);
        return;
    }
    if (stopping) {
        qn_fail(&err, QN_CANCELLED, "request: the server is stopping: send it again later");
    } else if (wish == QN_JOB_UNWANTED) {
        qn_fail(&err, QN_CANCELLED, "request: it was cancelled");
    } else {
        qn_fail_field(&err, QN_CANCELLED, "timeout", "request: its time of %.3g s is over: ask for less or allow more",
                      (double)job->request.timeout_us / 1e6);
    }
    qn_job_finish(job, &err);
}

/* Jobs that nobody wants or whose time is over leave, and all of them when the engine stops. One whose blocks the store
 * is still filling waits for that. */
static void sweep(qn_engine *engine, uint64_t now_us, bool stopping)
{
    for (qn_job **at = &engine->waiting; *at != NULL;) {
        qn_job *job = *at;
        if (stopping || is_over(job, now_us)) {
            *at = job->next;
            end_unwanted(job, stopping);
        } else {
            at = &job->next;
        }
    }
    for (size_t i = 0; i < engine->running_count;) {
        qn_job *job = engine->running[i]->job;
        if ((stopping || is_over(job, now_us)) && job->slot->loads == 0) {
            qn_vacate(engine, job);
            end_unwanted(job, stopping);
        } else {
            i++;
        }
    }
}

/* The earlier of `next_us` and the end of the job's time; 0: no limit. */
static uint64_t earlier_timeout_us(uint64_t next_us, const qn_job *job)
{
    uint64_t end_us = job->submitted_us + job->request.timeout_us;
    return job->request.timeout_us > 0 && (next_us == 0 || end_us < next_us) ? end_us : next_us;
}

/* When the next request's time is over; 0: none has a limit. One whose blocks the store is filling can't leave before
 * that is done, which wakes the thread. */
static uint64_t next_timeout_us(const qn_engine *engine)
{
    uint64_t next_us = 0;
    for (const qn_job *job = engine->waiting; job != NULL; job = job->next) {
        next_us = earlier_timeout_us(next_us, job);
    }
    for (size_t i = 0; i < engine->running_count; i++) {
        const qn_slot *slot = engine->running[i];
        next_us = slot->loads == 0 ? earlier_timeout_us(next_us, slot->job) : next_us;
    }
    return next_us;
}

/* With the mutex held: sleeps until somebody wakes the thread or a request's time is over. */
static void sleep_a_while(qn_engine *engine)
{
    uint64_t until_us = next_timeout_us(engine);
    qn_metrics_on_load(engine->metrics, engine->running_count, engine->waiting_count, qn_kv_pool_usage(engine->blocks));
    if (until_us == 0) {
        pthread_cond_wait(&engine->wake, &engine->mutex);
        return;
    }
    qn_cond_wait_until(&engine->wake, &engine->mutex, until_us);
}

/* With the mutex held: the model and the cache are a measuring thread's. */
static bool is_lent(const qn_engine *engine)
{
    return engine->measuring && engine->active_count == 0 && !engine->stopping;
}

/* With the mutex held. */
static void rest(qn_engine *engine)
{
    engine->working = false;
    pthread_cond_broadcast(&engine->quiet);
    sleep_a_while(engine);
    while (is_lent(engine)) {
        pthread_cond_wait(&engine->wake, &engine->mutex);
    }
    engine->working = true;
}

static bool has_loads(const qn_engine *engine)
{
    for (size_t i = 0; i < engine->running_count; i++) {
        if (engine->running[i]->loads > 0) {
            return true;
        }
    }
    return false;
}

/* Nothing was planned: is that so only because requests were put back, and will the next plan find something? Where the
 * store holds blocks or fills them, its completion wakes the thread. */
static bool can_go_on(const qn_engine *engine)
{
    return engine->store_pins == 0 && !has_loads(engine) && (engine->running_count > 0 || engine->waiting != NULL);
}

static void *loop_main(void *context)
{
    qn_engine *engine = context;
    bool worked = false; /* the last round computed something: there is no need to sleep */
    bool ended = false;  /* it was told to stop, and has ended what could be */
    (void)qn_cpu_binding_bind(engine->binding, 0, pthread_self());
    qn_numa_join(&engine->numa);
    pthread_mutex_lock(&engine->mutex);
    engine->working = true;
    for (;;) {
        bool idle = !worked && engine->incoming_first == NULL && !engine->nudged && (ended || !engine->stopping);
        if (idle || is_lent(engine)) {
            rest(engine);
        }
        engine->nudged = false;
        take_in(engine);
        bool stopping = engine->stopping;
        pthread_mutex_unlock(&engine->mutex);
        uint64_t now_us = qn_now_us();
        qn_collect_stored(engine);
        qn_model_settle(engine->model);
        sweep(engine, now_us, stopping);
        if (stopping) {
            ended = true;
        } else {
            qn_plan_step(engine, now_us);
        }
        worked = !stopping && (engine->batch.part_count > 0 || can_go_on(engine));
        if (engine->batch.part_count > 0 && !stopping) {
            atomic_store(&engine->step_started_us, now_us);
            qn_run_step(engine);
            atomic_store(&engine->step_started_us, 0);
        }
        pthread_mutex_lock(&engine->mutex);
        if (stopping && !has_loads(engine) && engine->incoming_first == NULL) {
            break;
        }
    }
    engine->working = false;
    pthread_cond_broadcast(&engine->quiet);
    pthread_mutex_unlock(&engine->mutex);
    return NULL;
}

qn_status qn_loop_start(qn_engine *engine, qn_error *err)
{
    if (engine->thread_runs) {
        return QN_OK;
    }
    qn_status status = qn_thread_start(&engine->thread, "quern-engine", loop_main, engine, err);
    engine->thread_runs = status == QN_OK;
    return status;
}

void qn_loop_wake(qn_engine *engine)
{
    pthread_mutex_lock(&engine->mutex);
    engine->nudged = true;
    pthread_cond_signal(&engine->wake);
    pthread_mutex_unlock(&engine->mutex);
}

void qn_loop_stop(qn_engine *engine)
{
    pthread_mutex_lock(&engine->mutex);
    bool join = engine->thread_runs && !engine->stopping;
    engine->draining = engine->stopping = true;
    pthread_cond_signal(&engine->wake);
    pthread_mutex_unlock(&engine->mutex);
    if (join) {
        pthread_join(engine->thread, NULL);
    }
}

qn_status qn_measuring_begin(qn_engine *engine, qn_error *err)
{
    qn_status status = QN_OK;
    pthread_mutex_lock(&engine->mutex);
    if (engine->measuring) {
        status = qn_fail(err, QN_USAGE, "engine: it is measuring already: one measurement at a time");
    } else {
        engine->measuring = true;
        while (engine->active_count > 0 || engine->working) {
            pthread_cond_wait(&engine->quiet, &engine->mutex);
        }
    }
    pthread_mutex_unlock(&engine->mutex);
    if (status == QN_OK) {
        (void)qn_cpu_binding_bind(engine->binding, 0, pthread_self());
        qn_numa_join(&engine->numa);
    }
    return status;
}

void qn_measuring_end(qn_engine *engine)
{
    qn_cpu_binding_release(engine->binding, pthread_self());
    qn_numa_end(&engine->numa);
    pthread_mutex_lock(&engine->mutex);
    engine->measuring = false;
    pthread_cond_signal(&engine->wake);
    pthread_mutex_unlock(&engine->mutex);
}
