#include "server/anthropic_messages.h"

#include <stdint.h>
#include <string.h>

#include "base/buffer.h"
#include "base/json.h"
#include "base/json_wide.h"
#include "server/chat_messages.h"

/* Claude Code tells its server this in a system block; it differs from request to request, so that as text of the
 * prompt it would keep every later request from finding the prompt computed. */
static const char billing_header[] = "x-anthropic-billing-header:";

/* A message in translation. */
typedef struct turn {
    const char *field; /* "messages" or "system" */
    size_t index;      /* of the message */
    bool assistant;
    json_t *list;             /* what all messages so far became */
    qn_buffer text, thoughts; /* of the message being made */
    bool has_text, has_thoughts;
    json_t *calls;  /* NULL: none */
    size_t results; /* messages of role tool made */
    qn_unknown_fields *unknown;
} turn;

static qn_status no_memory(qn_error *err)
{
    return qn_fail_memory(err, "messages", sizeof(json_t));
}

static qn_status bad_block(const turn *t, size_t block, const char *reason, qn_error *err)
{
    if (strcmp(t->field, "system") == 0) {
        return qn_fail_field(err, QN_USAGE, t->field, "system[%zu]: %s", block, reason);
    }
    return qn_fail_field(err, QN_USAGE, t->field, "messages[%zu].content[%zu]: %s", t->index, block, reason);
}

static qn_status bad_type(const turn *t, size_t block, const char *type, qn_error *err)
{
    static const char *const other_media[] = {"image", "document", "search_result", "container_upload"};
    char reason[160];
    for (size_t i = 0; i < sizeof other_media / sizeof other_media[0]; i++) {
        if (strcmp(type, other_media[i]) == 0) {
            snprintf(reason, sizeof reason, "type %s: this is a text model, send text", type);
            return bad_block(t, block, reason, err);
        }
    }
    snprintf(reason, sizeof reason, "type %.40s: not one that this role can have here: send text", type);
    return bad_block(t, block, reason, err);
}

/* ---- blocks ---- */

static qn_status append_text(const turn *t, size_t at, const json_t *block, const char *name, qn_buffer *out,
                             qn_error *err)
{
    const json_t *value = json_object_get(block, name);
    if (!json_is_string(value)) {
        char reason[80];
        snprintf(reason, sizeof reason, "%s: %s: send a string", name,
                 value == NULL ? "missing" : qn_json_type_name(value));
        return bad_block(t, at, reason, err);
    }
    qn_buffer_append(out, json_string_value(value), json_string_length(value));
    return QN_OK;
}

static qn_status take_text(turn *t, size_t at, const json_t *block, qn_error *err)
{
    t->has_text = true;
    return append_text(t, at, block, "text", &t->text, err);
}

static qn_status take_thinking(turn *t, size_t at, const json_t *block, qn_error *err)
{
    t->has_thoughts = true;
    return append_text(t, at, block, "thinking", &t->thoughts, err);
}

static qn_status take_redacted(turn *t, size_t at, const json_t *block, qn_error *err)
{
    (void)t, (void)at, (void)block, (void)err;
    return QN_OK;
}

static qn_status take_call(turn *t, size_t at, const json_t *block, qn_error *err)
{
    const json_t *id = json_object_get(block, "id");
    const json_t *name = json_object_get(block, "name");
    const json_t *input = qn_field_get(block, "input");
    if (!json_is_string(id) || !json_is_string(name) || !qn_json_is_object(input)) {
        return bad_block(t, at, "send {\"type\": \"tool_use\", \"id\": ..., \"name\": ..., \"input\": {...}}", err);
    }
    if (t->calls == NULL) {
        t->calls = json_array();
    }
    json_t *call = json_pack("{s:O, s:s, s:{s:O, s:O}}", "id", id, "type", "function", "function", "name", name,
                             "arguments", input);
    return call != NULL && json_array_append_new(t->calls, call) == 0 ? QN_OK : no_memory(err);
}

/* ---- messages ---- */

/* Takes the buffer's text. */
static json_t *string_of(qn_buffer *text)
{
    json_t *string = text->failed ? NULL : json_stringn(qn_buffer_string(text), text->size);
    qn_buffer_clear(text);
    return string;
}

static qn_status append_message(turn *t, json_t *message, qn_error *err)
{
    return message != NULL && json_array_append_new(t->list, message) == 0 ? QN_OK : no_memory(err);
}

/* The text so far as a message of the role. json_pack with "o" takes the string, also when it fails. */
static qn_status flush_text(turn *t, const char *role, qn_error *err)
{
    t->has_text = false;
    return append_message(t, json_pack("{s:s, s:o}", "role", role, "content", string_of(&t->text)), err);
}

static qn_status append_result_content(const turn *t, size_t at, const json_t *content, qn_buffer *out, qn_error *err)
{
    static const qn_field text_fields[] = {
        {.name = "type"},
        {.name = "text"},
        {.name = "cache_control", .rule = QN_FIELD_FREE},
        {.name = "citations", .rule = QN_FIELD_FREE},
    };
    if (json_is_string(content)) {
        qn_buffer_append(out, json_string_value(content), json_string_length(content));
        return QN_OK;
    }
    if (content != NULL && !json_is_array(content)) {
        return bad_block(t, at, "content: send a string or a list of text blocks", err);
    }
    qn_status status = QN_OK;
    for (size_t i = 0; i < json_array_size(content) && status == QN_OK; i++) {
        const json_t *part = json_array_get(content, i);
        const json_t *type = json_object_get(part, "type");
        if (!json_is_string(type)) {
            return bad_block(t, at, "content: a part that is not an object with a type", err);
        }
        if (strcmp(json_string_value(type), "text") != 0) {
            return bad_type(t, at, json_string_value(type), err);
        }
        qn_fields_check(part, text_fields, sizeof text_fields / sizeof text_fields[0], t->unknown, err);
        status = append_text(t, at, part, "text", out, err);
    }
    return status;
}

/* Text of the user before it is a message of its own, so that all stays in order. */
static qn_status take_result(turn *t, size_t at, const json_t *block, qn_error *err)
{
    const json_t *id = json_object_get(block, "tool_use_id");
    const json_t *is_error = qn_field_get(block, "is_error");
    if (!json_is_string(id)) {
        return bad_block(t, at, "tool_use_id: missing or not a string: send the id of the tool_use block", err);
    }
    if (is_error != NULL && !json_is_boolean(is_error)) {
        return bad_block(t, at, "is_error: send true or false", err);
    }
    if (t->has_text) {
        qn_status status = flush_text(t, "user", err);
        if (status != QN_OK) {
            return status;
        }
    }
    if (json_is_true(is_error)) {
        qn_buffer_text(&t->text, "Error: "); /* templates know no other way to tell */
    }
    qn_status status = append_result_content(t, at, qn_field_get(block, "content"), &t->text, err);
    if (status != QN_OK) {
        return status;
    }
    t->results++;
    return append_message(
        t, json_pack("{s:s, s:o, s:O}", "role", "tool", "content", string_of(&t->text), "tool_call_id", id), err);
}

static const qn_field text_block[] = {
    {.name = "type"},
    {.name = "text"},
    {.name = "cache_control", .rule = QN_FIELD_FREE},
    {.name = "citations", .rule = QN_FIELD_FREE},
};
static const qn_field thinking_block[] = {
    {.name = "type"},
    {.name = "thinking"},
    {.name = "signature", .rule = QN_FIELD_FREE},
    {.name = "cache_control", .rule = QN_FIELD_FREE},
};
static const qn_field redacted_block[] = {
    {.name = "type"},
    {.name = "data", .rule = QN_FIELD_FREE},
    {.name = "cache_control", .rule = QN_FIELD_FREE},
};
static const qn_field call_block[] = {
    {.name = "type"},
    {.name = "id"},
    {.name = "name"},
    {.name = "input"},
    {.name = "cache_control", .rule = QN_FIELD_FREE},
    {.name = "caller", .rule = QN_FIELD_FREE},
};
static const qn_field result_block[] = {
    {.name = "type"},
    {.name = "tool_use_id"},
    {.name = "content"},
    {.name = "is_error"},
    {.name = "cache_control", .rule = QN_FIELD_FREE},
};

#define FIELDS(table) .fields = (table), .field_count = sizeof(table) / sizeof(table)[0]
static const struct kind {
    const char *type;
    bool user, assistant; /* who may say it */
    const qn_field *fields;
    size_t field_count;
    qn_status (*take)(turn *t, size_t at, const json_t *block, qn_error *err);
} kinds[] = {
    {"text", true, true, FIELDS(text_block), take_text},
    {"tool_result", true, false, FIELDS(result_block), take_result},
    {"thinking", false, true, FIELDS(thinking_block), take_thinking},
    {"redacted_thinking", false, true, FIELDS(redacted_block), take_redacted},
    {"tool_use", false, true, FIELDS(call_block), take_call},
};
#undef FIELDS

static qn_status take_block(turn *t, size_t at, const json_t *block, qn_error *err)
{
    const json_t *type = json_object_get(block, "type");
    if (!json_is_string(type)) {
        return bad_block(t, at, "not an object with a type: send {\"type\": \"text\", \"text\": ...}", err);
    }
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const struct kind *kind = &kinds[i];
        if ((t->assistant ? kind->assistant : kind->user) && strcmp(json_string_value(type), kind->type) == 0) {
            qn_status status = qn_fields_check(block, kind->fields, kind->field_count, t->unknown, err);
            return status == QN_OK ? kind->take(t, at, block, err) : status;
        }
    }
    return bad_type(t, at, json_string_value(type), err);
}

static qn_status take_content(turn *t, const json_t *content, qn_error *err)
{
    if (json_is_string(content)) {
        t->has_text = true;
        qn_buffer_append(&t->text, json_string_value(content), json_string_length(content));
        return QN_OK;
    }
    if (!json_is_array(content)) {
        return qn_fail_field(err, QN_USAGE, "messages", "messages[%zu].content: %s: send a string or a list of blocks",
                             t->index, content == NULL ? "missing" : qn_json_type_name(content));
    }
    qn_status status = QN_OK;
    for (size_t i = 0; i < json_array_size(content) && status == QN_OK; i++) {
        status = take_block(t, i, json_array_get(content, i), err);
    }
    return status;
}

static qn_status finish_assistant(turn *t, qn_error *err)
{
    qn_status status = flush_text(t, "assistant", err);
    json_t *message = status == QN_OK ? json_array_get(t->list, json_array_size(t->list) - 1) : NULL;
    if (status == QN_OK && t->has_thoughts &&
        json_object_set_new(message, "reasoning_content", string_of(&t->thoughts)) != 0) {
        status = no_memory(err);
    }
    if (status == QN_OK && t->calls != NULL && json_object_set(message, "tool_calls", t->calls) != 0) {
        status = no_memory(err);
    }
    return status;
}

static qn_status translate_one(turn *t, const json_t *message, qn_error *err)
{
    static const qn_field message_fields[] = {{.name = "role"}, {.name = "content"}};
    const json_t *role = json_object_get(message, "role");
    const char *name = json_is_string(role) ? json_string_value(role) : "";
    t->assistant = strcmp(name, "assistant") == 0;
    if (!t->assistant && strcmp(name, "user") != 0) {
        return qn_fail_field(err, QN_USAGE, "messages",
                             "messages[%zu].role: %.40s: send user or assistant; what the system says goes into the "
                             "field system",
                             t->index, name[0] != '\0' ? name : "missing or not a string");
    }
    qn_fields_check(message, message_fields, 2, t->unknown, err);
    qn_status status = take_content(t, json_object_get(message, "content"), err);
    if (status == QN_OK && t->assistant) {
        status = finish_assistant(t, err);
    } else if (status == QN_OK && (t->has_text || t->results == 0)) {
        status = flush_text(t, "user", err);
    }
    return status;
}

static bool is_billing_header(const json_t *block)
{
    const char *text = json_string_value(json_object_get(block, "text"));
    return text != NULL && strncmp(text, billing_header, strlen(billing_header)) == 0;
}

static qn_status translate_system(const json_t *system, json_t *list, qn_unknown_fields *unknown, qn_error *err)
{
    turn t = {.field = "system", .list = list, .unknown = unknown};
    qn_status status = QN_OK;
    if (json_is_string(system)) {
        status = take_content(&t, system, err);
    } else if (!json_is_array(system)) {
        return qn_fail_field(err, QN_USAGE, "system", "system: %s given: send a string or a list of text blocks",
                             qn_json_type_name(system));
    }
    for (size_t i = 0; i < json_array_size(system) && status == QN_OK; i++) {
        const json_t *block = json_array_get(system, i);
        const json_t *type = json_object_get(block, "type");
        if (json_is_string(type) && strcmp(json_string_value(type), "text") != 0) {
            status = bad_type(&t, i, json_string_value(type), err);
        } else if (!is_billing_header(block)) {
            status = take_block(&t, i, block, err);
        }
    }
    if (status == QN_OK && t.has_text) {
        status = flush_text(&t, "system", err);
    }
    qn_buffer_free(&t.text);
    return status;
}

static qn_status translate_all(const json_t *messages, json_t *list, qn_unknown_fields *unknown, qn_error *err)
{
    qn_status status = QN_OK;
    for (size_t i = 0; i < json_array_size(messages) && status == QN_OK; i++) {
        turn t = {.field = "messages", .index = i, .list = list, .unknown = unknown};
        status = translate_one(&t, json_array_get(messages, i), err);
        json_decref(t.calls);
        qn_buffer_free(&t.text);
        qn_buffer_free(&t.thoughts);
    }
    return status;
}

qn_status qn_anthropic_messages_translate(const json_t *system, const json_t *messages, json_t **out,
                                          qn_unknown_fields *unknown, qn_error *err)
{
    if (!json_is_array(messages)) {
        return qn_fail_field(err, QN_USAGE, "messages", "messages: %s: send a list of messages",
                             messages == NULL ? "missing" : qn_json_type_name(messages));
    }
    size_t count = json_array_size(messages);
    if (count == 0 || count > QN_CHAT_MAX_MESSAGES) {
        return qn_fail_field(err, QN_USAGE, "messages", "messages: %zu messages: send 1 to %d", count,
                             QN_CHAT_MAX_MESSAGES);
    }
    json_t *list = json_array();
    qn_status status = list != NULL ? QN_OK : no_memory(err);
    if (status == QN_OK && system != NULL) {
        status = translate_system(system, list, unknown, err);
    }
    if (status == QN_OK) {
        status = translate_all(messages, list, unknown, err);
    }
    if (status != QN_OK) {
        json_decref(list);
        return status;
    }
    *out = list;
    return QN_OK;
}
