/* POST /tokenize and POST /detokenize, as vLLM has them: a prompt's token ids, of a text or of a conversation, and the
 * text of ids. Nothing is computed of them, so the engine's queue is not asked. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "server/chat_messages.h"
#include "server/generate.h"
#include "server/logprobs_json.h"
#include "server/openai_fields.h"
#include "server/openai_parts.h"
#include "server/openai_tools.h"
#include "server/request_body.h"
#include "server/template_kwargs.h"
#include "text/detokenizer.h"

/* Reads the document and writes the answer's body. */
typedef qn_status (*worker)(qn_server *server, const json_t *document, qn_buffer *out, qn_error *err);

static qn_status work_on(qn_server *server, const qn_http_request *request, worker work, qn_buffer *out,
                         qn_api_error *error, qn_error *err)
{
    json_t *document = NULL;
    const char *model = NULL, *request_id = NULL;
    qn_status status = qn_request_body_parse(request->body, request->body_bytes, &document, err);
    if (status == QN_OK) {
        status = qn_field_string(document, "model", &model, err);
    }
    if (status == QN_OK) {
        status = qn_generate_check_model(server, model, error, err);
    }
    if (status == QN_OK) {
        status = qn_field_string(document, "request_id", &request_id, err);
    }
    if (status == QN_OK) {
        status = qn_generate_name_request(request, request_id, err);
    }
    if (status == QN_OK) {
        status = work(server, document, out, err);
    }
    json_decref(document);
    return status;
}

static void serve(qn_server *server, const qn_http_request *request, worker work, qn_http_reply *reply)
{
    qn_api_error error = {0};
    qn_error err;
    size_t memory = qn_budget_take(&server->body_memory, qn_request_body_cost(request->body, request->body_bytes));
    reply->status = 200;
    reply->content_type = "application/json";
    if (work_on(server, request, work, &reply->body, &error, &err) != QN_OK) {
        if (error.status == 0) {
            qn_reply_error(reply, &err);
        } else {
            qn_reply_api_error(reply, error, &err);
        }
    }
    qn_budget_give(&server->body_memory, memory);
}

/* ---- /tokenize ---- */

/* What chat completions read of a conversation, so that the ids are those that it would have. */
static qn_status encode_chat(qn_server *server, const json_t *document, qn_tokens *out, qn_error *err)
{
    json_t *messages = NULL;
    qn_template_kwargs kwargs = {0};
    qn_tool_choice tools = {0};
    qn_prompt_end end = QN_PROMPT_OPENS_MESSAGE;
    qn_unknown_fields unknown = {0}, unknown_message = {0};
    qn_status status = qn_openai_tools_read(document, true, &tools, &unknown, err);
    if (status == QN_OK) {
        status = qn_openai_read_prompt_end(document, &end, err);
    }
    if (status == QN_OK) {
        status = qn_template_kwargs_read(document, server->options.template_kwargs, &kwargs, err);
    }
    if (status == QN_OK) {
        status = qn_template_thinking_read(document, &kwargs, &unknown, err);
    }
    if (status == QN_OK) {
        status = qn_chat_messages_normalise(qn_field_get(document, "messages"), &messages, &unknown_message, err);
    }
    if (status == QN_OK) {
        qn_server_report_fields(server, "", &unknown);
        qn_server_report_fields(server, "messages[].", &unknown_message);
        qn_server_report_unread(server, kwargs.values);
        status = qn_engine_chat_prompt_ending(server->engine, messages, qn_tool_choice_shown(&tools), kwargs.values,
                                              end, out, err);
        if (status != QN_OK && err->field[0] == '\0') {
            snprintf(err->field, sizeof err->field, "messages");
        }
    }
    json_decref(messages);
    qn_template_kwargs_free(&kwargs);
    qn_tool_choice_free(&tools);
    return status;
}

static qn_status encode_text(const qn_server *server, const json_t *document, const json_t *prompt, qn_tokens *out,
                             qn_error *err)
{
    static const char *const of_chats[] = {
        "tools",    "tool_choice",           "parallel_tool_calls",   "chat_template_kwargs", "reasoning_effort",
        "thinking", "add_generation_prompt", "continue_final_message"};
    for (size_t i = 0; i < sizeof of_chats / sizeof of_chats[0]; i++) {
        if (qn_field_get(document, of_chats[i]) != NULL) {
            return qn_fail_field(err, QN_USAGE, of_chats[i], "%s: only with messages: leave it out", of_chats[i]);
        }
    }
    if (!json_is_string(prompt)) {
        return qn_fail_field(err, QN_USAGE, "prompt", "prompt: %s given: send a string", qn_json_type_name(prompt));
    }
    qn_status status = qn_tokenizer_encode(qn_engine_tokenizer(server->engine), json_string_value(prompt),
                                           json_string_length(prompt), NULL, 0, out, err);
    if (status != QN_OK && err->field[0] == '\0') {
        snprintf(err->field, sizeof err->field, "prompt");
    }
    return status;
}

static qn_status encode(qn_server *server, const json_t *document, qn_tokens *out, qn_error *err)
{
    const json_t *prompt = qn_field_get(document, "prompt"), *messages = qn_field_get(document, "messages");
    if ((prompt == NULL) == (messages == NULL)) {
        return qn_fail_field(err, QN_USAGE, "prompt", "prompt: %s: send one of prompt and messages",
                             prompt == NULL ? "missing" : "messages are there too");
    }
    return prompt != NULL ? encode_text(server, document, prompt, out, err) : encode_chat(server, document, out, err);
}

static void write_tokens(const qn_server *server, const qn_tokens *tokens, bool with_strings, qn_buffer *out)
{
    qn_buffer_format(out, "{\"count\":%zu,\"max_model_len\":%zu", tokens->count,
                     qn_engine_max_model_len(server->engine));
    qn_openai_write_ids(out, "tokens", tokens->ids, tokens->count);
    qn_buffer_text(out, with_strings ? ",\"token_strs\":[" : ",\"token_strs\":null}");
    for (size_t i = 0; with_strings && i < tokens->count; i++) {
        qn_buffer_text(out, i > 0 ? "," : "");
        qn_logprobs_write_text(out, qn_engine_tokenizer(server->engine), tokens->ids[i]);
    }
    qn_buffer_text(out, with_strings ? "]}" : "");
}

static const qn_field text_fields[] = {
    {.name = "model"},
    {.name = "request_id"},
    {.name = "prompt"},
    {.name = "messages"},
    {.name = "tools"},
    {.name = "tool_choice"},
    {.name = "parallel_tool_calls"},
    {.name = "return_token_strs"},
    {.name = "add_generation_prompt"},
    {.name = "continue_final_message"},
    {.name = "thinking"},
    {.name = "add_special_tokens", .rule = QN_FIELD_FREE}, /* there are none to add */
    {.name = "user", .rule = QN_FIELD_FREE},
};
static const qn_field_table *const also[] = {&qn_template_fields, NULL};
const qn_field_table qn_tokenize_fields = {.fields = text_fields,
                                           .count = sizeof text_fields / sizeof text_fields[0],
                                           .also = also};

static qn_status tokenize(qn_server *server, const json_t *document, qn_buffer *out, qn_error *err)
{
    bool with_strings = false;
    qn_unknown_fields unknown = {0};
    qn_tokens tokens = {0};
    qn_status status = qn_field_table_check(document, &qn_tokenize_fields, &unknown, err);
    if (status == QN_OK) {
        qn_server_report_fields(server, "", &unknown);
        status = qn_field_boolean(document, "return_token_strs", &with_strings, err);
    }
    if (status == QN_OK) {
        status = encode(server, document, &tokens, err);
    }
    if (status == QN_OK) {
        write_tokens(server, &tokens, with_strings, out);
    }
    qn_tokens_free(&tokens);
    return status;
}

void qn_handle_tokenize(void *context, const qn_http_request *request, qn_http_reply *reply)
{
    serve(context, request, tokenize, reply);
}

/* ---- /detokenize ---- */

/* Ids between the tokenizer's and the model's vocabulary have no text. */
static qn_status decode(const qn_server *server, const json_t *list, qn_buffer *out, qn_error *err)
{
    const qn_tokenizer *tokenizer = qn_engine_tokenizer(server->engine);
    size_t vocab_size = qn_engine_config(server->engine)->vocab_size;
    qn_detokenizer detokenizer;
    qn_detokenizer_start(&detokenizer, tokenizer, false);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *value = json_array_get(list, i);
        json_int_t id = json_integer_value(value);
        if (!json_is_integer(value) || id < 0 || (uint64_t)id >= vocab_size) {
            return qn_fail_field(err, QN_USAGE, "tokens", "tokens: entry %zu is no token: send ids below %zu", i,
                                 vocab_size);
        }
        int32_t token = (int32_t)id;
        qn_status status = (size_t)id < qn_tokenizer_size(tokenizer)
                               ? qn_detokenizer_feed(&detokenizer, &token, 1, out, err)
                               : QN_OK;
        if (status != QN_OK) {
            return status;
        }
    }
    return qn_detokenizer_flush(&detokenizer, out, err);
}

static const qn_field id_fields[] = {{.name = "model"}, {.name = "request_id"}, {.name = "tokens"}};
const qn_field_table qn_detokenize_fields = {.fields = id_fields, .count = sizeof id_fields / sizeof id_fields[0]};

static qn_status detokenize(qn_server *server, const json_t *document, qn_buffer *out, qn_error *err)
{
    const json_t *list = qn_field_get(document, "tokens");
    qn_unknown_fields unknown = {0};
    qn_status status = qn_fields_check(document, id_fields, sizeof id_fields / sizeof id_fields[0], &unknown, err);
    if (status != QN_OK) {
        return status;
    }
    qn_server_report_fields(server, "", &unknown);
    if (!json_is_array(list)) {
        return qn_fail_field(err, QN_USAGE, "tokens", "tokens: %s: send a list of token ids",
                             list == NULL ? "missing" : qn_json_type_name(list));
    }
    qn_buffer text = {0};
    status = decode(server, list, &text, err);
    if (status == QN_OK) {
        qn_buffer_text(out, "{\"prompt\":");
        qn_buffer_json_string(out, qn_buffer_string(&text), text.size);
        qn_buffer_char(out, '}');
    }
    qn_buffer_free(&text);
    return status;
}

void qn_handle_detokenize(void *context, const qn_http_request *request, qn_http_reply *reply)
{
    serve(context, request, detokenize, reply);
}
