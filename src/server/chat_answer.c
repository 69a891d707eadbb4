#include "server/chat_answer.h"

#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/random.h"
#include "server/logprobs_json.h"
#include "server/sse.h"

enum {
    KEEP_ALIVE_MS = 10000 /* between comments in a silent stream */
};

typedef struct choice {
    qn_stream *stream;
    bool over;
    qn_buffer content, reasoning; /* of a whole body */
    qn_buffer logprobs;           /* JSON: of the whole answer, or of what the last take brought */
} choice;

struct qn_chat_answer {
    qn_server *server;
    qn_chat_head head;
    choice *choices;
    size_t count, over_count;
    int64_t seed;
    int logprobs, prompt_logprobs; /* -1: not asked for */
    bool with_ids;
    qn_tokens prompt; /* with_ids */
    char *stop_text;  /* the strings of `stop`, which the streams read */
    const char *stop[QN_STOP_MAX_STRINGS];
    qn_chat_totals totals; /* of the choices that are over */
    qn_buffer scratch;     /* one chunk's JSON */
    bool role_sent, ended; /* of a stream */
};

void qn_chat_answer_free(qn_chat_answer *answer)
{
    if (answer == NULL) {
        return;
    }
    for (size_t i = 0; i < answer->count; i++) {
        qn_stream_close(answer->choices[i].stream);
        qn_buffer_free(&answer->choices[i].content);
        qn_buffer_free(&answer->choices[i].reasoning);
        qn_buffer_free(&answer->choices[i].logprobs);
    }
    qn_free(answer->choices);
    qn_free(answer->stop_text);
    qn_tokens_free(&answer->prompt);
    qn_buffer_free(&answer->scratch);
    qn_free(answer);
}

qn_status qn_chat_answer_new(qn_server *server, qn_chat_answer **out, qn_error *err)
{
    qn_chat_answer *answer = qn_alloc_zero(1, sizeof *answer);
    if (answer == NULL) {
        return qn_fail_memory(err, "request", sizeof *answer);
    }
    answer->server = server;
    answer->head.model = server->options.model_names[0];
    answer->head.prompt_details = server->options.prompt_details;
    qn_chat_head_start(&answer->head);
    *out = answer;
    return QN_OK;
}

/* ---- from a request to streams ---- */

/* Stop strings back to back with NULs, so that one block holds them. */
static qn_status copy_stop(qn_chat_answer *answer, const qn_generation_fields *fields, qn_error *err)
{
    size_t bytes = 0;
    for (size_t i = 0; i < fields->stop_count; i++) {
        bytes += strlen(fields->stop[i]) + 1;
    }
    answer->stop_text = qn_alloc(bytes, 1);
    if (answer->stop_text == NULL) {
        return qn_fail_memory(err, "stop", bytes);
    }
    char *at = answer->stop_text;
    for (size_t i = 0; i < fields->stop_count; i++) {
        size_t length = strlen(fields->stop[i]) + 1;
        memcpy(at, fields->stop[i], length);
        answer->stop[i] = at;
        at += length;
    }
    return QN_OK;
}

/* The sooner of the request's own deadline and the server's; 0: none. */
static uint64_t timeout_of(const qn_server *server, const qn_generation_fields *fields)
{
    uint64_t own = fields->timeout_us, given = server->options.request_timeout_us;
    return own == 0 || (given > 0 && given < own) ? given : own;
}

static qn_request request_of(const qn_chat_answer *answer, const qn_generation_fields *fields, const qn_tokens *prompt)
{
    return (qn_request){
        .prompt_ids = prompt->ids,
        .prompt_count = prompt->count,
        .sampling = fields->sampling,
        .max_tokens = fields->max_tokens,
        .min_tokens = fields->min_tokens,
        .stop_token_ids = fields->stop_token_ids,
        .stop_token_count = fields->stop_token_count,
        .ignore_eos = fields->ignore_eos,
        .priority = fields->priority,
        .timeout_us = timeout_of(answer->server, fields),
        .cache_salt = fields->cache_salt,
        .has_logprobs = answer->logprobs >= 0,
        .logprobs = answer->logprobs >= 0 ? (size_t)answer->logprobs : 0,
        .stop = answer->stop,
        .stop_count = fields->stop_count,
        .in_reasoning = qn_engine_opens_reasoning(answer->server->engine, prompt->ids, prompt->count),
    };
}

static qn_status open_streams(qn_chat_answer *answer, const qn_request *base, qn_error *err)
{
    for (size_t i = 0; i < answer->count; i++) {
        qn_request request = *base;
        request.sampling.choice = (uint32_t)i;
        if (i == 0 && answer->prompt_logprobs >= 0) { /* the same for all: the first tells them */
            request.has_prompt_logprobs = true;
            request.prompt_logprobs = (size_t)answer->prompt_logprobs;
        }
        qn_status status = qn_stream_open(answer->server->engine, &request, &answer->choices[i].stream, err);
        if (status != QN_OK) {
            return status;
        }
    }
    return QN_OK;
}

qn_status qn_chat_answer_start(qn_chat_answer *answer, const qn_chat_request *chat, const qn_tokens *prompt,
                               qn_error *err)
{
    const qn_generation_fields *fields = &chat->generation;
    answer->head.include_usage = chat->include_usage;
    answer->logprobs = chat->logprobs;
    answer->prompt_logprobs = fields->prompt_logprobs;
    answer->with_ids = chat->return_token_ids;
    if (answer->with_ids && !qn_tokens_append(&answer->prompt, prompt->ids, prompt->count)) {
        return qn_fail_memory(err, "prompt_token_ids", prompt->count * sizeof *prompt->ids);
    }
    answer->choices = qn_alloc_zero(fields->n, sizeof *answer->choices);
    if (answer->choices == NULL) {
        return qn_fail_memory(err, "choices", fields->n * sizeof *answer->choices);
    }
    answer->count = fields->n;
    qn_status status = copy_stop(answer, fields, err);
    if (status != QN_OK) {
        return status;
    }
    qn_request request = request_of(answer, fields, prompt);
    if (!fields->seed_given) {
        request.sampling.seed = qn_random_told_seed();
    }
    answer->seed = (int64_t)request.sampling.seed;
    answer->totals.seed = answer->seed;
    return open_streams(answer, &request, err);
}

/* ---- news ---- */

/* Waits until one of the choices that go on has news. */
static qn_http_event wait_for_news(const qn_chat_answer *answer, qn_http_exchange *exchange, int timeout_ms)
{
    int fds[QN_HTTP_WAIT_MAX];
    for (size_t i = 0; i < answer->count; i++) {
        fds[i] = answer->choices[i].over ? -1 : qn_stream_fd(answer->choices[i].stream);
    }
    return qn_http_wait(exchange, fds, answer->count, timeout_ms);
}

_Static_assert((int)QN_REQUEST_MAX_CHOICES <= (int)QN_HTTP_WAIT_MAX, "one wait for all choices");

/* Reads a choice's news; its logprobs are appended to the choice's. The answer's end is added to the totals. */
static qn_status take(qn_chat_answer *answer, choice *c, qn_error *err)
{
    qn_status status = qn_stream_take(c->stream, err);
    if (status != QN_OK) {
        return status;
    }
    qn_stream_tokens taken = qn_stream_taken(c->stream);
    if (answer->logprobs >= 0 && taken.logprobs != NULL) {
        qn_logprobs_write_content(&c->logprobs, qn_engine_tokenizer(answer->server->engine), taken.logprobs,
                                  taken.count, (size_t)answer->logprobs);
    }
    const qn_job_end *end = qn_stream_end(c->stream);
    if (end != NULL && end->status != QN_OK) {
        *err = end->err;
        return end->status;
    }
    if (end != NULL) {
        qn_result result = qn_stream_result(c->stream);
        qn_chat_totals_add(&answer->totals, &result);
        c->over = true;
        answer->over_count++;
    }
    return QN_OK;
}

/* A failure in the middle, as its client is told; the log too when it is the server's own fault. */
static qn_api_error error_of(const qn_error *err)
{
    qn_api_error error = qn_api_error_of(err);
    if (error.status == 500) {
        qn_log_error(err);
    }
    return error;
}

/* ---- a stream of chunks ---- */

/* Frames what is in scratch as one event. */
static void send_chunk(qn_chat_answer *answer, qn_buffer *out)
{
    qn_sse_data(out, qn_buffer_string(&answer->scratch), answer->scratch.size);
    out->failed = out->failed || answer->scratch.failed;
    qn_buffer_clear(&answer->scratch);
}

static void send_roles(qn_chat_answer *answer, qn_buffer *out)
{
    const qn_chat_prompt_part prompt = {.ids = answer->prompt.ids, .id_count = answer->prompt.count};
    for (size_t i = 0; i < answer->count; i++) {
        qn_chat_write_role_chunk(&answer->scratch, &answer->head, i, i == 0 ? &prompt : &(qn_chat_prompt_part){0});
        send_chunk(answer, out);
    }
}

/* What a take brought. Tokens are told once, with the first chunk: text does not end where tokens do. */
static void send_news(qn_chat_answer *answer, size_t index, qn_buffer *out)
{
    choice *c = &answer->choices[index];
    qn_stream_tokens taken = qn_stream_taken(c->stream);
    const qn_chat_tokens told = {.logprobs = answer->logprobs >= 0 ? &c->logprobs : NULL,
                                 .ids = taken.ids,
                                 .id_count = taken.count,
                                 .with_ids = answer->with_ids};
    const qn_chat_tokens *tokens = taken.count > 0 ? &told : NULL;
    bool tells = tokens != NULL && (told.logprobs != NULL || told.with_ids);
    qn_output output;
    while (qn_stream_next(c->stream, &output)) {
        qn_chat_write_text_chunk(&answer->scratch, &answer->head, index, output.channel, output.text, output.bytes,
                                 tokens);
        send_chunk(answer, out);
        tokens = NULL;
        tells = false;
    }
    if (c->over) {
        qn_result result = qn_stream_result(c->stream);
        qn_chat_totals totals = {.seed = answer->seed};
        qn_chat_totals_add(&totals, &result);
        qn_chat_write_finish_chunk(&answer->scratch, &answer->head, index, &result, tokens, &totals);
        send_chunk(answer, out);
    } else if (tells) {
        qn_chat_write_text_chunk(&answer->scratch, &answer->head, index, QN_CHANNEL_CONTENT, "", 0, tokens);
        send_chunk(answer, out);
    }
    qn_buffer_clear(&c->logprobs);
}

static void send_last(qn_chat_answer *answer, qn_buffer *out)
{
    qn_sse_data(out, "[DONE]", strlen("[DONE]"));
    answer->ended = true;
}

static void send_failure(qn_chat_answer *answer, const qn_error *err, qn_buffer *out)
{
    qn_api_error error = error_of(err); /* too late for a status line */
    qn_buffer_clear(&answer->scratch);
    qn_api_error_write(&error, err, &answer->scratch);
    send_chunk(answer, out);
    send_last(answer, out);
}

static void send_all_news(qn_chat_answer *answer, qn_buffer *out)
{
    for (size_t i = 0; i < answer->count; i++) {
        qn_error err;
        if (answer->choices[i].over) {
            continue;
        }
        if (take(answer, &answer->choices[i], &err) != QN_OK) {
            send_failure(answer, &err, out);
            return;
        }
        send_news(answer, i, out);
    }
    if (answer->over_count == answer->count) {
        if (answer->head.include_usage) {
            qn_chat_write_usage_chunk(&answer->scratch, &answer->head, &answer->totals);
            send_chunk(answer, out);
        }
        send_last(answer, out);
    }
}

/* The roles go out at once, so that a client sees the stream begin while its request waits. */
static bool pull(void *state, qn_http_exchange *exchange, qn_buffer *out)
{
    qn_chat_answer *answer = state;
    if (!answer->role_sent) {
        answer->role_sent = true;
        send_roles(answer, out);
        return true;
    }
    while (out->size == 0 && !out->failed && !answer->ended) {
        switch (wait_for_news(answer, exchange, KEEP_ALIVE_MS)) {
        case QN_HTTP_GONE:
            return false;
        case QN_HTTP_TIMEOUT:
            qn_sse_comment(out, "working");
            return true;
        case QN_HTTP_NEWS:
            send_all_news(answer, out);
            break;
        }
    }
    return !answer->ended;
}

static void close_stream(void *state)
{
    qn_chat_answer_free(state);
}

void qn_chat_answer_stream(qn_chat_answer *answer, qn_http_reply *reply)
{
    reply->status = 200;
    reply->content_type = "text/event-stream; charset=utf-8";
    reply->stream = (qn_http_stream){.state = answer, .pull = pull, .close = close_stream};
}

/* ---- one body ---- */

static qn_status collect_choice(qn_chat_answer *answer, choice *c, qn_error *err)
{
    qn_status status = take(answer, c, err);
    qn_output output;
    while (status == QN_OK && qn_stream_next(c->stream, &output)) {
        qn_buffer_append(output.channel == QN_CHANNEL_REASONING ? &c->reasoning : &c->content, output.text,
                         output.bytes);
    }
    if (status == QN_OK && (c->reasoning.failed || c->content.failed || c->logprobs.failed)) {
        status = qn_fail_memory(err, "answer", c->reasoning.size + c->content.size + c->logprobs.size);
    }
    return status;
}

/* Until all choices are over. */
static qn_status collect(qn_chat_answer *answer, qn_http_exchange *exchange, qn_error *err)
{
    while (answer->over_count < answer->count) {
        qn_http_event event = wait_for_news(answer, exchange, -1);
        if (event == QN_HTTP_GONE) {
            return qn_fail(err, QN_CANCELLED, "request: the client hung up: nothing to do");
        }
        for (size_t i = 0; event == QN_HTTP_NEWS && i < answer->count; i++) {
            qn_status status = answer->choices[i].over ? QN_OK : collect_choice(answer, &answer->choices[i], err);
            if (status != QN_OK) {
                return status;
            }
        }
    }
    return QN_OK;
}

static void write_prompt_logprobs(const qn_chat_answer *answer, qn_buffer *out)
{
    qn_stream_tokens prompt = qn_stream_prompt(answer->choices[0].stream);
    qn_logprobs_write_prompt(out, qn_engine_tokenizer(answer->server->engine), prompt.logprobs, prompt.ranks,
                             prompt.count, (size_t)answer->prompt_logprobs);
}

static qn_status write_body(const qn_chat_answer *answer, qn_buffer *out, qn_error *err)
{
    qn_chat_choice *choices = qn_alloc_zero(answer->count, sizeof *choices);
    qn_result *results = qn_alloc_zero(answer->count, sizeof *results);
    if (choices == NULL || results == NULL) {
        qn_free(choices);
        qn_free(results);
        return qn_fail_memory(err, "answer", answer->count * (sizeof *choices + sizeof *results));
    }
    for (size_t i = 0; i < answer->count; i++) {
        const choice *c = &answer->choices[i];
        results[i] = qn_stream_result(c->stream);
        choices[i] = (qn_chat_choice){.index = i,
                                      .result = &results[i],
                                      .content = &c->content,
                                      .reasoning = &c->reasoning,
                                      .tokens = {.logprobs = answer->logprobs >= 0 ? &c->logprobs : NULL,
                                                 .ids = results[i].tokens,
                                                 .id_count = results[i].completion_tokens,
                                                 .with_ids = answer->with_ids}};
    }
    qn_buffer logprobs = {0};
    qn_chat_prompt_part prompt = {.ids = answer->prompt.ids, .id_count = answer->prompt.count};
    if (answer->prompt_logprobs >= 0) {
        write_prompt_logprobs(answer, &logprobs);
        prompt.logprobs = &logprobs;
    }
    qn_chat_write_answer(out, &answer->head, choices, answer->count, &prompt, &answer->totals);
    qn_buffer_free(&logprobs);
    qn_free(choices);
    qn_free(results);
    return QN_OK;
}

void qn_chat_answer_reply(qn_chat_answer *answer, qn_http_exchange *exchange, qn_http_reply *reply)
{
    qn_error err;
    qn_status status = collect(answer, exchange, &err);
    if (status == QN_OK) {
        status = write_body(answer, &reply->body, &err);
    }
    if (status != QN_OK) { /* also when the client is gone and reads no reply */
        qn_reply_api_error(reply, error_of(&err), &err);
        return;
    }
    reply->status = 200;
    reply->content_type = "application/json";
}
