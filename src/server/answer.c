#include "server/answer.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "server/answer_internal.h"
#include "server/sse.h"

enum { KEEP_ALIVE_MS = 10000 }; /* between comments in a silent stream */

void qn_answer_free(qn_answer *answer)
{
    if (answer == NULL) {
        return;
    }
    if (answer->log_id[0] != '\0' && answer->over_count < answer->count) {
        qn_request_log_left(answer->log_id, answer->over_count, answer->count);
    }
    qn_buffer_free(&answer->description);
    for (size_t i = 0; i < answer->count; i++) {
        qn_choice_state *c = &answer->choices[i];
        if (c->constraint != NULL && c->stream != NULL) {
            qn_stream_settle(c->stream); /* the engine's thread reads the constraint */
        }
        qn_stream_close(c->stream);
        qn_constraint_free(c->constraint);
        qn_output_events_free(&c->parts);
        qn_buffer_free(&c->logprobs);
        qn_buffer_free(&c->ranks);
    }
    for (size_t i = 0; i < answer->prompt_count; i++) {
        qn_tokens_free(&answer->prompts[i]);
    }
    qn_free(answer->choices);
    qn_free(answer->prompts);
    qn_answer_grammar_release(answer->grammar);
    qn_free(answer->stop_text);
    qn_tool_list_free(answer->tools); /* after the streams */
    answer->api->free(answer->writer);
    qn_free(answer);
}

void qn_answer_log(qn_answer *answer, const qn_http_request *request, bool stream)
{
    if (answer->server->options.request_log.requests) {
        snprintf(answer->log_id, sizeof answer->log_id, "%s", qn_http_request_id(request->exchange));
        qn_request_log_taken(request, stream, &answer->description);
        qn_buffer_free(&answer->description);
    }
}

/* ---- what writers read ---- */

const qn_tokenizer *qn_answer_tokenizer(const qn_answer *answer)
{
    return qn_engine_tokenizer(answer->server->engine);
}

size_t qn_answer_choice_count(const qn_answer *answer)
{
    return answer->count;
}

size_t qn_answer_prompt_count(const qn_answer *answer)
{
    return answer->prompt_count;
}

const qn_tokens *qn_answer_prompt(const qn_answer *answer, size_t prompt)
{
    return &answer->prompts[prompt];
}

qn_stream_tokens qn_answer_prompt_logprobs(const qn_answer *answer, size_t prompt)
{
    return qn_stream_prompt(answer->choices[prompt * answer->choices_each].stream);
}

const qn_answer_totals *qn_answer_totals_of_all(const qn_answer *answer)
{
    return &answer->totals;
}

qn_answer_totals qn_answer_totals_of(const qn_answer *answer, const qn_answer_choice *one)
{
    qn_answer_totals totals = {.seed = answer->seed};
    qn_answer_totals_add(&totals, &one->result, true);
    return totals;
}

static qn_result result_of(const qn_answer *answer, size_t index)
{
    qn_result result = qn_stream_result(answer->choices[index].stream);
    if (answer->prompt_only) {
        result.completion_tokens = result.reasoning_tokens = 0;
        result.finish = QN_FINISH_LENGTH;
        result.stop_matched = NULL;
        result.stop_token = -1;
    }
    return result;
}

/* All but the tokens. */
static qn_answer_choice view_of(const qn_answer *answer, size_t index)
{
    qn_choice_state *c = &answer->choices[index];
    size_t part_count = 0;
    const qn_output_event *parts = qn_output_events_read(&c->parts, &part_count);
    return (qn_answer_choice){
        .index = index,
        .prompt = index / answer->choices_each,
        .over = c->over,
        .result = result_of(answer, index),
        .parts = parts,
        .part_count = part_count,
    };
}

qn_answer_choice qn_answer_choice_at(const qn_answer *answer, size_t index)
{
    const qn_choice_state *c = &answer->choices[index];
    qn_answer_choice view = view_of(answer, index);
    view.tokens = (qn_stream_tokens){.ids = view.result.tokens, .count = view.result.completion_tokens};
    if (answer->logprobs >= 0) {
        view.tokens.logprobs = (const void *)c->logprobs.data;
        view.tokens.ranks = (const void *)c->ranks.data;
    }
    return view;
}

/* ---- news ---- */

/* Choices of a prompt whose logprobs are told wait for the first of them, which brings these. */
static bool must_wait(const qn_answer *answer, size_t index)
{
    const qn_choice_state *first = &answer->choices[index - index % answer->choices_each];
    return answer->prompt_logprobs >= 0 && first != &answer->choices[index] && !qn_stream_started(first->stream);
}

/* Waits until one of the choices that go on has news. */
static qn_http_event wait_for_news(const qn_answer *answer, qn_http_exchange *exchange, int timeout_ms)
{
    int fds[QN_HTTP_WAIT_MAX];
    for (size_t i = 0; i < answer->count; i++) {
        bool silent = answer->choices[i].over || must_wait(answer, i);
        fds[i] = silent ? -1 : qn_stream_fd(answer->choices[i].stream);
    }
    return qn_http_wait(exchange, fds, answer->count, timeout_ms);
}

_Static_assert((int)QN_REQUEST_MAX_CHOICES <= (int)QN_HTTP_WAIT_MAX, "one wait for all choices");

/* Reads a choice's news. The end of the choice is added to the totals. */
static qn_status take(qn_answer *answer, size_t index, qn_error *err)
{
    qn_choice_state *c = &answer->choices[index];
    qn_status status = qn_stream_take(c->stream, err);
    if (status != QN_OK) {
        return status;
    }
    const qn_job_end *end = qn_stream_end(c->stream);
    if (end != NULL && end->status != QN_OK) {
        *err = end->err;
        if (end->status == QN_USAGE && err->field[0] == '\0' && answer->form_field != NULL) {
            snprintf(err->field, sizeof err->field, "%s", answer->form_field);
        }
        return end->status;
    }
    if (end != NULL) {
        qn_result result = result_of(answer, index);
        qn_answer_totals_add(&answer->totals, &result, index % answer->choices_each == 0);
        c->over = true;
        answer->over_count++;
        if (answer->log_id[0] != '\0') {
            qn_request_log_choice(&answer->server->options.request_log, qn_answer_tokenizer(answer), answer->log_id,
                                  index, &result);
        }
    }
    return QN_OK;
}

static void keep_parts(const qn_answer *answer, qn_choice_state *c)
{
    qn_output_event output;
    while (!answer->prompt_only && qn_stream_next(c->stream, &output)) {
        qn_output_events_set_reasoning_tokens(&c->parts, output.reasoning_tokens);
        qn_output_events_add(&c->parts, output.kind, output.call, output.text, output.bytes);
    }
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

/* ---- a stream of events ---- */

static void send_news(qn_answer *answer, size_t index, qn_buffer *out)
{
    qn_choice_state *c = &answer->choices[index];
    qn_output_events_clear(&c->parts);
    keep_parts(answer, c);
    if (qn_output_events_failed(&c->parts)) {
        out->failed = true;
        return;
    }
    qn_answer_choice view = view_of(answer, index);
    if (!answer->prompt_only) {
        view.tokens = qn_stream_taken(c->stream);
    }
    if (view.over || view.part_count > 0 || view.tokens.count > 0) {
        answer->api->news(answer->writer, answer, &view, out);
    }
}

static void send_failure(qn_answer *answer, const qn_error *err, qn_buffer *out)
{
    qn_api_error error = error_of(err); /* too late for a status line */
    answer->api->fail(answer->writer, &error, err, out);
    answer->ended = true;
}

static void send_all_news(qn_answer *answer, qn_buffer *out)
{
    for (size_t i = 0; i < answer->count; i++) {
        qn_error err;
        if (answer->choices[i].over || must_wait(answer, i)) {
            continue;
        }
        if (take(answer, i, &err) != QN_OK) {
            send_failure(answer, &err, out);
            return;
        }
        send_news(answer, i, out);
    }
    if (answer->over_count == answer->count) {
        answer->api->end(answer->writer, answer, out);
        answer->ended = true;
    }
}

static void tell_of_work(const qn_answer *answer, qn_buffer *out)
{
    if (answer->api->idle != NULL) {
        answer->api->idle(answer->writer, out);
    } else {
        qn_sse_comment(out, "working");
    }
}

static bool pull(void *state, qn_http_exchange *exchange, qn_buffer *out)
{
    qn_answer *answer = state;
    if (!answer->begun) {
        answer->begun = true;
        answer->api->begin(answer->writer, answer, out);
        if (out->size > 0) {
            return true;
        }
    }
    while (out->size == 0 && !out->failed && !answer->ended) {
        switch (wait_for_news(answer, exchange, KEEP_ALIVE_MS)) {
        case QN_HTTP_GONE:
            return false;
        case QN_HTTP_TIMEOUT:
            tell_of_work(answer, out);
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
    qn_answer_free(state);
}

void qn_answer_stream(qn_answer *answer, qn_http_reply *reply)
{
    reply->status = 200;
    reply->content_type = "text/event-stream; charset=utf-8";
    reply->stream = (qn_http_stream){.state = answer, .pull = pull, .close = close_stream};
}

/* ---- one body ---- */

static void keep_logprobs(const qn_answer *answer, qn_choice_state *c)
{
    qn_stream_tokens taken = qn_stream_taken(c->stream);
    if (answer->logprobs >= 0 && taken.logprobs != NULL) {
        qn_buffer_append(&c->logprobs, taken.logprobs,
                         taken.count * (1 + (size_t)answer->logprobs) * sizeof *taken.logprobs);
        qn_buffer_append(&c->ranks, taken.ranks, taken.count * sizeof *taken.ranks);
    }
}

static qn_status collect_choice(qn_answer *answer, size_t index, qn_error *err)
{
    qn_choice_state *c = &answer->choices[index];
    qn_status status = take(answer, index, err);
    if (status != QN_OK || answer->prompt_only) {
        return status;
    }
    keep_parts(answer, c);
    keep_logprobs(answer, c);
    if (qn_output_events_failed(&c->parts) || c->logprobs.failed || c->ranks.failed) {
        return qn_fail_memory(err, "answer", c->logprobs.size);
    }
    return QN_OK;
}

/* Until all choices are over. */
static qn_status collect(qn_answer *answer, qn_http_exchange *exchange, qn_error *err)
{
    while (answer->over_count < answer->count) {
        qn_http_event event = wait_for_news(answer, exchange, -1);
        if (event == QN_HTTP_GONE) {
            return qn_fail(err, QN_CANCELLED, "request: the client hung up: nothing to do");
        }
        for (size_t i = 0; event == QN_HTTP_NEWS && i < answer->count; i++) {
            bool silent = answer->choices[i].over || must_wait(answer, i);
            qn_status status = silent ? QN_OK : collect_choice(answer, i, err);
            if (status != QN_OK) {
                return status;
            }
        }
    }
    return QN_OK;
}

void qn_answer_reply(qn_answer *answer, qn_http_exchange *exchange, qn_http_reply *reply)
{
    qn_error err;
    if (collect(answer, exchange, &err) != QN_OK) { /* also when the client is gone and reads no reply */
        qn_reply_error_as(reply, answer->api->write_error, error_of(&err), &err);
        return;
    }
    answer->api->body(answer->writer, answer, &reply->body);
    reply->status = 200;
    reply->content_type = "application/json";
}
