#include "server/generate.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "server/request_body.h"

static void reply_overloaded(const qn_server *server, const qn_answer_api *api, const qn_error *err,
                             qn_http_reply *reply)
{
    qn_reply_error_as(reply, api->write_error, qn_api_error_of(err), err);
    reply->retry_after_s = qn_server_retry_after_s(server);
}

/* A request that the queue has no room for costs nothing but its bytes: what is refused by the thousand must not hold
 * up what is computed. */
static bool refuse_early(const qn_server *server, const qn_answer_api *api, qn_http_reply *reply)
{
    qn_engine_load load = qn_engine_get_load(server->engine);
    if (load.running < server->options.max_num_seqs || load.waiting < server->options.max_queue) {
        return false;
    }
    qn_error err;
    qn_fail(&err, QN_RESOURCE, "request: %zu requests are waiting already: send it again later", load.waiting);
    qn_metrics_on_refusal(qn_engine_metrics(server->engine));
    reply_overloaded(server, api, &err, reply);
    return true;
}

/* A request that can't be started, as its client is told. */
static void reply_refusal(qn_server *server, const qn_answer_api *api, qn_api_error error, qn_error *err,
                          qn_http_reply *reply)
{
    if (err->status == QN_RESOURCE && strcmp(err->field, "queue") == 0) {
        err->field[0] = '\0'; /* no field of the request */
        if (!qn_server_draining(server)) {
            reply_overloaded(server, api, err, reply);
            return;
        }
        error = (qn_api_error){.status = 503, .code = "stopping"};
    }
    if (error.status == 0) {
        error = qn_api_error_of(err);
    }
    if (error.status == 500) {
        qn_log_error(err);
    }
    qn_reply_error_as(reply, api->write_error, error, err);
}

static void log_refusal(const qn_server *server, const qn_http_request *request, const qn_http_reply *reply)
{
    if (server->options.request_log.requests) {
        qn_request_log_refused(request, reply->status);
    }
}

void qn_generate(qn_server *server, const qn_endpoint *endpoint, const qn_http_request *request, qn_http_reply *reply)
{
    if (refuse_early(server, endpoint->api, reply)) {
        log_refusal(server, request, reply);
        return;
    }
    qn_answer *answer = NULL;
    bool stream = false;
    qn_api_error error = {0};
    qn_error err;
    size_t memory = qn_budget_take(&server->body_memory, qn_request_body_cost(request->body, request->body_bytes));
    qn_status status = endpoint->start(server, request, &answer, &stream, &error, &err);
    qn_http_release_body(request->exchange);
    qn_budget_give(&server->body_memory, memory);
    if (status != QN_OK) {
        reply_refusal(server, endpoint->api, error, &err, reply);
        log_refusal(server, request, reply);
        return;
    }
    qn_answer_log(answer, request, stream);
    if (stream) {
        qn_answer_stream(answer, reply); /* owns it */
    } else {
        qn_answer_reply(answer, request->exchange, reply);
        qn_answer_free(answer);
    }
}

qn_generation_limits qn_generate_limits(const qn_server *server)
{
    return (qn_generation_limits){
        .sampling = qn_engine_default_sampling(server->engine),
        .vocab_size = qn_engine_config(server->engine)->vocab_size,
        .max_choices = server->options.max_num_seqs + server->options.max_queue,
    };
}

void qn_generate_report(qn_server *server, const qn_generation_fields *fields)
{
    if (fields->priority != 0 && !server->options.by_priority) {
        qn_server_report(server, "priority", "only with --scheduling-policy priority");
    }
}

qn_status qn_generate_name_request(const qn_http_request *request, const char *request_id, qn_error *err)
{
    if (request_id == NULL || qn_http_name_request(request->exchange, request_id)) {
        return QN_OK;
    }
    return qn_fail_field(err, QN_USAGE, "request_id",
                         "request_id: no id: send 1 to %d visible ASCII characters without quotes and backslashes",
                         QN_HTTP_REQUEST_ID_MAX);
}

qn_status qn_generate_check_model(const qn_server *server, const char *model, qn_api_error *error, qn_error *err)
{
    if (model == NULL || qn_server_has_model(server, model)) {
        return QN_OK;
    }
    *error = (qn_api_error){.status = 404, .code = "model_not_found"};
    return qn_fail_field(err, QN_USAGE, "model", "model: %.200s is not served here: GET /v1/models tells what is",
                         model);
}

qn_status qn_generate_check_length(const qn_server *server, size_t prompt_count, const char *prompt_field,
                                   const qn_generation_fields *fields, qn_api_error *error, qn_error *err)
{
    qn_status status = qn_engine_check_length(server->engine, prompt_count, fields->max_tokens,
                                              fields->max_tokens_field, err);
    if (status == QN_OK) {
        return QN_OK;
    }
    *error = (qn_api_error){.status = 400, .code = "context_length_exceeded"};
    if (strcmp(err->field, "messages") == 0) {
        snprintf(err->field, sizeof err->field, "%s", prompt_field);
    }
    return status;
}

qn_status qn_generate_answer(qn_server *server, const qn_answer_api *api, void *writer, const qn_tool_choice *choice,
                             const qn_answer_format *format, qn_answer_options options, const qn_tokens *prompts,
                             size_t prompt_count, qn_answer **out, qn_error *err)
{
    qn_status status = qn_tool_choice_tools(choice, &options.tools, err);
    if (status == QN_OK) {
        status = qn_tool_choice_grammar(server, choice, format, &options.grammar, err);
    }
    if (options.grammar != NULL) {
        options.form_field = format->kind != QN_FORMAT_TEXT ? format->field : "tools";
    }
    if (status == QN_OK) {
        status = qn_answer_start(server, api, writer, &options, prompts, prompt_count, out, err);
    } else {
        api->free(writer);
        qn_tool_list_free(options.tools);
    }
    qn_answer_grammar_release(options.grammar);
    return status;
}
