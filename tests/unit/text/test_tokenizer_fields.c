#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "text/tokenizer_fields.h"

static json_t *object(const char *text)
{
    qn_error err;
    json_t *value = NULL;
    assert_int_equal(qn_json_parse(text, strlen(text), "object", &value, &err), QN_OK);
    return value;
}

static void test_only_known_fields(void **state)
{
    (void)state;
    static const char *const known[] = {"a", "b", NULL};
    qn_error err;
    json_t *good = object("{\"b\":1}"), *bad = object("{\"a\":1,\"c\":2}"), *list = object("[]");
    assert_int_equal(qn_section_check(good, "part", known, &err), QN_OK);
    assert_int_equal(qn_section_check(bad, "part", known, &err), QN_BAD_INPUT);
    assert_string_equal(err.message, "part: the field \"c\" is not known: quern cannot use this tokenizer");
    assert_int_equal(qn_section_check(list, "part", known, &err), QN_BAD_INPUT);
    assert_int_equal(qn_section_check(NULL, "part", known, &err), QN_BAD_INPUT);
    assert_non_null(strstr(err.message, "missing"));
    json_decref(good);
    json_decref(bad);
    json_decref(list);
}

static void test_types_of_fields(void **state)
{
    (void)state;
    qn_error err;
    bool flag = false;
    const char *type = NULL;
    const json_t *value = NULL;
    json_t *o = object("{\"type\":\"T\",\"yes\":true,\"text\":\"x\",\"list\":[],\"number\":3}");
    assert_int_equal(qn_section_type(o, "part", &type, &err), QN_OK);
    assert_string_equal(type, "T");
    assert_int_equal(qn_section_bool(o, "part", "yes", &flag, &err), QN_OK);
    assert_true(flag);
    assert_int_equal(qn_section_bool_or(o, "part", "absent", true, &flag, &err), QN_OK);
    assert_true(flag);
    assert_int_equal(qn_section_string(o, "part", "text", &value, &err), QN_OK);
    assert_int_equal(qn_section_array(o, "part", "list", &value, &err), QN_OK);
    assert_int_equal(qn_section_bool(o, "part", "number", &flag, &err), QN_BAD_INPUT);
    assert_string_equal(err.message, "part: the field \"number\" is integer: a boolean is expected");
    assert_int_equal(qn_section_bool_or(o, "part", "number", true, &flag, &err), QN_BAD_INPUT);
    assert_int_equal(qn_section_bool(o, "part", "absent", &flag, &err), QN_BAD_INPUT);
    assert_int_equal(qn_section_string(o, "part", "list", &value, &err), QN_BAD_INPUT);
    assert_int_equal(qn_section_array(o, "part", "text", &value, &err), QN_BAD_INPUT);
    assert_int_equal(qn_section_unsupported("part", "T", &err), QN_BAD_INPUT);
    assert_non_null(strstr(err.message, "\"T\" is not supported"));
    json_decref(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_known_fields),
        cmocka_unit_test(test_types_of_fields),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
