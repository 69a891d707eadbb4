#include "server/anthropic_request.h"

#include <string.h>

#include "base/json.h"
#include "base/json_wide.h"
#include "server/anthropic_messages.h"
#include "server/anthropic_tools.h"
#include "server/request_body.h"
#include "server/steering.h"

enum { LEAST_BUDGET = 1024 };

static const qn_field fields[] = {
    {.name = "model"},
    {.name = "messages"},
    {.name = "system"},
    {.name = "max_tokens"},
    {.name = "stop_sequences"},
    {.name = "stream"},
    {.name = "temperature"},
    {.name = "top_p"},
    {.name = "tools"},
    {.name = "tool_choice"},
    {.name = "thinking"},
    {.name = "output_config"},
    {.name = "output_format"},
    {.name = "service_tier"},
    /* About the caller or its caches, never about the answer. */
    {.name = "metadata", .rule = QN_FIELD_FREE},
    {.name = "cache_control", .rule = QN_FIELD_FREE},
    {.name = "diagnostics", .rule = QN_FIELD_FREE},
    {.name = "user_profile_id", .rule = QN_FIELD_FREE},
    {.name = "workspace_id", .rule = QN_FIELD_FREE},
    /* Anthropic's. */
    {.name = "container", .rule = QN_FIELD_NEUTRAL},
    {.name = "inference_geo", .rule = QN_FIELD_NEUTRAL},
    {.name = "mcp_servers", .rule = QN_FIELD_NEUTRAL, .neutral = "[]"},
    {.name = "speed", .rule = QN_FIELD_NEUTRAL, .neutral = "\"standard\""},
};
static const qn_field_table *const also[] = {&qn_steering_fields, &qn_format_field_table, &qn_template_fields, NULL};

const qn_field_table qn_anthropic_fields = {.fields = fields, .count = sizeof fields / sizeof fields[0], .also = also};

static const qn_steering_name steering[] = {
    {"max_tokens", "max_tokens"},
    {"temperature", "temperature"},
    {"top_p", "top_p"},
    {"stop_sequences", "stop"},
};

/* ---- generation ---- */

static qn_status check_stop_sequences(const json_t *document, qn_error *err)
{
    const json_t *stop = qn_field_get(document, "stop_sequences");
    if (stop == NULL || json_is_array(stop)) {
        return QN_OK;
    }
    return qn_fail_field(err, QN_USAGE, "stop_sequences", "stop_sequences: %s given: send a list of strings",
                         qn_json_type_name(stop));
}

static qn_status read_generation(qn_anthropic_request *r, bool counting, const qn_chat_defaults *defaults,
                                 qn_error *err)
{
    float temperature = 0;
    qn_status status = qn_field_float(r->document, "temperature", 0, 1, &temperature, err);
    if (status == QN_OK) {
        status = check_stop_sequences(r->document, err);
    }
    if (status == QN_OK) {
        status = qn_steering_read(r->document, steering, sizeof steering / sizeof steering[0], &defaults->limits,
                                  &r->steering, &r->generation, err);
    }
    if (status == QN_OK && !counting && r->generation.max_tokens == 0) {
        status = qn_fail_field(err, QN_USAGE, "max_tokens",
                               "max_tokens: missing: send how many tokens the answer may have at most");
    }
    return status == QN_OK ? qn_field_boolean(r->document, "stream", &r->stream, err) : status;
}

static qn_status check_tier(const json_t *document, qn_error *err)
{
    const char *tier = NULL;
    qn_status status = qn_field_string(document, "service_tier", &tier, err);
    if (status != QN_OK || tier == NULL || strcmp(tier, "auto") == 0 || strcmp(tier, "standard_only") == 0) {
        return status;
    }
    return qn_fail_field(err, QN_USAGE, "service_tier", "service_tier: %.40s: send auto or standard_only", tier);
}

/* ---- template variables ---- */

static qn_status read_budget(qn_anthropic_request *r, const json_t *thinking, bool counting, qn_error *err)
{
    int64_t budget = 0;
    qn_error inner;
    if (qn_field_integer(thinking, "budget_tokens", LEAST_BUDGET, INT64_MAX, &budget, &inner) != QN_OK) {
        return qn_fail_field(err, QN_USAGE, "thinking", "thinking.%s", inner.message);
    }
    if (budget == 0) {
        return qn_fail_field(err, QN_USAGE, "thinking", "thinking.budget_tokens: missing: send at least %d",
                             LEAST_BUDGET);
    }
    qn_generation_fields *generation = &r->generation;
    if (generation->has_thinking_budget && generation->thinking_budget != (size_t)budget) {
        return qn_fail_field(err, QN_USAGE, "thinking",
                             "thinking.budget_tokens: thinking_token_budget says otherwise: send one of them");
    }
    generation->has_thinking_budget = true;
    generation->thinking_budget = (size_t)budget;
    if (!counting && (size_t)budget >= r->generation.max_tokens) {
        return qn_fail_field(err, QN_USAGE, "thinking",
                             "thinking.budget_tokens: %lld is not less than max_tokens: send less", (long long)budget);
    }
    return QN_OK;
}

static qn_status read_thinking(qn_anthropic_request *r, bool counting, qn_error *err)
{
    static const qn_field thinking_fields[] = {{.name = "type"}, {.name = "budget_tokens"}, {.name = "display"}};
    const json_t *thinking = qn_field_get(r->document, "thinking");
    if (thinking == NULL) {
        return QN_OK;
    }
    const json_t *type = json_object_get(thinking, "type");
    const char *name = json_is_string(type) ? json_string_value(type) : "";
    bool enabled = strcmp(name, "enabled") == 0, disabled = strcmp(name, "disabled") == 0;
    if (!enabled && !disabled && strcmp(name, "adaptive") != 0) {
        return qn_fail_field(err, QN_USAGE, "thinking",
                             "thinking: send {\"type\": ...} with enabled, adaptive or disabled");
    }
    qn_members_check(thinking, "thinking", thinking_fields, sizeof thinking_fields / sizeof thinking_fields[0],
                     &r->unknown, err);
    const char *display = NULL;
    qn_error inner;
    if (qn_field_string(thinking, "display", &display, &inner) != QN_OK) {
        return qn_fail_field(err, QN_USAGE, "thinking", "thinking.%s", inner.message);
    }
    r->hides_thoughts = display != NULL && strcmp(display, "omitted") == 0;
    if (!enabled && qn_field_get(thinking, "budget_tokens") != NULL) {
        return qn_fail_field(err, QN_USAGE, "thinking", "thinking.budget_tokens: only with type enabled: leave it out");
    }
    qn_status status = enabled ? read_budget(r, thinking, counting, err) : QN_OK;
    return status == QN_OK ? qn_template_think_set(&r->kwargs, "thinking", "thinking.type", !disabled, err) : status;
}

static qn_status read_output_config(qn_anthropic_request *r, qn_error *err)
{
    static const qn_field config_fields[] = {{.name = "effort"}, {.name = "format"}};
    const json_t *config = qn_field_get(r->document, "output_config");
    if (config == NULL) {
        return QN_OK;
    }
    if (!qn_json_is_object(config)) {
        return qn_fail_field(err, QN_USAGE, "output_config", "output_config: %s given: send an object",
                             qn_json_type_name(config));
    }
    qn_members_check(config, "output_config", config_fields, sizeof config_fields / sizeof config_fields[0],
                     &r->unknown, err);
    qn_status status = qn_format_read(qn_field_get(config, "format"), "output_config.format", false, &r->form, err);
    if (status != QN_OK) {
        return status;
    }
    const json_t *effort = qn_field_get(config, "effort");
    return effort == NULL ? QN_OK
                          : qn_template_effort_set(&r->kwargs, "output_config", "output_config.effort", effort,
                                                   QN_EFFORT_OF_ANSWER, err);
}

/* By its older name, and by those of other servers. */
static qn_status read_forms(qn_anthropic_request *r, qn_error *err)
{
    qn_status status = qn_format_read(qn_field_get(r->document, "output_format"), "output_format", false, &r->form,
                                      err);
    return status == QN_OK ? qn_format_fields_read(r->document, &r->form, err) : status;
}

/* ---- tools and messages ---- */

static qn_status read_messages(qn_anthropic_request *r, qn_error *err)
{
    qn_status status = qn_anthropic_messages_translate(qn_field_get(r->document, "system"),
                                                       qn_field_get(r->document, "messages"), &r->messages,
                                                       &r->unknown_message, err);
    if (status != QN_OK) {
        return status;
    }
    const json_t *last = json_array_get(r->messages, json_array_size(r->messages) - 1);
    r->prefill = strcmp(json_string_value(json_object_get(last, "role")), "assistant") == 0;
    if (r->prefill &&
        (json_string_length(json_object_get(last, "content")) == 0 || json_object_get(last, "tool_calls") != NULL)) {
        return qn_fail_field(err, QN_USAGE, "messages",
                             "messages: the last is the assistant's and has no text to go on with, or calls: end with "
                             "the user's");
    }
    return QN_OK;
}

static qn_status read_request(qn_anthropic_request *r, bool counting, const qn_chat_defaults *defaults, qn_error *err)
{
    qn_status status = qn_field_table_check(r->document, &qn_anthropic_fields, &r->unknown, err);
    if (status == QN_OK) {
        status = qn_field_string(r->document, "model", &r->model, err);
    }
    if (status == QN_OK) {
        status = check_tier(r->document, err);
    }
    if (status == QN_OK) {
        status = read_generation(r, counting, defaults, err);
    }
    if (status == QN_OK) {
        status = qn_template_kwargs_read(r->document, defaults->kwargs, &r->kwargs, err);
    }
    if (status == QN_OK) {
        status = read_thinking(r, counting, err);
    }
    if (status == QN_OK) {
        status = read_output_config(r, err);
    }
    if (status == QN_OK) {
        status = read_forms(r, err);
    }
    if (status == QN_OK) {
        status = qn_anthropic_tools_read(r->document, &r->tools, &r->unknown_tool, err);
    }
    return status == QN_OK ? read_messages(r, err) : status;
}

qn_status qn_anthropic_request_parse(const char *body, size_t bytes, bool counting, const qn_chat_defaults *defaults,
                                     qn_anthropic_request *out, qn_error *err)
{
    *out = (qn_anthropic_request){0};
    qn_status status = qn_request_body_parse(body, bytes, &out->document, err);
    if (status == QN_OK) {
        status = read_request(out, counting, defaults, err);
    }
    if (status != QN_OK) {
        qn_anthropic_request_free(out);
    }
    return status;
}

void qn_anthropic_request_free(qn_anthropic_request *request)
{
    qn_generation_fields_free(&request->generation);
    qn_tool_choice_free(&request->tools);
    qn_format_fields_free(&request->form);
    json_decref(request->messages);
    qn_template_kwargs_free(&request->kwargs);
    json_decref(request->steering);
    json_decref(request->document);
    *request = (qn_anthropic_request){0};
}
