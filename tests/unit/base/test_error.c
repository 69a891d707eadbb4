#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"

static void test_fail_fills_and_returns(void **state)
{
    (void)state;
    qn_error err = {.field = "old"};
    assert_int_equal(qn_fail(&err, QN_BAD_INPUT, "%s: %d is wrong: fix it", "config.json", 7), QN_BAD_INPUT);
    assert_int_equal(err.status, QN_BAD_INPUT);
    assert_string_equal(err.message, "config.json: 7 is wrong: fix it");
    assert_string_equal(err.field, "");
}

static void test_status_values_are_exit_codes(void **state)
{
    (void)state;
    assert_int_equal(QN_OK, 0);
    assert_int_equal(QN_FAILED, 1);
    assert_int_equal(QN_USAGE, 2);
    assert_int_equal(QN_BAD_INPUT, 3);
    assert_int_equal(QN_RESOURCE, 4);
    assert_int_equal(QN_INTERNAL, 5);
}

static void test_field_is_kept_and_bounded(void **state)
{
    (void)state;
    qn_error err = {0};
    assert_int_equal(qn_fail_field(&err, QN_USAGE, "top_p", "must be above 0"), QN_USAGE);
    assert_string_equal(err.field, "top_p");
    assert_string_equal(err.message, "must be above 0");

    char field[200];
    memset(field, 'f', sizeof field - 1);
    field[sizeof field - 1] = '\0';
    qn_fail_field(&err, QN_USAGE, field, "x");
    assert_int_equal(strlen(err.field), QN_ERROR_FIELD_BYTES - 1);
    qn_fail_field(&err, QN_USAGE, err.field, "%s", err.field);
    assert_int_equal(strlen(err.field), QN_ERROR_FIELD_BYTES - 1);
    qn_fail_field(&err, QN_USAGE, "a\nb", "x");
    assert_string_equal(err.field, "a\\x0ab");
}

static void test_control_bytes_and_bad_utf8_are_escaped(void **state)
{
    (void)state;
    qn_error err = {0};
    qn_fail(&err, QN_BAD_INPUT, "a\nb\x1b[31m\x7f \xff\xc3(ok: \xc3\xa9\xe2\x82\xac)");
    assert_string_equal(err.message, "a\\x0ab\\x1b[31m\\x7f \\xff\\xc3(ok: \xc3\xa9\xe2\x82\xac)");
}

static void test_long_sentence_is_cut_at_a_character(void **state)
{
    (void)state;
    char text[3 * QN_ERROR_MESSAGE_BYTES];
    /* every offset of the cut within a three-byte character, short of and beyond the scratch's own size */
    for (size_t pad = 0; pad < 4; pad++) {
        for (size_t length = QN_ERROR_MESSAGE_BYTES - 8; length < sizeof text - 8; length += 97) {
            memset(text, 'p', pad);
            size_t at = pad;
            while (at + 3 <= length) {
                memcpy(text + at, "\xe2\x82\xac", 3);
                at += 3;
            }
            text[at] = '\0';
            qn_error err = {0};
            qn_fail(&err, QN_BAD_INPUT, "%s", text);
            size_t got = strlen(err.message);
            assert_true(got < QN_ERROR_MESSAGE_BYTES);
            assert_true(qn_utf8_valid(err.message, got));
            if (at < QN_ERROR_MESSAGE_BYTES)
                assert_string_equal(err.message, text);
            else
                assert_string_equal(err.message + got - 3, "...");
        }
    }
}

static void test_prefix_goes_in_front(void **state)
{
    (void)state;
    qn_error err = {0};
    qn_fail_field(&err, QN_RESOURCE, "n", "no room: free some");
    assert_int_equal(qn_error_prefix(&err, "shard %d", 3), QN_RESOURCE);
    assert_string_equal(err.message, "shard 3: no room: free some");
    assert_string_equal(err.field, "n");

    /* an escape already made is not escaped again */
    qn_fail(&err, QN_BAD_INPUT, "a\nb");
    qn_error_prefix(&err, "file");
    assert_string_equal(err.message, "file: a\\x0ab");

    for (int i = 0; i < 500; i++)
        qn_error_prefix(&err, "again");
    assert_true(strlen(err.message) < QN_ERROR_MESSAGE_BYTES);
    assert_memory_equal(err.message, "again: again: ", 14);
}

static void test_arguments_may_point_into_the_error(void **state)
{
    (void)state;
    qn_error err = {0};
    qn_fail(&err, QN_BAD_INPUT, "inner");
    qn_fail(&err, QN_INTERNAL, "outer (%s)", err.message);
    assert_string_equal(err.message, "outer (inner)");
    qn_error_prefix(&err, "%s", err.message);
    assert_string_equal(err.message, "outer (inner): outer (inner)");
}

static void test_memory_names_thing_and_bytes(void **state)
{
    (void)state;
    qn_error err = {0};
    assert_int_equal(qn_fail_memory(&err, "KV cache", 1234567890123ull), QN_RESOURCE);
    assert_non_null(strstr(err.message, "KV cache: out of memory"));
    assert_non_null(strstr(err.message, "1234567890123"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fail_fills_and_returns),
        cmocka_unit_test(test_status_values_are_exit_codes),
        cmocka_unit_test(test_field_is_kept_and_bounded),
        cmocka_unit_test(test_control_bytes_and_bad_utf8_are_escaped),
        cmocka_unit_test(test_long_sentence_is_cut_at_a_character),
        cmocka_unit_test(test_prefix_goes_in_front),
        cmocka_unit_test(test_arguments_may_point_into_the_error),
        cmocka_unit_test(test_memory_names_thing_and_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
