/* Sends the requests of a workload and reads their answers, alone or all at once, and compares. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "engine/engine_internal.h"
#include "unit/engine/workload.h"

/* A request under way, to be read by one thread. */
typedef struct exchange {
    const ask *ask;
    qn_request request;
    qn_stream *stream; /* one of these is NULL; both: not sent yet, or over */
    qn_job *job;
    qn_job_news news;
    bool over;
    uint64_t due_us, sent_us;
    answer *answer;
} exchange;

void answer_free(answer *a)
{
    qn_buffer *const buffers[] = {&a->tokens,       &a->logprobs, &a->ranks,   &a->prompt_logprobs,
                                  &a->prompt_ranks, &a->text[0],  &a->text[1], &a->channels};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) {
        qn_buffer_free(buffers[i]);
    }
}

static void append(qn_buffer *to, const qn_buffer *from)
{
    qn_buffer_append(to, from->data, from->size);
}

static size_t token_count(const answer *a)
{
    return a->tokens.size / sizeof(int32_t);
}

static void finish(exchange *x)
{
    if (x->stream != NULL) {
        qn_stream_close(x->stream);
    }
    qn_job_release(x->job);
    qn_job_news_free(&x->news);
    x->stream = NULL;
    x->job = NULL;
    x->over = true;
}

static void take_job(exchange *x)
{
    answer *a = x->answer;
    qn_job_take(x->job, &x->news);
    append(&a->tokens, &x->news.tokens);
    append(&a->logprobs, &x->news.logprobs);
    append(&a->ranks, &x->news.ranks);
    append(&a->prompt_logprobs, &x->news.prompt_logprobs);
    append(&a->prompt_ranks, &x->news.prompt_ranks);
    a->timings = x->news.timings;
    if (x->news.end != NULL) {
        a->ended = true;
        a->end = *x->news.end;
    }
}

static void take_prompt(answer *a, const qn_stream *stream)
{
    qn_stream_tokens prompt = qn_stream_prompt(stream);
    if (prompt.logprobs != NULL && a->prompt_ranks.size == 0) {
        qn_buffer_append(&a->prompt_ranks, prompt.ranks, prompt.count * sizeof *prompt.ranks);
    }
}

static void take_stream(exchange *x)
{
    answer *a = x->answer;
    qn_error err;
    qn_output_event output;
    if (qn_stream_take(x->stream, &err) != QN_OK) {
        a->ended = true;
        a->end = *qn_stream_end(x->stream);
        return;
    }
    qn_stream_tokens taken = qn_stream_taken(x->stream);
    size_t each = 1 + x->request.logprobs;
    qn_buffer_append(&a->tokens, taken.ids, taken.count * sizeof *taken.ids);
    if (taken.logprobs != NULL) {
        qn_buffer_append(&a->logprobs, taken.logprobs, taken.count * each * sizeof *taken.logprobs);
        qn_buffer_append(&a->ranks, taken.ranks, taken.count * sizeof *taken.ranks);
    }
    take_prompt(a, x->stream);
    while (qn_stream_next(x->stream, &output)) {
        char channel = output.kind == QN_OUTPUT_CONTENT ? 'c' : 'r';
        qn_buffer_append(&a->text[output.kind], output.text, output.bytes);
        if (a->channels.size == 0 || a->channels.data[a->channels.size - 1] != channel) {
            qn_buffer_char(&a->channels, channel);
        }
    }
    qn_result result = qn_stream_result(x->stream);
    a->timings = result.timings;
    if (qn_stream_end(x->stream) != NULL) {
        a->ended = true;
        a->end = *qn_stream_end(x->stream);
        for (size_t i = 0; result.stop_matched != NULL && i < x->request.stop_count; i++) {
            if (x->request.stop[i] == result.stop_matched) {
                a->stop_index = (int)i;
            }
        }
        qn_stream_tokens prompt = qn_stream_prompt(x->stream);
        if (prompt.logprobs != NULL) {
            qn_buffer_append(&a->prompt_logprobs, prompt.logprobs,
                             prompt.count * (1 + x->request.prompt_logprobs) * sizeof *prompt.logprobs);
        }
    }
}

static void take(exchange *x)
{
    if (x->stream != NULL) {
        take_stream(x);
    } else {
        take_job(x);
    }
    if (x->answer->ended) {
        finish(x);
    }
}

static int fd_of(const exchange *x)
{
    return x->stream != NULL ? qn_stream_fd(x->stream) : qn_job_fd(x->job);
}

static qn_status send_ask(exchange *x, qn_engine *engine, qn_error *err)
{
    x->answer->stop_index = -1;
    x->sent_us = qn_now_us();
    qn_status status = x->ask->by_job ? qn_engine_submit(engine, &x->request, &x->job, err)
                                      : qn_stream_open(engine, &x->request, &x->stream, err);
    x->answer->accepted = status == QN_OK;
    return status;
}

void run_alone(qn_engine *engine, const workload *w, const ask *a, answer *out)
{
    qn_error err;
    exchange x = {.ask = a, .request = a->request, .answer = out};
    *out = (answer){0};
    if (x.request.max_tokens == 0) {
        x.request.max_tokens = w->options.max_model_len - x.request.prompt_count;
    }
    x.request.timeout_us = 0;
    x.request.trace = (qn_trace){0};
    if (send_ask(&x, engine, &err) != QN_OK) {
        workload_describe(w, a);
        fail_msg("%s", err.message);
    }
    while (!x.over) {
        struct pollfd news = {.fd = fd_of(&x), .events = POLLIN};
        poll(&news, 1, -1);
        take(&x);
    }
}

/* ---- together ---- */

typedef struct crowd {
    qn_engine *engine;
    const workload *w;
    uint64_t start_us;
    exchange exchanges[WORKLOAD_MAX_ASKS];
    pthread_mutex_t mutex; /* of what follows */
    pthread_cond_t done;
    size_t left; /* threads that are not done */
} crowd;

typedef struct submitter {
    crowd *crowd;
    size_t index;
    pthread_t thread;
} submitter;

static void call_off(exchange *x)
{
    x->answer->cancelled = true;
    if (x->job != NULL) {
        qn_job_cancel(x->job, x->ask->cancel_answered); /* and its end is waited for */
    } else {
        take(x); /* what came until now */
        finish(x);
    }
}

static size_t prompt_computed(const exchange *x)
{
    return x->stream != NULL ? qn_stream_prompt_computed(x->stream) : x->news.prompt_computed;
}

/* True: it has left, or need not be asked again. */
static void maybe_leave(exchange *x)
{
    const ask *a = x->ask;
    if (x->over || x->answer->cancelled || (x->stream == NULL && x->job == NULL)) {
        return;
    }
    if (qn_now_us() - x->sent_us >= a->cancel_after_us || token_count(x->answer) >= a->cancel_at_tokens ||
        prompt_computed(x) >= a->cancel_at_prompt) {
        call_off(x);
    }
}

/* A full queue is asked again a little later; an engine that stops takes nothing more. */
static void try_to_send(exchange *x, qn_engine *engine)
{
    qn_error err;
    enum { LATER_US = 500 };
    if (send_ask(x, engine, &err) == QN_OK) {
        return;
    }
    if (err.status == QN_RESOURCE && strcmp(err.field, "queue") == 0 && strstr(err.message, "waiting already")) {
        x->due_us = qn_now_us() + LATER_US;
        return;
    }
    x->answer->end = (qn_job_end){.status = err.status, .err = err};
    x->over = true;
}

/* Sends what is due. Returns how many are not over; *next_us: when something is to be done without news. */
static size_t tend(crowd *c, size_t own, uint64_t *next_us)
{
    size_t left = 0;
    *next_us = qn_now_us() + 20000;
    for (size_t i = 0; i < c->w->ask_count; i++) {
        exchange *x = &c->exchanges[i];
        if (x->ask->submitter != own || x->over) {
            continue;
        }
        bool sent = x->stream != NULL || x->job != NULL;
        if (!sent && x->due_us <= qn_now_us()) {
            try_to_send(x, c->engine);
            sent = x->stream != NULL || x->job != NULL;
        }
        maybe_leave(x);
        if (x->over) {
            continue;
        }
        uint64_t next = sent ? x->sent_us + x->ask->cancel_after_us : x->due_us;
        *next_us = next < *next_us && !x->answer->cancelled ? next : *next_us;
        left++;
    }
    return left;
}

static void await_news(crowd *c, size_t own, uint64_t until_us)
{
    struct pollfd fds[WORKLOAD_MAX_ASKS];
    exchange *polled[WORKLOAD_MAX_ASKS];
    size_t count = 0;
    for (size_t i = 0; i < c->w->ask_count; i++) {
        exchange *x = &c->exchanges[i];
        if (x->ask->submitter == own && !x->over && (x->stream != NULL || x->job != NULL)) {
            polled[count] = x;
            fds[count++] = (struct pollfd){.fd = fd_of(x), .events = POLLIN};
        }
    }
    uint64_t now_us = qn_now_us(), left_us = until_us > now_us ? until_us - now_us : 0;
    const struct timespec patience = {.tv_sec = (time_t)(left_us / 1000000),
                                      .tv_nsec = (long)(left_us % 1000000) * 1000};
    ppoll(fds, count, &patience, NULL);
    for (size_t i = 0; i < count; i++) {
        if (fds[i].revents != 0) {
            take(polled[i]);
        }
    }
}

static void *submitter_main(void *context)
{
    submitter *s = context;
    uint64_t next_us;
    while (tend(s->crowd, s->index, &next_us) > 0) {
        await_news(s->crowd, s->index, next_us);
    }
    pthread_mutex_lock(&s->crowd->mutex);
    s->crowd->left--;
    pthread_cond_signal(&s->crowd->done);
    pthread_mutex_unlock(&s->crowd->mutex);
    return NULL;
}

/* Without locks: whatever holds them may be what is stuck. */
static void dump_engine(const qn_engine *e)
{
    fprintf(stderr,
            "engine: %zu waiting, %zu running, %zu active, nudged %d, incoming %d, stopping %d, step since %llu us, "
            "%zu blocks of the store's, %zu of %zu available\n",
            e->waiting_count, e->running_count, e->active_count, e->nudged, e->incoming_first != NULL, e->stopping,
            (unsigned long long)qn_engine_step_started_us(e), e->store_pins, qn_kv_pool_available(e->blocks),
            qn_kv_pool_block_count(e->blocks));
    for (const qn_job *job = e->waiting; job != NULL; job = job->next) {
        fprintf(stderr, "waits: %zu of %zu, priority %d, arrival %llu\n", job->length, job->limit,
                job->request.priority, (unsigned long long)job->arrival);
    }
    for (size_t i = 0; i < e->running_count; i++) {
        const qn_job *job = e->running[i]->job;
        fprintf(stderr, "runs: state %d, %zu of %zu, %zu computed, %zu drafts, %zu blocks, %zu loads, wish %d\n",
                (int)job->state, job->length, job->limit, job->computed, job->draft_count,
                job->slot->sequence.block_count, job->slot->loads, atomic_load(&job->wish));
    }
}

/* Waits for the end, not longer than until the next look. True: all is over. */
static bool await_end(crowd *c)
{
    enum { GLANCE_NS = 700000, SECOND_NS = 1000000000 };
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += GLANCE_NS;
    until.tv_sec += until.tv_nsec / SECOND_NS;
    until.tv_nsec %= SECOND_NS;
    pthread_mutex_lock(&c->mutex);
    while (c->left > 0 && pthread_cond_timedwait(&c->done, &c->mutex, &until) == 0) {
    }
    bool over = c->left == 0;
    pthread_mutex_unlock(&c->mutex);
    return over;
}

/* Looks at what others may look at, as a server does, until all is over. */
static void watch(crowd *c, uint64_t limit_us)
{
    bool stopped = false;
    while (!await_end(c)) {
        qn_engine_load load = qn_engine_get_load(c->engine);
        qn_metrics_load told = qn_metrics_read_load(qn_engine_metrics(c->engine));
        uint64_t now_us = qn_now_us();
        if (load.running > qn_engine_max_num_seqs(c->engine) || told.running > load.running + WORKLOAD_MAX_ASKS) {
            fprintf(stderr, "more run than there are seats\n");
            abort();
        }
        if (!stopped && now_us - c->start_us >= c->w->stop_after_us) {
            stopped = true;
            qn_engine_stop(c->engine);
        }
        if (now_us - c->start_us > limit_us) {
            for (size_t i = 0; i < c->w->ask_count; i++) {
                if (!c->exchanges[i].over) {
                    workload_describe(c->w, c->exchanges[i].ask);
                    break;
                }
            }
            fprintf(stderr, "stuck\n");
            dump_engine(c->engine);
            abort();
        }
    }
}

void run_together(qn_engine *engine, const workload *w, uint64_t limit_us, answer *out)
{
    crowd *c = calloc(1, sizeof *c);
    submitter submitters[WORKLOAD_MAX_ASKS];
    assert_non_null(c);
    c->engine = engine;
    c->w = w;
    c->start_us = qn_now_us();
    c->left = w->submitters;
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&c->done, &clock);
    pthread_condattr_destroy(&clock);
    pthread_mutex_init(&c->mutex, NULL);
    for (size_t i = 0; i < w->ask_count; i++) {
        out[i] = (answer){.stop_index = -1};
        c->exchanges[i] = (exchange){.ask = &w->asks[i],
                                     .request = w->asks[i].request,
                                     .due_us = c->start_us + w->asks[i].due_us,
                                     .answer = &out[i]};
    }
    for (size_t i = 0; i < w->submitters; i++) {
        submitters[i] = (submitter){.crowd = c, .index = i};
        assert_int_equal(pthread_create(&submitters[i].thread, NULL, submitter_main, &submitters[i]), 0);
    }
    watch(c, limit_us);
    for (size_t i = 0; i < w->submitters; i++) {
        pthread_join(submitters[i].thread, NULL);
    }
    pthread_cond_destroy(&c->done);
    pthread_mutex_destroy(&c->mutex);
    free(c);
}

/* ---- comparing ---- */

static bool begins_with(const qn_buffer *all, const qn_buffer *beginning)
{
    return beginning->size <= all->size &&
           (beginning->size == 0 || memcmp(all->data, beginning->data, beginning->size) == 0);
}

/* What is wrong with what was read, even if it isn't all. */
static const char *beginning_differs(const ask *a, const answer *alone, const answer *got)
{
    if (!begins_with(&alone->tokens, &got->tokens)) {
        return "tokens";
    }
    if (!begins_with(&alone->logprobs, &got->logprobs) || !begins_with(&alone->ranks, &got->ranks)) {
        return "logprobs";
    }
    if (!begins_with(&alone->prompt_ranks, &got->prompt_ranks) ||
        !begins_with(&alone->prompt_logprobs, &got->prompt_logprobs)) {
        return "prompt logprobs";
    }
    if (!a->by_job && (!begins_with(&alone->text[0], &got->text[0]) || !begins_with(&alone->text[1], &got->text[1]) ||
                       !begins_with(&alone->channels, &got->channels))) {
        return "text";
    }
    return NULL;
}

static const char *end_differs(const ask *a, const answer *alone, const answer *got)
{
    if (got->tokens.size != alone->tokens.size || got->logprobs.size != alone->logprobs.size) {
        return "count of tokens";
    }
    if (got->prompt_logprobs.size != alone->prompt_logprobs.size) {
        return "count of prompt logprobs";
    }
    if (!a->by_job && (got->text[0].size != alone->text[0].size || got->text[1].size != alone->text[1].size)) {
        return "end of the text";
    }
    if (got->end.status != alone->end.status || got->end.finish != alone->end.finish) {
        return "end";
    }
    if (got->end.stop_token != alone->end.stop_token || got->stop_index != alone->stop_index) {
        return "what stopped it";
    }
    return NULL;
}

static const char *timings_differ(const workload *w, const ask *a, const answer *got)
{
    const qn_timings *t = &got->timings;
    if (!got->accepted || !got->ended) {
        return NULL;
    }
    if (t->prompt_tokens != a->request.prompt_count || t->completion_tokens < token_count(got) ||
        t->steps > t->completion_tokens + 1 || t->drafts_accepted > t->drafts_proposed) {
        return "counts of its timings";
    }
    if (t->cached_tokens >= t->prompt_tokens || t->cached_tokens % w->options.block_size != 0 ||
        (t->cached_tokens > 0 && (!w->options.prefix_caching || a->request.has_prompt_logprobs))) {
        return "cached tokens";
    }
    return a->witness.wrong ? "what its trace told" : NULL;
}

/* May the answer be a part only? */
static bool was_called_off(const workload *w, const ask *a, const answer *got)
{
    if (got->cancelled) {
        return !got->ended || got->end.status == QN_CANCELLED || a->cancel_answered || token_count(got) == 0;
    }
    if (a->request.timeout_us > 0 && got->end.status == QN_CANCELLED && strcmp(got->end.err.field, "timeout") == 0) {
        return true;
    }
    return w->stop_after_us != NEVER &&
           (got->end.status == QN_CANCELLED || (!got->accepted && got->end.status == QN_RESOURCE));
}

const char *answer_differs(const workload *w, const ask *a, const answer *alone, const answer *got)
{
    const char *what = beginning_differs(a, alone, got);
    if (what == NULL && end_differs(a, alone, got) != NULL && !was_called_off(w, a, got)) {
        what = end_differs(a, alone, got);
    }
    return what != NULL ? what : timings_differ(w, a, got);
}
