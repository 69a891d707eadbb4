#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/grammar/schema_check.h"

static void test_property_names(void **state)
{
    (void)state;
    static const schema_example examples[] = {
        {"{\"propertyNames\":{\"maxLength\":2},\"additionalProperties\":{\"type\":\"integer\"}}",
         {"{}", "{\"ab\":1}", "{\"\":1,\"\\u0061\":2}", "7"},
         {"{\"abc\":1}", "{\"ab\":\"\"}"}},
        {"{\"type\":\"object\",\"propertyNames\":{\"enum\":[\"a\",\"b\",3]}}",
         {"{}", "{\"b\":1,\"a\":null}"},
         {"{\"c\":1}", "{\"a\":1,\"a\":1}"}},
        {"{\"type\":\"object\",\"propertyNames\":{\"enum\":[\"a\",\"b\",\"c\"]},\"minProperties\":2}",
         {"{\"b\":1,\"a\":null}"},
         {"{}", "{\"a\":1}"}},
        {"{\"type\":\"object\",\"propertyNames\":false}", {"{}"}, {"{\"a\":1}"}},
        {"{\"type\":\"object\",\"properties\":{\"ab\":{\"type\":\"null\"},\"xy\":true},\"propertyNames\":{\"pattern\":"
         "\"^a\"}}",
         {"{\"ab\":null}", "{\"a\":1}"},
         {"{\"xy\":1}", "{\"ab\":1}", "{\"b\":1}"}},
        {"{\"type\":\"object\",\"propertyNames\":{\"anyOf\":[{\"maxLength\":1},{\"pattern\":\"^x-\"},{\"const\":"
         "\"all\"}]}}",
         {"{\"a\":1,\"x-y\":2,\"all\":3}"},
         {"{\"ab\":1}", "{\"alls\":1}"}},
        {"{\"const\":{\"ab\":1},\"propertyNames\":{\"maxLength\":2}}", {"{\"ab\":1}"}, {"{}"}},
        {"{\"type\":\"object\",\"propertyNames\":{\"not\":{\"enum\":[\"a\"]}}}",
         {"{\"b\":1}", "{\"aa\":1}"},
         {"{\"a\":1}"}},
    };
    SCHEMA_CHECK(examples);
}

static void test_unevaluated(void **state)
{
    (void)state;
    static const schema_example examples[] = {
        {"{\"type\":\"object\",\"allOf\":[{\"properties\":{\"a\":true}}],\"properties\":{\"b\":true},"
         "\"unevaluatedProperties\":false}",
         {"{\"a\":1,\"b\":2}", "{}"},
         {"{\"c\":1}"}},
        {"{\"$defs\":{\"A\":{\"unevaluatedProperties\":false}},\"properties\":{\"p\":true},\"$ref\":\"#/$defs/A\"}",
         {"{}", "1"},
         {"{\"p\":1}", "{\"q\":1}"}},
        {"{\"type\":\"object\",\"properties\":{\"k\":true},\"anyOf\":[{\"properties\":{\"a\":{\"const\":1}},"
         "\"required\":[\"a\"]},"
         "{\"properties\":{\"b\":true},\"required\":[\"b\"]}],\"unevaluatedProperties\":{\"type\":\"null\"}}",
         {"{\"a\":1}", "{\"a\":1,\"b\":2}", "{\"b\":3,\"c\":null}", "{\"b\":3,\"a\":null}"},
         {"{\"b\":3,\"a\":2}", "{\"a\":1,\"c\":1}", "{\"k\":1}"}},
        {"{\"type\":\"object\",\"if\":{\"properties\":{\"a\":{\"const\":1}},\"required\":[\"a\"]},\"then\":{"
         "\"properties\":"
         "{\"b\":true}},\"unevaluatedProperties\":false}",
         {"{\"a\":1,\"b\":2}", "{}"},
         {"{\"a\":2}", "{\"b\":1}"}},
        {"{\"type\":\"object\",\"not\":{\"properties\":{\"a\":{\"const\":1}}},\"unevaluatedProperties\":{\"type\":"
         "\"string\"}}",
         {"{\"a\":\"x\"}"},
         {"{\"a\":1}", "{\"a\":2}", "{}"}},
        {"{\"type\":\"object\",\"patternProperties\":{\"^x\":true},\"allOf\":[{\"unevaluatedProperties\":true}],"
         "\"unevaluatedProperties\":false}",
         {"{\"a\":1}"},
         {}},
    };
    SCHEMA_CHECK(examples);
}

static void test_a_name_like_a_keyword_of_the_unevaluated_is_none(void **state)
{
    (void)state;
    static const schema_example examples[] = {
        {"{\"anyOf\":[{\"const\":1},{\"const\":2},{\"const\":3},{\"const\":4},{\"const\":5},{\"const\":6},{\"const\":7}"
         ","
         "{\"type\":\"object\",\"properties\":{\"unevaluatedItems\":{\"type\":\"null\"}},\"unevaluated\":1}],"
         "\"$defs\":{\"unevaluatedProperties\":{}}}",
         {"7", "{\"unevaluatedItems\":null}"},
         {"8", "{\"unevaluatedItems\":1}"}},
        /* the definition's name is no keyword; what it holds is */
        {"{\"$ref\":\"#/$defs/"
         "unevaluatedItems\",\"$defs\":{\"unevaluatedItems\":{\"anyOf\":[{\"prefixItems\":[{\"const\":1}]},"
         "{\"prefixItems\":[true,{\"const\":2}]}],\"unevaluatedItems\":false,\"type\":\"array\"}}}",
         {"[1,2]", "[3,2]", "[1]"},
         {"[1,2,3]", "[1,3]"}},
    };
    SCHEMA_CHECK(examples);
    static const schema_refusal refusals[] = {
        {"{\"$ref\":\"#/properties\",\"properties\":{\"unevaluatedProperties\":false}}",
         "schema: /properties/unevaluatedProperties: cannot be enforced: no schema stands there"},
    };
    SCHEMA_CHECK_REFUSALS(refusals);
}

/* No text is accepted that a repeated name would make too short. */
static void test_least_members(void **state)
{
    (void)state;
    static const schema_example examples[] = {
        {"{\"type\":\"object\",\"minProperties\":1}", {"{\"a\":1}"}, {"{}"}},
        {"{\"type\":\"object\",\"minProperties\":2,\"required\":[\"a\"]}",
         {"{\"a\":1,\"b\":1}", "{\"b\":1,\"b\":2,\"a\":3}"},
         {"{\"a\":1}"}},
        {"{\"type\":\"object\",\"minProperties\":2,\"properties\":{\"a\":true,\"b\":true,\"c\":true},"
         "\"additionalProperties\":false}",
         {"{\"a\":1,\"c\":1}", "{\"c\":1,\"b\":1,\"a\":2}"},
         {"{\"a\":1}", "{\"a\":1,\"a\":1}"}},
        {"{\"minProperties\":2,\"type\":[\"object\",\"null\"],\"required\":[\"a\",\"b\"]}",
         {"null", "{\"a\":1,\"b\":1}"},
         {"{\"a\":1}"}},
    };
    SCHEMA_CHECK(examples);
    static const schema_refusal refusals[] = {
        {"{\"type\":\"object\",\"minProperties\":2}",
         "schema: /minProperties: cannot be enforced: more than 1 members"},
        {"{\"properties\":{\"a\":{\"minProperties\":3,\"properties\":{\"x\":true},\"required\":[\"x\"]}}}",
         "schema: /properties/a/minProperties: cannot be enforced: more than 2 members"},
        {"{\"type\":\"object\",\"propertyNames\":{\"const\":\"a\"},\"minProperties\":2}", "no value can satisfy it"},
        {"{\"type\":\"object\",\"propertyNames\":{\"pattern\":\"(?=a)\"}}", "cannot be enforced: regex"},
        {"{\"type\":\"object\",\"propertyNames\":3}", "schema: /propertyNames: not a schema"},
        {"{\"type\":\"object\",\"propertyNames\":{\"maxLength\":1},\"required\":[\"ab\"]}", "no value can satisfy it"},
    };
    SCHEMA_CHECK_REFUSALS(refusals);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_property_names),
        cmocka_unit_test(test_unevaluated),
        cmocka_unit_test(test_a_name_like_a_keyword_of_the_unevaluated_is_none),
        cmocka_unit_test(test_least_members),
    };
    return cmocka_run_group_tests(tests, schema_init_json, NULL);
}
