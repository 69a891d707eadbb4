#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/fault.h"
#include "text/tokenizer_json.h"

static qn_json_cursor over(const char *text, qn_error *err)
{
    return (qn_json_cursor){.text = text, .bytes = strlen(text), .err = err};
}

static void check_string(const char *json, const char *expected, size_t bytes)
{
    qn_error err;
    qn_buffer storage = {0};
    qn_json_slice out;
    qn_json_cursor c = over(json, &err);
    if (qn_json_cursor_string(&c, &out, &storage) != QN_OK)
        fail_msg("%s: %s", json, err.message);
    assert_int_equal(out.bytes, bytes);
    assert_memory_equal(out.text, expected, bytes);
    assert_int_equal(qn_json_cursor_end(&c), QN_OK);
    qn_buffer_free(&storage);
}

static void test_strings(void **state)
{
    (void)state;
    check_string("\"\"", "", 0);
    check_string("  \"plain \xC4\xA0\"\n", "plain \xC4\xA0", 8);
    check_string("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t", 8);
    check_string("\"a\\u00e9\\u4f60b\"",
                 "a\xC3\xA9\xE4\xBD\xA0"
                 "b",
                 7);
    check_string("\"\\ud83d\\uDE00\"", "\xF0\x9F\x98\x80", 4);
    check_string("\"\\u0000\"", "\0", 1);
}

static void test_bad_strings(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "x",
        "\"",
        "\"a",
        "\"\\",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"\\ud83d\"",
        "\"\\ud83dx\"",
        "\"\\ud83d\\u0041\"",
        "\"\\ude00\"",
        "\"a\nb\"",
        "\"\xFF\"",
        "\"\\n\xC3\"",
        "\"\\ud83d\\u\"",
        "\"\\n",
        "\"\\n\x01\"",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        qn_error err;
        qn_buffer storage = {0};
        qn_json_slice out;
        qn_json_cursor c = over(bad[i], &err);
        if (qn_json_cursor_string(&c, &out, &storage) != QN_BAD_INPUT)
            fail_msg("%s was accepted", bad[i]);
        qn_buffer_free(&storage);
    }
}

static void test_integers(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        int64_t value;
    } good[] = {{"0", 0}, {" 17 ", 17}, {"-3", -3}, {"999999999999999999", 999999999999999999}};
    static const char *const bad[] = {"", "-", "01", "1.0", "1e3", "1E3", "x", "\"1\"", "1234567890123456789", "- 1"};
    qn_error err;
    int64_t value;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        qn_json_cursor c = over(good[i].json, &err);
        assert_int_equal(qn_json_cursor_integer(&c, &value), QN_OK);
        assert_true(value == good[i].value);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        qn_json_cursor c = over(bad[i], &err);
        if (qn_json_cursor_integer(&c, &value) != QN_BAD_INPUT)
            fail_msg("%s was accepted", bad[i]);
    }
}

static void test_objects_and_arrays(void **state)
{
    (void)state;
    qn_error err;
    qn_buffer storage = {0};
    qn_json_slice key, value;
    bool more;
    qn_json_cursor c = over("{ \"a\" : [1 , {\"x\":\"]\"}] , \"b\":[]}", &err);
    assert_int_equal(qn_json_cursor_open(&c, '{'), QN_OK);
    assert_int_equal(qn_json_cursor_member(&c, &more, &key, &storage), QN_OK);
    assert_true(more && key.bytes == 1 && key.text[0] == 'a');
    assert_int_equal(qn_json_cursor_skip(&c, &value), QN_OK);
    assert_int_equal(value.bytes, strlen("[1 , {\"x\":\"]\"}]"));
    assert_int_equal(qn_json_cursor_member(&c, &more, &key, &storage), QN_OK);
    assert_true(more && key.text[0] == 'b');
    assert_int_equal(qn_json_cursor_open(&c, '['), QN_OK);
    assert_int_equal(qn_json_cursor_element(&c, &more), QN_OK);
    assert_false(more);
    assert_int_equal(qn_json_cursor_member(&c, &more, &key, &storage), QN_OK);
    assert_false(more);
    assert_int_equal(qn_json_cursor_end(&c), QN_OK);
    assert_int_equal(qn_json_cursor_peek(&c), '\0');
    qn_buffer_free(&storage);
}

static void test_skips_any_value(void **state)
{
    (void)state;
    static const char *const good[] = {"true", "-1.5e3", "\"a\\\"b\"", "[[],{}]", "{\"a\":{\"b\":[1,2]}}"};
    static const char *const bad[] = {"", "]", ",", "\"a", "\"\\", "[", "[\"a\"", "{\"a\":[}", "[\"\\"};
    qn_error err;
    qn_json_slice out;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        qn_json_cursor c = over(good[i], &err);
        assert_int_equal(qn_json_cursor_skip(&c, &out), QN_OK);
        assert_int_equal(out.bytes, strlen(good[i]));
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        qn_json_cursor c = over(bad[i], &err);
        if (qn_json_cursor_skip(&c, &out) != QN_BAD_INPUT)
            fail_msg("%s was accepted", bad[i]);
    }
    char deep[600];
    memset(deep, '[', sizeof deep);
    qn_json_cursor c = {.text = deep, .bytes = sizeof deep, .err = &err};
    assert_int_equal(qn_json_cursor_skip(&c, &out), QN_BAD_INPUT);
    assert_non_null(strstr(err.message, "too deep"));
}

static void test_missing_punctuation(void **state)
{
    (void)state;
    qn_error err;
    qn_buffer storage = {0};
    qn_json_slice key;
    bool more;
    qn_json_cursor c = over("[\n 1 2]", &err);
    int64_t value;
    assert_int_equal(qn_json_cursor_open(&c, '['), QN_OK);
    assert_int_equal(qn_json_cursor_element(&c, &more), QN_OK);
    assert_int_equal(qn_json_cursor_integer(&c, &value), QN_OK);
    assert_int_equal(qn_json_cursor_element(&c, &more), QN_BAD_INPUT);
    assert_non_null(strstr(err.message, "line 2, byte 4"));
    c = over("{\"a\" 1}", &err);
    assert_int_equal(qn_json_cursor_open(&c, '{'), QN_OK);
    assert_int_equal(qn_json_cursor_member(&c, &more, &key, &storage), QN_BAD_INPUT);
    assert_non_null(strstr(err.message, "colon"));
    c = over("{1:2}", &err);
    assert_int_equal(qn_json_cursor_open(&c, '{'), QN_OK);
    assert_int_equal(qn_json_cursor_member(&c, &more, &key, &storage), QN_BAD_INPUT);
    c = over("[]", &err);
    assert_int_equal(qn_json_cursor_open(&c, '{'), QN_BAD_INPUT);
    c = over("{}", &err);
    assert_int_equal(qn_json_cursor_open(&c, '['), QN_BAD_INPUT);
    assert_int_equal(qn_json_cursor_end(&c), QN_BAD_INPUT);
    qn_buffer_free(&storage);
}

static void test_no_memory_for_escapes(void **state)
{
    (void)state;
    qn_error err;
    qn_buffer storage = {0};
    qn_json_slice out;
    qn_json_cursor c = over("\"a\\n\"", &err);
    qn_fault_arm(QN_FAULT_ALLOC, 1);
    assert_int_equal(qn_json_cursor_string(&c, &out, &storage), QN_RESOURCE);
    qn_fault_disarm();
    qn_buffer_free(&storage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_bad_strings),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_objects_and_arrays),
        cmocka_unit_test(test_skips_any_value),
        cmocka_unit_test(test_missing_punctuation),
        cmocka_unit_test(test_no_memory_for_escapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
