#include "server/openai_chat.h"

#include <string.h>

#include "base/json.h"
#include "server/chat_messages.h"
#include "server/openai_fields.h"
#include "server/openai_tools.h"
#include "server/request_body.h"

/* The efforts that GLM-5's templates know. They take any other word for "max" without a word, hence the check. */
static const char *const efforts[] = {"low", "high", "max"};

static const qn_field fields[] = {
    {.name = "messages"},
    {.name = "reasoning_effort"},
    {.name = "chat_template_kwargs"},
    {.name = "modalities"},
    {.name = "logprobs"},
    {.name = "top_logprobs"},
    {.name = "tools"},
    {.name = "tool_choice"},
    {.name = "parallel_tool_calls"},
    {.name = "thinking_token_budget"},
    {.name = "add_generation_prompt"},
    {.name = "continue_final_message"},
    {.name = "echo"},
    {.name = "include_reasoning"},
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
    /* vLLM's, SGLang's and Z.ai's. */
    {.name = "best_of", .rule = QN_FIELD_NEUTRAL, .neutral = "1"},
    {.name = "add_special_tokens", .rule = QN_FIELD_NEUTRAL, .neutral = "false"},
    {.name = "separate_reasoning", .rule = QN_FIELD_NEUTRAL, .neutral = "true"},
    {.name = "stream_reasoning", .rule = QN_FIELD_NEUTRAL, .neutral = "true"},
    {.name = "thinking", .rule = QN_FIELD_NEUTRAL},
    {.name = "documents", .rule = QN_FIELD_NEUTRAL},
    {.name = "chat_template", .rule = QN_FIELD_NEUTRAL},
    {.name = "mm_processor_kwargs", .rule = QN_FIELD_NEUTRAL},
};
static const qn_field_table *const also[] = {&qn_openai_field_table, &qn_steering_fields, &qn_format_field_table, NULL};

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

static bool known_effort(const json_t *value)
{
    for (size_t i = 0; json_is_string(value) && i < sizeof efforts / sizeof efforts[0]; i++) {
        if (strcmp(json_string_value(value), efforts[i]) == 0) {
            return true;
        }
    }
    return false;
}

static qn_status bad_effort(const char *field, const json_t *value, qn_error *err)
{
    const char *shown = json_is_string(value) ? json_string_value(value) : qn_json_type_name(value);
    return qn_fail_field(err, QN_USAGE, field, "%s: unknown effort %.40s: send low, high or max", field, shown);
}

qn_status qn_chat_kwargs_check(const json_t *kwargs, const char *field, qn_error *err)
{
    static const char *const reserved[] = {"messages", "tools", "add_generation_prompt", "continue_final_message",
                                           "documents"};
    for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++) {
        if (json_object_get(kwargs, reserved[i]) != NULL) {
            return qn_fail_field(err, QN_USAGE, field, "%s.%s: set by the server itself: leave it out", field,
                                 reserved[i]);
        }
    }
    const json_t *effort = qn_field_get(kwargs, "reasoning_effort");
    return effort == NULL || known_effort(effort) ? QN_OK : bad_effort(field, effort, err);
}

static qn_status add_effort(const json_t *document, const json_t *own, json_t *kwargs, qn_error *err)
{
    const json_t *effort = qn_field_get(document, "reasoning_effort");
    if (effort == NULL) {
        return QN_OK;
    }
    if (!known_effort(effort)) {
        return bad_effort("reasoning_effort", effort, err);
    }
    const json_t *other = qn_field_get(own, "reasoning_effort");
    if (other != NULL && !json_equal(effort, other)) {
        return qn_fail_field(err, QN_USAGE, "reasoning_effort",
                             "reasoning_effort: chat_template_kwargs says otherwise: send one of them");
    }
    return json_object_set(kwargs, "reasoning_effort", (json_t *)(uintptr_t)effort) == 0
               ? QN_OK
               : qn_fail_memory(err, "template variables", sizeof(json_t));
}

qn_status qn_chat_read_kwargs(const json_t *document, const json_t *defaults, json_t **out, qn_error *err)
{
    const json_t *own = qn_field_get(document, "chat_template_kwargs");
    if (own != NULL && !json_is_object(own)) {
        return qn_fail_field(err, QN_USAGE, "chat_template_kwargs", "chat_template_kwargs: %s given: send an object",
                             qn_json_type_name(own));
    }
    qn_status status = qn_chat_kwargs_check(own, "chat_template_kwargs", err);
    if (status != QN_OK) {
        return status;
    }
    json_t *kwargs = json_object();
    if (kwargs == NULL || (defaults != NULL && json_object_update(kwargs, (json_t *)(uintptr_t)defaults) != 0) ||
        (own != NULL && json_object_update(kwargs, (json_t *)(uintptr_t)own) != 0)) {
        json_decref(kwargs);
        return qn_fail_memory(err, "template variables", sizeof(json_t));
    }
    status = add_effort(document, own, kwargs, err);
    if (status != QN_OK) {
        json_decref(kwargs);
        return status;
    }
    *out = kwargs;
    return QN_OK;
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
        status = qn_field_string(document, "request_id", &request->request_id, err);
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
        status = qn_chat_read_kwargs(document, defaults->kwargs, &request->kwargs, err);
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
    json_decref(request->kwargs);
    json_decref(request->document);
    *request = (qn_chat_request){0};
}
