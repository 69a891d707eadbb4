#include "server/template_kwargs.h"

#include <stdint.h>
#include <string.h>

#include "base/json.h"
#include "base/json_wide.h"

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
    return effort == NULL || known_effort(effort) ? QN_OK : bad_effort(field, field, effort, "low, high or max", err);
}

static qn_status no_memory(qn_error *err)
{
    return qn_fail_memory(err, "template variables", sizeof(json_t));
}

static qn_status contradicted(const char *field, const char *prefix, const char *name, qn_error *err)
{
    return qn_fail_field(err, QN_USAGE, field, "%s: %s%s says otherwise: send one of them", field, prefix, name);
}

qn_status qn_template_kwargs_set(json_t *kwargs, const json_t *document, const char *field, const char *name,
                                 json_t *value, qn_error *err)
{
    const json_t *own = qn_field_get(qn_field_get(document, "chat_template_kwargs"), name);
    if (value == NULL) {
        return no_memory(err);
    }
    if (own != NULL && !json_equal(own, value)) {
        json_decref(value);
        return contradicted(field, "chat_template_kwargs.", name, err);
    }
    return json_object_set_new(kwargs, name, value) == 0 ? QN_OK : no_memory(err);
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

qn_status qn_template_effort_set(json_t *kwargs, const json_t *document, const char *field, const char *name,
                                 const json_t *word, qn_error *err)
{
    const char *effort = template_effort(word);
    if (effort == NULL) {
        return bad_effort(field, name, word, "none, minimal, low, medium, high, xhigh or max", err);
    }
    const char *beside = template_effort(qn_field_get(document, "reasoning_effort"));
    if (beside != NULL && strcmp(beside, effort) != 0) {
        return contradicted(field, "", "reasoning_effort", err);
    }
    return effort[0] == '\0'
               ? qn_template_kwargs_set(kwargs, document, field, "enable_thinking", json_false(), err)
               : qn_template_kwargs_set(kwargs, document, field, "reasoning_effort", json_string(effort), err);
}

qn_status qn_template_kwargs_read(const json_t *document, const json_t *defaults, json_t **out, qn_error *err)
{
    const json_t *own = qn_field_get(document, "chat_template_kwargs");
    if (own != NULL && !qn_json_is_object(own)) {
        return qn_fail_field(err, QN_USAGE, "chat_template_kwargs", "chat_template_kwargs: %s given: send an object",
                             qn_json_type_name(own));
    }
    qn_status status = qn_template_kwargs_check(own, "chat_template_kwargs", err);
    if (status != QN_OK) {
        return status;
    }
    json_t *kwargs = json_object();
    if (kwargs == NULL || (defaults != NULL && json_object_update(kwargs, (json_t *)(uintptr_t)defaults) != 0) ||
        (own != NULL && json_object_update(kwargs, (json_t *)(uintptr_t)own) != 0)) {
        json_decref(kwargs);
        return no_memory(err);
    }
    static const char name[] = "reasoning_effort";
    const json_t *word = qn_field_get(document, name);
    status = word != NULL ? qn_template_effort_set(kwargs, document, name, name, word, err) : QN_OK;
    if (status != QN_OK) {
        json_decref(kwargs);
        return status;
    }
    *out = kwargs;
    return QN_OK;
}
