/* POST /v1/responses: a response, streamed or not. */
#include <stdio.h>

#include "base/memory.h"
#include "server/generate.h"
#include "server/responses_request.h"
#include "server/responses_response.h"

static void body(void *writer, const qn_answer *answer, qn_buffer *out)
{
    qn_answer_choice choice = qn_answer_choice_at(answer, 0);
    for (size_t i = 0; i < choice.part_count; i++) {
        qn_response_add(writer, &choice.parts[i], NULL);
    }
    qn_response_finish(writer, &choice.result, NULL);
    qn_response_write(writer, &choice.result, out);
}

static void begin(void *writer, const qn_answer *answer, qn_buffer *out)
{
    (void)answer;
    qn_response_write_start(writer, out);
}

static void news(void *writer, const qn_answer *answer, const qn_answer_choice *choice, qn_buffer *out)
{
    (void)answer;
    for (size_t i = 0; i < choice->part_count; i++) {
        qn_response_add(writer, &choice->parts[i], out);
    }
    if (choice->over) {
        qn_response_finish(writer, &choice->result, out);
    }
}

static void end(void *writer, const qn_answer *answer, qn_buffer *out)
{
    (void)writer, (void)answer, (void)out; /* the news of the only choice's end were all */
}

static void fail(void *writer, const qn_api_error *error, const qn_error *err, qn_buffer *out)
{
    (void)error;
    qn_response_write_failure(writer, err->message, out);
}

static void free_writer(void *writer)
{
    qn_response_free(writer);
    qn_free(writer);
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
    qn_server_report_unread(server, r->kwargs);
    qn_generate_report(server, &r->generation);
}

/* No response is kept, so that none can be gone on from. */
static qn_status check_previous(const qn_responses_request *r, qn_api_error *error, qn_error *err)
{
    if (r->previous == NULL) {
        return QN_OK;
    }
    *error = (qn_api_error){.status = 404, .code = "previous_response_not_found"};
    return qn_fail_field(err, QN_USAGE, "previous_response_id",
                         "previous_response_id: %.80s is not here, responses are not kept: send its items as input",
                         r->previous);
}

static qn_status make_prompt(const qn_server *server, const qn_responses_request *r, qn_tokens *out,
                             qn_api_error *error, qn_error *err)
{
    qn_status status = qn_engine_chat_prompt(server->engine, r->messages, qn_tool_choice_shown(&r->tools), r->kwargs,
                                             out, err);
    if (status != QN_OK && err->field[0] == '\0') {
        snprintf(err->field, sizeof err->field, "input");
    }
    return status == QN_OK ? qn_generate_check_length(server, out->count, "input", &r->generation, error, err) : status;
}

static qn_status new_writer(const qn_server *server, const qn_responses_request *r, const char *request_id, void **out,
                            qn_error *err)
{
    qn_response *response = qn_alloc_zero(1, sizeof *response);
    if (response == NULL) {
        return qn_fail_memory(err, "request", sizeof *response);
    }
    response->prompt_details = server->options.prompt_details;
    qn_status status = qn_response_start(response, request_id, server->options.model_names[0], r, err);
    if (status != QN_OK) {
        free_writer(response);
        return status;
    }
    *out = response;
    return QN_OK;
}

static qn_status start_answer(qn_server *server, const qn_responses_request *r, const char *request_id,
                              const qn_tokens *prompt, qn_answer **out, qn_error *err)
{
    void *writer = NULL;
    qn_answer_options options = {.generation = &r->generation, .logprobs = -1};
    qn_status status = qn_tool_choice_tools(&r->tools, &options.tools, err);
    if (status == QN_OK) {
        status = qn_tool_choice_grammar(server, &r->tools, &r->form.format, &options.grammar, err);
    }
    if (status == QN_OK) {
        status = new_writer(server, r, request_id, &writer, err);
    }
    if (status == QN_OK) {
        status = qn_answer_start(server, &api, writer, &options, prompt, 1, out, err);
    } else {
        qn_tool_list_free(options.tools);
    }
    qn_answer_grammar_release(options.grammar);
    return status;
}

static qn_status start_parsed(qn_server *server, const qn_responses_request *r, const char *request_id, qn_answer **out,
                              qn_api_error *error, qn_error *err)
{
    qn_tokens prompt = {0};
    qn_status status = qn_generate_check_model(server, r->model, error, err);
    if (status == QN_OK) {
        status = check_previous(r, error, err);
    }
    if (status == QN_OK) {
        status = make_prompt(server, r, &prompt, error, err);
    }
    if (status == QN_OK) {
        status = start_answer(server, r, request_id, &prompt, out, err);
    }
    qn_tokens_free(&prompt);
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
    report_fields(server, &parsed);
    *stream = parsed.stream;
    status = qn_generate_name_request(request, parsed.request_id, err);
    if (status == QN_OK) {
        status = start_parsed(server, &parsed, qn_http_request_id(request->exchange), out, error, err);
    }
    qn_responses_request_free(&parsed);
    return status;
}

void qn_handle_responses(void *context, const qn_http_request *request, qn_http_reply *reply)
{
    static const qn_endpoint endpoint = {.api = &api, .start = start};
    qn_generate(context, &endpoint, request, reply);
}
