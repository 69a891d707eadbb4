#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/buffer.h"
#include "base/fault.h"
#include "base/json.h"

static void test_appends_build_one_text(void **state)
{
    (void)state;
    qn_buffer buffer = {0};
    assert_string_equal(qn_buffer_string(&buffer), "");
    qn_buffer_append(&buffer, NULL, 0);
    qn_buffer_text(&buffer, "one");
    qn_buffer_char(&buffer, ' ');
    qn_buffer_format(&buffer, "%d-%s", 2, "two");
    assert_string_equal(qn_buffer_string(&buffer), "one 2-two");
    assert_int_equal(buffer.size, 9);
    assert_false(buffer.failed);

    qn_buffer_clear(&buffer);
    assert_string_equal(qn_buffer_string(&buffer), "");
    assert_true(buffer.capacity > 0);
    qn_buffer_free(&buffer);
    assert_null(buffer.data);
}

static void test_grows_and_keeps_nul_bytes(void **state)
{
    (void)state;
    qn_buffer buffer = {0};
    for (int i = 0; i < 100000; i++)
        qn_buffer_char(&buffer, (char)(i % 256));
    assert_int_equal(buffer.size, 100000);
    for (int i = 0; i < 100000; i++)
        assert_int_equal((unsigned char)buffer.data[i], i % 256);
    assert_int_equal(buffer.data[buffer.size], 0);
    qn_buffer_free(&buffer);
}

static void test_limit_marks_failed_and_keeps_what_was(void **state)
{
    (void)state;
    qn_buffer buffer = {.limit = 5};
    qn_buffer_text(&buffer, "12345");
    assert_false(buffer.failed);
    qn_buffer_char(&buffer, '6');
    assert_true(buffer.failed);
    qn_buffer_append(&buffer, "", 0);
    qn_buffer_format(&buffer, "%s", "");
    assert_string_equal(buffer.data, "12345");
    qn_buffer_clear(&buffer);
    assert_false(buffer.failed);
    qn_buffer_format(&buffer, "%d", 123456);
    assert_true(buffer.failed);
    assert_string_equal(buffer.data, "");
    qn_buffer_free(&buffer);
}

static void test_absurd_sizes_fail(void **state)
{
    (void)state;
    qn_buffer buffer = {0};
    qn_buffer_char(&buffer, 'x');
    qn_buffer_append(&buffer, "y", SIZE_MAX);
    assert_true(buffer.failed);
    assert_string_equal(buffer.data, "x");
    qn_buffer_free(&buffer);
}

static void test_json_string_reads_back(void **state)
{
    (void)state;
    char text[300];
    size_t bytes = 0;
    for (int c = 0; c < 128; c++)
        text[bytes++] = (char)c;
    memcpy(text + bytes, "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 9);
    bytes += 9;
    qn_buffer buffer = {0};
    qn_buffer_json_string(&buffer, text, bytes);
    assert_memory_equal(buffer.data, "\"\\u0000\\u0001", 13);
    assert_non_null(strstr(buffer.data, "\\b\\t\\n\\u000b\\f\\r"));
    assert_non_null(strstr(buffer.data, "!\\\"#"));
    json_t *value = NULL;
    qn_error err;
    assert_int_equal(qn_json_parse(buffer.data, buffer.size, "test", &value, &err), QN_OK);
    assert_int_equal(json_string_length(value), bytes);
    assert_memory_equal(json_string_value(value), text, bytes);
    json_decref(value);

    qn_buffer_clear(&buffer);
    qn_buffer_json_string(&buffer, "", 0);
    assert_string_equal(buffer.data, "\"\"");
    qn_buffer_free(&buffer);
}

static void test_failed_growth_is_survived(void **state)
{
    (void)state;
    qn_fault_arm(QN_FAULT_ALLOC, 2);
    qn_buffer buffer = {0};
    qn_buffer_text(&buffer, "first");
    for (int i = 0; i < 100; i++)
        qn_buffer_char(&buffer, 'x');
    qn_fault_disarm();
    assert_true(buffer.failed);
    assert_memory_equal(buffer.data, "firstxxxx", 9);
    assert_int_equal(strlen(buffer.data), buffer.size);
    qn_buffer_free(&buffer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_appends_build_one_text),
        cmocka_unit_test(test_grows_and_keeps_nul_bytes),
        cmocka_unit_test(test_limit_marks_failed_and_keeps_what_was),
        cmocka_unit_test(test_absurd_sizes_fail),
        cmocka_unit_test(test_json_string_reads_back),
        cmocka_unit_test(test_failed_growth_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
