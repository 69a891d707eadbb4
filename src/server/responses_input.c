#include "server/responses_input.h"

#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/json.h"
#include "base/json_wide.h"
#include "server/chat_messages.h"
#include "server/request_body.h"

/* A translation in progress. */
typedef struct reader {
    json_t *messages;
    json_t *turn;           /* the assistant's message that items are added to, in `messages`; NULL: none */
    size_t argument_values; /* in the strings of all arguments */
    qn_unknown_fields *unknown;
} reader;

static qn_status no_memory(qn_error *err)
{
    return qn_fail_memory(err, "input", sizeof(json_t));
}

static qn_status bad_item(size_t index, const char *reason, qn_error *err)
{
    return qn_fail_field(err, QN_USAGE, "input", "input[%zu]%s", index, reason);
}

static const char *type_of(const json_t *item)
{
    const char *type = json_string_value(json_object_get(item, "type"));
    return type != NULL ? type : "";
}

/* ---- text ---- */

static qn_status append_part(size_t index, const char *member, size_t at, const json_t *part, qn_buffer *text,
                             qn_error *err)
{
    static const char *const kinds[] = {"input_text", "output_text", "text", "reasoning_text", "summary_text"};
    const char *type = type_of(part);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const json_t *value = json_object_get(part, "text");
        if (strcmp(type, kinds[i]) != 0) {
            continue;
        }
        if (!json_is_string(value)) {
            return qn_fail_field(err, QN_USAGE, "input", "input[%zu].%s[%zu].text: send a string", index, member, at);
        }
        qn_buffer_append(text, json_string_value(value), json_string_length(value));
        return QN_OK;
    }
    return qn_fail_field(err, QN_USAGE, "input",
                         "input[%zu].%s[%zu]: type %.40s: this is a text model, send input_text", index, member, at,
                         type[0] != '\0' ? type : "missing");
}

/* The text of a member, a string or a list of parts, joined; *out is new. */
static qn_status read_text(size_t index, const json_t *item, const char *member, json_t **out, qn_error *err)
{
    const json_t *content = qn_field_get(item, member);
    if (json_is_string(content)) {
        *out = json_incref((json_t *)(uintptr_t)content);
        return QN_OK;
    }
    if (!json_is_array(content)) {
        return qn_fail_field(err, QN_USAGE, "input", "input[%zu].%s: %s: send a string or a list of parts", index,
                             member, content == NULL ? "missing" : qn_json_type_name(content));
    }
    qn_buffer text = {0};
    qn_status status = QN_OK;
    for (size_t i = 0; i < json_array_size(content) && status == QN_OK; i++) {
        status = append_part(index, member, i, json_array_get(content, i), &text, err);
    }
    if (status == QN_OK) {
        *out = text.failed ? NULL : json_stringn(qn_buffer_string(&text), text.size);
        status = *out != NULL ? QN_OK : no_memory(err);
    }
    qn_buffer_free(&text);
    return status;
}

/* Takes `content`. */
static qn_status append_message(reader *r, const char *role, json_t *content, qn_error *err)
{
    json_t *message = json_pack("{s:s, s:o}", "role", role, "content", content);
    return message != NULL && json_array_append_new(r->messages, message) == 0 ? QN_OK : no_memory(err);
}

/* ---- the assistant's turn ---- */

/* Items after its calls, and a second text, begin another turn. */
static qn_status open_turn(reader *r, bool for_call, qn_error *err)
{
    bool has_calls = json_object_get(r->turn, "tool_calls") != NULL;
    bool has_text = json_string_length(json_object_get(r->turn, "content")) > 0;
    if (r->turn != NULL && (for_call || !(has_calls || has_text))) {
        return QN_OK;
    }
    qn_status status = append_message(r, "assistant", json_string(""), err);
    r->turn = status == QN_OK ? json_array_get(r->messages, json_array_size(r->messages) - 1) : NULL;
    return status;
}

static bool has_parts(const json_t *content)
{
    return json_is_string(content) ? json_string_length(content) > 0 : json_array_size(content) > 0;
}

/* OpenAI's own thoughts are encrypted and tell this model nothing; quern's are content, others' may be a summary. */
static qn_status take_reasoning(reader *r, size_t index, const json_t *item, qn_error *err)
{
    const char *member = has_parts(qn_field_get(item, "content")) ? "content" : "summary";
    if (!has_parts(qn_field_get(item, member))) {
        return QN_OK;
    }
    json_t *text = NULL;
    qn_status status = read_text(index, item, member, &text, err);
    if (status == QN_OK) {
        status = open_turn(r, false, err);
    }
    if (status == QN_OK && json_object_set(r->turn, "reasoning_content", text) != 0) {
        status = no_memory(err);
    }
    json_decref(text);
    return status;
}

/* Parsed here, where what is wrong with it can be told by its item. */
static qn_status read_arguments(size_t index, const json_t *text, json_t **out, qn_error *err)
{
    if (json_string_length(text) == 0) {
        *out = json_object();
        return *out != NULL ? QN_OK : no_memory(err);
    }
    qn_error inner;
    qn_status status = qn_json_parse_wide(json_string_value(text), json_string_length(text), "arguments", out, &inner);
    if (status == QN_BAD_INPUT) {
        return qn_fail_field(err, QN_USAGE, "input", "input[%zu].arguments: not JSON: %s", index, inner.message);
    }
    if (status != QN_OK) {
        *err = inner;
        return status;
    }
    if (!qn_json_is_object(*out)) {
        qn_fail_field(err, QN_USAGE, "input",
                      "input[%zu].arguments: the text of JSON that is %s: send that of an object", index,
                      qn_json_type_name(*out));
        json_decref(*out);
        *out = NULL;
        return QN_USAGE;
    }
    return QN_OK;
}

static qn_status take_call(reader *r, size_t index, const json_t *item, qn_error *err)
{
    const json_t *id = json_object_get(item, "call_id");
    const json_t *name = json_object_get(item, "name");
    const json_t *arguments = json_object_get(item, "arguments");
    if (!json_is_string(id) || !json_is_string(name) || !json_is_string(arguments)) {
        return bad_item(index, ": send call_id, name and arguments as strings", err);
    }
    r->argument_values += qn_request_count_values(json_string_value(arguments), json_string_length(arguments));
    if (r->argument_values > QN_BODY_MAX_VALUES) {
        return bad_item(index, ".arguments: too many JSON values in all of them: send a smaller request", err);
    }
    qn_status status = open_turn(r, true, err);
    if (status != QN_OK) {
        return status;
    }
    json_t *calls = json_object_get(r->turn, "tool_calls");
    if (calls == NULL) {
        calls = json_array();
        if (calls == NULL || json_object_set_new(r->turn, "tool_calls", calls) != 0) {
            return no_memory(err);
        }
    }
    json_t *parsed = NULL;
    status = read_arguments(index, arguments, &parsed, err);
    if (status != QN_OK) {
        return status;
    }
    json_t *call = json_pack("{s:O, s:s, s:{s:O, s:o}}", "id", id, "type", "function", "function", "name", name,
                             "arguments", parsed);
    return call != NULL && json_array_append_new(calls, call) == 0 ? QN_OK : no_memory(err);
}

/* ---- items ---- */

static qn_status take_message(reader *r, size_t index, const json_t *item, qn_error *err)
{
    static const struct {
        const char *name, *role;
    } roles[] = {{"user", "user"}, {"system", "system"}, {"developer", "system"}, {"assistant", "assistant"}};
    const char *name = json_string_value(json_object_get(item, "role"));
    size_t at = 0;
    while (name != NULL && at < 4 && strcmp(roles[at].name, name) != 0) {
        at++;
    }
    if (name == NULL || at == 4) {
        return bad_item(index, ".role: send user, assistant, system or developer", err);
    }
    json_t *text = NULL;
    qn_status status = read_text(index, item, "content", &text, err);
    if (status != QN_OK) {
        return status;
    }
    if (strcmp(roles[at].role, "assistant") != 0) {
        r->turn = NULL;
        return append_message(r, roles[at].role, text, err);
    }
    status = open_turn(r, false, err);
    if (status == QN_OK && json_object_set(r->turn, "content", text) != 0) {
        status = no_memory(err);
    }
    json_decref(text);
    return status;
}

static qn_status take_output(reader *r, size_t index, const json_t *item, qn_error *err)
{
    const json_t *id = json_object_get(item, "call_id");
    if (!json_is_string(id)) {
        return bad_item(index, ".call_id: missing or not a string: send that of the call", err);
    }
    json_t *text = NULL;
    qn_status status = read_text(index, item, "output", &text, err);
    if (status != QN_OK) {
        return status;
    }
    r->turn = NULL;
    json_t *message = json_pack("{s:s, s:o, s:O}", "role", "tool", "content", text, "tool_call_id", id);
    return message != NULL && json_array_append_new(r->messages, message) == 0 ? QN_OK : no_memory(err);
}

static const qn_field message_item[] = {
    {.name = "type"},
    {.name = "role"},
    {.name = "content"},
    {.name = "id", .rule = QN_FIELD_FREE},
    {.name = "status", .rule = QN_FIELD_FREE},
    {.name = "phase", .rule = QN_FIELD_FREE},
};
static const qn_field reasoning_item[] = {
    {.name = "type"},
    {.name = "content"},
    {.name = "summary"},
    {.name = "id", .rule = QN_FIELD_FREE},
    {.name = "status", .rule = QN_FIELD_FREE},
    {.name = "encrypted_content", .rule = QN_FIELD_FREE},
};
static const qn_field call_item[] = {
    {.name = "type"},
    {.name = "call_id"},
    {.name = "name"},
    {.name = "arguments"},
    {.name = "id", .rule = QN_FIELD_FREE},
    {.name = "status", .rule = QN_FIELD_FREE},
};
static const qn_field output_item[] = {
    {.name = "type"},
    {.name = "call_id"},
    {.name = "output"},
    {.name = "id", .rule = QN_FIELD_FREE},
    {.name = "status", .rule = QN_FIELD_FREE},
};

#define FIELDS(table) .fields = (table), .field_count = sizeof(table) / sizeof(table)[0]
static const struct kind {
    const char *type;
    const qn_field *fields;
    size_t field_count;
    qn_status (*take)(reader *r, size_t index, const json_t *item, qn_error *err);
} kinds[] = {
    {"", FIELDS(message_item), take_message}, /* the type may be left out */
    {"message", FIELDS(message_item), take_message}, {"reasoning", FIELDS(reasoning_item), take_reasoning},
    {"function_call", FIELDS(call_item), take_call}, {"function_call_output", FIELDS(output_item), take_output},
};
#undef FIELDS

static qn_status take_item(reader *r, size_t index, const json_t *item, qn_error *err)
{
    const char *type = type_of(item);
    if (!qn_json_is_object(item)) {
        return bad_item(index, ": not an object: send items", err);
    }
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i].type, type) == 0) {
            qn_fields_check(item, kinds[i].fields, kinds[i].field_count, r->unknown, err);
            return kinds[i].take(r, index, item, err);
        }
    }
    return qn_fail_field(
        err, QN_USAGE, "input",
        "input[%zu]: type %.40s: send message, reasoning, function_call, function_call_output or item_reference", index,
        type);
}

static qn_status take_items(reader *r, const json_t *items, qn_error *err)
{
    qn_status status = QN_OK;
    for (size_t i = 0; i < json_array_size(items) && status == QN_OK; i++) {
        status = take_item(r, i, json_array_get(items, i), err);
    }
    return status;
}

static qn_status take_input(reader *r, const json_t *input, size_t before, qn_error *err)
{
    if (json_is_string(input)) {
        return append_message(r, "user", json_incref((json_t *)(uintptr_t)input), err);
    }
    if (!json_is_array(input)) {
        return qn_fail_field(err, QN_USAGE, "input", "input: %s: send a string or a list of items",
                             input == NULL ? "missing" : qn_json_type_name(input));
    }
    size_t count = json_array_size(input);
    if (count == 0 || count > QN_CHAT_MAX_MESSAGES - before) {
        return qn_fail_field(err, QN_USAGE, "input", "input: %zu items, %zu before them: send 1 to %d in all", count,
                             before, QN_CHAT_MAX_MESSAGES);
    }
    return take_items(r, input, err);
}

qn_status qn_responses_input_translate(const json_t *history, const json_t *input, json_t *messages,
                                       qn_unknown_fields *unknown, qn_error *err)
{
    reader r = {.messages = messages, .unknown = unknown};
    size_t before = json_array_size(history);
    if (before >= QN_CHAT_MAX_MESSAGES) {
        return qn_fail_field(err, QN_USAGE, "input", "input: %zu items before it: begin a new conversation", before);
    }
    qn_status status = take_items(&r, history, err);
    return status == QN_OK ? take_input(&r, input, before, err) : status;
}
