/* POST /v1/chat/completions: from the bytes of a request to choices in the engine's queue.
 *
 * The handler parses, renders and encodes on its connection's thread, so that the engine's thread only computes; what
 * becomes of the answer is in chat_answer.h. */
#include <stdio.h>
#include <string.h>

#include "server/chat_answer.h"
#include "server/openai_chat.h"
#include "server/request_body.h"
#include "server/server_internal.h"

static void reply_overloaded(const qn_server *server, const qn_error *err, qn_http_reply *reply)
{
    qn_reply_error(reply, err);
    reply->retry_after_s = qn_server_retry_after_s(server);
}

/* A request that the queue has no room for costs nothing but its bytes: what is refused by the thousand must not hold
 * up what is computed. */
static bool refuse_early(const qn_server *server, qn_http_reply *reply)
{
    qn_engine_load load = qn_engine_get_load(server->engine);
    if (load.running < server->options.max_num_seqs || load.waiting < server->options.max_queue) {
        return false;
    }
    qn_error err;
    qn_fail(&err, QN_RESOURCE, "request: %zu requests are waiting already: send it again later", load.waiting);
    qn_metrics_on_refusal(qn_engine_metrics(server->engine));
    reply_overloaded(server, &err, reply);
    return true;
}

/* What the engine says to a request, as its client is told. */
static void reply_refusal(qn_server *server, qn_error *err, qn_http_reply *reply)
{
    if (err->status != QN_RESOURCE || strcmp(err->field, "queue") != 0) {
        qn_reply_error(reply, err);
        return;
    }
    err->field[0] = '\0'; /* no field of the request */
    if (qn_server_draining(server)) {
        qn_reply_api_error(reply, (qn_api_error){.status = 503, .code = "stopping"}, err);
    } else {
        reply_overloaded(server, err, reply);
    }
}

/* Fills the reply on failure. */
static qn_status start(qn_server *server, qn_chat_answer *answer, const qn_chat_request *chat, qn_http_reply *reply)
{
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
    } else if ((status = qn_engine_check_length(server->engine, prompt.count, chat->generation.max_tokens,
                                                chat->generation.max_tokens_field, &err)) != QN_OK) {
        qn_reply_api_error(reply, (qn_api_error){.status = 400, .code = "context_length_exceeded"}, &err);
    } else if ((status = qn_chat_answer_start(answer, chat, &prompt, &err)) != QN_OK) {
        reply_refusal(server, &err, reply);
    }
    qn_tokens_free(&prompt);
    return status;
}

static qn_chat_defaults defaults_of(const qn_server *server)
{
    const qn_server_options *options = &server->options;
    return (qn_chat_defaults){
        .limits = {.sampling = qn_engine_default_sampling(server->engine),
                   .vocab_size = qn_engine_config(server->engine)->vocab_size,
                   .max_choices = options->max_num_seqs + options->max_queue},
        .kwargs = options->template_kwargs,
    };
}

static void report_fields(qn_server *server, const qn_chat_request *chat)
{
    qn_server_report_fields(server, "", &chat->unknown);
    qn_server_report_fields(server, "messages[].", &chat->unknown_message);
    qn_server_report_unread(server, chat->kwargs);
    if (chat->generation.priority != 0 && !server->options.by_priority) {
        qn_server_report(server, "priority", "only with --scheduling-policy priority");
    }
}

/* Parses the body and submits the choices; the body's tree lives in here only. */
static qn_status prepare(qn_server *server, qn_chat_answer *answer, const qn_http_request *request, bool *stream,
                         qn_http_reply *reply)
{
    const qn_chat_defaults defaults = defaults_of(server);
    qn_chat_request chat;
    qn_error err;
    qn_status status = qn_chat_request_parse(request->body, request->body_bytes, &defaults, &chat, &err);
    if (status != QN_OK) {
        qn_reply_error(reply, &err);
        return status;
    }
    report_fields(server, &chat);
    *stream = chat.stream;
    status = start(server, answer, &chat, reply);
    qn_chat_request_free(&chat);
    return status;
}

void qn_handle_chat_completions(void *context, const qn_http_request *request, qn_http_reply *reply)
{
    qn_server *server = context;
    qn_chat_answer *answer = NULL;
    qn_error err;
    if (refuse_early(server, reply)) {
        return;
    }
    if (qn_chat_answer_new(server, &answer, &err) != QN_OK) {
        qn_reply_error(reply, &err);
        return;
    }
    bool stream = false;
    size_t memory = qn_budget_take(&server->body_memory, qn_request_body_cost(request->body, request->body_bytes));
    qn_status status = prepare(server, answer, request, &stream, reply);
    qn_http_release_body(request->exchange);
    qn_budget_give(&server->body_memory, memory);
    if (status == QN_OK && stream) {
        qn_chat_answer_stream(answer, reply); /* owns it */
        return;
    }
    if (status == QN_OK) {
        qn_chat_answer_reply(answer, request->exchange, reply);
    }
    qn_chat_answer_free(answer);
}
