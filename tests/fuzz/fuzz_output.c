/* room: text */
/* clang-format off */
/* covers: src/text/output.c src/text/output_events.c src/text/tool_call.c src/text/tool_json.c src/text/tool_list.c src/text/argument_type.c */
/* clang-format on */
/* max_len: 320 */
/* A request's tools as JSON, and behind a NUL what a model emits: a byte of options, then tokens, a byte each. Bytes
 * below 15 are markup, 15 makes the next byte one of text as it is. Held besides the sanitizers: events come in order,
 * their text is UTF-8, the arguments of a complete call are one JSON object, and reading after each token or at the end
 * gives the same. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/json_wide.h"
#include "base/utf8.h"
#include "text/output.h"

enum { MARKUP = 15, CUT = 1, THINKING = 2, RAW = 4, STOP = 8 };

/* Where the input brings no tools: parameters of every kind. */
static const char default_tools[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"properties\":{\"s\":{\"type\":\"string\"},"
    "\"i\":{\"type\":\"integer\"},\"f\":{\"type\":\"number\"},\"b\":{\"type\":\"boolean\"},\"l\":{\"type\":\"array\"},"
    "\"o\":{\"type\":\"object\"},\"n\":{\"type\":[\"string\",\"null\"]},\"x\":{\"anyOf\":[{\"type\":\"string\"},"
    "{\"type\":\"number\"}]},\"any\":{},\"r\":{\"$ref\":\"#/$defs/t\"},\"e\":{\"enum\":[1,\"1\",null]}},"
    "\"$defs\":{\"t\":{\"type\":\"string\"}}}}},{\"type\":\"function\",\"function\":{\"name\":\"now\"}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"f_2\",\"parameters\":{\"properties\":{\"city\":{\"type\":"
    "\"string\"}}}}}]";

static qn_tokenizer *tokenizer;
static qn_tool_list *known_tools; /* of default_tools */
static int32_t markup[MARKUP], bytes_of[256];

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds) {
        abort();
    }
}

/* NULL: they are refused. */
static qn_tool_list *parse_tools(const char *text, size_t bytes)
{
    json_t *value = NULL;
    qn_tool_list *tools = NULL;
    qn_error err;
    if (qn_json_parse_wide(text, bytes, "tools", &value, &err) == QN_OK &&
        qn_tool_list_new(value, &tools, &err) != QN_OK) {
        require(strcmp(err.field, "tools") == 0 && err.message[0] != '\0');
    }
    json_decref(value);
    return tools;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    static const char *const names[MARKUP] = {"<tool_call>", "</tool_call>", "<arg_key>",    "</arg_key>",
                                              "<arg_value>", "</arg_value>", "<think>",      "</think>",
                                              "<|user|>",    "<tool_call>",  "</tool_call>", "<arg_key>",
                                              "</arg_key>",  "<arg_value>",  "</arg_value>"};
    qn_error err;
    qn_json_init();
    known_tools = parse_tools(default_tools, sizeof default_tools - 1);
    require(known_tools != NULL);
    require(qn_tokenizer_open("models/quern-tiny", &tokenizer, &err) == QN_OK);
    for (size_t i = 0; i < MARKUP; i++) {
        markup[i] = qn_tokenizer_find_added(tokenizer, names[i]);
    }
    for (int32_t id = 0; (size_t)id < qn_tokenizer_size(tokenizer); id++) {
        size_t bytes = 0;
        const char *text = qn_tokenizer_token_bytes(tokenizer, id, &bytes);
        if (text != NULL && bytes == 1) {
            bytes_of[(unsigned char)*text] = id;
        }
    }
    return 0;
}

typedef struct heard {
    qn_buffer kinds[3];  /* text of content, of reasoning, of calls */
    qn_buffer arguments; /* of the last call */
    size_t calls, ended;
} heard;

static void check_arguments(const heard *h)
{
    json_t *value = NULL;
    qn_error err;
    qn_status status = qn_json_parse_wide(qn_buffer_string(&h->arguments), h->arguments.size, "arguments", &value,
                                          &err);
    /* JSON beyond what this parser takes: one level more than a value may have, and NUL in a key */
    bool beyond = status != QN_OK &&
                  (strstr(err.message, "deeper") != NULL || strstr(qn_buffer_string(&h->arguments), "\\u0000") != NULL);
    require(status == QN_OK ? json_is_object(value) : beyond);
    json_decref(value);
}

static void hear(qn_output_stream *stream, heard *h)
{
    size_t count;
    const qn_output_event *events = qn_output_stream_events(stream, &count);
    for (size_t i = 0; i < count; i++) {
        const qn_output_event *e = &events[i];
        bool text = e->kind == QN_OUTPUT_CONTENT || e->kind == QN_OUTPUT_REASONING;
        require(qn_utf8_valid(e->text, e->bytes) && e->text[e->bytes] == '\0');
        require((e->bytes > 0) == (e->kind != QN_OUTPUT_CALL_END));
        qn_buffer_append(&h->kinds[e->kind < QN_OUTPUT_CALL ? (size_t)e->kind : 2], e->text, e->bytes);
        if (e->kind == QN_OUTPUT_CALL) {
            require(e->call == h->calls && h->ended == h->calls);
            h->calls++;
            qn_buffer_clear(&h->arguments);
        } else if (!text) {
            require(e->call + 1 == h->calls && h->ended == e->call);
        }
        if (e->kind == QN_OUTPUT_ARGUMENTS) {
            qn_buffer_append(&h->arguments, e->text, e->bytes);
        } else if (e->kind == QN_OUTPUT_CALL_END) {
            h->ended++;
            check_arguments(h);
        }
    }
    qn_output_stream_clear(stream);
}

static void run(const qn_tool_list *tools, const uint8_t *data, size_t size, bool each, heard *h)
{
    static const char *const stops[] = {"stop", "\n\n"};
    uint8_t flags = size > 0 ? data[0] : 0;
    const qn_output_options options = {.split = (flags & RAW) == 0,
                                       .in_reasoning = (flags & THINKING) != 0,
                                       .tools = tools,
                                       .stop = stops,
                                       .stop_count = (flags & STOP) != 0 ? 2 : 0,
                                       .min_tokens = flags >> 4};
    qn_output_stream *stream = NULL;
    qn_error err;
    require(qn_output_stream_new(tokenizer, &options, &stream, &err) == QN_OK);
    for (size_t i = 1; i < size && qn_output_stream_stopped(stream) < 0; i++) {
        bool escaped = data[i] == MARKUP && i + 1 < size;
        i += escaped;
        int32_t token = data[i] < MARKUP && !escaped ? markup[data[i]] : bytes_of[data[i]];
        require(qn_output_stream_feed(stream, token, &err) == QN_OK);
        if (each) {
            hear(stream, h);
        }
    }
    require(qn_output_stream_finish(stream, (flags & CUT) != 0, &err) == QN_OK);
    hear(stream, h);
    qn_output_stream_free(stream);
}

static void compare(const qn_tool_list *tools, const uint8_t *data, size_t size)
{
    heard once = {.calls = 0}, each = {.calls = 0};
    run(tools, data, size, false, &once);
    run(tools, data, size, true, &each);
    require(once.calls == each.calls && once.ended == each.ended);
    for (size_t i = 0; i < 3; i++) {
        require(once.kinds[i].size == each.kinds[i].size &&
                memcmp(qn_buffer_string(&once.kinds[i]), qn_buffer_string(&each.kinds[i]), once.kinds[i].size) == 0);
        qn_buffer_free(&once.kinds[i]);
        qn_buffer_free(&each.kinds[i]);
    }
    qn_buffer_free(&once.arguments);
    qn_buffer_free(&each.arguments);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = size > 0 ? memchr(data, '\0', size) : NULL;
    size_t tools_bytes = end != NULL ? (size_t)(end - data) : 0;
    qn_tool_list *tools = tools_bytes > 0 ? parse_tools((const char *)data, tools_bytes) : NULL;
    compare(tools_bytes > 0 ? tools : known_tools, end != NULL ? end + 1 : data,
            end != NULL ? size - tools_bytes - 1 : size);
    qn_tool_list_free(tools);
    return 0;
}
