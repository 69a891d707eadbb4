#include "server/template_kwargs.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/json_wide.h"

enum { PLACE_BYTES = 80 };

static const qn_field fields[] = {
    {.name = "chat_template_kwargs"},
    {.name = "reasoning_effort"},
    /* vLLM's and SGLang's. */
    {.name = "chat_template", .rule = QN_FIELD_NEUTRAL},
    {.name = "documents", .rule = QN_FIELD_NEUTRAL},
    {.name = "mm_processor_kwargs", .rule = QN_FIELD_NEUTRAL},
    {.name = "separate_reasoning", .rule = QN_FIELD_NEUTRAL, .neutral = "true"},
    {.name = "stream_reasoning", .rule = QN_FIELD_NEUTRAL, .neutral = "true"},
};

const qn_field_table qn_template_fields = {.fields = fields, .count = sizeof fields / sizeof fields[0]};

/* The efforts that GLM-5's templates know. They take any other word for "max" without a word, hence the check. */
static const char *const efforts[] = {"low", "high", "max"};

static bool known_effort(const json_t *value)
{
    for (size_t i = 0; json_is_string(value) && i < sizeof efforts / sizeof efforts[0]; i++) {
        if (strcmp(json_string_value(value), efforts[i]) == 0) {
            return true;
        }
    }
    return false;
}

static qn_status bad_effort(const char *field, const char *name, const json_t *value, const char *known, qn_error *err)
{
    const char *shown = json_is_string(value) ? json_string_value(value) : qn_json_type_name(value);
    return qn_fail_field(err, QN_USAGE, field, "%s: unknown effort %.40s: send %s", name, shown, known);
}

qn_status qn_template_kwargs_check(const json_t *kwargs, const char *field, qn_error *err)
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
    if (effort == NULL || known_effort(effort)) {
        return QN_OK;
    }
    char name[PLACE_BYTES];
    snprintf(name, sizeof name, "%s.reasoning_effort", field);
    return bad_effort(field, name, effort, "low, high or max", err);
}

static qn_status no_memory(qn_error *err)
{
    return qn_fail_memory(err, "template variables", sizeof(json_t));
}

static qn_status contradicted(const char *field, const char *name, const char *by, qn_error *err)
{
    return qn_fail_field(err, QN_USAGE, field, "%s: %s says otherwise: send one of them", name, by);
}

static qn_status set_value(qn_template_kwargs *kwargs, const char *name, json_t *value, qn_error *err)
{
    return value != NULL && json_object_set_new(kwargs->values, name, value) == 0 ? QN_OK : no_memory(err);
}

/* ---- whether the model thinks, and how much ---- */

qn_status qn_template_think_set(qn_template_kwargs *kwargs, const char *field, const char *name, bool thinks,
                                qn_error *err)
{
    static const char variable[] = "enable_thinking";
    const char *against = thinks ? kwargs->silent : kwargs->thinks;
    if (against != NULL) {
        return contradicted(field, name, against, err);
    }
    if (!thinks) {
        kwargs->silent = name;
        return set_value(kwargs, variable, json_false(), err);
    }
    kwargs->thinks = name;
    return json_object_get(kwargs->values, variable) != NULL ? set_value(kwargs, variable, json_true(), err) : QN_OK;
}

/* What a word of the APIs is to the template: "" for none; NULL: no such word. */
static const char *template_effort(const json_t *word)
{
    static const char *const words[][2] = {{"none", ""},     {"minimal", "low"}, {"low", "low"}, {"medium", "high"},
                                           {"high", "high"}, {"xhigh", "max"},   {"max", "max"}};
    for (size_t i = 0; json_is_string(word) && i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(json_string_value(word), words[i][0]) == 0) {
            return words[i][1];
        }
    }
    return NULL;
}

qn_status qn_template_effort_set(qn_template_kwargs *kwargs, const char *field, const char *name, const json_t *word,
                                 qn_effort_of of, qn_error *err)
{
    const char *effort = template_effort(word);
    if (effort == NULL) {
        return bad_effort(field, name, word, "none, minimal, low, medium, high, xhigh or max", err);
    }
    if (kwargs->effort != NULL && strcmp(kwargs->effort, effort) != 0) {
        return contradicted(field, name, kwargs->effort_by, err);
    }
    kwargs->effort = effort;
    kwargs->effort_by = name;
    bool none = effort[0] == '\0';
    qn_status status = QN_OK;
    if (none || of == QN_EFFORT_OF_THOUGHTS) {
        status = qn_template_think_set(kwargs, field, name, !none, err);
    }
    return status == QN_OK && !none ? set_value(kwargs, "reasoning_effort", json_string(effort), err) : status;
}

static qn_status set_clearing(qn_template_kwargs *kwargs, bool clears, qn_error *err)
{
    const json_t *own = qn_field_get(kwargs->own, "clear_thinking");
    if (own != NULL && !json_equal(own, json_boolean(clears))) {
        return contradicted("thinking", "thinking.clear_thinking", "chat_template_kwargs.clear_thinking", err);
    }
    return set_value(kwargs, "clear_thinking", json_boolean(clears), err);
}

static qn_status read_type(const json_t *thinking, qn_template_kwargs *kwargs, qn_error *err)
{
    const json_t *type = qn_field_get(thinking, "type");
    const char *word = json_is_string(type) ? json_string_value(type) : "";
    bool enabled = strcmp(word, "enabled") == 0;
    if (type == NULL) {
        return QN_OK;
    }
    if (!enabled && strcmp(word, "disabled") != 0) {
        return qn_fail_field(err, QN_USAGE, "thinking", "thinking.type: %.40s: send enabled or disabled",
                             json_is_string(type) ? word : qn_json_type_name(type));
    }
    return qn_template_think_set(kwargs, "thinking", "thinking.type", enabled, err);
}

qn_status qn_template_thinking_read(const json_t *document, qn_template_kwargs *kwargs, qn_unknown_fields *unknown,
                                    qn_error *err)
{
    static const qn_field members[] = {{.name = "type"}, {.name = "clear_thinking"}};
    const json_t *thinking = qn_field_get(document, "thinking");
    if (thinking == NULL) {
        return QN_OK;
    }
    if (!qn_json_is_object(thinking)) {
        return qn_fail_field(err, QN_USAGE, "thinking",
                             "thinking: %s given: send an object with type enabled or disabled",
                             qn_json_type_name(thinking));
    }
    const json_t *clears = qn_field_get(thinking, "clear_thinking");
    if (clears != NULL && !json_is_boolean(clears)) {
        return qn_fail_field(err, QN_USAGE, "thinking", "thinking.clear_thinking: %s given: send true or false",
                             qn_json_type_name(clears));
    }
    if (qn_field_get(thinking, "budget_tokens") != NULL) {
        return qn_fail_field(err, QN_USAGE, "thinking",
                             "thinking.budget_tokens: not in this API: send thinking_token_budget");
    }
    qn_status status = qn_members_check(thinking, "thinking", members, sizeof members / sizeof *members, unknown, err);
    if (status == QN_OK) {
        status = read_type(thinking, kwargs, err);
    }
    return status == QN_OK && clears != NULL ? set_clearing(kwargs, json_is_true(clears), err) : status;
}

/* ---- chat_template_kwargs ---- */

/* These go to the template as they are, those that contradict each other too: what they mean is the template's. A value
 * that is no boolean is none that another field could have. */
static void note_own(qn_template_kwargs *kwargs)
{
    static const char of_effort[] = "chat_template_kwargs.reasoning_effort";
    static const char of_thinking[] = "chat_template_kwargs.enable_thinking";
    const json_t *effort = qn_field_get(kwargs->own, "reasoning_effort");
    const json_t *thinks = qn_field_get(kwargs->own, "enable_thinking");
    if (effort != NULL) {
        kwargs->effort = template_effort(effort);
        kwargs->effort_by = of_effort;
    }
    if (thinks != NULL) {
        kwargs->thinks = json_is_false(thinks) ? NULL : of_thinking;
        kwargs->silent = json_is_true(thinks) ? NULL : of_thinking;
    } else if (effort != NULL) {
        kwargs->thinks = of_effort;
    }
}

qn_status qn_template_kwargs_read(const json_t *document, const json_t *defaults, qn_template_kwargs *out,
                                  qn_error *err)
{
    static const char effort[] = "reasoning_effort";
    const json_t *own = qn_field_get(document, "chat_template_kwargs");
    *out = (qn_template_kwargs){.own = own};
    if (own != NULL && !qn_json_is_object(own)) {
        return qn_fail_field(err, QN_USAGE, "chat_template_kwargs", "chat_template_kwargs: %s given: send an object",
                             qn_json_type_name(own));
    }
    qn_status status = qn_template_kwargs_check(own, "chat_template_kwargs", err);
    if (status != QN_OK) {
        return status;
    }
    out->values = json_object();
    if (out->values == NULL ||
        (defaults != NULL && json_object_update(out->values, (json_t *)(uintptr_t)defaults) != 0) ||
        (own != NULL && json_object_update(out->values, (json_t *)(uintptr_t)own) != 0)) {
        return no_memory(err);
    }
    note_own(out);
    const json_t *word = qn_field_get(document, effort);
    return word != NULL ? qn_template_effort_set(out, effort, effort, word, QN_EFFORT_OF_THOUGHTS, err) : QN_OK;
}

void qn_template_kwargs_free(qn_template_kwargs *kwargs)
{
    json_decref(kwargs->values);
    *kwargs = (qn_template_kwargs){0};
}
