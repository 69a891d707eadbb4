#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/fault.h"
#include "base/json.h"
#include "base/memory.h"

static qn_status parse(const char *text, json_t **out, qn_error *err)
{
    *out = NULL;
    *err = (qn_error){0};
    return qn_json_parse(text, strlen(text), "doc.json", out, err);
}

static void test_any_kind_of_value(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"{}", "object"},  {"[]", "array"},     {"\"x\"", "string"},    {"7", "integer"}, {"-7.5e3", "number"},
        {"1.0", "number"}, {"true", "boolean"}, {" false ", "boolean"}, {"null", "null"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *value;
        qn_error err;
        assert_int_equal(parse(cases[i][0], &value, &err), QN_OK);
        assert_string_equal(qn_json_type_name(value), cases[i][1]);
        json_decref(value);
    }
}

static void test_order_of_keys_and_nul_are_kept(void **state)
{
    (void)state;
    json_t *value;
    qn_error err;
    assert_int_equal(parse("{\"z\": 1, \"a\": 2, \"m\": \"x\\u0000y\"}", &value, &err), QN_OK);
    static const char *const expected[] = {"z", "a", "m"};
    size_t i = 0;
    const char *key;
    json_t *member;
    json_object_foreach(value, key, member) assert_string_equal(key, expected[i++]);
    assert_int_equal(json_string_length(json_object_get(value, "m")), 3);
    json_decref(value);
}

static void assert_refused(const char *text, const char *words)
{
    json_t *value;
    qn_error err;
    assert_int_equal(parse(text, &value, &err), QN_BAD_INPUT);
    assert_null(value);
    assert_memory_equal(err.message, "doc.json: ", 10);
    if (!strstr(err.message, words))
        fail_msg("%s lacks %s", err.message, words);
}

static void test_errors_tell_line_and_column(void **state)
{
    (void)state;
    assert_refused("{\"a\": 1,\n \"b\": }", "line 2, column 7");
    assert_refused("{\"a\": 1, \"a\": 2}", "duplicate object key");
    assert_refused("", "line 1");
    assert_refused("  ", "line 1");
    assert_refused("{} x", "end of file expected");
    assert_refused("[1, 2", "line 1");
    assert_refused("\"\xff\"", "unable to decode byte 0xff");
    assert_refused("\"\xed\xa0\x80\"", "unable to decode byte 0xed");
    assert_refused("[NaN]", "line 1");
    assert_refused("[1e999]", "line 1");
    assert_refused("[99999999999999999999]", "line 1");
    assert_refused("\"tab\tin string\"", "line 1");
    assert_refused("{\"a\\u0000b\": 1}", "line 1");
    assert_refused("\xef\xbb\xbf{}", "line 1");
}

static void test_nul_byte_outside_a_string(void **state)
{
    (void)state;
    json_t *value = NULL;
    qn_error err;
    assert_int_equal(qn_json_parse("{}\0", 3, "doc.json", &value, &err), QN_BAD_INPUT);
    assert_int_equal(qn_json_parse("\"a\0b\"", 5, "doc.json", &value, &err), QN_BAD_INPUT);
    assert_int_equal(qn_json_parse(NULL, 0, "doc.json", &value, &err), QN_BAD_INPUT);
}

static char *nested(size_t depth, char open, char close)
{
    char *text = malloc(2 * depth + 1);
    memset(text, open, depth);
    memset(text + depth, close, depth);
    text[2 * depth] = '\0';
    return text;
}

static void test_nesting_is_bounded_at_512(void **state)
{
    (void)state;
    json_t *value;
    qn_error err;
    char *text = nested(512, '[', ']');
    assert_int_equal(parse(text, &value, &err), QN_OK);
    json_decref(value);
    free(text);
    text = nested(513, '[', ']');
    assert_refused(text, "deeper than 512 levels at line 1, column 513");
    free(text);
    text = nested(1000000, '[', ']');
    assert_refused(text, "deeper than 512");
    free(text);
    text = nested(1000000, '{', '}'); /* malformed besides: either error will do, a deep recursion will not */
    assert_refused(text, "512");
    free(text);
}

static void test_brackets_in_strings_are_no_nesting(void **state)
{
    (void)state;
    qn_buffer text = {0};
    qn_buffer_text(&text, "[\"\\\"\\\\");
    for (int i = 0; i < 2000; i++)
        qn_buffer_text(&text, "[{");
    qn_buffer_text(&text, "\", [1], {\"[[\": []}]");
    json_t *value;
    qn_error err;
    assert_int_equal(parse(text.data, &value, &err), QN_OK);
    assert_int_equal(json_array_size(value), 3);
    json_decref(value);
    qn_buffer_free(&text);
}

static void test_column_counts_characters_on_its_line(void **state)
{
    (void)state;
    qn_buffer text = {0};
    qn_buffer_text(&text, "[\n\"\xe2\x82\xac\xc3\xa9\", ");
    for (int i = 0; i < 512; i++)
        qn_buffer_char(&text, '[');
    assert_refused(text.data, "at line 2, column 518");
    qn_buffer_free(&text);
}

static void test_file(void **state)
{
    (void)state;
    char path[] = "/tmp/quern-json-XXXXXX";
    int fd = mkstemp(path);
    assert_int_equal(write(fd, "{\"a\": [1]}", 10), 10);
    close(fd);
    json_t *value = NULL;
    qn_error err;
    assert_int_equal(qn_json_parse_file(path, 10, &value, &err), QN_OK);
    json_decref(value);
    assert_int_equal(qn_json_parse_file(path, 9, &value, &err), QN_BAD_INPUT);
    assert_non_null(strstr(err.message, path));
    unlink(path);
    assert_int_equal(qn_json_parse_file(path, 9, &value, &err), QN_BAD_INPUT);
    assert_non_null(strstr(err.message, "no such file"));
}

/* Each allocation of the parser in turn fails: always a clean error, never a value with a part missing. */
static void test_every_failed_allocation_is_an_error(void **state)
{
    (void)state;
    static const char text[] = "{\"key one\": [1, 2.5, \"a long string, longer than the lexer's first buffer is\"],"
                               " \"b\": {\"c\": null, \"d\": [true, \"\\ud83d\\ude00\"]}}";
    long failures = 0;
    for (long nth = 1;; nth++) {
        json_t *value = NULL;
        qn_error err = {0};
        qn_fault_arm(QN_FAULT_ALLOC, nth);
        qn_status status = qn_json_parse(text, sizeof text - 1, "doc.json", &value, &err);
        bool reached = qn_fault_seen(QN_FAULT_ALLOC) >= nth;
        qn_fault_disarm();
        if (!reached) {
            assert_int_equal(status, QN_OK);
            json_decref(value);
            break;
        }
        assert_int_equal(status, QN_RESOURCE);
        assert_null(value);
        failures++;
    }
    assert_true(failures > 10);
}

/* The lexer's text buffer grows at 16, 32 and 64 bytes: that it cannot is an error wherever in a token it happens. */
static void test_no_token_survives_a_buffer_that_cannot_grow(void **state)
{
    (void)state;
    static const struct token {
        const char *before, *after;
        char repeated;
    } tokens[] = {{"", " ", 'a'}, {"", "e5 ", '1'}, {"[-", "]", '7'}, {"[\"", "\"]", 'x'}, {"{\"", "\": 1.5}", 'k'}};
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        for (size_t length = 1; length < 70; length++) {
            qn_buffer text = {0};
            qn_buffer_text(&text, tokens[i].before);
            for (size_t k = 0; k < length; k++)
                qn_buffer_char(&text, tokens[i].repeated);
            qn_buffer_text(&text, tokens[i].after);
            bool reached = true;
            for (long nth = 1; reached; nth++) {
                json_t *value = NULL;
                qn_error err = {0};
                qn_fault_arm(QN_FAULT_ALLOC, nth);
                qn_status status = qn_json_parse(text.data, text.size, "doc.json", &value, &err);
                reached = qn_fault_seen(QN_FAULT_ALLOC) >= nth;
                qn_fault_disarm();
                assert_true(!reached || (status == QN_RESOURCE && value == NULL));
                json_decref(value);
            }
            qn_buffer_free(&text);
        }
    }
}

static void check_text(const char *text, const char *expected)
{
    json_t *value = NULL, *again = NULL;
    qn_error err;
    char *written = NULL;
    assert_int_equal(qn_json_parse(text, strlen(text), "doc", &value, &err), QN_OK);
    assert_int_equal(qn_json_text(value, "doc", &written, &err), QN_OK);
    if (expected)
        assert_string_equal(written, expected);
    assert_int_equal(qn_json_parse(written, strlen(written), "again", &again, &err), QN_OK);
    assert_true(json_equal(value, again));
    json_decref(again);
    json_decref(value);
    qn_free(written);
}

static void test_numbers_stay_short_and_exact(void **state)
{
    (void)state;
    check_text("{\"z\":1e-05,\"a\":[0.1,2.5,-3.0e300],\"s\":\"\\u0000\u00e9\"}",
               "{\n  \"z\": 1e-5,\n  \"a\": [\n    0.1,\n    2.5,\n    -3e300\n  ],\n  \"s\": \"\\u0000\u00e9\"\n}\n");
    check_text("[0.1, 0.30000000000000004, 5e-324]", NULL);
    check_text("7", "7\n");
}

static void test_text_or_an_error_when_memory_is_short(void **state)
{
    (void)state;
    json_t *value = json_pack("{s:f, s:[s, i]}", "rms_norm_eps", 1e-05, "list", "a string", 3);
    qn_status status = QN_RESOURCE;
    for (long nth = 1; status != QN_OK; nth++) {
        char *text = NULL;
        qn_error err;
        qn_fault_arm(QN_FAULT_ALLOC, nth);
        status = qn_json_text(value, "doc", &text, &err);
        qn_fault_disarm();
        if (status == QN_OK)
            assert_string_equal(text,
                                "{\n  \"rms_norm_eps\": 1e-5,\n  \"list\": [\n    \"a string\",\n    3\n  ]\n}\n");
        else
            assert_int_equal(status, QN_RESOURCE);
        qn_free(text);
    }
    json_decref(value);
}

int main(void)
{
    qn_json_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_kind_of_value),
        cmocka_unit_test(test_order_of_keys_and_nul_are_kept),
        cmocka_unit_test(test_errors_tell_line_and_column),
        cmocka_unit_test(test_nul_byte_outside_a_string),
        cmocka_unit_test(test_nesting_is_bounded_at_512),
        cmocka_unit_test(test_brackets_in_strings_are_no_nesting),
        cmocka_unit_test(test_column_counts_characters_on_its_line),
        cmocka_unit_test(test_file),
        cmocka_unit_test(test_every_failed_allocation_is_an_error),
        cmocka_unit_test(test_no_token_survives_a_buffer_that_cannot_grow),
        cmocka_unit_test(test_numbers_stay_short_and_exact),
        cmocka_unit_test(test_text_or_an_error_when_memory_is_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
