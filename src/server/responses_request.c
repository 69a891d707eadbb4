#include "server/responses_request.h"

#include <stdint.h>
#include <string.h>

#include "base/json.h"
#include "base/json_wide.h"
#include "server/openai_tools.h"
#include "server/request_body.h"
#include "server/responses_input.h"
#include "server/responses_references.h"
#include "server/steering.h"

static const qn_field fields[] = {
    {.name = "model"},
    {.name = "input"},
    {.name = "instructions"},
    {.name = "max_output_tokens"},
    {.name = "temperature"},
    {.name = "top_p"},
    {.name = "stream"},
    {.name = "stream_options"},
    {.name = "tools"},
    {.name = "tool_choice"},
    {.name = "text"},
    {.name = "reasoning"},
    {.name = "include"},
    {.name = "previous_response_id"},
    {.name = "parallel_tool_calls"},
    {.name = "metadata"},
    {.name = "store"},
    /* About the caller, its caches, or tools that there are not: never about the answer. */
    {.name = "user", .rule = QN_FIELD_FREE},
    {.name = "safety_identifier", .rule = QN_FIELD_FREE},
    {.name = "prompt_cache_key", .rule = QN_FIELD_FREE},
    {.name = "prompt_cache_retention", .rule = QN_FIELD_FREE},
    {.name = "prompt_cache_options", .rule = QN_FIELD_FREE},
    {.name = "max_tool_calls", .rule = QN_FIELD_FREE},
    /* OpenAI's. */
    {.name = "background", .rule = QN_FIELD_NEUTRAL, .neutral = "false"},
    {.name = "truncation", .rule = QN_FIELD_NEUTRAL, .neutral = "\"disabled\""},
    {.name = "service_tier", .rule = QN_FIELD_NEUTRAL, .neutral = "\"auto\""},
    {.name = "top_logprobs", .rule = QN_FIELD_NEUTRAL, .neutral = "0"},
    {.name = "conversation", .rule = QN_FIELD_NEUTRAL},
    {.name = "prompt", .rule = QN_FIELD_NEUTRAL},
    {.name = "context_management", .rule = QN_FIELD_NEUTRAL, .neutral = "[]"},
    {.name = "moderation", .rule = QN_FIELD_NEUTRAL},
    /* As the other endpoints have them. */
    {.name = "stop"},
    {.name = "thinking"},
};
static const qn_field_table *const also[] = {&qn_steering_fields, &qn_format_field_table, &qn_template_fields, NULL};

const qn_field_table qn_responses_fields = {.fields = fields, .count = sizeof fields / sizeof fields[0], .also = also};

static const qn_steering_name steering[] = {
    {"max_output_tokens", "max_tokens"},
    {"temperature", "temperature"},
    {"top_p", "top_p"},
    {"stop", "stop"},
};

static qn_status no_memory(qn_error *err)
{
    return qn_fail_memory(err, "request", sizeof(json_t));
}

static qn_status want_object(const json_t *value, const char *name, qn_error *err)
{
    return value == NULL || qn_json_is_object(value)
               ? QN_OK
               : qn_fail_field(err, QN_USAGE, name, "%s: %s given: send an object", name, qn_json_type_name(value));
}

/* ---- fields that take little ---- */

static qn_status read_strings(qn_responses_request *r, const qn_chat_defaults *defaults, qn_error *err)
{
    (void)defaults;
    qn_status status = qn_field_string(r->document, "model", &r->model, err);
    if (status == QN_OK) {
        status = qn_field_string(r->document, "previous_response_id", &r->previous, err);
    }
    r->store = true;
    return status == QN_OK ? qn_field_boolean(r->document, "store", &r->store, err) : status;
}

static qn_status read_generation(qn_responses_request *r, const qn_chat_defaults *defaults, qn_error *err)
{
    qn_status status = qn_steering_read(r->document, steering, sizeof steering / sizeof steering[0], &defaults->limits,
                                        &r->steering, &r->generation, err);
    if (r->generation.max_tokens > 0) {
        r->generation.max_tokens_field = "max_output_tokens";
    }
    return status;
}

/* Obfuscation pads events against those who watch the wire; there is none. */
static qn_status read_streaming(qn_responses_request *r, const qn_chat_defaults *defaults, qn_error *err)
{
    (void)defaults;
    static const qn_field option_fields[] = {{.name = "include_obfuscation", .rule = QN_FIELD_FREE}};
    const json_t *options = qn_field_get(r->document, "stream_options");
    qn_status status = qn_field_boolean(r->document, "stream", &r->stream, err);
    if (status == QN_OK) {
        status = want_object(options, "stream_options", err);
    }
    return status == QN_OK ? qn_members_check(options, "stream_options", option_fields, 1, &r->unknown, err) : status;
}

/* Of what can be included, only logprobs would be there. */
static qn_status check_include(qn_responses_request *r, const qn_chat_defaults *defaults, qn_error *err)
{
    (void)defaults;
    const json_t *include = qn_field_get(r->document, "include");
    if (include != NULL && !json_is_array(include)) {
        return qn_fail_field(err, QN_USAGE, "include", "include: %s given: send a list of strings",
                             qn_json_type_name(include));
    }
    for (size_t i = 0; i < json_array_size(include); i++) {
        const char *name = json_string_value(json_array_get(include, i));
        if (name == NULL || strcmp(name, "message.output_text.logprobs") == 0) {
            return qn_fail_field(err, QN_USAGE, "include", "include[%zu]: %s: leave it out", i,
                                 name == NULL ? "not a string" : "logprobs are not supported in this version");
        }
    }
    return QN_OK;
}

static qn_status read_text(qn_responses_request *r, const qn_chat_defaults *defaults, qn_error *err)
{
    (void)defaults;
    static const qn_field text_fields[] = {{.name = "format"},
                                           {.name = "verbosity", .rule = QN_FIELD_NEUTRAL, .neutral = "\"medium\""}};
    const json_t *text = qn_field_get(r->document, "text");
    qn_error inner;
    if (want_object(text, "text", err) != QN_OK) {
        return err->status;
    }
    if (qn_members_check(text, "text", text_fields, 2, &r->unknown, &inner) != QN_OK) {
        return qn_fail_field(err, QN_USAGE, "text", "text.%s", inner.message);
    }
    qn_status status = qn_format_read(qn_field_get(text, "format"), "text.format", false, &r->form, err);
    return status == QN_OK ? qn_format_fields_read(r->document, &r->form, err) : status;
}

static qn_status check_metadata(qn_responses_request *r, const qn_chat_defaults *defaults, qn_error *err)
{
    (void)defaults;
    return want_object(qn_field_get(r->document, "metadata"), "metadata", err);
}

/* ---- template variables ---- */

static qn_status read_kwargs(qn_responses_request *r, const qn_chat_defaults *defaults, qn_error *err)
{
    return qn_template_kwargs_read(r->document, defaults->kwargs, &r->kwargs, err);
}

/* Thoughts are shown as they are, so that no summary of them is ever missed. */
static qn_status read_reasoning(qn_responses_request *r, const qn_chat_defaults *defaults, qn_error *err)
{
    (void)defaults;
    static const qn_field reasoning_fields[] = {{.name = "effort"},
                                                {.name = "summary", .rule = QN_FIELD_FREE},
                                                {.name = "generate_summary", .rule = QN_FIELD_FREE}};
    const json_t *reasoning = qn_field_get(r->document, "reasoning");
    if (want_object(reasoning, "reasoning", err) != QN_OK) {
        return err->status;
    }
    qn_error inner;
    if (qn_members_check(reasoning, "reasoning", reasoning_fields, 3, &r->unknown, &inner) != QN_OK) {
        return qn_fail_field(err, QN_USAGE, "reasoning", "reasoning.%s", inner.message);
    }
    const json_t *effort = qn_field_get(reasoning, "effort");
    qn_status status = QN_OK;
    if (effort != NULL) {
        status = qn_template_effort_set(&r->kwargs, "reasoning", "reasoning.effort", effort, QN_EFFORT_OF_THOUGHTS,
                                        err);
    }
    return status == QN_OK ? qn_template_thinking_read(r->document, &r->kwargs, &r->unknown, err) : status;
}

/* ---- tools ---- */

static qn_status read_tools(qn_responses_request *r, const qn_chat_defaults *defaults, qn_error *err)
{
    (void)defaults;
    return qn_openai_tools_read(r->document, false, &r->tools, &r->unknown, err);
}

static qn_status make_messages(qn_responses_request *r, const json_t *history, qn_error *err)
{
    const json_t *instructions = qn_field_get(r->document, "instructions");
    if (instructions != NULL && !json_is_string(instructions)) {
        return qn_fail_field(err, QN_USAGE, "instructions", "instructions: %s given: send a string",
                             qn_json_type_name(instructions));
    }
    r->messages = json_array();
    if (r->messages == NULL ||
        (instructions != NULL &&
         json_array_append_new(r->messages, json_pack("{s:s, s:O}", "role", "system", "content", instructions)) != 0)) {
        return no_memory(err);
    }
    qn_status status = qn_responses_input_translate(history, r->input, r->messages, &r->unknown_item, err);
    return status != QN_OK || json_array_size(r->messages) > 0
               ? status
               : qn_fail_field(err, QN_USAGE, "input", "input: nothing that the model is shown: send a message");
}

static qn_status read_messages(qn_responses_request *r, const qn_chat_defaults *defaults, qn_error *err)
{
    (void)defaults;
    r->input = json_incref((json_t *)(uintptr_t)qn_field_get(r->document, "input"));
    r->needs_store = r->previous != NULL || qn_references_has(r->input);
    return r->needs_store ? QN_OK : make_messages(r, NULL, err);
}

static qn_status read_request(qn_responses_request *r, const qn_chat_defaults *defaults, qn_error *err)
{
    static qn_status (*const reads[])(qn_responses_request *, const qn_chat_defaults *, qn_error *) = {
        read_strings,   read_generation, read_streaming, check_include, read_text,
        check_metadata, read_kwargs,     read_reasoning, read_tools,    read_messages,
    };
    qn_status status = qn_field_table_check(r->document, &qn_responses_fields, &r->unknown, err);
    for (size_t i = 0; i < sizeof reads / sizeof reads[0] && status == QN_OK; i++) {
        status = reads[i](r, defaults, err);
    }
    return status;
}

qn_status qn_responses_request_parse(const char *body, size_t bytes, const qn_chat_defaults *defaults,
                                     qn_responses_request *out, qn_error *err)
{
    *out = (qn_responses_request){0};
    qn_status status = qn_request_body_parse(body, bytes, &out->document, err);
    if (status == QN_OK) {
        status = read_request(out, defaults, err);
    }
    if (status != QN_OK) {
        qn_responses_request_free(out);
    }
    return status;
}

qn_status qn_responses_request_continue(qn_responses_request *request, const json_t *history, json_t *input,
                                        qn_error *err)
{
    if (input != NULL) {
        json_decref(request->input);
        request->input = input;
    }
    return make_messages(request, history, err);
}

void qn_responses_request_free(qn_responses_request *request)
{
    qn_generation_fields_free(&request->generation);
    json_decref(request->messages);
    json_decref(request->input);
    qn_tool_choice_free(&request->tools);
    qn_format_fields_free(&request->form);
    qn_template_kwargs_free(&request->kwargs);
    json_decref(request->steering);
    json_decref(request->document);
    *request = (qn_responses_request){0};
}
