#include "text/tool_json.h"

#include <string.h>

#include "base/json_wide.h"

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

qn_tool_text qn_tool_json_trim_start(const char *text, size_t bytes)
{
    while (bytes > 0 && is_space(*text)) {
        text++;
        bytes--;
    }
    return (qn_tool_text){text, bytes};
}

qn_tool_text qn_tool_json_trim(const char *text, size_t bytes)
{
    qn_tool_text t = qn_tool_json_trim_start(text, bytes);
    while (t.bytes > 0 && is_space(t.text[t.bytes - 1])) {
        t.bytes--;
    }
    return t;
}

qn_tool_text qn_tool_json_first_word(qn_tool_text text)
{
    size_t length = 0;
    while (length < text.bytes && !is_space(text.text[length])) {
        length++;
    }
    return (qn_tool_text){text.text, length};
}

static bool is_json_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

bool qn_tool_json_may_begin(const char *text, size_t bytes)
{
    size_t at = 0;
    while (at < bytes && is_json_space(text[at])) {
        at++;
    }
    return at == bytes || (text[at] != '\0' && strchr("{[\"-0123456789tfn", text[at]) != NULL);
}

/* The end of the JSON string that starts at `at`. */
static size_t string_end(qn_tool_text json, size_t at)
{
    for (at++; at < json.bytes && json.text[at] != '"'; at++) {
        at += json.text[at] == '\\';
    }
    return at + 1;
}

/* The text of a member of an object that is known to be valid JSON; empty when it has none spelt so. */
static qn_tool_text member(qn_tool_text json, const char *key)
{
    size_t depth = 0, key_bytes = strlen(key);
    for (size_t at = 0; at < json.bytes;) {
        char c = json.text[at];
        if (c != '"') {
            depth += c == '{' || c == '[';
            depth -= c == '}' || c == ']';
            at++;
            continue;
        }
        size_t end = string_end(json, at), colon = end;
        bool named = depth == 1 && end - at == key_bytes + 2 && memcmp(json.text + at + 1, key, key_bytes) == 0;
        while (colon < json.bytes && is_json_space(json.text[colon])) {
            colon++;
        }
        at = end;
        if (named && colon < json.bytes && json.text[colon] == ':') {
            qn_tool_text value = qn_tool_json_trim_start(json.text + colon + 1, json.bytes - colon - 1);
            return value;
        }
    }
    return (qn_tool_text){"", 0};
}

/* Where the object that text starts with ends. */
static qn_tool_text object_at_start(qn_tool_text text)
{
    size_t depth = 0;
    for (size_t at = 0; at < text.bytes;) {
        char c = text.text[at];
        if (c == '"') {
            at = string_end(text, at);
            continue;
        }
        depth += c == '{' || c == '[';
        depth -= c == '}' || c == ']';
        at++;
        if (depth == 0) {
            return (qn_tool_text){text.text, at};
        }
    }
    return (qn_tool_text){text.text, 0};
}

/* *out NULL: the text is no JSON object. */
static qn_status parse_object(qn_tool_text text, json_t **out, qn_error *err)
{
    qn_error why;
    *out = NULL;
    if (text.bytes == 0 || text.text[0] != '{') {
        return QN_OK;
    }
    qn_status status = qn_json_parse_wide(text.text, text.bytes, "call", out, &why);
    if (status == QN_RESOURCE) {
        *err = why;
        return status;
    }
    return QN_OK;
}

static qn_status read_named(qn_tool_text text, qn_tool_json *out, qn_error *err)
{
    const json_t *name = json_object_get(out->value, "name");
    const char *key = json_object_get(out->value, "arguments") != NULL ? "arguments" : "parameters";
    const json_t *arguments = json_object_get(out->value, key);
    qn_tool_text name_text = qn_tool_json_trim(json_is_string(name) ? json_string_value(name) : "",
                                               json_string_length(name));
    if (arguments == NULL || json_is_null(arguments)) {
        out->arguments = (qn_tool_text){"{}", 2};
        out->name = name_text;
    } else if (qn_json_is_object(arguments)) {
        out->arguments = object_at_start(member(text, key));
        out->name = out->arguments.bytes > 0 ? name_text : out->name;
    } else if (json_is_string(arguments)) {
        json_t *inner = NULL;
        qn_tool_text spelt = qn_tool_json_trim(json_string_value(arguments), json_string_length(arguments));
        qn_status status = parse_object(spelt, &inner, err);
        if (inner != NULL) {
            out->arguments = spelt;
            out->name = name_text;
        }
        json_decref(inner);
        return status;
    }
    return QN_OK;
}

qn_status qn_tool_json_read(qn_tool_text text, const qn_tool_list *tools, qn_tool_json *out, qn_error *err)
{
    *out = (qn_tool_json){0};
    if (text.text[0] == '{') {
        qn_status status = parse_object(text, &out->value, err);
        return status == QN_OK && out->value != NULL ? read_named(text, out, err) : status;
    }
    qn_tool_text name = qn_tool_json_first_word(text);
    qn_tool_text rest = qn_tool_json_trim(text.text + name.bytes, text.bytes - name.bytes);
    if (qn_tool_list_find(tools, name.text, name.bytes) == NULL) {
        return QN_OK;
    }
    qn_status status = parse_object(rest, &out->value, err);
    if (status == QN_OK && out->value != NULL) {
        out->name = name;
        out->arguments = rest;
    }
    return status;
}

void qn_tool_json_free(qn_tool_json *json)
{
    json_decref(json->value);
    *json = (qn_tool_json){0};
}
