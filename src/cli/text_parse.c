#include "cli/text_parse.h"

#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/json_wide.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "text/output.h"

enum { TOOLS_MAX_BYTES = 16 << 20 };

qn_status qn_text_parse_tools(const char *path, qn_tool_list **out, qn_error *err)
{
    char *text = NULL;
    size_t bytes = 0;
    json_t *value = NULL;
    qn_status status = qn_file_read(path, TOOLS_MAX_BYTES, &text, &bytes, err);
    if (status == QN_OK) {
        status = qn_json_parse_wide(text, bytes, path, &value, err);
    }
    if (status == QN_OK) {
        status = qn_tool_list_new(qn_json_is_object(value) ? json_object_get(value, "tools") : value, out, err);
        status = status == QN_USAGE ? qn_fail(err, QN_BAD_INPUT, "%s", err->message) : status;
        status = status == QN_OK ? status : qn_error_prefix(err, "%s", path);
    }
    json_decref(value);
    qn_free(text);
    return status;
}

/* ---- from segments to tokens ---- */

/* The token of a byte that is no character. */
static qn_status add_byte(const qn_tokenizer *tokenizer, char byte, qn_tokens *out, qn_error *err)
{
    for (int32_t id = 0; (size_t)id < qn_tokenizer_size(tokenizer); id++) {
        size_t bytes = 0;
        const char *text = qn_tokenizer_token_bytes(tokenizer, id, &bytes);
        if (text != NULL && bytes == 1 && *text == byte && !qn_tokenizer_is_added(tokenizer, id)) {
            return qn_tokens_add(out, id) ? QN_OK : qn_fail_memory(err, "tokens", out->count * sizeof *out->ids);
        }
    }
    return qn_fail(err, QN_USAGE, "--chunk: the tokenizer has no token for a byte by itself: take another size");
}

/* Text, perhaps cut within characters, to ordinary tokens. */
static qn_status add_piece(const qn_tokenizer *tokenizer, const char *text, size_t bytes, qn_tokens *out, qn_error *err)
{
    qn_status status = QN_OK;
    for (size_t at = 0; at < bytes && status == QN_OK;) {
        size_t whole = at, length;
        uint32_t code;
        while (whole < bytes && (length = qn_utf8_decode(text + whole, bytes - whole, &code)) > 0) {
            whole += length;
        }
        if (whole > at) {
            const qn_span all = {0, whole - at};
            status = qn_tokenizer_encode(tokenizer, text + at, whole - at, &all, 1, out, err);
            at = whole;
        } else {
            status = add_byte(tokenizer, text[at++], out, err);
        }
    }
    return status;
}

static qn_status add_segment(const qn_text_parse *parse, const json_t *segment, qn_tokens *out, qn_error *err)
{
    if (json_is_string(segment)) {
        const char *text = json_string_value(segment);
        size_t bytes = json_string_length(segment), chunk = parse->chunk > 0 ? parse->chunk : bytes;
        qn_status status = QN_OK;
        for (size_t at = 0; at < bytes && status == QN_OK; at += chunk) {
            status = add_piece(parse->tokenizer, text + at, bytes - at < chunk ? bytes - at : chunk, out, err);
        }
        return status;
    }
    const char *name = json_array_size(segment) == 1 ? json_string_value(json_array_get(segment, 0)) : NULL;
    if (name == NULL) {
        return qn_fail(err, QN_USAGE, "output: %s: a segment is a text, or a list of one special token's name",
                       qn_json_type_name(segment));
    }
    int32_t id = qn_tokenizer_find_added(parse->tokenizer, name);
    if (id < 0) {
        return qn_fail(err, QN_USAGE, "output: %s: the tokenizer has no such token: give an added token's name", name);
    }
    return qn_tokens_add(out, id) ? QN_OK : qn_fail_memory(err, "tokens", out->count * sizeof *out->ids);
}

/* ---- from events to JSON ---- */

typedef struct message {
    qn_buffer reasoning, content;
    qn_buffer calls;     /* JSON of the calls, but for the arguments of an open one */
    qn_buffer arguments; /* of the open call */
    bool call_open;
    bool calls_begun;
} message;

static void free_message(message *m)
{
    qn_buffer_free(&m->reasoning);
    qn_buffer_free(&m->content);
    qn_buffer_free(&m->calls);
    qn_buffer_free(&m->arguments);
}

/* A model's JSON may have line breaks between its tokens, but not within strings. */
static void keep_in_line(qn_buffer *json)
{
    for (size_t i = 0; i < json->size; i++) {
        if (json->data[i] == '\n' || json->data[i] == '\r') {
            json->data[i] = ' ';
        }
    }
}

static void take_event(message *m, const qn_output_event *event)
{
    switch (event->kind) {
    case QN_OUTPUT_REASONING:
        qn_buffer_append(&m->reasoning, event->text, event->bytes);
        break;
    case QN_OUTPUT_CONTENT:
        qn_buffer_append(&m->content, event->text, event->bytes);
        break;
    case QN_OUTPUT_CALL:
        qn_buffer_text(&m->calls, m->calls_begun ? ",{\"name\":" : "{\"name\":");
        qn_buffer_json_string(&m->calls, event->text, event->bytes);
        qn_buffer_text(&m->calls, ",\"arguments\":");
        m->call_open = m->calls_begun = true;
        break;
    case QN_OUTPUT_ARGUMENTS:
        qn_buffer_append(&m->arguments, event->text, event->bytes);
        break;
    case QN_OUTPUT_CALL_END:
        keep_in_line(&m->arguments);
        qn_buffer_append(&m->calls, m->arguments.data, m->arguments.size);
        qn_buffer_char(&m->calls, '}');
        m->arguments.size = 0;
        m->call_open = false;
        break;
    }
}

static void write_text(qn_buffer *out, const qn_buffer *text)
{
    if (text->size == 0) {
        qn_buffer_text(out, "null");
    } else {
        qn_buffer_json_string(out, text->data, text->size);
    }
}

static void write_message(const message *m, qn_buffer *out)
{
    qn_buffer_text(out, "{\"reasoning\":");
    write_text(out, &m->reasoning);
    qn_buffer_text(out, ",\"content\":");
    write_text(out, &m->content);
    qn_buffer_text(out, ",\"tool_calls\":[");
    qn_buffer_append(out, m->calls.data, m->calls.size);
    if (m->call_open) {
        qn_buffer_json_string(out, qn_buffer_string(&m->arguments), m->arguments.size);
        qn_buffer_char(out, '}');
    }
    qn_buffer_text(out, "]}");
    out->failed = out->failed || m->reasoning.failed || m->content.failed || m->calls.failed || m->arguments.failed;
}

static void write_delta(const qn_output_event *event, qn_buffer *out, size_t start)
{
    bool call = event->kind == QN_OUTPUT_CALL || event->kind == QN_OUTPUT_ARGUMENTS;
    if (event->kind == QN_OUTPUT_CALL_END) {
        return;
    }
    qn_buffer_text(out, out->size > start ? "," : "");
    if (call) {
        qn_buffer_format(out, "{\"tool_calls\":[{\"index\":%zu,\"%s\":", event->call,
                         event->kind == QN_OUTPUT_CALL ? "name" : "arguments");
    } else {
        qn_buffer_text(out, event->kind == QN_OUTPUT_REASONING ? "{\"reasoning\":" : "{\"content\":");
    }
    qn_buffer_json_string(out, event->text, event->bytes);
    qn_buffer_text(out, call ? "}]}" : "}");
}

/* ---- a line ---- */

static void take_events(const qn_text_parse *parse, qn_output_stream *stream, message *m, qn_buffer *out, size_t start)
{
    size_t count;
    const qn_output_event *events = qn_output_stream_events(stream, &count);
    for (size_t i = 0; i < count; i++) {
        if (parse->stream) {
            write_delta(&events[i], out, start);
        } else {
            take_event(m, &events[i]);
        }
    }
    qn_output_stream_clear(stream);
}

static qn_status run(const qn_text_parse *parse, const qn_tokens *tokens, const qn_output_options *options, bool cut,
                     qn_buffer *out, qn_error *err)
{
    qn_output_stream *stream = NULL;
    message m = {.call_open = false};
    qn_status status = qn_output_stream_new(parse->tokenizer, options, &stream, err);
    if (status != QN_OK) {
        return status;
    }
    qn_buffer_text(out, parse->stream ? "[" : "");
    size_t start = out->size;
    for (size_t i = 0; i < tokens->count && status == QN_OK; i++) {
        status = qn_output_stream_feed(stream, tokens->ids[i], err);
        take_events(parse, stream, &m, out, start);
    }
    if (status == QN_OK) {
        status = qn_output_stream_finish(stream, cut, err);
        take_events(parse, stream, &m, out, start);
    }
    if (parse->stream) {
        qn_buffer_char(out, ']');
    } else {
        write_message(&m, out);
    }
    free_message(&m);
    qn_output_stream_free(stream);
    return status;
}

qn_status qn_text_parse_line(const qn_text_parse *parse, const json_t *input, qn_buffer *out, qn_error *err)
{
    const json_t *output = json_object_get(input, "output"), *thinking = json_object_get(input, "thinking_prompt"),
                 *finish = json_object_get(input, "finish");
    if (!json_is_array(output)) {
        return qn_fail(err, QN_USAGE, "output: missing or no list: give {\"output\": [segments]}");
    }
    if (thinking != NULL && !json_is_boolean(thinking)) {
        return qn_fail(err, QN_USAGE, "thinking_prompt: %s: give true or false", qn_json_type_name(thinking));
    }
    const char *ended = json_string_value(finish != NULL ? finish : json_object_get(input, "finish_reason"));
    bool cut = ended != NULL && strcmp(ended, "length") == 0;
    if (finish != NULL && !cut && (ended == NULL || strcmp(ended, "stop") != 0)) {
        return qn_fail(err, QN_USAGE, "finish: give \"stop\" or \"length\"");
    }
    qn_tokens tokens = {0};
    qn_status status = QN_OK;
    for (size_t i = 0; i < json_array_size(output) && status == QN_OK; i++) {
        status = add_segment(parse, json_array_get(output, i), &tokens, err);
    }
    if (status == QN_OK) {
        const qn_output_options options = {.split = true,
                                           .in_reasoning = json_is_true(thinking),
                                           .tools = parse->tools};
        status = run(parse, &tokens, &options, cut, out, err);
    }
    qn_tokens_free(&tokens);
    return status == QN_OK && out->failed ? qn_fail_memory(err, "answer", out->size) : status;
}
