#include "server/responses_items.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "server/request_fields.h"

enum { ID_BYTES = 64, STEM_BYTES = 32 };

static const char response_prefix[] = "resp_";

static const char id_characters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";

/* ---- writing ---- */

static void write_string(qn_buffer *out, const json_t *value)
{
    qn_buffer_json_string(out, json_string_value(value), json_string_length(value));
}

static void write_member(qn_buffer *out, const json_t *item, const char *name)
{
    qn_buffer_format(out, ",\"%s\":", name);
    write_string(out, json_object_get(item, name));
}

static void open_item(qn_buffer *out, const json_t *item, const char *prefix, const char *stem, size_t index)
{
    const json_t *id = json_object_get(item, "id");
    const char *text = json_string_value(id);
    size_t bytes = json_string_length(id);
    if (bytes > 0 && bytes <= ID_BYTES && strspn(text, id_characters) == bytes) {
        qn_buffer_format(out, "{\"id\":\"%s\"", text);
    } else {
        qn_buffer_format(out, "{\"id\":\"%s_%si%04zx\"", prefix, stem, index);
    }
}

/* A list of parts, each of one kind; a string is one part, or none where it is empty. */
static void write_parts(qn_buffer *out, const json_t *content, const char *kind)
{
    qn_buffer_char(out, '[');
    size_t count = json_is_string(content) ? json_string_length(content) > 0 : json_array_size(content);
    for (size_t i = 0; i < count; i++) {
        qn_buffer_format(out, "%s{\"type\":\"%s\",", i > 0 ? "," : "", kind);
        qn_buffer_text(out, strcmp(kind, "output_text") == 0 ? "\"annotations\":[],\"logprobs\":[]," : "");
        qn_buffer_text(out, "\"text\":");
        write_string(out, json_is_string(content) ? content : json_object_get(json_array_get(content, i), "text"));
        qn_buffer_char(out, '}');
    }
    qn_buffer_char(out, ']');
}

static void write_message(qn_buffer *out, const json_t *item, const char *stem, size_t index)
{
    const char *role = json_string_value(json_object_get(item, "role"));
    open_item(out, item, "msg", stem, index);
    qn_buffer_format(out, ",\"type\":\"message\",\"status\":\"completed\",\"role\":\"%s\",\"content\":", role);
    write_parts(out, json_object_get(item, "content"), strcmp(role, "assistant") == 0 ? "output_text" : "input_text");
    qn_buffer_char(out, '}');
}

static void write_reasoning(qn_buffer *out, const json_t *item, const char *stem, size_t index)
{
    open_item(out, item, "rs", stem, index);
    qn_buffer_text(out, ",\"type\":\"reasoning\",\"status\":\"completed\",\"summary\":");
    write_parts(out, qn_field_get(item, "summary"), "summary_text");
    qn_buffer_text(out, ",\"content\":");
    write_parts(out, qn_field_get(item, "content"), "reasoning_text");
    qn_buffer_char(out, '}');
}

static void write_call(qn_buffer *out, const json_t *item, const char *stem, size_t index)
{
    open_item(out, item, "fc", stem, index);
    qn_buffer_text(out, ",\"type\":\"function_call\",\"status\":\"completed\"");
    write_member(out, item, "call_id");
    write_member(out, item, "name");
    write_member(out, item, "arguments");
    qn_buffer_char(out, '}');
}

static void write_call_output(qn_buffer *out, const json_t *item, const char *stem, size_t index)
{
    const json_t *output = json_object_get(item, "output");
    open_item(out, item, "fco", stem, index);
    qn_buffer_text(out, ",\"type\":\"function_call_output\",\"status\":\"completed\"");
    write_member(out, item, "call_id");
    qn_buffer_text(out, ",\"output\":");
    if (json_is_string(output)) {
        write_string(out, output);
    } else {
        write_parts(out, output, "input_text");
    }
    qn_buffer_char(out, '}');
}

static void write_item(qn_buffer *out, const json_t *item, const char *stem, size_t index)
{
    static const struct {
        const char *type;
        void (*write)(qn_buffer *out, const json_t *item, const char *stem, size_t index);
    } kinds[] = {{"reasoning", write_reasoning},
                 {"function_call", write_call},
                 {"function_call_output", write_call_output}};
    const char *type = json_string_value(json_object_get(item, "type"));
    for (size_t i = 0; type != NULL && i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i].type, type) == 0) {
            kinds[i].write(out, item, stem, index);
            return;
        }
    }
    write_message(out, item, stem, index); /* whose type may be left out */
}

void qn_responses_items_write(const json_t *input, const char *response_id, qn_buffer *out)
{
    const char *stem = response_id + strlen(response_prefix);
    qn_buffer_char(out, '[');
    if (json_is_string(input)) {
        open_item(out, NULL, "msg", stem, 0);
        qn_buffer_text(out, ",\"type\":\"message\",\"status\":\"completed\",\"role\":\"user\",\"content\":");
        write_parts(out, input, "input_text");
        qn_buffer_char(out, '}');
    }
    for (size_t i = 0; i < json_array_size(input); i++) {
        qn_buffer_text(out, i > 0 ? "," : "");
        write_item(out, json_array_get(input, i), stem, i);
    }
    qn_buffer_char(out, ']');
}

/* ---- reading ---- */

bool qn_responses_items_origin(const char *item_id, char out[QN_RESPONSE_ID_BYTES])
{
    const char *stem = strchr(item_id, '_');
    if (stem == NULL || strspn(stem + 1, "0123456789abcdef") < STEM_BYTES) {
        return false;
    }
    snprintf(out, QN_RESPONSE_ID_BYTES, "%s%.*s", response_prefix, STEM_BYTES, stem + 1);
    return true;
}

/* Past the value that begins with a bracket. */
static const char *skip_value(const char *at, const char *end)
{
    size_t depth = 0;
    for (bool in_string = false; at < end; at++) {
        if (in_string) {
            if (*at == '\\') {
                at++;
            } else {
                in_string = *at != '"';
            }
        } else if (*at == '"') {
            in_string = true;
        } else if (*at == '{' || *at == '[') {
            depth++;
        } else if ((*at == '}' || *at == ']') && --depth == 0) {
            return at + 1;
        }
    }
    return end;
}

bool qn_responses_items_next(qn_stored_text array, size_t *at, qn_stored_text *item, qn_stored_text *id)
{
    static const char head[] = "{\"id\":\"";
    const char *end = array.text + array.bytes;
    const char *start = array.text + *at + 1; /* behind the bracket, or the comma */
    if (start >= end || *start != '{') {
        return false;
    }
    const char *behind = skip_value(start, end);
    *item = (qn_stored_text){.text = start, .bytes = (size_t)(behind - start)};
    *at = (size_t)(behind - array.text);
    id->text = start + strlen(head);
    id->bytes = 0;
    while (id->text + id->bytes < behind && strchr(id_characters, id->text[id->bytes]) != NULL) {
        id->bytes++;
    }
    return true;
}

qn_status qn_responses_items_before(const qn_stored_response *last, qn_stored_text **out, size_t *count, qn_error *err)
{
    size_t responses = 0;
    for (const qn_stored_response *r = last; r != NULL; r = qn_stored_previous(r)) {
        responses++;
    }
    qn_stored_text *texts = qn_alloc(2 * responses, sizeof *texts);
    if (texts == NULL) {
        return qn_fail_memory(err, "conversation", 2 * responses * sizeof *texts);
    }
    size_t at = 2 * responses;
    for (const qn_stored_response *r = last; r != NULL; r = qn_stored_previous(r)) {
        texts[--at] = qn_stored_output(r);
        texts[--at] = qn_stored_input(r);
    }
    *out = texts;
    *count = 2 * responses;
    return QN_OK;
}

qn_status qn_responses_items_parse(const qn_stored_text *arrays, size_t count, json_t **out, qn_error *err)
{
    json_t *all = json_array();
    qn_status status = all != NULL ? QN_OK : qn_fail_memory(err, "conversation", sizeof(json_t));
    for (size_t i = 0; i < count && status == QN_OK; i++) {
        json_t *items = NULL;
        status = qn_json_parse(arrays[i].text, arrays[i].bytes, "conversation", &items, err);
        if (status == QN_OK && json_array_extend(all, items) != 0) {
            status = qn_fail_memory(err, "conversation", arrays[i].bytes);
        }
        json_decref(items);
    }
    if (status != QN_OK) {
        json_decref(all);
        return status;
    }
    *out = all;
    return QN_OK;
}
