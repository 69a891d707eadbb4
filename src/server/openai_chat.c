#include "server/openai_chat.h"

#include <string.h>

#include "base/json.h"
#include "server/chat_messages.h"
#include "server/openai_fields.h"
#include "server/openai_tools.h"
#include "server/request_body.h"

static const qn_field fields[] = {
    {.name = "messages"},
    {.name = "modalities"},
    {.name = "logprobs"},
    {.name = "top_logprobs"},
    {.name = "tools"},
    {.name = "tool_choice"},
    {.name = "parallel_tool_calls"},
    {.name = "add_generation_prompt"},
    {.name = "continue_final_message"},
    {.name = "echo"},
    {.name = "include_reasoning"},
    {.name = "thinking"},
    /* About the caller or its caches, never about the answer. */
    {.name = "safety_identifier", .rule = QN_FIELD_FREE},
    {.name = "prompt_cache_key", .rule = QN_FIELD_FREE},
    {.name = "prompt_cache_retention", .rule = QN_FIELD_FREE},
    /* OpenAI's. */
    {.name = "store", .rule = QN_FIELD_NEUTRAL, .neutral = "false"},
    {.name = "service_tier", .rule = QN_FIELD_NEUTRAL, .neutral = "\"auto\""},
    {.name = "verbosity", .rule = QN_FIELD_NEUTRAL, .neutral = "\"medium\""},
    {.name = "audio", .rule = QN_FIELD_NEUTRAL},
    {.name = "prediction", .rule = QN_FIELD_NEUTRAL},
    {.name = "web_search_options", .rule = QN_FIELD_NEUTRAL},
    {.name = "functions", .rule = QN_FIELD_NEUTRAL},
    {.name = "function_call", .rule = QN_FIELD_NEUTRAL},
    /* vLLM's. */
    {.name = "best_of", .rule = QN_FIELD_NEUTRAL, .neutral = "1"},
    {.name = "add_special_tokens", .rule = QN_FIELD_NEUTRAL, .neutral = "false"},
};
static const qn_field_table *const also[] = {&qn_openai_field_table, &qn_steering_fields, &qn_format_field_table,
                                             &qn_template_fields, NULL};

const qn_field_table qn_chat_fields = {.fields = fields, .count = sizeof fields / sizeof fields[0], .also = also};

static qn_status read_stream(qn_chat_request *request, qn_error *err)
{
    qn_openai_streaming streaming = {0};
    qn_status status = qn_openai_read_streaming(request->document, &streaming, &request->unknown, err);
    request->stream = streaming.stream;
    request->include_usage = streaming.include_usage;
    request->continuous_usage = streaming.continuous_usage;
    return status;
}

static qn_status check_modalities(const json_t *document, qn_error *err)
{
    const json_t *modalities = qn_field_get(document, "modalities");
    if (modalities != NULL && !json_is_array(modalities)) {
        return qn_fail_field(err, QN_USAGE, "modalities", "modalities: %s given: send a list",
                             qn_json_type_name(modalities));
    }
    for (size_t i = 0; i < json_array_size(modalities); i++) {
        const json_t *item = json_array_get(modalities, i);
        if (!json_is_string(item) || strcmp(json_string_value(item), "text") != 0) {
            return qn_fail_field(err, QN_USAGE, "modalities", "modalities: this is a text model: leave it out");
        }
    }
    return QN_OK;
}

static qn_status read_tools(qn_chat_request *request, qn_error *err)
{
    return qn_openai_tools_read(request->document, true, &request->tools, &request->unknown, err);
}

static qn_status read_form(qn_chat_request *request, qn_error *err)
{
    return qn_format_fields_read(request->document, &request->form, err);
}

static qn_status read_prompt_end(qn_chat_request *request, qn_error *err)
{
    return qn_openai_read_prompt_end(request->document, &request->prompt_end, err);
}

static qn_status read_told(qn_chat_request *request, qn_error *err)
{
    request->include_reasoning = true;
    qn_status status = qn_field_boolean(request->document, "include_reasoning", &request->include_reasoning, err);
    return status == QN_OK ? qn_field_boolean(request->document, "echo", &request->echo, err) : status;
}

static qn_status read_logprobs(qn_chat_request *request, qn_error *err)
{
    bool logprobs = false;
    int64_t top = 0;
    qn_status status = qn_field_boolean(request->document, "logprobs", &logprobs, err);
    if (status == QN_OK) {
        status = qn_field_integer(request->document, "top_logprobs", 0, QN_MAX_LOGPROBS, &top, err);
    }
    if (status == QN_OK && top > 0 && !logprobs) {
        return qn_fail_field(err, QN_USAGE, "top_logprobs", "top_logprobs: only with logprobs: true: leave it out");
    }
    request->logprobs = logprobs ? (int)top : -1;
    if (status == QN_OK && request->stream && request->generation.prompt_logprobs >= 0) {
        return qn_fail_field(err, QN_USAGE, "prompt_logprobs",
                             "prompt_logprobs: not in a stream: leave one of them out");
    }
    return status == QN_OK ? qn_field_boolean(request->document, "return_token_ids", &request->return_token_ids, err)
                           : status;
}

/* Each check alone; the first that fails is the answer. */
static qn_status read_request(qn_chat_request *request, const qn_chat_defaults *defaults, qn_error *err)
{
    const json_t *document = request->document;
    qn_status status = qn_field_table_check(document, &qn_chat_fields, &request->unknown, err);
    if (status == QN_OK) {
        status = qn_field_string(document, "model", &request->model, err);
    }
    if (status == QN_OK) {
        status = check_modalities(document, err);
    }
    if (status == QN_OK) {
        status = qn_generation_fields_read(document, &defaults->limits, &request->generation, err);
    }
    static qn_status (*const reads[])(qn_chat_request *, qn_error *) = {read_tools,  read_prompt_end, read_told,
                                                                        read_stream, read_logprobs,   read_form};
    for (size_t i = 0; i < sizeof reads / sizeof reads[0] && status == QN_OK; i++) {
        status = reads[i](request, err);
    }
    if (status == QN_OK) {
        status = qn_template_kwargs_read(document, defaults->kwargs, &request->kwargs, err);
    }
    if (status == QN_OK) {
        status = qn_template_thinking_read(document, &request->kwargs, &request->unknown, err);
    }
    if (status == QN_OK) {
        status = qn_chat_messages_normalise(qn_field_get(document, "messages"), &request->messages,
                                            &request->unknown_message, err);
    }
    return status;
}

qn_status qn_chat_request_parse(const char *body, size_t bytes, const qn_chat_defaults *defaults, qn_chat_request *out,
                                qn_error *err)
{
    *out = (qn_chat_request){0};
    qn_status status = qn_request_body_parse(body, bytes, &out->document, err);
    if (status == QN_OK) {
        status = read_request(out, defaults, err);
    }
    if (status != QN_OK) {
        qn_chat_request_free(out);
    }
    return status;
}

void qn_chat_request_free(qn_chat_request *request)
{
    qn_generation_fields_free(&request->generation);
    qn_format_fields_free(&request->form);
    qn_tool_choice_free(&request->tools);
    json_decref(request->messages);
    qn_template_kwargs_free(&request->kwargs);
    json_decref(request->document);
    *request = (qn_chat_request){0};
}
