/* From a request's bytes to choices in the engine's queue and to a reply: what all endpoints that generate do alike.
 *
 * An endpoint parses, renders and encodes on its connection's thread, so that the engine's thread only computes. What
 * becomes of the answer is in answer.h. */
#ifndef QN_SERVER_GENERATE_H
#define QN_SERVER_GENERATE_H

#include "server/answer.h"
#include "server/tool_choice.h"

typedef struct qn_endpoint {
    const qn_answer_api *api;

    /* Parses the request and starts its answer; *stream: it is to be told as a stream. The request's body is gone
     * afterwards. On failure there is no answer, and *error, which comes as {0}, stays so where the status is the one
     * that qn_api_error_of gives. */
    qn_status (*start)(qn_server *server, const qn_http_request *request, qn_answer **out, bool *stream,
                       qn_api_error *error, qn_error *err);
} qn_endpoint;

/* Refuses what the queue has no room for, before it costs anything; bounds the memory of bodies being parsed; starts
 * the answer and makes it the reply. Errors are in the API's shape, with Retry-After where coming again helps. */
void qn_generate(qn_server *server, const qn_endpoint *endpoint, const qn_http_request *request, qn_http_reply *reply);

/* ---- for `start` ---- */

/* What the server has to offer to the reader of generation fields. */
qn_generation_limits qn_generate_limits(const qn_server *server);

/* A log line for each field that has no effect on this server. */
void qn_generate_report(qn_server *server, const qn_generation_fields *fields);

/* Takes the field `request_id` for the request's id; NULL: not sent. QN_USAGE. */
qn_status qn_generate_name_request(const qn_http_request *request, const char *request_id, qn_error *err);

/* 404 unless the model is served; NULL: any is fine. */
qn_status qn_generate_check_model(const qn_server *server, const char *model, qn_api_error *error, qn_error *err);

/* 400 context_length_exceeded unless the context holds the prompt and its answer; prompt_field names the prompt. */
qn_status qn_generate_check_length(const qn_server *server, size_t prompt_count, const char *prompt_field,
                                   const qn_generation_fields *fields, qn_api_error *error, qn_error *err);

/* Starts the answer (answer.h) with the tools that the request chose, held to what it asked for; these two of `options`
 * are filled in here. Takes the writer, on failure too. */
qn_status qn_generate_answer(qn_server *server, const qn_answer_api *api, void *writer, const qn_tool_choice *choice,
                             const qn_answer_format *format, qn_answer_options options, const qn_tokens *prompts,
                             size_t prompt_count, qn_answer **out, qn_error *err);

#endif
