#include "server/chat_messages.h"

#include <stdint.h>
#include <string.h>

#include "base/buffer.h"
#include "base/json.h"
#include "base/json_wide.h"
#include "server/request_body.h"

static const char field_name[] = "messages";

/* Where a fault lies: "messages[3]"; and what all messages count together. */
typedef struct place {
    size_t index;
    const char *role;
    size_t *argument_values; /* in the strings of tool-call arguments */
} place;

static const qn_field system_fields[] = {
    {.name = "role"},
    {.name = "content"},
    {.name = "name"},
};
static const qn_field assistant_fields[] = {
    {.name = "role"},
    {.name = "content"},
    {.name = "name"},
    {.name = "reasoning"},
    {.name = "reasoning_content"},
    {.name = "tool_calls"},
    {.name = "refusal", .rule = QN_FIELD_NEUTRAL},
    {.name = "audio", .rule = QN_FIELD_NEUTRAL},
    {.name = "function_call", .rule = QN_FIELD_NEUTRAL},
    {.name = "annotations", .rule = QN_FIELD_FREE},
};
static const qn_field tool_fields[] = {
    {.name = "role"},
    {.name = "content"},
    {.name = "name"},
    {.name = "tool_call_id"},
};

static qn_status no_memory(qn_error *err)
{
    return qn_fail_memory(err, "messages", sizeof(json_t));
}

/* Adds a reference of value. */
static qn_status set(json_t *object, const char *name, const json_t *value, qn_error *err)
{
    return json_object_set(object, name, (json_t *)(uintptr_t)value) == 0 ? QN_OK : no_memory(err);
}

static qn_status set_new(json_t *object, const char *name, json_t *value, qn_error *err)
{
    return value != NULL && json_object_set_new(object, name, value) == 0 ? QN_OK : no_memory(err);
}

static qn_status bad_part(const place *at, size_t part, const char *type, qn_error *err)
{
    if (strcmp(type, "image_url") == 0 || strcmp(type, "input_audio") == 0 || strcmp(type, "video_url") == 0 ||
        strcmp(type, "file") == 0 || strcmp(type, "image") == 0) {
        return qn_fail_field(err, QN_USAGE, field_name,
                             "messages[%zu].content[%zu]: type %s: this is a text model, send text", at->index, part,
                             type);
    }
    return qn_fail_field(err, QN_USAGE, field_name, "messages[%zu].content[%zu]: unknown type %.40s: send text",
                         at->index, part, type);
}

static qn_status append_part(const place *at, size_t i, const json_t *part, qn_buffer *text, qn_error *err)
{
    const json_t *type = json_object_get(part, "type");
    if (!json_is_string(type)) {
        return qn_fail_field(err, QN_USAGE, field_name,
                             "messages[%zu].content[%zu]: not an object with a type: send {\"type\": \"text\", "
                             "\"text\": ...}",
                             at->index, i);
    }
    if (strcmp(json_string_value(type), "text") != 0) {
        return bad_part(at, i, json_string_value(type), err);
    }
    const json_t *value = json_object_get(part, "text");
    if (!json_is_string(value)) {
        return qn_fail_field(err, QN_USAGE, field_name, "messages[%zu].content[%zu].text: %s: send a string", at->index,
                             i, value == NULL ? "missing" : qn_json_type_name(value));
    }
    qn_buffer_append(text, json_string_value(value), json_string_length(value));
    return QN_OK;
}

static qn_status join_parts(const place *at, const json_t *parts, json_t *out, qn_error *err)
{
    qn_buffer text = {0};
    qn_status status = QN_OK;
    for (size_t i = 0; i < json_array_size(parts) && status == QN_OK; i++) {
        status = append_part(at, i, json_array_get(parts, i), &text, err);
    }
    if (status == QN_OK && text.failed) {
        status = no_memory(err);
    }
    if (status == QN_OK) {
        status = set_new(out, "content", json_stringn(qn_buffer_string(&text), text.size), err);
    }
    qn_buffer_free(&text);
    return status;
}

/* An assistant's turn may consist of calls or reasoning alone; templates print a null as "None", hence "". */
static qn_status copy_content(const place *at, const json_t *message, json_t *out, qn_error *err)
{
    const json_t *content = qn_field_get(message, "content");
    if (content == NULL && strcmp(at->role, "assistant") == 0) {
        return set_new(out, "content", json_string(""), err);
    }
    if (json_is_string(content)) {
        return set(out, "content", content, err);
    }
    if (json_is_array(content)) {
        return join_parts(at, content, out, err);
    }
    return qn_fail_field(err, QN_USAGE, field_name, "messages[%zu].content: %s: send a string or a list of text parts",
                         at->index, content == NULL ? "missing" : qn_json_type_name(content));
}

static qn_status copy_string(const place *at, const json_t *message, const char *name, json_t *out, qn_error *err)
{
    const json_t *value = qn_field_get(message, name);
    if (value == NULL) {
        return QN_OK;
    }
    if (!json_is_string(value)) {
        return qn_fail_field(err, QN_USAGE, field_name, "messages[%zu].%s: %s: send a string", at->index, name,
                             qn_json_type_name(value));
    }
    return set(out, name, value, err);
}

static qn_status copy_reasoning(const place *at, const json_t *message, json_t *out, qn_error *err)
{
    const json_t *content = qn_field_get(message, "reasoning_content");
    const json_t *reasoning = qn_field_get(message, "reasoning");
    if (content != NULL && reasoning != NULL && !json_equal(content, reasoning)) {
        return qn_fail_field(err, QN_USAGE, field_name,
                             "messages[%zu]: reasoning and reasoning_content differ: send one of them", at->index);
    }
    const json_t *value = content != NULL ? content : reasoning;
    if (value == NULL) {
        return QN_OK;
    }
    if (!json_is_string(value)) {
        return qn_fail_field(err, QN_USAGE, field_name, "messages[%zu].%s: %s: send a string", at->index,
                             content != NULL ? "reasoning_content" : "reasoning", qn_json_type_name(value));
    }
    return set(out, "reasoning_content", value, err);
}

static qn_status bad_call(const place *at, size_t call, const char *reason, qn_error *err)
{
    return qn_fail_field(err, QN_USAGE, field_name, "messages[%zu].tool_calls[%zu]: %s", at->index, call, reason);
}

/* The values in strings of arguments are bounded as the body's own are, which count such a string as one. */
static qn_status check_arguments(const place *at, size_t call, const json_t *arguments, qn_error *err)
{
    if (arguments == NULL || qn_json_is_object(arguments)) {
        return QN_OK;
    }
    if (!json_is_string(arguments)) {
        return bad_call(at, call, "function.arguments: send JSON in a string", err);
    }
    *at->argument_values += qn_request_count_values(json_string_value(arguments), json_string_length(arguments));
    if (*at->argument_values > QN_BODY_MAX_VALUES) {
        return bad_call(at, call, "function.arguments: too many JSON values in all of them: send a smaller request",
                        err);
    }
    return QN_OK;
}

/* {id, type, function: {name, arguments}}; what a string of arguments holds is text/chat.h's to read. */
static qn_status copy_call(const place *at, size_t index, const json_t *call, json_t *calls, qn_error *err)
{
    const json_t *function = json_object_get(call, "function");
    const json_t *name = json_object_get(function, "name");
    const json_t *type = qn_field_get(call, "type");
    const json_t *id = qn_field_get(call, "id");
    if (!json_is_string(name)) {
        return bad_call(at, index, "function.name: missing or not a string: send {\"function\": {\"name\": ...}}", err);
    }
    if (type != NULL && (!json_is_string(type) || strcmp(json_string_value(type), "function") != 0)) {
        return bad_call(at, index, "type: only function is supported", err);
    }
    if (id != NULL && !json_is_string(id)) {
        return bad_call(at, index, "id: send a string", err);
    }
    const json_t *arguments = qn_field_get(function, "arguments");
    qn_status status = check_arguments(at, index, arguments, err);
    if (status != QN_OK) {
        return status;
    }
    json_t *copy = json_pack("{s:s, s:{s:O, s:O*}}", "type", "function", "function", "name", name, "arguments",
                             arguments);
    if (copy == NULL) {
        return no_memory(err);
    }
    status = id != NULL ? set(copy, "id", id, err) : QN_OK;
    if (status == QN_OK && json_array_append(calls, copy) != 0) {
        status = no_memory(err);
    }
    json_decref(copy);
    return status;
}

static qn_status copy_calls(const place *at, const json_t *message, json_t *out, qn_error *err)
{
    const json_t *calls = qn_field_get(message, "tool_calls");
    if (calls == NULL || (json_is_array(calls) && json_array_size(calls) == 0)) {
        return QN_OK;
    }
    if (!json_is_array(calls)) {
        return qn_fail_field(err, QN_USAGE, field_name, "messages[%zu].tool_calls: %s: send a list", at->index,
                             qn_json_type_name(calls));
    }
    json_t *copies = json_array();
    qn_status status = copies != NULL ? QN_OK : no_memory(err);
    for (size_t i = 0; i < json_array_size(calls) && status == QN_OK; i++) {
        status = copy_call(at, i, json_array_get(calls, i), copies, err);
    }
    if (status == QN_OK) {
        status = set(out, "tool_calls", copies, err);
    }
    json_decref(copies);
    return status;
}

static qn_status check_fields(const place *at, const json_t *message, qn_unknown_fields *unknown, qn_error *err)
{
    const qn_field *fields = system_fields;
    size_t count = sizeof system_fields / sizeof system_fields[0];
    if (strcmp(at->role, "assistant") == 0) {
        fields = assistant_fields;
        count = sizeof assistant_fields / sizeof assistant_fields[0];
    } else if (strcmp(at->role, "tool") == 0) {
        fields = tool_fields;
        count = sizeof tool_fields / sizeof tool_fields[0];
    }
    qn_status status = qn_fields_check(message, fields, count, unknown, err);
    if (status != QN_OK) {
        qn_error inner = *err;
        qn_fail_field(err, inner.status, field_name, "messages[%zu].%s", at->index, inner.message);
    }
    return status;
}

static qn_status copy_message(const place *at, const json_t *message, json_t *out, qn_error *err)
{
    qn_status status = set_new(out, "role", json_string(at->role), err);
    if (status == QN_OK) {
        status = copy_content(at, message, out, err);
    }
    if (status == QN_OK) {
        status = copy_string(at, message, "name", out, err);
    }
    if (status == QN_OK && strcmp(at->role, "assistant") == 0) {
        status = copy_reasoning(at, message, out, err);
        if (status == QN_OK) {
            status = copy_calls(at, message, out, err);
        }
    }
    if (status == QN_OK && strcmp(at->role, "tool") == 0) {
        status = copy_string(at, message, "tool_call_id", out, err);
    }
    return status;
}

/* The role as templates know it, or NULL. */
static const char *find_role(const char *name)
{
    static const struct {
        const char *name, *role;
    } roles[] = {
        {"system", "system"}, {"developer", "system"}, {"user", "user"}, {"assistant", "assistant"}, {"tool", "tool"}};
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        if (strcmp(roles[i].name, name) == 0) {
            return roles[i].role;
        }
    }
    return NULL;
}

static qn_status normalise_one(size_t index, const json_t *message, size_t *argument_values, json_t *list,
                               qn_unknown_fields *unknown, qn_error *err)
{
    const json_t *role = json_object_get(message, "role");
    if (!json_is_string(role)) {
        return qn_fail_field(err, QN_USAGE, field_name,
                             "messages[%zu]: not an object with a role: send {\"role\": ..., \"content\": ...}", index);
    }
    place at = {.index = index, .role = find_role(json_string_value(role)), .argument_values = argument_values};
    if (at.role == NULL) {
        return qn_fail_field(err, QN_USAGE, field_name,
                             "messages[%zu].role: unknown role %.40s: send system, developer, user, assistant or tool",
                             index, json_string_value(role));
    }
    qn_status status = check_fields(&at, message, unknown, err);
    if (status != QN_OK) {
        return status;
    }
    json_t *copy = json_object();
    if (copy == NULL) {
        return no_memory(err);
    }
    status = copy_message(&at, message, copy, err);
    if (status == QN_OK && json_array_append(list, copy) != 0) {
        status = no_memory(err);
    }
    json_decref(copy);
    return status;
}

qn_status qn_chat_messages_normalise(const json_t *messages, json_t **out, qn_unknown_fields *unknown, qn_error *err)
{
    if (!json_is_array(messages)) {
        return qn_fail_field(err, QN_USAGE, field_name, "messages: %s: send a list of messages",
                             messages == NULL ? "missing" : qn_json_type_name(messages));
    }
    size_t count = json_array_size(messages);
    if (count == 0 || count > QN_CHAT_MAX_MESSAGES) {
        return qn_fail_field(err, QN_USAGE, field_name, "messages: %zu messages: send 1 to %d", count,
                             QN_CHAT_MAX_MESSAGES);
    }
    size_t argument_values = 0;
    json_t *list = json_array();
    qn_status status = list != NULL ? QN_OK : no_memory(err);
    for (size_t i = 0; i < count && status == QN_OK; i++) {
        status = normalise_one(i, json_array_get(messages, i), &argument_values, list, unknown, err);
    }
    if (status != QN_OK) {
        json_decref(list);
        return status;
    }
    *out = list;
    return QN_OK;
}
