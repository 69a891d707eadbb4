#include "server/server.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "server/anthropic_error.h"
#include "server/retry_after.h"
#include "server/server_internal.h"
#include "server/tool_choice.h"
#include "text/constraint.h"

enum {
    CONNECTIONS_BESIDE_QUEUE = 1024, /* idle ones, and requests that need no engine or are refused by it */
    MAX_BODY_BYTES = 64 << 20,       /* a million tokens of text, escaped */
    MAX_ALL_BODY_BYTES = 256 << 20,
    BODY_MEMORY_BYTES = 256 << 20, /* of all bodies being parsed and encoded, as qn_request_body_cost counts */
    REPORTED_BYTES = 96,           /* of a field's name in the log */
    LAST_WORDS_MS = 1000,          /* for the ends of requests that a stop cuts off */
};

static const qn_http_route routes[] = {
    {.method = "POST", .path = "/v1/chat/completions", .handle = qn_handle_chat_completions},
    {.method = "POST", .path = "/v1/completions", .handle = qn_handle_completions},
    {.method = "POST", .path = "/v1/responses", .handle = qn_handle_responses},
    {.method = "GET", .path = "/v1/responses/", .prefix = true, .below = "", .handle = qn_handle_stored_response},
    {.method = "DELETE", .path = "/v1/responses/", .prefix = true, .below = "", .handle = qn_handle_delete_response},
    {.method = "GET",
     .path = "/v1/responses/",
     .prefix = true,
     .below = "/input_items",
     .handle = qn_handle_input_items},
    {.method = "POST",
     .path = "/v1/responses/",
     .prefix = true,
     .below = "/cancel",
     .handle = qn_handle_cancel_response},
    {.method = "POST", .path = "/v1/messages", .handle = qn_handle_messages},
    {.method = "POST", .path = "/v1/messages/count_tokens", .handle = qn_handle_count_tokens},
    {.method = "POST", .path = "/tokenize", .handle = qn_handle_tokenize},
    {.method = "POST", .path = "/detokenize", .handle = qn_handle_detokenize},
    {.method = "GET", .path = "/v1/models", .handle = qn_handle_models},
    {.method = "GET", .path = "/v1/models/", .prefix = true, .handle = qn_handle_model},
    {.method = "GET", .path = "/health", .open = true, .handle = qn_handle_health},
    {.method = "GET", .path = "/ping", .open = true, .handle = qn_handle_ping},
    {.method = "POST", .path = "/ping", .open = true, .handle = qn_handle_ping},
    {.method = "GET", .path = "/metrics", .open = true, .handle = qn_handle_metrics},
    {.method = "GET", .path = "/load", .open = true, .handle = qn_handle_load},
    {.method = "GET", .path = "/version", .open = true, .handle = qn_handle_version},
    {.method = "GET", .path = "/openapi.json", .open = true, .handle = qn_handle_openapi},
};

const qn_http_route *qn_server_routes(size_t *count)
{
    *count = sizeof routes / sizeof routes[0];
    return routes;
}

bool qn_server_draining(qn_server *server)
{
    pthread_mutex_lock(&server->mutex);
    bool draining = server->draining;
    pthread_mutex_unlock(&server->mutex);
    return draining;
}

bool qn_server_has_model(const qn_server *server, const char *name)
{
    for (size_t i = 0; i < server->options.model_name_count; i++) {
        if (strcmp(server->options.model_names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

/* With the mutex held. A name that can't be kept counts as reported, so that the log stays bounded. */
static bool first_report(qn_server *server, const char *name)
{
    for (size_t i = 0; i < server->reported_count; i++) {
        if (strcmp(server->reported[i], name) == 0) {
            return false;
        }
    }
    if (server->reported_count == QN_SERVER_REPORTED_MAX) {
        return false;
    }
    char *kept = qn_strdup(name);
    if (kept == NULL) {
        return false;
    }
    server->reported[server->reported_count++] = kept;
    return true;
}

/* within: the field whose member it is, or NULL. */
static void report_once(qn_server *server, const char *prefix, const char *within, const char *name, const char *reason)
{
    char field[REPORTED_BYTES];
    snprintf(field, sizeof field, "%s%s%s%s", prefix, within != NULL ? within : "", within != NULL ? "." : "", name);
    pthread_mutex_lock(&server->mutex);
    bool first = first_report(server, field);
    bool last = server->reported_count == QN_SERVER_REPORTED_MAX;
    pthread_mutex_unlock(&server->mutex);
    if (first) {
        qn_log("request: %s: %s: it has no effect%s", field, reason,
               last ? " (no more of these lines will follow)" : "");
    }
}

void qn_server_report(qn_server *server, const char *field, const char *reason)
{
    report_once(server, "", NULL, field, reason);
}

unsigned qn_server_retry_after_s(const qn_server *server)
{
    qn_metrics_load load = qn_metrics_read_load(qn_engine_metrics(server->engine));
    return qn_retry_after_s(qn_engine_get_load(server->engine).waiting, load.seconds_per_request);
}

void qn_server_report_fields(qn_server *server, const char *prefix, const qn_unknown_fields *fields)
{
    for (size_t i = 0; i < fields->count; i++) {
        report_once(server, prefix, fields->within[i], fields->names[i], "unknown field");
    }
}

void qn_server_report_unread(qn_server *server, const json_t *template_kwargs)
{
    const qn_chat *chat = qn_engine_chat(server->engine);
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)template_kwargs, name, value)
    {
        if (!qn_chat_reads(chat, name)) {
            report_once(server, "", "chat_template_kwargs", name, "the chat template never reads it");
        }
    }
}

void qn_reply_error_as(qn_http_reply *reply, qn_api_error_writer write_error, qn_api_error error, const qn_error *err)
{
    reply->status = error.status;
    reply->content_type = "application/json";
    reply->retry_after_s = error.status == 503 || error.status == 429 ? 1 : 0;
    qn_buffer_clear(&reply->body);
    write_error(&error, err, &reply->body);
}

void qn_reply_api_error(qn_http_reply *reply, qn_api_error error, const qn_error *err)
{
    qn_reply_error_as(reply, qn_api_error_write, error, err);
}

void qn_reply_error(qn_http_reply *reply, const qn_error *err)
{
    qn_api_error error = qn_api_error_of(err);
    if (error.status == 500) {
        qn_log_error(err);
    }
    qn_reply_api_error(reply, error, err);
}

/* An error that was found before there was a handler has the shape of the API that the path belongs to. */
static qn_api_error_writer writer_of(const char *path)
{
    return qn_anthropic_path(path) ? qn_anthropic_error_write : qn_api_error_write;
}

void qn_reply_path_error(qn_http_reply *reply, const char *path, qn_api_error error, const qn_error *err)
{
    qn_reply_error_as(reply, writer_of(path), error, err);
}

static void write_http_error(unsigned status, const char *path, const char *message, qn_buffer *out)
{
    qn_error err;
    qn_fail(&err, QN_USAGE, "%s", message);
    const char *code = status == 403   ? "certificate_required"
                       : status == 404 ? "not_found"
                       : status == 503 ? "overloaded"
                                       : NULL;
    writer_of(path)(&(qn_api_error){.status = status, .code = code}, &err, out);
}

static bool admit(void *context, const qn_http_request *head, qn_http_reply *reply)
{
    const qn_server *server = context;
    return qn_admission_check(&server->options.admission, head, reply);
}

static void free_server(qn_server *server)
{
    for (size_t i = 0; i < server->reported_count; i++) {
        qn_free(server->reported[i]);
    }
    qn_grammar_cache_free(server->grammars);
    qn_vocabulary_trie_free(server->trie);
    qn_free(server->thought_mask);
    qn_response_store_free(server->responses);
    qn_budget_destroy(&server->history_memory);
    qn_budget_destroy(&server->body_memory);
    pthread_mutex_destroy(&server->mutex);
    qn_free(server);
}

qn_status qn_server_start(const qn_server_options *options, qn_engine *engine, qn_http_socket *socket, qn_server **out,
                          qn_error *err)
{
    qn_server *server = qn_alloc_zero(1, sizeof *server);
    if (server == NULL) {
        return qn_fail_memory(err, "server", sizeof *server);
    }
    server->options = *options;
    server->engine = engine;
    server->started_s = qn_unix_seconds();
    pthread_mutex_init(&server->mutex, NULL);
    qn_budget_init(&server->body_memory, BODY_MEMORY_BYTES);
    qn_budget_init(&server->history_memory, BODY_MEMORY_BYTES);
    const qn_http_options http = {
        .routes = routes,
        .route_count = sizeof routes / sizeof routes[0],
        .context = server,
        .admit = admit,
        .write_error = write_http_error,
        .max_connections = options->max_num_seqs + options->max_queue + CONNECTIONS_BESIDE_QUEUE,
        .max_connections_each = options->max_connections_each,
        .max_body_bytes = MAX_BODY_BYTES,
        .max_all_body_bytes = MAX_ALL_BODY_BYTES,
        .patience_s = options->patience_s,
        .cors = options->cors,
        .tls = options->tls,
    };
    qn_status status = qn_tokenizer_trie(qn_engine_tokenizer(engine), &server->trie, err);
    if (status == QN_OK) {
        status = qn_thought_mask_new(qn_engine_tokenizer(engine), qn_engine_config(engine)->vocab_size,
                                     &server->thought_mask, err);
    }
    if (status == QN_OK) {
        status = qn_grammar_cache_new(qn_engine_tokenizer(engine), server->trie, &server->grammars, err);
    }
    server->call_line_breaks = qn_tool_choice_line_breaks(engine);
    if (status == QN_OK && options->responses_store_bytes > 0) {
        status = qn_response_store_new(options->responses_store_bytes, &server->responses, err);
    }
    if (status == QN_OK) {
        status = qn_http_start(&http, socket, &server->http, err);
    }
    if (status != QN_OK) {
        free_server(server);
        return status;
    }
    *out = server;
    return QN_OK;
}

void qn_server_drain(qn_server *server)
{
    pthread_mutex_lock(&server->mutex);
    server->draining = true;
    pthread_mutex_unlock(&server->mutex);
    qn_engine_drain(server->engine);
    qn_http_drain(server->http);
}

int qn_server_idle_fd(const qn_server *server)
{
    return qn_http_idle_fd(server->http);
}

void qn_server_stop(qn_server *server)
{
    if (server == NULL) {
        return;
    }
    qn_server_drain(server);
    qn_engine_stop(server->engine); /* handlers get their requests' ends, and tell them their clients */
    struct pollfd idle = {.fd = qn_http_idle_fd(server->http), .events = POLLIN};
    poll(&idle, 1, LAST_WORDS_MS);
    qn_http_stop(server->http);
    free_server(server);
}
