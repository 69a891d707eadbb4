#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/json_wide.h"
#include "server/request_fields.h"

static const qn_field fields[] = {
    {.name = "handled"},
    {.name = "free", .rule = QN_FIELD_FREE},
    {.name = "off", .rule = QN_FIELD_NEUTRAL, .neutral = "false"},
    {.name = "on", .rule = QN_FIELD_NEUTRAL, .neutral = "true"},
    {.name = "one", .rule = QN_FIELD_NEUTRAL, .neutral = "1"},
    {.name = "word", .rule = QN_FIELD_NEUTRAL, .neutral = "\"auto\""},
    {.name = "list", .rule = QN_FIELD_NEUTRAL, .neutral = "[]"},
    {.name = "object", .rule = QN_FIELD_NEUTRAL, .neutral = "{}"},
    {.name = "never", .rule = QN_FIELD_NEUTRAL},
};

static json_t *object(const char *text)
{
    json_t *value = NULL;
    qn_error err;
    assert_int_equal(qn_json_parse_wide(text, strlen(text), "test", &value, &err), QN_OK);
    return value;
}

static qn_status check(const char *text, qn_unknown_fields *unknown, qn_error *err)
{
    json_t *value = object(text);
    *unknown = (qn_unknown_fields){0};
    qn_status status = qn_fields_check(value, fields, sizeof fields / sizeof fields[0], unknown, err);
    unknown->names[0] = NULL; /* it pointed into the object */
    json_decref(value);
    return status;
}

static void test_neutral_values(void **state)
{
    (void)state;
    qn_unknown_fields unknown;
    qn_error err;
    static const char *const fine[] = {
        "{}",
        "{\"handled\":{\"x\":1},\"free\":[1]}",
        "{\"off\":false,\"on\":true,\"one\":1.0,\"word\":\"auto\",\"list\":[],\"object\":{}}",
        "{\"off\":null,\"on\":null,\"one\":null,\"word\":null,\"list\":null,\"object\":null,\"never\":null}",
    };
    for (size_t i = 0; i < sizeof fine / sizeof fine[0]; i++) {
        assert_int_equal(check(fine[i], &unknown, &err), QN_OK);
        assert_int_equal(unknown.total, 0);
    }
    static const struct {
        const char *text, *field;
    } refused[] = {
        {"{\"off\":true}", "off"},
        {"{\"off\":0}", "off"},
        {"{\"on\":false}", "on"},
        {"{\"on\":\"true\"}", "on"},
        {"{\"one\":2}", "one"},
        {"{\"one\":1.5}", "one"},
        {"{\"one\":\"1\"}", "one"},
        {"{\"word\":\"\"}", "word"},
        {"{\"word\":\"autos\"}", "word"},
        {"{\"word\":1}", "word"},
        {"{\"list\":[0]}", "list"},
        {"{\"list\":{}}", "list"},
        {"{\"object\":{\"a\":1}}", "object"},
        {"{\"never\":false}", "never"},
        {"{\"object\":[]}", "object"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        assert_int_equal(check(refused[i].text, &unknown, &err), QN_USAGE);
        assert_string_equal(err.field, refused[i].field);
    }
}

static void test_unknown_names_are_bounded(void **state)
{
    (void)state;
    json_t *value = object("{\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,\"g\":1,\"h\":1,\"i\":1,\"j\":1}");
    qn_unknown_fields unknown = {0};
    qn_error err;
    assert_int_equal(qn_fields_check(value, fields, 1, &unknown, &err), QN_OK);
    assert_int_equal(unknown.total, 10);
    assert_int_equal(unknown.count, QN_UNKNOWN_FIELDS_MAX);
    assert_string_equal(unknown.names[7], "h");
    json_decref(value);
}

static void test_members_are_told_from_fields(void **state)
{
    (void)state;
    json_t *body = object("{\"a\":1}"), *member = object("{\"b\":1,\"c\":1}");
    qn_unknown_fields unknown = {0};
    qn_error err;
    assert_int_equal(qn_fields_check(body, fields, 1, &unknown, &err), QN_OK);
    assert_int_equal(qn_members_check(member, "of", fields, 1, &unknown, &err), QN_OK);
    assert_int_equal(qn_fields_check(body, fields, 1, &unknown, &err), QN_OK);
    assert_int_equal(unknown.count, 4);
    assert_null(unknown.within[0]);
    assert_string_equal(unknown.within[1], "of");
    assert_string_equal(unknown.names[1], "b");
    assert_string_equal(unknown.within[2], "of");
    assert_null(unknown.within[3]);
    json_decref(member);
    json_decref(body);
}

static void test_readers(void **state)
{
    (void)state;
    json_t *value = object("{\"b\":true,\"i\":-3,\"f\":0.5,\"s\":\"x\",\"n\":null,\"z\":\"a\\u0000\",\"w\":"
                           "99999999999999999999}");
    bool flag = false;
    int64_t number = 7;
    float real = 9;
    const char *text = "old";
    qn_error err;
    assert_int_equal(qn_field_boolean(value, "b", &flag, &err), QN_OK);
    assert_true(flag);
    assert_int_equal(qn_field_integer(value, "i", -3, 3, &number, &err), QN_OK);
    assert_int_equal(number, -3);
    assert_int_equal(qn_field_float(value, "f", 0, 1, &real, &err), QN_OK);
    assert_true(real == 0.5f);
    assert_int_equal(qn_field_string(value, "s", &text, &err), QN_OK);
    assert_string_equal(text, "x");
    static const char *const absent[] = {"n", "missing"};
    for (size_t i = 0; i < 2; i++) {
        assert_null(qn_field_get(value, absent[i]));
        assert_int_equal(qn_field_boolean(value, absent[i], &flag, &err), QN_OK);
        assert_int_equal(qn_field_integer(value, absent[i], 0, 1, &number, &err), QN_OK);
        assert_int_equal(qn_field_float(value, absent[i], 0, 1, &real, &err), QN_OK);
        assert_int_equal(qn_field_string(value, absent[i], &text, &err), QN_OK);
    }
    assert_true(flag && number == -3 && real == 0.5f && strcmp(text, "x") == 0);
    assert_int_equal(qn_field_boolean(value, "i", &flag, &err), QN_USAGE);
    assert_int_equal(qn_field_integer(value, "f", 0, 1, &number, &err), QN_USAGE);
    assert_int_equal(qn_field_integer(value, "i", 0, 1, &number, &err), QN_USAGE);
    assert_int_equal(qn_field_integer(value, "i", -9, -4, &number, &err), QN_USAGE);
    assert_int_equal(qn_field_integer(value, "w", 0, INT64_MAX, &number, &err), QN_USAGE);
    assert_string_equal(err.message, "w: integer beyond 64 bits given: send an integer");
    assert_int_equal(qn_field_float(value, "f", 0, 0.25, &real, &err), QN_USAGE);
    assert_int_equal(qn_field_float(value, "s", 0, 1, &real, &err), QN_USAGE);
    assert_int_equal(qn_field_string(value, "b", &text, &err), QN_USAGE);
    assert_int_equal(qn_field_string(value, "z", &text, &err), QN_USAGE);
    assert_string_equal(err.field, "z");
    json_decref(value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_neutral_values),
                                       cmocka_unit_test(test_unknown_names_are_bounded),
                                       cmocka_unit_test(test_members_are_told_from_fields),
                                       cmocka_unit_test(test_readers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
