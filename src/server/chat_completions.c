/* POST /v1/chat/completions: from a request to a job, and from the job's news to one body or to chunks.
 *
 * The handler parses, renders and encodes on its connection's thread, so that the engine's thread only computes. Then
 * it waits for news and for the client at once: a client that hangs up, waiting or reading, cancels its job. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/random.h"
#include "server/openai_chat.h"
#include "server/openai_response.h"
#include "server/request_body.h"
#include "server/server_internal.h"
#include "server/sse.h"

enum {
    KEEP_ALIVE_MS = 10000 /* between comments in a silent stream */
};

/* An answer in the making. */
typedef struct answer {
    qn_server *server;
    qn_chat_head head;
    qn_chat_request chat; /* the stream reads its stop strings */
    qn_stream *stream;
    int64_t seed;
    qn_buffer scratch; /* one chunk's JSON */
    bool role_sent, over;
} answer;

static void free_answer(void *state)
{
    answer *a = state;
    if (a != NULL) {
        qn_stream_close(a->stream);
        qn_chat_request_free(&a->chat);
        qn_buffer_free(&a->scratch);
        qn_free(a);
    }
}

static qn_chat_timings timings_of(const answer *a, const qn_result *result)
{
    return (qn_chat_timings){
        .queue_us = result->timings.queue_us,
        .prefill_us = result->timings.prefill_us,
        .decode_us = result->timings.decode_us,
        .prompt_tokens = result->prompt_tokens,
        .completion_tokens = result->completion_tokens,
        .reasoning_tokens = result->reasoning_tokens,
        .drafts = result->timings.drafts_proposed,
        .drafts_accepted = result->timings.drafts_accepted,
        .seed = a->seed,
    };
}

/* ---- from a request to a job ---- */

static qn_status submit(answer *a, const qn_chat_request *chat, const qn_tokens *prompt, qn_error *err)
{
    qn_engine *engine = a->server->engine;
    qn_request request = {
        .prompt_ids = prompt->ids,
        .prompt_count = prompt->count,
        .sampling = chat->sampling,
        .max_tokens = chat->max_tokens,
        .stop = chat->stop,
        .stop_count = chat->stop_count,
        .ignore_eos = chat->ignore_eos,
        .in_reasoning = qn_engine_opens_reasoning(engine, prompt->ids, prompt->count),
    };
    if (!chat->seed_given) {
        request.sampling.seed = qn_random_told_seed();
    }
    a->seed = (int64_t)request.sampling.seed;
    return qn_stream_open(engine, &request, &a->stream, err);
}

/* Fills the reply on failure. */
static qn_status start(answer *a, const qn_chat_request *chat, qn_http_reply *reply)
{
    qn_server *server = a->server;
    qn_error err;
    if (chat->model != NULL && !qn_server_has_model(server, chat->model)) {
        qn_fail_field(&err, QN_USAGE, "model", "model: %.200s is not served here: GET /v1/models tells what is",
                      chat->model);
        qn_reply_api_error(reply, (qn_api_error){.status = 404, .code = "model_not_found"}, &err);
        return QN_USAGE;
    }
    qn_tokens prompt = {0};
    qn_status status = qn_engine_chat_prompt(server->engine, chat->messages, NULL, chat->kwargs, &prompt, &err);
    if (status != QN_OK) {
        if (err.field[0] == '\0') {
            snprintf(err.field, sizeof err.field, "messages");
        }
        qn_reply_error(reply, &err);
    } else if ((status = qn_engine_check_length(server->engine, prompt.count, chat->max_tokens, chat->max_tokens_field,
                                                &err)) != QN_OK) {
        qn_reply_api_error(reply, (qn_api_error){.status = 400, .code = "context_length_exceeded"}, &err);
    } else if ((status = submit(a, chat, &prompt, &err)) != QN_OK) {
        qn_reply_error(reply, &err);
    }
    qn_tokens_free(&prompt);
    return status;
}

/* Parses the body and submits the job; the body's tree lives in here only. */
static qn_status prepare(answer *a, const qn_http_request *request, bool *stream, qn_http_reply *reply)
{
    qn_server *server = a->server;
    const qn_chat_defaults defaults = {.sampling = qn_engine_default_sampling(server->engine),
                                       .kwargs = server->options.template_kwargs};
    qn_error err;
    qn_status status = qn_chat_request_parse(request->body, request->body_bytes, &defaults, &a->chat, &err);
    if (status != QN_OK) {
        qn_reply_error(reply, &err);
        return status;
    }
    qn_server_report_fields(server, "", &a->chat.unknown);
    qn_server_report_fields(server, "messages[].", &a->chat.unknown_message);
    qn_server_report_unread(server, a->chat.kwargs);
    *stream = a->chat.stream;
    a->head.include_usage = a->chat.include_usage;
    return start(a, &a->chat, reply);
}

/* A job's failure, as its client is told. */
static qn_api_error error_of(const qn_job_end *end)
{
    qn_api_error error = qn_api_error_of(&end->err);
    if (error.status == 500) {
        qn_log_error(&end->err);
    }
    return error;
}

/* ---- a stream ---- */

/* Frames what is in scratch as one event. */
static void send_chunk(answer *a, qn_buffer *out)
{
    qn_sse_data(out, qn_buffer_string(&a->scratch), a->scratch.size);
    out->failed = out->failed || a->scratch.failed;
    qn_buffer_clear(&a->scratch);
}

static void send_texts(answer *a, qn_buffer *out)
{
    qn_output output;
    while (qn_stream_next(a->stream, &output)) {
        qn_chat_write_text_chunk(&a->scratch, &a->head, output.channel, output.text, output.bytes);
        send_chunk(a, out);
    }
}

static void send_end(answer *a, const qn_job_end *end, qn_buffer *out)
{
    if (end->status != QN_OK) { /* too late for a status line */
        qn_api_error error = error_of(end);
        qn_api_error_write(&error, &end->err, &a->scratch);
        send_chunk(a, out);
    } else {
        const qn_result result = qn_stream_result(a->stream);
        qn_chat_timings timings = timings_of(a, &result);
        qn_chat_write_finish_chunk(&a->scratch, &a->head, result.finish, result.stop_matched, &timings);
        send_chunk(a, out);
        if (a->head.include_usage) {
            qn_chat_write_usage_chunk(&a->scratch, &a->head, &timings);
            send_chunk(a, out);
        }
    }
    qn_sse_data(out, "[DONE]", strlen("[DONE]"));
    a->over = true;
}

/* The role goes out at once, so that a client sees the stream begin while its request waits. */
static bool pull(void *state, qn_http_exchange *exchange, qn_buffer *out)
{
    answer *a = state;
    qn_error err;
    if (!a->role_sent) {
        a->role_sent = true;
        qn_chat_write_role_chunk(&a->scratch, &a->head);
        send_chunk(a, out);
        return true;
    }
    while (out->size == 0 && !a->over) {
        switch (qn_http_wait(exchange, &(int){qn_stream_fd(a->stream)}, 1, KEEP_ALIVE_MS)) {
        case QN_HTTP_GONE:
            return false;
        case QN_HTTP_TIMEOUT:
            qn_sse_comment(out, "working");
            return true;
        case QN_HTTP_NEWS:
            (void)qn_stream_take(a->stream, &err); /* a failure is the stream's end as well */
            send_texts(a, out);
            if (qn_stream_end(a->stream) != NULL) {
                send_end(a, qn_stream_end(a->stream), out);
            }
            break;
        }
    }
    return !a->over;
}

/* ---- one body ---- */

/* Collects the whole answer. False: the client hung up, and nobody will read a reply. */
static bool collect(answer *a, qn_http_exchange *exchange, qn_buffer *content, qn_buffer *reasoning)
{
    qn_error err;
    while (qn_stream_end(a->stream) == NULL) {
        qn_http_event event = qn_http_wait(exchange, &(int){qn_stream_fd(a->stream)}, 1, -1);
        if (event == QN_HTTP_GONE) {
            return false;
        }
        if (event != QN_HTTP_NEWS) {
            continue;
        }
        (void)qn_stream_take(a->stream, &err); /* a failure is the stream's end as well */
        qn_output output;
        while (qn_stream_next(a->stream, &output)) {
            qn_buffer_append(output.channel == QN_CHANNEL_REASONING ? reasoning : content, output.text, output.bytes);
        }
    }
    return true;
}

static void reply_whole(answer *a, qn_http_exchange *exchange, qn_http_reply *reply)
{
    qn_buffer content = {0}, reasoning = {0};
    bool complete = collect(a, exchange, &content, &reasoning);
    const qn_job_end *end = qn_stream_end(a->stream);
    qn_error err;
    if (!complete) {
        qn_fail(&err, QN_CANCELLED, "request: the client hung up: nothing to do");
        qn_reply_api_error(reply, (qn_api_error){.status = 499}, &err);
    } else if (end->status != QN_OK) {
        qn_reply_api_error(reply, error_of(end), &end->err);
    } else if (content.failed || reasoning.failed) {
        qn_fail_memory(&err, "answer", content.size + reasoning.size);
        qn_reply_error(reply, &err);
    } else {
        const qn_result result = qn_stream_result(a->stream);
        qn_chat_timings timings = timings_of(a, &result);
        reply->status = 200;
        reply->content_type = "application/json";
        qn_chat_write_answer(&reply->body, &a->head, &content, &reasoning, result.finish, result.stop_matched,
                             &timings);
    }
    qn_buffer_free(&content);
    qn_buffer_free(&reasoning);
}

void qn_handle_chat_completions(void *context, const qn_http_request *request, qn_http_reply *reply)
{
    qn_server *server = context;
    answer *a = qn_alloc_zero(1, sizeof *a);
    if (a == NULL) {
        qn_error err;
        qn_fail_memory(&err, "request", sizeof *a);
        qn_reply_error(reply, &err);
        return;
    }
    a->server = server;
    a->head.model = server->options.model_names[0];
    a->head.prompt_details = server->options.prompt_details;
    qn_chat_head_start(&a->head);
    bool stream = false;
    size_t memory = qn_budget_take(&server->body_memory, qn_request_body_cost(request->body, request->body_bytes));
    qn_status status = prepare(a, request, &stream, reply);
    qn_http_release_body(request->exchange);
    qn_budget_give(&server->body_memory, memory);
    if (status == QN_OK && stream) {
        reply->status = 200;
        reply->content_type = "text/event-stream; charset=utf-8";
        reply->stream = (qn_http_stream){.state = a, .pull = pull, .close = free_answer};
        return;
    }
    if (status == QN_OK) {
        reply_whole(a, request->exchange, reply);
    }
    free_answer(a);
}
