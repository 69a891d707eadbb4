/* Integers beyond 64 bits survive; everything else parses as before. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/fault.h"
#include "base/json.h"
#include "base/json_wide.h"

static json_t *parse(const char *text)
{
    json_t *value = NULL;
    qn_error err;
    assert_int_equal(qn_json_parse_wide(text, strlen(text), "test", &value, &err), QN_OK);
    return value;
}

static void wide_integers_keep_their_digits(void **state)
{
    (void)state;
    json_t *value = parse("{\"a\": [12345678901234567890, -9223372036854775809], \"b\": 9223372036854775808}");
    const json_t *array = json_object_get(value, "a");
    assert_string_equal(qn_json_wide_digits(json_array_get(array, 0)), "12345678901234567890");
    assert_string_equal(qn_json_wide_digits(json_array_get(array, 1)), "-9223372036854775809");
    assert_string_equal(qn_json_wide_digits(json_object_get(value, "b")), "9223372036854775808");
    assert_null(qn_json_wide_digits(value));
    assert_null(qn_json_wide_digits(array));
    json_decref(value);
}

static void others_stay_what_they_are(void **state)
{
    (void)state;
    json_t *value = parse("[9223372036854775807, -9223372036854775808, 1e30, 12345678901234567890.5, "
                          "\"12345678901234567890\", \"\\\"12345678901234567890\", {}, null]");
    assert_int_equal(json_integer_value(json_array_get(value, 0)), INT64_MAX);
    assert_int_equal(json_integer_value(json_array_get(value, 1)), INT64_MIN);
    for (size_t i = 2; i < 4; ++i)
        assert_true(json_is_real(json_array_get(value, i)));
    assert_string_equal(json_string_value(json_array_get(value, 4)), "12345678901234567890");
    assert_string_equal(json_string_value(json_array_get(value, 5)), "\"12345678901234567890");
    for (size_t i = 0; i < json_array_size(value); ++i)
        assert_null(qn_json_wide_digits(json_array_get(value, i)));
    json_decref(value);
    value = parse("100000000000000000000");
    assert_string_equal(qn_json_wide_digits(value), "100000000000000000000");
    json_decref(value);
}

static void bad_documents_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"[12345678901234567890",
                                      "012345678901234567890",
                                      "1234567890123456789012x",
                                      "{\"a\": 12345678901234567890, \"a\": 1}",
                                      "-",
                                      ""};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
        json_t *value = NULL;
        qn_error err;
        assert_int_equal(qn_json_parse_wide(bad[i], strlen(bad[i]), "test", &value, &err), QN_BAD_INPUT);
    }
}

static void what_was_read_is_written_again(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{\"a\":[12345678901234567890,1],\"b\":{\"c\":-12345678901234567890}}",    "99999999999999999999", "[]", "{}",
        "{\"\\\"é\\n\":[null,true,false,-1.5,\"\\u0001\"],\"x\":{\"y\":[[],{}]}}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; ++i) {
        json_t *value = NULL;
        qn_buffer out = {0};
        qn_error err;
        assert_int_equal(qn_json_parse_wide(texts[i], strlen(texts[i]), "test", &value, &err), QN_OK);
        assert_true(qn_json_wide_write(value, strlen(texts[i]), &out));
        assert_string_equal(qn_buffer_string(&out), texts[i]);
        qn_buffer_clear(&out);
        assert_false(qn_json_wide_write(value, strlen(texts[i]) - 1, &out));
        qn_buffer_free(&out);
        qn_fault_arm(QN_FAULT_ALLOC, 1);
        assert_false(qn_json_wide_write(value, SIZE_MAX, &out));
        qn_fault_disarm();
        qn_buffer_free(&out);
        json_decref(value);
    }
}

static void a_wide_integer_is_no_object(void **state)
{
    (void)state;
    json_t *value = NULL;
    qn_error err;
    assert_int_equal(qn_json_parse_wide("[12345678901234567890, {}, 1]", 29, "test", &value, &err), QN_OK);
    assert_false(qn_json_is_object(json_array_get(value, 0)));
    assert_string_equal(qn_json_type_name(json_array_get(value, 0)), "integer beyond 64 bits");
    assert_true(qn_json_is_object(json_array_get(value, 1)));
    assert_false(qn_json_is_object(json_array_get(value, 2)));
    assert_false(qn_json_is_object(NULL));
    json_decref(value);
}

static void failed_allocations_are_told(void **state)
{
    (void)state;
    static const char text[] = "{\"a\": [12345678901234567890, 1], \"b\": {\"c\": -12345678901234567890}}";
    for (long nth = 1;; ++nth) {
        json_t *value = NULL;
        qn_error err;
        qn_fault_arm(QN_FAULT_ALLOC, nth);
        qn_status status = qn_json_parse_wide(text, strlen(text), "test", &value, &err);
        bool reached = qn_fault_seen(QN_FAULT_ALLOC) >= nth;
        qn_fault_disarm();
        if (status == QN_OK)
            json_decref(value);
        else
            assert_int_equal(status, QN_RESOURCE);
        if (!reached)
            break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wide_integers_keep_their_digits), cmocka_unit_test(others_stay_what_they_are),
        cmocka_unit_test(bad_documents_are_refused),       cmocka_unit_test(what_was_read_is_written_again),
        cmocka_unit_test(a_wide_integer_is_no_object),     cmocka_unit_test(failed_allocations_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
