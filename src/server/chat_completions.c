/* POST /v1/chat/completions. */
#include <stdio.h>

#include "server/chat_writer.h"
#include "server/generate.h"
#include "server/openai_chat.h"

static void report_fields(qn_server *server, const qn_chat_request *chat)
{
    qn_server_report_fields(server, "", &chat->unknown);
    qn_server_report_fields(server, "messages[].", &chat->unknown_message);
    qn_server_report_unread(server, chat->kwargs.values);
    qn_generate_report(server, &chat->generation);
}

static qn_status make_prompt(const qn_server *server, const qn_chat_request *chat, qn_tokens *out, qn_error *err)
{
    qn_status status = qn_engine_chat_prompt_ending(server->engine, chat->messages, qn_tool_choice_shown(&chat->tools),
                                                    chat->kwargs.values, chat->prompt_end, out, err);
    if (status != QN_OK && err->field[0] == '\0') {
        snprintf(err->field, sizeof err->field, "messages");
    }
    return status;
}

static qn_status start_answer(qn_server *server, const qn_chat_request *chat, const char *request_id,
                              const qn_tokens *prompt, qn_answer **out, qn_error *err)
{
    void *writer = NULL;
    const qn_answer_options options = {.generation = &chat->generation,
                                       .logprobs = chat->logprobs,
                                       .keep_prompts = chat->return_token_ids,
                                       .mid_text = chat->prompt_end == QN_PROMPT_CONTINUES};
    qn_status status = qn_chat_writer_new(server, chat, request_id, &writer, err);
    return status == QN_OK ? qn_generate_answer(server, &qn_chat_api, writer, &chat->tools, &chat->form.format, options,
                                                prompt, 1, out, err)
                           : status;
}

static qn_status start_parsed(qn_server *server, const qn_chat_request *chat, const char *request_id, qn_answer **out,
                              qn_api_error *error, qn_error *err)
{
    qn_tokens prompt = {0};
    qn_status status = qn_generate_check_model(server, chat->model, error, err);
    if (status == QN_OK) {
        status = make_prompt(server, chat, &prompt, err);
    }
    if (status == QN_OK) {
        status = qn_generate_check_length(server, prompt.count, "messages", &chat->generation, error, err);
    }
    if (status == QN_OK) {
        status = start_answer(server, chat, request_id, &prompt, out, err);
    }
    qn_tokens_free(&prompt);
    return status;
}

static qn_status start(qn_server *server, const qn_http_request *request, qn_answer **out, bool *stream,
                       qn_api_error *error, qn_error *err)
{
    const qn_chat_defaults defaults = {.limits = qn_generate_limits(server), .kwargs = server->options.template_kwargs};
    qn_chat_request chat;
    qn_status status = qn_chat_request_parse(request->body, request->body_bytes, &defaults, &chat, err);
    if (status != QN_OK) {
        return status;
    }
    report_fields(server, &chat);
    *stream = chat.stream;
    status = qn_generate_name_request(request, chat.generation.request_id, err);
    if (status == QN_OK) {
        status = start_parsed(server, &chat, qn_http_request_id(request->exchange), out, error, err);
    }
    qn_chat_request_free(&chat);
    return status;
}

void qn_handle_chat_completions(void *context, const qn_http_request *request, qn_http_reply *reply)
{
    static const qn_endpoint endpoint = {.api = &qn_chat_api, .start = start};
    qn_generate(context, &endpoint, request, reply);
}
