#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/grammar/schema_check.h"

static void test_not(void **state)
{
    (void)state;
    static const schema_example examples[] = {
        {"{\"not\":{\"type\":[\"string\",\"object\"]}}", {"1", "null", "[\"\"]"}, {"\"\"", "{}"}},
        {"{\"type\":\"number\",\"not\":{\"type\":\"integer\"}}", {"1.5", "-0.25", "1.05"}, {"1", "1.0", "0.0", "-3"}},
        {"{\"type\":[\"integer\",\"boolean\",\"null\"],\"not\":{\"enum\":[true,null,3]}}",
         {"false", "2", "4", "30", "-3"},
         {"true", "null", "3"}},
        {"{\"type\":\"integer\",\"minimum\":1,\"maximum\":3,\"not\":{\"const\":2}}", {"1", "3"}, {"2", "0", "4"}},
        {"{\"type\":\"string\",\"not\":{\"enum\":[\"a\",\"\"]}}",
         {"\"b\"", "\"aa\""},
         {"\"a\"", "\"\"", "\"\\u0061\""}},
        {"{\"type\":\"string\",\"maxLength\":3,\"not\":{\"pattern\":\"^a\"}}",
         {"\"b\"", "\"ba\"", "\"\""},
         {"\"a\"", "\"ab\"", "\"bbbb\""}},
        {"{\"not\":{\"minimum\":3}}", {"2", "2.9", "-1"}, {"3", "4", "\"\"", "null"}},
        {"{\"not\":{\"type\":\"number\",\"minimum\":3}}", {"2", "\"\"", "null"}, {"3", "4.5"}},
        {"{\"not\":{\"maxLength\":2}}", {"\"abc\""}, {"\"ab\"", "1"}},
        {"{\"type\":\"object\",\"not\":{\"required\":[\"a\",\"b\"]}}",
         {"{}", "{\"a\":1}", "{\"b\":1,\"c\":1}"},
         {"{\"a\":1,\"b\":2}", "{\"b\":1,\"c\":1,\"a\":1}"}},
        {"{\"type\":\"object\",\"not\":{\"properties\":{\"a\":{\"type\":\"string\"}}}}",
         {"{\"a\":1}", "{\"b\":1,\"a\":null}"},
         {"{}", "{\"a\":\"\"}", "{\"b\":1}"}},
        {"{\"not\":{\"anyOf\":[{\"type\":\"string\"},{\"minimum\":2}]}}", {"1"}, {"2", "\"\"", "null"}},
        {"{\"not\":{\"allOf\":[{\"type\":\"integer\"},{\"minimum\":2}]}}", {"1", "2.5", "\"\""}, {"2"}},
        {"{\"not\":{\"not\":{\"type\":\"null\"}}}", {"null"}, {"1"}},
        {"{\"not\":{\"$ref\":\"#/$defs/a\"},\"$defs\":{\"a\":{\"type\":[\"array\",\"object\"]}}}", {"1"}, {"[]", "{}"}},
        {"{\"not\":{\"items\":{\"type\":\"integer\"}}}", {"[1,null]", "[\"\"]"}, {"[]", "[1]", "1"}},
        {"{\"not\":{\"contains\":{\"type\":\"integer\"}}}", {"[]", "[null]"}, {"[1]", "[null,1]", "1"}},
        {"{\"not\":{\"prefixItems\":[{\"type\":\"integer\"},{\"type\":\"null\"}]}}",
         {"[\"\"]", "[1,1]", "[\"\",null]"},
         {"[]", "[1]", "[1,null]", "[1,null,2]"}},
        {"{\"type\":\"integer\",\"not\":{\"multipleOf\":3}}", {"1", "2", "-4"}, {"0", "3", "-9", "12"}},
        {"{\"not\":{\"oneOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]}}", {"1", "[]"}, {"null", "\"\""}},
        {"{\"not\":{\"if\":{\"minimum\":0},\"then\":{\"type\":\"integer\"},\"else\":{\"const\":-1}}}",
         {"\"\"", "0.5", "-2"},
         {"3", "-1"}},
        {"{\"type\":\"object\",\"not\":{\"dependentRequired\":{\"a\":[\"b\"]}}}",
         {"{\"a\":1}", "{\"c\":1,\"a\":1}"},
         {"{}", "{\"b\":1}", "{\"a\":1,\"b\":1}"}},
        {"{\"not\":{\"minItems\":2}}", {"[]", "[1]"}, {"[1,2]", "1"}},
    };
    SCHEMA_CHECK(examples);
}

static void test_conditions(void **state)
{
    (void)state;
    static const schema_example examples[] = {
        {"{\"type\":\"object\",\"properties\":{\"k\":{\"enum\":[\"a\",\"b\"]},\"v\":true},\"required\":[\"k\"],"
         "\"if\":{\"properties\":{\"k\":{\"const\":\"a\"}}},\"then\":{\"required\":[\"v\"]},"
         "\"else\":{\"properties\":{\"v\":{\"type\":\"null\"}}},\"additionalProperties\":false}",
         {"{\"k\":\"a\",\"v\":1}", "{\"k\":\"b\"}", "{\"v\":null,\"k\":\"b\"}"},
         {"{\"k\":\"a\"}", "{\"k\":\"b\",\"v\":1}", "{\"v\":1}"}},
        {"{\"if\":{\"type\":\"integer\"},\"then\":{\"minimum\":5}}", {"5", "\"\"", "1.5"}, {"4"}},
        {"{\"if\":{\"type\":\"integer\"},\"else\":{\"type\":\"null\"}}", {"5", "null"}, {"\"\"", "1.5"}},
        {"{\"if\":true,\"then\":{\"type\":\"null\"},\"else\":{\"type\":\"string\"}}", {"null"}, {"\"\""}},
        {"{\"type\":\"object\",\"dependentRequired\":{\"a\":[\"b\",\"c\"],\"b\":[]}}",
         {"{}", "{\"b\":1}", "{\"c\":1,\"a\":1,\"b\":2}"},
         {"{\"a\":1}", "{\"a\":1,\"b\":1}", "{\"c\":1,\"a\":2}"}},
        {"{\"dependentSchemas\":{\"a\":{\"properties\":{\"b\":{\"type\":\"null\"}},\"maxProperties\":2}}}",
         {"1", "{\"b\":1,\"c\":1,\"d\":1}", "{\"a\":1,\"b\":null}"},
         {"{\"a\":1,\"b\":1}", "{\"a\":1,\"b\":null,\"c\":1}"}},
    };
    SCHEMA_CHECK(examples);
}

static void test_one_of_options_that_overlap(void **state)
{
    (void)state;
    static const schema_example examples[] = {
        {"{\"oneOf\":[{\"type\":\"integer\"},{\"minimum\":2}]}", {"1", "2.5", "\"\""}, {"2", "3"}},
        {"{\"type\":\"object\",\"oneOf\":[{\"required\":[\"a\"]},{\"required\":[\"b\"]},{\"required\":[\"c\"]}]}",
         {"{\"a\":1}", "{\"d\":1,\"c\":1}"},
         {"{}", "{\"a\":1,\"b\":1}", "{\"a\":1,\"b\":1,\"c\":1}"}},
        {"{\"oneOf\":[{\"multipleOf\":3,\"type\":\"integer\"},{\"multipleOf\":5,\"type\":\"integer\"}]}",
         {"3", "5", "-10", "9"},
         {"15", "0", "1", "30"}},
        {"{\"oneOf\":[{\"type\":\"string\",\"maxLength\":3},{\"type\":\"string\",\"minLength\":2}]}",
         {"\"a\"", "\"abcd\"", "\"\""},
         {"\"ab\"", "\"abc\""}},
    };
    SCHEMA_CHECK(examples);
}

static void test_words_of_openapi_and_older_drafts(void **state)
{
    (void)state;
    static const schema_example examples[] = {
        {"{\"type\":\"integer\",\"nullable\":true}", {"1", "null"}, {"\"a\""}},
        {"{\"type\":[\"integer\",\"string\"],\"nullable\":false}", {"1", "\"a\""}, {"null"}},
        {"{\"type\":\"string\",\"nullable\":true,\"enum\":[\"a\"]}", {"\"a\""}, {"null", "\"b\""}},
        {"{\"type\":\"string\",\"nullable\":true,\"enum\":[\"a\",null]}", {"\"a\"", "null"}, {"\"b\""}},
        {"{\"nullable\":true,\"allOf\":[{\"type\":\"integer\"}]}", {"1"}, {"null"}},
        {"{\"not\":{\"type\":\"string\",\"nullable\":true}}", {"1", "{}"}, {"null", "\"a\""}},
        {"{\"type\":\"integer\",\"minimum\":2,\"exclusiveMinimum\":true,\"maximum\":4,\"exclusiveMaximum\":false}",
         {"3", "4"},
         {"2", "5"}},
        {"{\"type\":\"integer\",\"not\":{\"minimum\":2,\"exclusiveMinimum\":true,\"exclusiveMaximum\":false}}",
         {"2", "1"},
         {"3"}},
        {"{\"type\":\"object\",\"dependencies\":{\"a\":[\"b\"],\"c\":{\"required\":[\"d\"]},\"e\":[]}}",
         {"{}", "{\"a\":1,\"b\":1}", "{\"c\":1,\"d\":1}", "{\"e\":1}"},
         {"{\"a\":1}", "{\"c\":1}"}},
        {"{\"not\":{\"dependencies\":{\"a\":[\"b\"],\"c\":{\"required\":[\"d\"]}}}}",
         {"{\"a\":1}", "{\"c\":1}"},
         {"{}", "{\"a\":1,\"b\":1}", "3"}},
        {"{\"definitions\":{\"n\":{\"type\":\"integer\"}},\"$ref\":\"#/definitions/n\"}", {"1"}, {"\"a\""}},
    };
    SCHEMA_CHECK(examples);
}

/* What only narrows leaves the reader of arguments with the types that are declared. */
static void test_arguments(void **state)
{
    (void)state;
    static const schema_example examples[] = {
        {"{\"type\":[\"string\",\"integer\"],\"not\":{\"type\":\"string\",\"minLength\":2}}", {"1", "a"}, {"12", "ab"}},
        {"{\"type\":[\"string\",\"null\"],\"not\":{\"const\":null}}", {"nul", ""}, {"null"}},
        {"{\"type\":[\"string\",\"null\"],\"not\":{\"const\":\"a\"}}", {"null", "b"}, {"a"}},
        {"{\"if\":{\"type\":\"string\"},\"then\":{\"maxLength\":1}}", {"\"a\"", "12"}, {"a", "\"ab\""}},
        {"{\"not\":{\"type\":\"string\"}}", {"12", "{}"}, {"a", "\"a\""}},
        {"{\"type\":\"string\",\"nullable\":true,\"maxLength\":2}", {"null", "a"}, {"nul"}},
        {"{\"type\":[\"integer\",\"string\"],\"if\":true,\"then\":{\"const\":\"12\"}}", {"12"}, {"\"12\"", "13"}},
    };
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++)
        schema_check_example(&examples[i], QN_SCHEMA_ARGUMENT, false);
}

static void test_refusals(void **state)
{
    (void)state;
    static const schema_refusal refusals[] = {
        {"{\"not\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"null\"}}}",
         "schema: /not/additionalProperties: cannot be enforced: its opposite"},
        {"{\"not\":{\"$ref\":\"#\"}}", "leads back to itself"},
        {"{\"$defs\":{\"a\":{\"anyOf\":[{\"$ref\":\"#/$defs/a\"},{\"type\":\"null\"}]}},\"not\":{\"$ref\":\"#/$defs/"
         "a\"}}",
         "leads back to itself"},
        {"{\"not\":{\"properties\":3}}", "schema: /not/properties: must be an object of schemas"},
        {"{\"not\":{\"type\":\"no\"}}", "schema: /not/type: must be one of"},
        {"{\"not\":{\"minimum\":true}}", "schema: /not/minimum: must be a number"},
        {"{\"not\":{\"maximum\":false}}", "schema: /not/maximum: must be a number"},
        {"{\"not\":{\"maximum\":\"3\",\"exclusiveMaximum\":true}}", "schema: /not/maximum: must be a number"},
        {"{\"not\":{\"prefixItems\":3}}", "schema: /not/prefixItems: must be an array of schemas"},
        {"{\"not\":{\"prefixItems\":[true],\"items\":[true]}}", "schema: /not/items: must be a schema beside"},
        {"{\"not\":{\"additionalItems\":3}}", "schema: /not/additionalItems: cannot be enforced: it belongs"},
        {"{\"not\":{\"properties\":123456789012345678901234567890}}",
         "schema: /not/properties: must be an object of schemas"},
        {"{\"not\":{\"dependencies\":123456789012345678901234567890}}", "schema: /not/dependencies: must be an object"},
        {"{\"dependencies\":123456789012345678901234567890}", "schema: /dependencies: must be an object"},
        {"{\"properties\":123456789012345678901234567890}", "schema: /properties: must be an object of schemas"},
        {"{\"nullable\":\"yes\"}", "schema: /nullable: must be true or false"},
        {"{\"type\":\"string\",\"nullable\":1}", "schema: /nullable: must be true or false"},
        {"{\"items\":{\"$ref\":\"#/$defs/a\",\"nullable\":null},\"$defs\":{\"a\":{}}}",
         "schema: /items/nullable: must be true or false"},
        {"{\"dependentRequired\":{\"a\":\"b\"}}", "schema: /dependentRequired: must hold arrays of names"},
        {"{\"dependentRequired\":{\"a\":[3]}}", "must be an array of names"},
        {"{\"not\":{\"dependentRequired\":{\"a\":[3]}}}", "schema: /not/dependentRequired: must hold arrays of names"},
        {"{\"if\":3,\"then\":true}", "schema: /if: not a schema"},
        {"{\"oneOf\":[true,true]}", "schema: (root): no value can satisfy it"},
        {"{\"oneOf\":[{\"uniqueItems\":true},{\"type\":\"array\"}]}",
         "schema: /oneOf/0/uniqueItems: cannot be enforced"},
        {"{\"not\":{\"const\":[1]},\"type\":\"array\"}", "schema: /not/const: cannot be enforced: any array but one"},
    };
    SCHEMA_CHECK_REFUSALS(refusals);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_not),
        cmocka_unit_test(test_conditions),
        cmocka_unit_test(test_one_of_options_that_overlap),
        cmocka_unit_test(test_words_of_openapi_and_older_drafts),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, schema_init_json, NULL);
}
