/* What the endpoints of one server share. */
#ifndef QN_SERVER_SERVER_INTERNAL_H
#define QN_SERVER_SERVER_INTERNAL_H

#include <pthread.h>
#include <stdint.h>

#include "server/api_error.h"
#include "server/budget.h"
#include "server/grammar_cache.h"
#include "server/request_fields.h"
#include "server/response_store.h"
#include "server/server.h"

enum { QN_SERVER_REPORTED_MAX = 64 };

struct qn_server {
    qn_server_options options;
    qn_engine *engine;
    qn_vocabulary_trie *trie; /* of the tokenizer */
    uint64_t *thought_mask;   /* likewise (text/constraint.h) */
    qn_grammar_cache *grammars;
    bool call_line_breaks; /* the chat template shows tool calls as GLM-4.5's does */
    qn_http *http;
    int64_t started_s;
    pthread_mutex_t mutex; /* of what follows */
    bool draining;
    char *reported[QN_SERVER_REPORTED_MAX]; /* fields that were reported once */
    size_t reported_count;
    qn_budget body_memory;    /* taken while a body is a tree in memory */
    qn_budget history_memory; /* the same of conversations from the store; taken after body_memory, never before it */
    qn_response_store *responses; /* NULL: none is kept */
};

/* What is answered where; live for ever. */
const qn_http_route *qn_server_routes(size_t *count);

/* The fields of /tokenize and of /detokenize. */
extern const qn_field_table qn_tokenize_fields, qn_detokenize_fields;

bool qn_server_draining(qn_server *server);
bool qn_server_has_model(const qn_server *server, const char *name);

/* Seconds until a client that was refused should come again. */
unsigned qn_server_retry_after_s(const qn_server *server);

/* A log line for a field that had none before, up to QN_SERVER_REPORTED_MAX different ones, saying why it has no
 * effect; for fields that nobody knows; and for template variables that the chat template never reads. */
void qn_server_report(qn_server *server, const char *field, const char *reason);
void qn_server_report_fields(qn_server *server, const char *prefix, const qn_unknown_fields *fields);
void qn_server_report_unread(qn_server *server, const json_t *template_kwargs);

/* Makes the reply an error: the HTTP status and code as given, message and param from err. With 503 and
 * 429, Retry-After is a second. */
void qn_reply_api_error(qn_http_reply *reply, qn_api_error error, const qn_error *err);
/* The same with what qn_api_error_of says; a line in the log when it is the server's own fault (500). */
void qn_reply_error(qn_http_reply *reply, const qn_error *err);
/* As qn_reply_api_error, in another API's shape. */
void qn_reply_error_as(qn_http_reply *reply, qn_api_error_writer write_error, qn_api_error error, const qn_error *err);

/* The same in the shape of the API that the path belongs to, for errors that are found before there is a handler. */
void qn_reply_path_error(qn_http_reply *reply, const char *path, qn_api_error error, const qn_error *err);

/* One file each; qn_http_handler with the qn_server as context. */
void qn_handle_chat_completions(void *context, const qn_http_request *request, qn_http_reply *reply);
void qn_handle_responses(void *context, const qn_http_request *request, qn_http_reply *reply);
void qn_handle_stored_response(void *context, const qn_http_request *request, qn_http_reply *reply);
void qn_handle_input_items(void *context, const qn_http_request *request, qn_http_reply *reply);
void qn_handle_delete_response(void *context, const qn_http_request *request, qn_http_reply *reply);
void qn_handle_cancel_response(void *context, const qn_http_request *request, qn_http_reply *reply);
void qn_handle_messages(void *context, const qn_http_request *request, qn_http_reply *reply);
void qn_handle_count_tokens(void *context, const qn_http_request *request, qn_http_reply *reply);
void qn_handle_completions(void *context, const qn_http_request *request, qn_http_reply *reply);
void qn_handle_tokenize(void *context, const qn_http_request *request, qn_http_reply *reply);
void qn_handle_detokenize(void *context, const qn_http_request *request, qn_http_reply *reply);
void qn_handle_models(void *context, const qn_http_request *request, qn_http_reply *reply);
void qn_handle_model(void *context, const qn_http_request *request, qn_http_reply *reply);
void qn_handle_health(void *context, const qn_http_request *request, qn_http_reply *reply);
void qn_handle_ping(void *context, const qn_http_request *request, qn_http_reply *reply);
void qn_handle_metrics(void *context, const qn_http_request *request, qn_http_reply *reply);
void qn_handle_load(void *context, const qn_http_request *request, qn_http_reply *reply);
void qn_handle_openapi(void *context, const qn_http_request *request, qn_http_reply *reply);
void qn_handle_version(void *context, const qn_http_request *request, qn_http_reply *reply);

#endif
