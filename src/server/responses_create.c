/* POST /v1/responses: a response, streamed or not. */
#include <stdio.h>

#include "base/memory.h"
#include "server/admission.h"
#include "server/generate.h"
#include "server/request_body.h"
#include "server/responses_items.h"
#include "server/responses_references.h"
#include "server/responses_request.h"
#include "server/responses_response.h"
#include "server/responses_stored.h"

/* What is written to, and where it is kept. */
typedef struct writer {
    qn_response response;
    qn_server *server;
    qn_stored_response *opened; /* held until the response is over; NULL: it is not kept */
} writer;

static void report_no_room(qn_server *server)
{
    qn_server_report(server, "store", "a response found no room in --responses-store");
}

/* Before its client learns of the end, and may go on from it. */
static void keep(writer *w, const qn_stored_text *body, size_t output_at, size_t output_bytes)
{
    qn_stored_response *opened = w->opened;
    w->opened = NULL;
    if (!qn_response_store_keep(w->server->responses, opened, *body, output_at, output_bytes)) {
        report_no_room(w->server);
    }
}

static void body(void *state, const qn_answer *answer, qn_buffer *out)
{
    writer *w = state;
    qn_answer_choice choice = qn_answer_choice_at(answer, 0);
    for (size_t i = 0; i < choice.part_count; i++) {
        qn_response_add(&w->response, &choice.parts[i], NULL);
    }
    qn_response_finish(&w->response, &choice.result, NULL);
    size_t output_at, output_bytes;
    qn_response_write(&w->response, &choice.result, out, &output_at, &output_bytes);
    if (w->opened != NULL && !out->failed) {
        keep(w, &(qn_stored_text){.text = qn_buffer_string(out), .bytes = out->size}, output_at, output_bytes);
    }
}

static void begin(void *state, const qn_answer *answer, qn_buffer *out)
{
    (void)answer;
    qn_response_write_start(&((writer *)state)->response, out);
}

static void keep_streamed(writer *w, const qn_result *result)
{
    qn_buffer whole = {0};
    size_t output_at, output_bytes;
    qn_response_write(&w->response, result, &whole, &output_at, &output_bytes);
    if (whole.failed) {
        report_no_room(w->server);
    } else {
        keep(w, &(qn_stored_text){.text = qn_buffer_string(&whole), .bytes = whole.size}, output_at, output_bytes);
    }
    qn_buffer_free(&whole);
}

static void news(void *state, const qn_answer *answer, const qn_answer_choice *choice, qn_buffer *out)
{
    (void)answer;
    writer *w = state;
    for (size_t i = 0; i < choice->part_count; i++) {
        qn_response_add(&w->response, &choice->parts[i], out);
    }
    if (choice->over) {
        qn_response_finish(&w->response, &choice->result, out);
    }
    if (choice->over && w->opened != NULL && !out->failed) {
        keep_streamed(w, &choice->result);
    }
}

static void end(void *state, const qn_answer *answer, qn_buffer *out)
{
    (void)state, (void)answer, (void)out; /* the news of the only choice's end were all */
}

static void fail(void *state, const qn_api_error *error, const qn_error *err, qn_buffer *out)
{
    (void)error;
    qn_response_write_failure(&((writer *)state)->response, err->message, out);
}

static void free_writer(void *state)
{
    writer *w = state;
    qn_response_store_release(w->server->responses, w->opened);
    qn_response_free(&w->response);
    qn_free(w);
}

static const qn_answer_api api = {
    .write_error = qn_api_error_write,
    .body = body,
    .begin = begin,
    .news = news,
    .end = end,
    .fail = fail,
    .free = free_writer,
};

static void report_fields(qn_server *server, const qn_responses_request *r)
{
    qn_server_report_fields(server, "", &r->unknown);
    qn_server_report_fields(server, "input[].", &r->unknown_item);
    qn_server_report_unread(server, r->kwargs.values);
    qn_generate_report(server, &r->generation);
}

/* ---- what is in the store ---- */

/* What a request is made of besides its body: the response that it goes on from, and the items that it refers to. */
typedef struct conversation {
    qn_stored_response *previous; /* held; NULL: none */
    qn_stored_text *arrays;       /* of all items up to it */
    size_t count;
    qn_references references;
    size_t memory; /* taken for all these items */
} conversation;

static qn_status find_conversation(qn_server *server, const qn_http_exchange *exchange, const qn_responses_request *r,
                                   conversation *c, qn_api_error *error, qn_error *err)
{
    qn_status status = QN_OK;
    bool unknown = false;
    if (r->previous != NULL) {
        status = qn_responses_find(server, exchange, r->previous, "previous_response_id", "previous_response_not_found",
                                   &c->previous, error, err);
    }
    if (status == QN_OK) {
        status = qn_responses_items_before(c->previous, &c->arrays, &c->count, err);
    }
    if (status == QN_OK) {
        status = qn_references_find(server->responses, qn_admission_client_key(&server->options.admission, exchange),
                                    r->input, &c->references, &unknown, err);
    }
    if (unknown) {
        *error = (qn_api_error){.status = 404, .code = "item_not_found"};
    }
    return status;
}

static qn_status read_items(const conversation *c, qn_responses_request *r, qn_error *err)
{
    json_t *history = NULL, *input = NULL;
    qn_status status = qn_responses_items_parse(c->arrays, c->count, &history, err);
    if (status == QN_OK && c->references.count > 0) {
        status = qn_references_read(&c->references, r->input, &input, err);
    }
    if (status == QN_OK) {
        status = qn_responses_request_continue(r, history, input, err);
    }
    json_decref(history);
    return status;
}

/* Makes the messages of a request that needs the store. */
static qn_status read_conversation(qn_server *server, const qn_http_exchange *exchange, qn_responses_request *r,
                                   conversation *c, qn_api_error *error, qn_error *err)
{
    qn_status status = r->needs_store ? find_conversation(server, exchange, r, c, error, err) : QN_OK;
    if (status != QN_OK || !r->needs_store) {
        return status;
    }
    size_t cost = c->references.cost;
    for (size_t i = 0; i < c->count; i++) {
        cost += qn_request_body_cost(c->arrays[i].text, c->arrays[i].bytes);
    }
    c->memory = qn_budget_take(&server->history_memory, cost);
    return read_items(c, r, err);
}

static void free_conversation(qn_server *server, conversation *c)
{
    qn_free(c->arrays);
    qn_references_free(&c->references);
    qn_response_store_release(server->responses, c->previous);
    qn_budget_give(&server->history_memory, c->memory);
}

/* ---- the start of an answer ---- */

static qn_status make_prompt(const qn_server *server, const qn_responses_request *r, qn_tokens *out,
                             qn_api_error *error, qn_error *err)
{
    qn_status status = qn_engine_chat_prompt(server->engine, r->messages, qn_tool_choice_shown(&r->tools),
                                             r->kwargs.values, out, err);
    if (status != QN_OK && err->field[0] == '\0') {
        snprintf(err->field, sizeof err->field, "input");
    }
    return status == QN_OK ? qn_generate_check_length(server, out->count, "input", &r->generation, error, err) : status;
}

/* Makes room for a response that is to be kept. */
static void open_store(writer *w, const qn_http_exchange *exchange, const qn_responses_request *r,
                       qn_stored_response *previous)
{
    qn_server *server = w->server;
    if (!r->store) {
        return;
    }
    if (server->responses == NULL) {
        if (qn_field_get(r->document, "store") != NULL) {
            qn_server_report(server, "store", "no response is kept (--responses-store 0)");
        }
        return;
    }
    qn_buffer items = {0};
    qn_responses_items_write(r->input, w->response.id, &items);
    if (!items.failed) {
        w->opened = qn_response_store_open(server->responses,
                                           qn_admission_client_key(&server->options.admission, exchange),
                                           w->response.id, previous,
                                           (qn_stored_text){.text = qn_buffer_string(&items), .bytes = items.size});
    }
    qn_buffer_free(&items);
    if (w->opened == NULL) {
        report_no_room(server);
    }
    w->response.store = w->opened != NULL;
}

static qn_status new_writer(qn_server *server, const qn_http_exchange *exchange, const qn_responses_request *r,
                            qn_stored_response *previous, void **out, qn_error *err)
{
    writer *w = qn_alloc_zero(1, sizeof *w);
    if (w == NULL) {
        return qn_fail_memory(err, "request", sizeof *w);
    }
    w->server = server;
    w->response.prompt_details = server->options.prompt_details;
    qn_response_name(&w->response);
    open_store(w, exchange, r, previous);
    qn_status status = qn_response_start(&w->response, server->options.model_names[0], r, err);
    if (status != QN_OK) {
        free_writer(w);
        return status;
    }
    *out = w;
    return QN_OK;
}

static qn_status start_answer(qn_server *server, const qn_http_exchange *exchange, const qn_responses_request *r,
                              qn_stored_response *previous, const qn_tokens *prompt, qn_answer **out, qn_error *err)
{
    void *made = NULL;
    qn_status status = new_writer(server, exchange, r, previous, &made, err);
    return status == QN_OK ? qn_generate_answer(server, &api, made, &r->tools, &r->form.format,
                                                (qn_answer_options){.generation = &r->generation, .logprobs = -1},
                                                prompt, 1, out, err)
                           : status;
}

static qn_status start_parsed(qn_server *server, const qn_http_exchange *exchange, qn_responses_request *r,
                              qn_answer **out, qn_api_error *error, qn_error *err)
{
    conversation before = {0};
    qn_tokens prompt = {0};
    qn_status status = qn_generate_check_model(server, r->model, error, err);
    if (status == QN_OK) {
        status = read_conversation(server, exchange, r, &before, error, err);
    }
    if (status == QN_OK) {
        report_fields(server, r);
        status = make_prompt(server, r, &prompt, error, err);
    }
    if (status == QN_OK) {
        status = start_answer(server, exchange, r, before.previous, &prompt, out, err);
    }
    qn_tokens_free(&prompt);
    free_conversation(server, &before);
    return status;
}

static qn_status start(qn_server *server, const qn_http_request *request, qn_answer **out, bool *stream,
                       qn_api_error *error, qn_error *err)
{
    const qn_chat_defaults defaults = {.limits = qn_generate_limits(server), .kwargs = server->options.template_kwargs};
    qn_responses_request parsed;
    qn_status status = qn_responses_request_parse(request->body, request->body_bytes, &defaults, &parsed, err);
    if (status != QN_OK) {
        return status;
    }
    *stream = parsed.stream;
    status = qn_generate_name_request(request, parsed.generation.request_id, err);
    if (status == QN_OK) {
        status = start_parsed(server, request->exchange, &parsed, out, error, err);
    }
    qn_responses_request_free(&parsed);
    return status;
}

void qn_handle_responses(void *context, const qn_http_request *request, qn_http_reply *reply)
{
    static const qn_endpoint endpoint = {.api = &api, .start = start};
    qn_generate(context, &endpoint, request, reply);
}
