/* Tool calls out of tokens: every case of tests/data/tool_calls under 100 random ways to cut its text into tokens, read
 * after any number of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_wide.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/utf8.h"
#include "text/output.h"
#include "text/tool_call.h"
#include "unit/random_stream.h"
#include "unit/shipped_tokenizer.h"

enum { CUTTINGS = 100, CALLS_MAX = 8 };

static qn_tokenizer *tokenizer;
static qn_tool_list *tools;
static int32_t byte_ids[256];

static json_t *parse(const char *text, size_t bytes)
{
    json_t *value = NULL;
    qn_error err;
    if (qn_json_parse_wide(text, bytes, "case", &value, &err) != QN_OK) {
        fail_msg("%s: %.*s", err.message, (int)bytes, text);
    }
    return value;
}

/* The lines of a file of cases, as an array. */
static json_t *read_cases(const char *path)
{
    char *text = NULL;
    size_t bytes = 0;
    qn_error err;
    json_t *cases = json_array();
    assert_int_equal(qn_file_read(path, 1 << 20, &text, &bytes, &err), QN_OK);
    for (char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        json_array_append_new(cases, parse(line, (size_t)(end - line)));
    }
    qn_free(text);
    return cases;
}

static int open_all(void **state)
{
    (void)state;
    qn_error err;
    qn_json_init();
    if (shipped_tokenizer_open(&tokenizer, NULL) != 0) {
        return -1;
    }
    json_t *cases = read_cases("tests/data/tool_calls/glm.jsonl");
    qn_status status = qn_tool_list_new(json_object_get(json_array_get(cases, 0), "tools"), &tools, &err);
    json_decref(cases);
    for (int32_t id = 0; (size_t)id < qn_tokenizer_size(tokenizer); id++) {
        size_t bytes = 0;
        const char *text = qn_tokenizer_token_bytes(tokenizer, id, &bytes);
        if (text != NULL && bytes == 1) {
            byte_ids[(unsigned char)*text] = id;
        }
    }
    return status == QN_OK ? 0 : -1;
}

static int close_all(void **state)
{
    (void)state;
    qn_tool_list_free(tools);
    qn_tokenizer_free(tokenizer);
    return 0;
}

/* ---- from a case to tokens ---- */

/* Ordinary tokens for a piece, which may begin and end within a character. */
static void add_piece(const char *text, size_t bytes, qn_tokens *out)
{
    qn_error err;
    for (size_t at = 0; at < bytes;) {
        size_t end = at, length;
        uint32_t code;
        while (end < bytes && (length = qn_utf8_decode(text + end, bytes - end, &code)) > 0) {
            end += length;
        }
        const qn_span all = {0, end - at};
        if (end > at) {
            assert_int_equal(qn_tokenizer_encode(tokenizer, text + at, end - at, &all, 1, out, &err), QN_OK);
            at = end;
        } else {
            assert_true(qn_tokens_add(out, byte_ids[(unsigned char)text[at++]]));
        }
    }
}

/* The case's tokens; its text is cut into pieces of 1 to `longest` bytes. */
static qn_tokens tokens_of(const json_t *output, random_stream *random, size_t longest)
{
    qn_tokens tokens = {0};
    for (size_t i = 0; i < json_array_size(output); i++) {
        const json_t *segment = json_array_get(output, i);
        if (json_is_array(segment)) {
            int32_t id = qn_tokenizer_find_added(tokenizer, json_string_value(json_array_get(segment, 0)));
            assert_true(id >= 0 && qn_tokens_add(&tokens, id));
            continue;
        }
        const char *text = json_string_value(segment);
        for (size_t at = 0, bytes = json_string_length(segment), piece; at < bytes; at += piece) {
            piece = 1 + random_word(random) % longest;
            piece = piece < bytes - at ? piece : bytes - at;
            add_piece(text + at, piece, &tokens);
        }
    }
    return tokens;
}

/* ---- from events to what is expected ---- */

typedef struct heard {
    qn_buffer reasoning, content, names[CALLS_MAX], arguments[CALLS_MAX];
    size_t calls, ended;
} heard;

static void hear(qn_output_stream *stream, heard *h)
{
    size_t count;
    const qn_output_event *events = qn_output_stream_events(stream, &count);
    for (size_t i = 0; i < count; i++) {
        const qn_output_event *e = &events[i];
        assert_int_equal(e->text[e->bytes], '\0');
        assert_true(qn_utf8_valid(e->text, e->bytes));
        switch (e->kind) {
        case QN_OUTPUT_REASONING:
            qn_buffer_append(&h->reasoning, e->text, e->bytes);
            break;
        case QN_OUTPUT_CONTENT:
            qn_buffer_append(&h->content, e->text, e->bytes);
            break;
        case QN_OUTPUT_CALL:
            assert_int_equal(e->call, h->calls);
            assert_int_equal(h->ended, h->calls); /* one at a time */
            assert_true(h->calls < CALLS_MAX);
            qn_buffer_append(&h->names[h->calls++], e->text, e->bytes);
            break;
        case QN_OUTPUT_ARGUMENTS:
            assert_int_equal(e->call + 1, h->calls);
            assert_int_equal(h->ended + 1, h->calls);
            qn_buffer_append(&h->arguments[e->call], e->text, e->bytes);
            break;
        case QN_OUTPUT_CALL_END:
            assert_int_equal(e->call, h->ended++);
            break;
        }
    }
    qn_output_stream_clear(stream);
}

static void free_heard(heard *h)
{
    qn_buffer_free(&h->reasoning);
    qn_buffer_free(&h->content);
    for (size_t i = 0; i < CALLS_MAX; i++) {
        qn_buffer_free(&h->names[i]);
        qn_buffer_free(&h->arguments[i]);
    }
}

static heard listen(const json_t *c, const qn_tool_list *with, const qn_tokens *tokens, random_stream *random)
{
    const qn_output_options options = {.split = true,
                                       .in_reasoning = json_is_true(json_object_get(c, "thinking_prompt")),
                                       .tools = with};
    bool cut = strcmp(json_string_value(json_object_get(c, "finish_reason")), "length") == 0;
    qn_output_stream *stream;
    qn_error err;
    heard h = {.calls = 0};
    assert_int_equal(qn_output_stream_new(tokenizer, &options, &stream, &err), QN_OK);
    for (size_t i = 0; i < tokens->count; i++) {
        assert_int_equal(qn_output_stream_feed(stream, tokens->ids[i], &err), QN_OK);
        if (random_word(random) % 4 == 0) {
            hear(stream, &h);
        }
    }
    assert_int_equal(qn_output_stream_finish(stream, cut, &err), QN_OK);
    hear(stream, &h);
    qn_output_stream_free(stream);
    return h;
}

static void check_text(const char *name, const json_t *expected, const qn_buffer *got)
{
    size_t bytes = json_is_string(expected) ? json_string_length(expected) : 0;
    if (got->size != bytes || (bytes > 0 && memcmp(got->data, json_string_value(expected), bytes) != 0)) {
        fail_msg("%s: got '%s'", name, qn_buffer_string(got));
    }
}

static void check_call(const char *name, const json_t *expected, const heard *h, size_t i)
{
    const json_t *arguments = json_object_get(expected, "arguments"),
                 *whole = json_object_get(expected, "arguments_prefix_of");
    check_text(name, json_object_get(expected, "name"), &h->names[i]);
    if (arguments != NULL) {
        json_t *got = parse(qn_buffer_string(&h->arguments[i]), h->arguments[i].size);
        if (!json_equal(got, arguments)) {
            fail_msg("%s: got %s", name, qn_buffer_string(&h->arguments[i]));
        }
        json_decref(got);
        assert_true(i < h->ended);
    } else {
        char text[256]; /* json_dumps would be released by jansson's own function */
        size_t length = json_dumpb(whole, text, sizeof text - 1, JSON_PRESERVE_ORDER);
        assert_true(length < sizeof text);
        text[length] = '\0';
        if (strncmp(text, qn_buffer_string(&h->arguments[i]), h->arguments[i].size) != 0) {
            fail_msg("%s: got %s", name, qn_buffer_string(&h->arguments[i]));
        }
        assert_int_equal(i, h->ended);
    }
}

static void check(const json_t *c, const heard *h)
{
    const char *name = json_string_value(json_object_get(c, "name"));
    const json_t *calls = json_object_get(c, "tool_calls");
    check_text(name, json_object_get(c, "reasoning"), &h->reasoning);
    check_text(name, json_object_get(c, "content"), &h->content);
    if (h->calls != json_array_size(calls)) {
        fail_msg("%s: %zu calls", name, h->calls);
    }
    for (size_t i = 0; i < h->calls; i++) {
        check_call(name, json_array_get(calls, i), h, i);
    }
}

static void check_file(const char *path, size_t first)
{
    random_stream random = {.seed = qn_random_seed()};
    print_message("seed %llu\n", (unsigned long long)random.seed);
    json_t *cases = read_cases(path);
    assert_true(json_array_size(cases) > first + 20);
    for (size_t i = first; i < json_array_size(cases); i++) {
        const json_t *c = json_array_get(cases, i);
        for (size_t cutting = 0; cutting < CUTTINGS; cutting++) {
            qn_tokens tokens = tokens_of(json_object_get(c, "output"), &random, 1 + cutting % 12);
            heard h = listen(c, tools, &tokens, &random);
            check(c, &h);
            free_heard(&h);
            qn_tokens_free(&tokens);
        }
    }
    json_decref(cases);
}

static void given_cases(void **state)
{
    (void)state;
    check_file("tests/data/tool_calls/glm.jsonl", 1);
}

static void own_cases(void **state)
{
    (void)state;
    check_file("tests/data/tool_calls/own.jsonl", 0);
}

/* ---- besides the cases ---- */

static void add_text(const char *text, qn_tokens *tokens)
{
    qn_error err;
    assert_int_equal(qn_tokenizer_encode(tokenizer, text, strlen(text), NULL, 0, tokens, &err), QN_OK);
}

static void without_tools_markup_is_text(void **state)
{
    (void)state;
    json_t *c = parse("{\"finish_reason\":\"stop\"}", 24);
    qn_tokens tokens = {0};
    random_stream random = {.seed = 1};
    add_text("a <tool_call>now</tool_call>", &tokens);
    heard h = listen(c, NULL, &tokens, &random);
    assert_string_equal(qn_buffer_string(&h.content), "a <tool_call>now</tool_call>");
    assert_int_equal(h.calls, 0);
    free_heard(&h);
    qn_tokens_free(&tokens);
    json_decref(c);
}

/* A string's value is told while it comes, not at its end. */
static void strings_stream(void **state)
{
    (void)state;
    qn_output_events events = {0};
    qn_tool_calls *calls;
    qn_error err;
    size_t count;
    assert_int_equal(qn_tool_calls_new(tools, &events, &calls, &err), QN_OK);
    assert_int_equal(qn_tool_calls_markup(calls, QN_MARKUP_CALL_BEGIN, &err), QN_OK);
    assert_int_equal(qn_tool_calls_text(calls, "get_weather", 11, &err), QN_OK);
    assert_int_equal(qn_tool_calls_markup(calls, QN_MARKUP_KEY_BEGIN, &err), QN_OK);
    const qn_output_event *read = qn_output_events_read(&events, &count);
    assert_int_equal(count, 1);
    assert_int_equal(read[0].kind, QN_OUTPUT_CALL);
    assert_string_equal(read[0].text, "get_weather");
    assert_int_equal(qn_tool_calls_text(calls, "city", 4, &err), QN_OK);
    assert_int_equal(qn_tool_calls_markup(calls, QN_MARKUP_KEY_END, &err), QN_OK);
    assert_int_equal(qn_tool_calls_markup(calls, QN_MARKUP_VALUE_BEGIN, &err), QN_OK);
    static const char *const pieces[] = {"O", "s", "\"", "lo"}, *const told[] = {"O", "s", "\\\"", "lo"};
    read = qn_output_events_read(&events, &count);
    assert_string_equal(read[1].text, "{\"city\": \"");
    for (size_t i = 0; i < 4; i++) {
        qn_output_events_clear(&events);
        assert_int_equal(qn_tool_calls_text(calls, pieces[i], strlen(pieces[i]), &err), QN_OK);
        read = qn_output_events_read(&events, &count);
        assert_int_equal(count, 1);
        assert_string_equal(read[0].text, told[i]);
    }
    assert_true(qn_tool_calls_inside(calls));
    qn_tool_calls_free(calls);
    qn_output_events_free(&events);
}

static void stop_strings_are_not_for_calls(void **state)
{
    (void)state;
    static const char *const stops[] = {"Oslo", "end"};
    const qn_output_options options = {.split = true, .tools = tools, .stop = stops, .stop_count = 2};
    qn_tokens tokens = {0};
    qn_output_stream *stream;
    qn_error err;
    heard h = {.calls = 0};
    add_text("Os<tool_call>get_weather<arg_key>city</arg_key><arg_value>Oslo</arg_value></tool_call>lo", &tokens);
    add_text(" the end", &tokens);
    assert_int_equal(qn_output_stream_new(tokenizer, &options, &stream, &err), QN_OK);
    for (size_t i = 0; i < tokens.count; i++) {
        assert_int_equal(qn_output_stream_stopped(stream), -1);
        assert_int_equal(qn_output_stream_feed(stream, tokens.ids[i], &err), QN_OK);
    }
    assert_int_equal(qn_output_stream_stopped(stream), 1);
    hear(stream, &h);
    assert_string_equal(qn_buffer_string(&h.content), "Oslo the");
    assert_string_equal(qn_buffer_string(&h.arguments[0]), "{\"city\": \"Oslo\"}");
    free_heard(&h);
    qn_output_stream_free(stream);
    qn_tokens_free(&tokens);
}

static void too_much_held_text_is_refused(void **state)
{
    (void)state;
    enum { PIECE = 1 << 20 };
    qn_output_events events = {0};
    qn_tool_calls *calls;
    qn_error err;
    char *piece = qn_alloc(PIECE, 1);
    assert_non_null(piece);
    memset(piece, 'x', PIECE);
    assert_int_equal(qn_tool_calls_new(tools, &events, &calls, &err), QN_OK);
    assert_int_equal(qn_tool_calls_markup(calls, QN_MARKUP_CALL_BEGIN, &err), QN_OK);
    qn_status status = QN_OK;
    size_t pieces = 0;
    for (; status == QN_OK && pieces < 100; pieces++) {
        status = qn_tool_calls_text(calls, piece, PIECE, &err);
    }
    assert_int_equal(status, QN_RESOURCE);
    assert_int_equal(pieces, 17);
    qn_tool_calls_free(calls);
    qn_output_events_free(&events);
    qn_free(piece);
}

static qn_status run_all(const qn_tokens *tokens, qn_error *err)
{
    const qn_output_options options = {.split = true, .tools = tools};
    qn_output_stream *stream = NULL;
    qn_status status = qn_output_stream_new(tokenizer, &options, &stream, err);
    for (size_t i = 0; status == QN_OK && i < tokens->count; i++) {
        status = qn_output_stream_feed(stream, tokens->ids[i], err);
    }
    if (status == QN_OK) {
        status = qn_output_stream_finish(stream, false, err);
    }
    qn_output_stream_free(stream);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    qn_tokens tokens = {0};
    add_text("a<tool_call>set<arg_key>s</arg_key><arg_value>x</tool_call> y</arg_value><arg_key>l</arg_key><arg_value>"
             "[1, {\"a\": 12345678901234567890}]</arg_value><arg_key>e</arg_key><arg_value>1</arg_value></tool_call>"
             "<tool_call>{\"name\": \"f\", \"arguments\": \"{}\"}</tool_call><tool_call>no call</tool_call>"
             "<tool_call>nowzone</arg_key><arg_value>1",
             &tokens);
    bool done = false;
    for (long n = 1; !done; n++) {
        qn_error err;
        qn_fault_arm(QN_FAULT_ALLOC, n);
        qn_status status = run_all(&tokens, &err);
        bool hit = qn_fault_seen(QN_FAULT_ALLOC) >= n;
        qn_fault_disarm();
        /* a copy that a parse turns out not to need may fail */
        assert_true(status == QN_OK || (hit && status == QN_RESOURCE));
        done = !hit;
        assert_true(!done || n > 20);
    }
    qn_tokens_free(&tokens);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(given_cases),
        cmocka_unit_test(own_cases),
        cmocka_unit_test(without_tools_markup_is_text),
        cmocka_unit_test(strings_stream),
        cmocka_unit_test(stop_strings_are_not_for_calls),
        cmocka_unit_test(too_much_held_text_is_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
