#include "engine/stream.h"

#include <poll.h>
#include <string.h>

#include "base/memory.h"
#include "engine/engine_internal.h"

struct qn_stream {
    qn_job *job;
    qn_output_stream *text;                     /* NULL: the engine has no tokenizer */
    const char *const *stop;                    /* the request's */
    size_t logprobs_each, prompt_logprobs_each; /* qn_logprob a token; 0: not asked for */
    qn_job_news news;
    size_t taken;                            /* tokens of this take that belong to the answer */
    size_t event_at;                         /* events of this take, read so far */
    qn_buffer tokens;                        /* all of them */
    qn_buffer prompt_logprobs, prompt_ranks; /* all of them */
    bool over;
    qn_job_end end;
    qn_result result;
};

static qn_status open_text(qn_engine *engine, const qn_request *request, qn_stream *stream, qn_error *err)
{
    if (engine->tokenizer == NULL) {
        return request->stop_count == 0
                   ? QN_OK
                   : qn_fail_field(err, QN_USAGE, "stop", "stop: the engine was opened without a tokenizer");
    }
    const qn_output_options options = {.split = !request->raw_text,
                                       .in_reasoning = request->in_reasoning,
                                       .mid_text = request->mid_text,
                                       .stop = request->stop,
                                       .stop_count = request->stop_count,
                                       .min_tokens = request->min_tokens,
                                       .tools = request->tools};
    if (qn_output_stream_new(engine->tokenizer, &options, &stream->text, err) != QN_OK) {
        qn_error cause = *err;
        return cause.status == QN_USAGE ? qn_fail_field(err, QN_USAGE, "stop", "%s", cause.message) : cause.status;
    }
    return QN_OK;
}

qn_status qn_stream_open(qn_engine *engine, const qn_request *request, qn_stream **out, qn_error *err)
{
    qn_stream *stream = qn_alloc_zero(1, sizeof *stream);
    if (stream == NULL) {
        return qn_fail_memory(err, "request", sizeof *stream);
    }
    stream->stop = request->stop;
    stream->logprobs_each = request->has_logprobs ? 1 + request->logprobs : 0;
    stream->prompt_logprobs_each = request->has_prompt_logprobs ? 1 + request->prompt_logprobs : 0;
    stream->result = (qn_result){.stop_token = -1, .prompt_tokens = request->prompt_count};
    qn_status status = open_text(engine, request, stream, err);
    if (status == QN_OK) {
        status = qn_engine_submit(engine, request, &stream->job, err);
    }
    if (status != QN_OK) {
        qn_stream_close(stream);
        return status;
    }
    *out = stream;
    return QN_OK;
}

void qn_stream_close(qn_stream *stream)
{
    if (stream == NULL) {
        return;
    }
    qn_job_release(stream->job);
    qn_output_stream_free(stream->text);
    qn_job_news_free(&stream->news);
    qn_buffer_free(&stream->tokens);
    qn_buffer_free(&stream->prompt_logprobs);
    qn_buffer_free(&stream->prompt_ranks);
    qn_free(stream);
}

void qn_stream_settle(qn_stream *stream)
{
    qn_job_cancel(stream->job, false);
    for (qn_job_take(stream->job, &stream->news); stream->news.end == NULL; qn_job_take(stream->job, &stream->news)) {
        struct pollfd news = {.fd = qn_job_fd(stream->job), .events = POLLIN};
        poll(&news, 1, -1);
    }
}

int qn_stream_fd(const qn_stream *stream)
{
    return qn_job_fd(stream->job);
}

static void finish(qn_stream *stream, const qn_job_end *end)
{
    stream->over = true;
    stream->end = *end;
    stream->result.finish = end->finish;
    stream->result.stop_token = end->stop_token;
}

/* The tokens that came, until a stop string ends the answer. The last one of an answer that an end token ended is shown
 * nowhere: it is special, or the stop token of a request, which is not text of its answer. */
static qn_status feed(qn_stream *stream, const int32_t *tokens, size_t count, qn_error *err)
{
    const qn_job_end *end = stream->news.end;
    size_t shown = count;
    if (end != NULL && end->by_token && shown > 0) {
        shown--;
    }
    for (stream->taken = 0; stream->taken < count;) {
        size_t at = stream->taken++;
        if (stream->text == NULL || at >= shown) {
            continue;
        }
        qn_status status = qn_output_stream_feed(stream->text, tokens[at], err);
        if (status != QN_OK) {
            return status;
        }
        stream->result.reasoning_tokens = qn_output_stream_reasoning_tokens(stream->text);
        int stopped = qn_output_stream_stopped(stream->text);
        if (stopped >= 0) {
            qn_job_cancel(stream->job, true);
            finish(stream, &(qn_job_end){.finish = QN_FINISH_STOP, .stop_token = -1});
            stream->result.stop_matched = stream->stop[stopped];
            return QN_OK;
        }
    }
    return QN_OK;
}

/* The end that the engine gave, with the text that was held back until then. */
static qn_status take_end(qn_stream *stream, qn_error *err)
{
    finish(stream, stream->news.end);
    if (stream->text == NULL || stream->end.status != QN_OK) {
        return QN_OK;
    }
    return qn_output_stream_finish(stream->text, stream->end.finish != QN_FINISH_STOP, err);
}

static qn_status check_memory(const qn_stream *stream, qn_error *err)
{
    bool failed = stream->tokens.failed || stream->prompt_logprobs.failed || stream->prompt_ranks.failed;
    const qn_job_news *news = &stream->news; /* cut short, logprobs may be fewer than the tokens */
    failed = failed || news->tokens.failed || news->logprobs.failed || news->ranks.failed ||
             news->prompt_logprobs.failed || news->prompt_ranks.failed;
    return failed ? qn_fail_memory(err, "the answer", stream->tokens.size) : QN_OK;
}

qn_status qn_stream_take(qn_stream *stream, qn_error *err)
{
    if (stream->text != NULL) {
        qn_output_stream_clear(stream->text);
    }
    stream->event_at = stream->taken = 0;
    if (stream->over) {
        return QN_OK;
    }
    qn_job_take(stream->job, &stream->news);
    qn_buffer_append(&stream->prompt_logprobs, stream->news.prompt_logprobs.data, stream->news.prompt_logprobs.size);
    qn_buffer_append(&stream->prompt_ranks, stream->news.prompt_ranks.data, stream->news.prompt_ranks.size);
    const int32_t *tokens = (const void *)stream->news.tokens.data;
    qn_status status = feed(stream, tokens, stream->news.tokens.size / sizeof *tokens, err);
    qn_buffer_append(&stream->tokens, tokens, stream->taken * sizeof *tokens);
    stream->result.completion_tokens += stream->taken;
    stream->result.timings = stream->news.timings;
    if (status == QN_OK && !stream->over && stream->news.end != NULL) {
        status = take_end(stream, err);
    }
    if (status == QN_OK) {
        status = check_memory(stream, err);
    }
    if (status != QN_OK) {
        qn_job_cancel(stream->job, false);
        finish(stream, &(qn_job_end){.status = status, .err = *err, .stop_token = -1});
    }
    return status;
}

bool qn_stream_next(qn_stream *stream, qn_output_event *out)
{
    size_t count = 0;
    const qn_output_event *events = stream->text != NULL ? qn_output_stream_events(stream->text, &count) : NULL;
    if (stream->event_at == count) {
        return false;
    }
    *out = events[stream->event_at++];
    return true;
}

qn_stream_tokens qn_stream_taken(const qn_stream *stream)
{
    qn_stream_tokens taken = {.ids = (const void *)stream->news.tokens.data, .count = stream->taken};
    if (stream->logprobs_each > 0) {
        taken.logprobs = (const void *)stream->news.logprobs.data;
        taken.ranks = (const void *)stream->news.ranks.data;
    }
    return taken;
}

qn_stream_tokens qn_stream_prompt(const qn_stream *stream)
{
    if (stream->prompt_logprobs_each == 0 || !qn_stream_started(stream)) {
        return (qn_stream_tokens){.count = 0};
    }
    return (qn_stream_tokens){.ids = stream->job->request.prompt_ids + 1,
                              .count = stream->result.prompt_tokens - 1,
                              .logprobs = (const void *)stream->prompt_logprobs.data,
                              .ranks = (const void *)stream->prompt_ranks.data};
}

bool qn_stream_started(const qn_stream *stream)
{
    return stream->news.started;
}

size_t qn_stream_prompt_computed(const qn_stream *stream)
{
    return stream->news.prompt_computed;
}

qn_result qn_stream_result(const qn_stream *stream)
{
    qn_result result = stream->result;
    result.tokens = (int32_t *)(void *)stream->tokens.data;
    return result;
}

const qn_job_end *qn_stream_end(const qn_stream *stream)
{
    return stream->over ? &stream->end : NULL;
}
