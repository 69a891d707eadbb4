/* One request in one call: a stream read on the caller's thread, its listener told of what comes. */
#include <poll.h>
#include <string.h>

#include "base/memory.h"
#include "base/progress.h"
#include "engine/engine_internal.h"

enum { PATIENCE_MS = 50 /* between questions whether the answer is still wanted */ };

qn_status qn_engine_check_length(const qn_engine *engine, size_t prompt_count, size_t max_tokens,
                                 const char *max_tokens_field, qn_error *err)
{
    size_t limit = engine->max_model_len;
    if (prompt_count >= limit) {
        return qn_fail_field(err, QN_USAGE, "messages",
                             "prompt: %zu tokens leave no room for an answer: max_model_len is %zu: shorten the prompt",
                             prompt_count, limit);
    }
    if (max_tokens > limit - prompt_count) {
        return qn_fail_field(err, QN_USAGE, max_tokens_field,
                             "%s: %zu after a prompt of %zu tokens exceeds max_model_len %zu: ask for at most %zu",
                             max_tokens_field, max_tokens, prompt_count, limit, limit - prompt_count);
    }
    return QN_OK;
}

qn_status qn_check_ids(const qn_engine *engine, const char *what, const char *field, const int32_t *ids, size_t count,
                       qn_error *err)
{
    size_t vocab = engine->config->vocab_size;
    for (size_t i = 0; i < count; i++) {
        if (ids[i] < 0 || (size_t)ids[i] >= vocab) {
            return qn_fail_field(err, QN_USAGE, field, "%s: id %ld at %zu is no token of a vocabulary of %zu", what,
                                 (long)ids[i], i, vocab);
        }
    }
    return QN_OK;
}

static qn_status check_extras(const qn_engine *engine, const qn_request *request, qn_error *err)
{
    if (request->stop_token_count > QN_MAX_STOP_TOKENS) {
        return qn_fail_field(err, QN_USAGE, "stop_token_ids", "stop_token_ids: %zu are too many: give at most %d",
                             request->stop_token_count, QN_MAX_STOP_TOKENS);
    }
    if (request->has_logprobs && request->logprobs > QN_MAX_LOGPROBS) {
        return qn_fail_field(err, QN_USAGE, "logprobs", "logprobs: %zu are too many: give at most %d",
                             request->logprobs, QN_MAX_LOGPROBS);
    }
    if (request->has_prompt_logprobs && request->prompt_logprobs > QN_MAX_LOGPROBS) {
        return qn_fail_field(err, QN_USAGE, "prompt_logprobs", "prompt_logprobs: %zu are too many: give at most %d",
                             request->prompt_logprobs, QN_MAX_LOGPROBS);
    }
    if (request->max_tokens > 0 && request->min_tokens > request->max_tokens) {
        return qn_fail_field(err, QN_USAGE, "min_tokens", "min_tokens: %zu exceeds max_tokens %zu: give at most that",
                             request->min_tokens, request->max_tokens);
    }
    return qn_check_ids(engine, "stop_token_ids", "stop_token_ids", request->stop_token_ids, request->stop_token_count,
                        err);
}

qn_status qn_engine_check_request(const qn_engine *engine, const qn_request *request, qn_error *err)
{
    if (request->prompt_count == 0) {
        return qn_fail_field(err, QN_USAGE, "messages", "prompt: it has no tokens: give some text");
    }
    qn_status status = qn_engine_check_length(engine, request->prompt_count, request->max_tokens, "max_tokens", err);
    if (status == QN_OK) {
        status = qn_check_ids(engine, "prompt", "messages", request->prompt_ids, request->prompt_count, err);
    }
    if (status == QN_OK) {
        status = check_extras(engine, request, err);
    }
    if (status == QN_OK) {
        status = qn_sampling_check(&request->sampling, err);
    }
    return status == QN_OK ? qn_sampling_check_tokens(&request->sampling, engine->config->vocab_size, err) : status;
}

/* Tells the listener what the last take brought. False: it calls the answer off. */
static bool tell(qn_stream *stream, const qn_listener *listener, bool *started)
{
    qn_output_event output;
    if (qn_stream_started(stream) && !*started) {
        *started = true;
        if (listener->on_start != NULL && !listener->on_start(listener->context)) {
            return false;
        }
    }
    while (qn_stream_next(stream, &output)) {
        if (listener->on_output != NULL && !listener->on_output(listener->context, &output)) {
            return false;
        }
    }
    return true;
}

static qn_status follow_stream(qn_stream *stream, const qn_listener *listener, qn_progress *progress, bool *called_off,
                               qn_error *err)
{
    bool started = false;
    while (qn_stream_end(stream) == NULL && !*called_off) {
        struct pollfd news = {.fd = qn_stream_fd(stream), .events = POLLIN};
        if (poll(&news, 1, PATIENCE_MS) <= 0) {
            *called_off = listener->on_idle != NULL && !listener->on_idle(listener->context);
            continue;
        }
        qn_status status = qn_stream_take(stream, err);
        if (status != QN_OK) {
            return status;
        }
        qn_progress_update(progress, qn_stream_prompt_computed(stream));
        if (!started && !qn_stream_started(stream)) {
            *called_off = listener->on_idle != NULL && !listener->on_idle(listener->context);
        }
        *called_off = *called_off || !tell(stream, listener, &started);
    }
    return QN_OK;
}

/* What the caller gets of a stream that is over or called off. */
static qn_status hand_out(const qn_stream *stream, bool called_off, qn_result *result, qn_error *err)
{
    const qn_job_end *end = qn_stream_end(stream);
    if (!called_off && end->status != QN_OK) {
        *err = end->err;
        return end->status;
    }
    *result = qn_stream_result(stream);
    if (called_off) {
        result->finish = QN_FINISH_CANCELLED;
    }
    const int32_t *tokens = result->tokens;
    size_t count = result->completion_tokens;
    result->tokens = qn_alloc(count, sizeof *result->tokens);
    if (result->tokens == NULL) {
        return qn_fail_memory(err, "the answer's tokens", count * sizeof *tokens);
    }
    if (count > 0) {
        memcpy(result->tokens, tokens, count * sizeof *tokens);
    }
    return QN_OK;
}

qn_status qn_engine_generate(qn_engine *engine, const qn_request *request, const qn_listener *listener,
                             qn_result *result, qn_error *err)
{
    static const qn_listener nobody = {.context = NULL};
    const qn_listener *told = listener != NULL ? listener : &nobody;
    qn_request own = *request;
    qn_stream *stream = NULL;
    if (told->on_step != NULL) {
        own.trace = (qn_trace){.context = told->context, .on_step = told->on_step};
    }
    *result = (qn_result){.prompt_tokens = request->prompt_count};
    qn_status status = qn_stream_open(engine, &own, &stream, err);
    if (status != QN_OK) {
        return status;
    }
    qn_progress progress;
    /* one chunk is over before a bar tells anything */
    bool shown = request->show_progress && request->prompt_count > engine->max_rows, called_off = false;
    qn_progress_begin(&progress, &(qn_progress_setup){.label = "prompt",
                                                      .unit = "tokens",
                                                      .total = request->prompt_count,
                                                      .style = shown ? QN_PROGRESS_AUTO : QN_PROGRESS_OFF});
    status = follow_stream(stream, told, &progress, &called_off, err);
    qn_progress_finish(&progress);
    if (own.trace.on_step != NULL || own.mask.fill != NULL) {
        qn_stream_settle(stream); /* what they point to may be on the caller's stack */
    }
    if (status == QN_OK) {
        status = hand_out(stream, called_off, result, err);
    }
    qn_stream_close(stream);
    return status;
}

void qn_result_free(qn_result *result)
{
    qn_free(result->tokens);
    result->tokens = NULL;
}

const char *qn_finish_name(qn_finish finish)
{
    switch (finish) {
    case QN_FINISH_LENGTH:
        return "length";
    case QN_FINISH_CANCELLED:
        return "cancelled";
    case QN_FINISH_REPETITION:
        return "repetition";
    case QN_FINISH_STOP:
        break;
    }
    return "stop";
}
