#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/buffer.h"
#include "server/chat_messages.h"

static void assert_normalised(const char *messages, const char *wanted)
{
    json_t *in = json_loads(messages, JSON_ALLOW_NUL, NULL);
    json_t *expected = json_loads(wanted, JSON_ALLOW_NUL, NULL);
    assert_non_null(in);
    assert_non_null(expected);
    json_t *before = json_deep_copy(in), *out = NULL;
    qn_unknown_fields unknown = {0};
    qn_error err;
    if (qn_chat_messages_normalise(in, &out, &unknown, &err) != QN_OK) {
        fail_msg("%s: %s", messages, err.message);
    }
    char *text = json_dumps(out, JSON_COMPACT);
    if (!json_equal(out, expected)) {
        fail_msg("%s became %s", messages, text);
    }
    assert_true(json_equal(in, before));
    free(text);
    json_decref(before);
    json_decref(out);
    json_decref(expected);
    json_decref(in);
}

static void test_messages(void **state)
{
    (void)state;
    assert_normalised(
        "[{\"role\":\"developer\",\"content\":\"x\"},{\"role\":\"user\",\"content\":\"y\",\"name\":\"n\"}]",
        "[{\"role\":\"system\",\"content\":\"x\"},{\"role\":\"user\",\"content\":\"y\",\"name\":\"n\"}]");
    assert_normalised("[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\","
                      "\"text\":\"b\\u0000c\"}]}]",
                      "[{\"role\":\"user\",\"content\":\"ab\\u0000c\"}]");
    assert_normalised("[{\"role\":\"user\",\"content\":[]}]", "[{\"role\":\"user\",\"content\":\"\"}]");
    assert_normalised("[{\"role\":\"assistant\",\"content\":\"c\",\"reasoning\":\"r\",\"refusal\":null}]",
                      "[{\"role\":\"assistant\",\"content\":\"c\",\"reasoning_content\":\"r\"}]");
    assert_normalised("[{\"role\":\"assistant\",\"content\":\"c\",\"reasoning\":\"r\",\"reasoning_content\":\"r\"}]",
                      "[{\"role\":\"assistant\",\"content\":\"c\",\"reasoning_content\":\"r\"}]");
    assert_normalised("[{\"role\":\"assistant\"}]", "[{\"role\":\"assistant\",\"content\":\"\"}]");
    assert_normalised(
        "[{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"a\",\"type\":\"function\","
        "\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"x\\\": 1}\"}},{\"function\":{\"name\":\"g\","
        "\"arguments\":\"\"}},{\"function\":{\"name\":\"h\",\"arguments\":{}}}]},"
        "{\"role\":\"tool\",\"content\":\"r\",\"tool_call_id\":\"a\"}]",
        "[{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":\"a\",\"type\":\"function\","
        "\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"x\\\": 1}\"}},{\"type\":\"function\",\"function\":{"
        "\"name\":\"g\",\"arguments\":\"\"}},{\"type\":\"function\",\"function\":{\"name\":\"h\","
        "\"arguments\":{}}}]},{\"role\":\"tool\",\"content\":\"r\",\"tool_call_id\":\"a\"}]");
    assert_normalised("[{\"role\":\"assistant\",\"content\":\"c\",\"tool_calls\":[]}]",
                      "[{\"role\":\"assistant\",\"content\":\"c\"}]");
}

static void assert_refused(const char *messages, const char *part)
{
    json_t *in = json_loads(messages, JSON_DECODE_ANY, NULL), *out = NULL;
    assert_non_null(in);
    qn_unknown_fields unknown = {0};
    qn_error err;
    if (qn_chat_messages_normalise(in, &out, &unknown, &err) != QN_USAGE) {
        fail_msg("not refused: %s", messages);
    }
    assert_string_equal(err.field, "messages");
    if (strstr(err.message, part) == NULL) {
        fail_msg("%s: '%s' does not say '%s'", messages, err.message, part);
    }
    json_decref(in);
}

static void test_bad_messages(void **state)
{
    (void)state;
    static const struct {
        const char *messages, *part;
    } cases[] = {
        {"\"hi\"", "string"},
        {"[]", "0 messages"},
        {"[3]", "messages[0]"},
        {"[{\"content\":\"x\"}]", "role"},
        {"[{\"role\":\"wizard\",\"content\":\"x\"}]", "unknown role wizard"},
        {"[{\"role\":\"function\",\"content\":\"x\"}]", "unknown role function"},
        {"[{\"role\":\"user\"}]", "content: missing"},
        {"[{\"role\":\"user\",\"content\":null}]", "content: missing"},
        {"[{\"role\":\"user\",\"content\":5}]", "content: integer"},
        {"[{\"role\":\"user\",\"content\":[\"x\"]}]", "content[0]"},
        {"[{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}]", "text: missing"},
        {"[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":1}]}]", "text: integer"},
        {"[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":{}}]}]", "text model"},
        {"[{\"role\":\"user\",\"content\":[{\"type\":\"what\"}]}]", "unknown type what"},
        {"[{\"role\":\"user\",\"content\":\"x\",\"name\":1}]", "name: integer"},
        {"[{\"role\":\"assistant\",\"reasoning\":1}]", "reasoning: integer"},
        {"[{\"role\":\"assistant\",\"reasoning_content\":[]}]", "reasoning_content: array"},
        {"[{\"role\":\"assistant\",\"reasoning\":\"a\",\"reasoning_content\":\"b\"}]", "differ"},
        {"[{\"role\":\"assistant\",\"audio\":{}}]", "messages[0].audio"},
        {"[{\"role\":\"assistant\",\"tool_calls\":1}]", "tool_calls: integer"},
        {"[{\"role\":\"assistant\",\"tool_calls\":[1]}]", "function.name"},
        {"[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":7}}]}]",
         "JSON in a string"},
        {"[{\"role\":\"assistant\",\"tool_calls\":[{\"type\":\"x\",\"function\":{\"name\":\"f\"}}]}]", "only function"},
        {"[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":1,\"function\":{\"name\":\"f\"}}]}]", "id:"},
        {"[{\"role\":\"tool\",\"content\":\"x\",\"tool_call_id\":1}]", "tool_call_id: integer"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_refused(cases[i].messages, cases[i].part);
    }
}

static void test_missing_messages(void **state)
{
    (void)state;
    json_t *out = NULL;
    qn_unknown_fields unknown = {0};
    qn_error err;
    assert_int_equal(qn_chat_messages_normalise(NULL, &out, &unknown, &err), QN_USAGE);
    assert_string_equal(err.message, "messages: missing: send a list of messages");
}

/* Two calls whose arguments hold 700,000 values each: strings of a body of a few. */
static void test_values_in_arguments_are_bounded_together(void **state)
{
    (void)state;
    qn_buffer text = {0};
    qn_buffer_text(&text, "{\"a\":[0");
    for (int i = 0; i < 700000; i++) {
        qn_buffer_text(&text, ",0");
    }
    qn_buffer_text(&text, "]}");
    json_t *call = json_pack("{s:{s:s, s:s}}", "function", "name", "f", "arguments", qn_buffer_string(&text));
    json_t *in = json_pack("[{s:s, s:[O]}, {s:s, s:[O]}]", "role", "assistant", "tool_calls", call, "role", "assistant",
                           "tool_calls", call);
    json_t *out = NULL;
    qn_unknown_fields unknown = {0};
    qn_error err;
    assert_int_equal(qn_chat_messages_normalise(in, &out, &unknown, &err), QN_USAGE);
    assert_non_null(strstr(err.message, "messages[1].tool_calls[0]: function.arguments: too many JSON values"));
    json_array_remove(in, 1);
    assert_int_equal(qn_chat_messages_normalise(in, &out, &unknown, &err), QN_OK);
    json_decref(out);
    json_decref(in);
    json_decref(call);
    qn_buffer_free(&text);
}

static void test_unknown_fields_are_reported_and_left_out(void **state)
{
    (void)state;
    json_t *in = json_loads("[{\"role\":\"user\",\"content\":\"x\",\"cache_control\":{}}]", 0, NULL);
    json_t *out = NULL;
    qn_unknown_fields unknown = {0};
    qn_error err;
    assert_int_equal(qn_chat_messages_normalise(in, &out, &unknown, &err), QN_OK);
    assert_int_equal(unknown.total, 1);
    assert_string_equal(unknown.names[0], "cache_control");
    assert_int_equal(json_object_size(json_array_get(out, 0)), 2);
    json_decref(out);
    json_decref(in);
}

static void test_too_many_messages(void **state)
{
    (void)state;
    json_t *in = json_array(), *out = NULL;
    for (size_t i = 0; i <= QN_CHAT_MAX_MESSAGES; i++) {
        json_array_append_new(in, json_null());
    }
    qn_unknown_fields unknown = {0};
    qn_error err;
    assert_int_equal(qn_chat_messages_normalise(in, &out, &unknown, &err), QN_USAGE);
    assert_non_null(strstr(err.message, "send 1 to 65536"));
    json_decref(in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_in_arguments_are_bounded_together),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_bad_messages),
        cmocka_unit_test(test_missing_messages),
        cmocka_unit_test(test_unknown_fields_are_reported_and_left_out),
        cmocka_unit_test(test_too_many_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
