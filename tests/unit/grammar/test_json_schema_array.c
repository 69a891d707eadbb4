#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/grammar/schema_check.h"

static void test_contains(void **state)
{
    (void)state;
    static const schema_example examples[] = {
        {"{\"type\":\"array\",\"contains\":{\"type\":\"integer\"}}",
         {"[1]", "[null,1]", "[1, \"\",2]"},
         {"[]", "[null]", "[\"1\"]"}},
        {"{\"type\":\"array\",\"contains\":{\"minimum\":5},\"minContains\":2,\"maxContains\":3,\"items\":{\"type\":"
         "\"integer\"}}",
         {"[5,6]", "[1,5,2,6,3,7]", "[9,9,9]"},
         {"[5]", "[]", "[5,5,5,5]", "[1,2,3]", "[5,6,null]"}},
        {"{\"type\":\"array\",\"contains\":{\"const\":1},\"minContains\":0,\"maxContains\":1}",
         {"[]", "[2]", "[1]", "[2,1,3]"},
         {"[1,1]", "[1,2,1]", "[1.0,1]"}},
        {"{\"type\":\"array\",\"contains\":false,\"minContains\":0}", {"[]", "[1]"}, {"1"}},
        {"{\"type\":\"array\",\"prefixItems\":[{\"type\":\"string\"},{\"type\":\"integer\"}],\"items\":{\"type\":"
         "\"null\"},"
         "\"contains\":{\"type\":\"null\"},\"maxItems\":4}",
         {"[\"\",1,null]", "[\"\",1,null,null]"},
         {"[]", "[\"\",1]", "[null]", "[\"\",1,null,null,null]"}},
        {"{\"type\":\"array\",\"allOf\":[{\"contains\":{\"const\":1}},{\"contains\":{\"const\":2}}],\"minItems\":3}",
         {"[1,2,3]", "[2,1,1]", "[0,0,1,2]"},
         {"[1,2]", "[1,1,1]", "[2,2,2,2]"}},
        {"{\"const\":[1,2],\"contains\":{\"const\":2}}", {"[1,2]"}, {"[2]"}},
        {"{\"enum\":[[1,1],[1,2],[2]],\"contains\":{\"const\":1},\"maxContains\":1}", {"[1,2]"}, {"[1,1]", "[2]"}},
    };
    SCHEMA_CHECK(examples);
}

static void test_unique(void **state)
{
    (void)state;
    static const schema_example examples[] = {
        {"{\"type\":\"array\",\"items\":{\"enum\":[\"a\",\"b\",1,1.0]},\"uniqueItems\":true}",
         {"[]", "[\"a\"]", "[\"b\",1,\"a\"]", "[1.0]"},
         {"[\"a\",\"a\"]", "[1,1.0]", "[\"a\",\"\\u0061\"]", "[\"c\"]"}},
        {"{\"type\":\"array\",\"items\":{\"type\":\"boolean\"},\"uniqueItems\":true,\"minItems\":2}",
         {"[true,false]", "[false,true]"},
         {"[true]", "[true,true]", "[]"}},
        {"{\"type\":\"array\",\"items\":{\"type\":\"integer\",\"minimum\":-1,\"exclusiveMaximum\":3},\"uniqueItems\":"
         "true,"
         "\"maxItems\":2}",
         {"[-1,2]", "[0]", "[]"},
         {"[0,0]", "[3]", "[0,1,2]"}},
        {"{\"type\":\"array\",\"items\":{\"enum\":[[1],{\"a\":[]}]},\"uniqueItems\":true}",
         {"[[1],{\"a\":[]}]", "[{\"a\":[]}]"},
         {"[[1],[1]]", "[{\"a\":[]},{\"a\":[]}]"}},
        {"{\"type\":\"array\",\"prefixItems\":[{\"type\":\"boolean\"},{\"type\":\"boolean\"}],\"items\":false,"
         "\"uniqueItems\":true}",
         {"[]", "[true]", "[true,false]", "[false,true]"},
         {"[true,true]", "[true,false,null]"}},
        {"{\"type\":\"array\",\"uniqueItems\":true,\"maxItems\":1}", {"[]", "[\"x\"]"}, {"[1,2]"}},
        {"{\"enum\":[[1,1.0],[1,2],[]],\"uniqueItems\":true}", {"[1,2]", "[]"}, {"[1,1.0]", "[1,1]"}},
        {"{\"uniqueItems\":false}", {"[1,1]"}, {}},
    };
    SCHEMA_CHECK(examples);
}

static void test_refusals(void **state)
{
    (void)state;
    static const schema_refusal refusals[] = {
        {"{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"type\":\"string\"}}",
         "schema: /uniqueItems: cannot be enforced: only between elements whose values are listed"},
        {"{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"enum\":[1,2]},\"minItems\":3}", "no value can satisfy"},
        {"{\"type\":\"array\",\"uniqueItems\":true,\"prefixItems\":[true],\"items\":{\"type\":\"integer\",\"minimum\":"
         "1,"
         "\"maximum\":19},\"minItems\":20}",
         "schema: /uniqueItems: cannot be enforced"},
        {"{\"type\":\"array\",\"contains\":true,\"minContains\":100000}",
         "schema: /contains: cannot be enforced: the bounds beside it are too large"},
        {"{\"type\":\"array\",\"contains\":true,\"minItems\":100000}", "the bounds beside it are too large"},
        {"{\"contains\":{},\"minContains\":-1}", "schema: /minContains: must be an integer"},
        {"{\"contains\":{},\"maxContains\":\"x\"}", "schema: /maxContains: must be an integer"},
        {"{\"type\":\"array\",\"contains\":{\"type\":\"null\"},\"maxItems\":0}", "no value can satisfy"},
        {"{\"type\":\"array\",\"contains\":false}", "no value can satisfy"},
        {"{\"allOf\":[{\"contains\":true},{\"contains\":{}},{\"contains\":{\"type\":\"null\"}}],\"type\":\"array\"}",
         "more than 2 of it"},
        {"{\"uniqueItems\":1}", "schema: /uniqueItems: must be true or false"},
    };
    SCHEMA_CHECK_REFUSALS(refusals);
}

static void test_lists_in_items_are_older_drafts_tuples(void **state)
{
    (void)state;
    static const schema_example examples[] = {
        {"{\"type\":\"array\",\"items\":[{\"type\":\"integer\"},{\"type\":\"string\"}],\"minItems\":2,\"maxItems\":2}",
         {"[1,\"a\"]"},
         {"[]", "[1]", "[\"a\",1]", "[1,\"a\",2]"}},
        {"{\"items\":[{\"type\":\"integer\"}],\"additionalItems\":false}", {"[]", "[1]", "2"}, {"[\"a\"]", "[1,2]"}},
        {"{\"items\":[{\"type\":\"integer\"}],\"additionalItems\":{\"type\":\"null\"}}",
         {"[]", "[1]", "[1,null,null]"},
         {"[null]", "[1,2]"}},
        {"{\"items\":[{\"type\":\"integer\"}]}", {"[1,\"a\",{}]"}, {"[\"a\"]"}},
        {"{\"items\":{\"type\":\"integer\"},\"additionalItems\":false}", {"[1,2]"}, {"[\"a\"]"}},
        {"{\"items\":[],\"additionalItems\":{\"type\":\"integer\"},\"type\":\"array\"}", {"[]", "[1,2]"}, {"[\"a\"]"}},
        {"{\"not\":{\"items\":[{\"type\":\"integer\"}]},\"type\":\"array\"}", {"[\"a\"]", "[[],1]"}, {"[]", "[1,2]"}},
        {"{\"enum\":[[1],[\"a\"],[1,2]],\"items\":[{\"type\":\"integer\"}],\"additionalItems\":false}",
         {"[1]"},
         {"[\"a\"]", "[1,2]"}},
        {"{\"items\":[{\"enum\":[1,2]},{\"enum\":[1,2]}],\"additionalItems\":false,\"uniqueItems\":true}",
         {"[1,2]", "[2,1]", "[1]"},
         {"[1,1]", "[3]"}},
    };
    SCHEMA_CHECK(examples);
}

static void test_unevaluated_items(void **state)
{
    (void)state;
    static const schema_example examples[] = {
        {"{\"type\":\"array\",\"prefixItems\":[{\"type\":\"integer\"}],\"unevaluatedItems\":false}",
         {"[]", "[1]"},
         {"[1,2]", "[\"a\"]"}},
        {"{\"type\":\"array\",\"unevaluatedItems\":{\"type\":\"string\"}}", {"[]", "[\"a\",\"b\"]"}, {"[1]"}},
        {"{\"allOf\":[{\"prefixItems\":[true,{\"type\":\"integer\"}]}],\"unevaluatedItems\":{\"type\":\"null\"}}",
         {"[\"a\",1,null,null]", "[]", "3"},
         {"[1,1,1]", "[1,null]"}},
        {"{\"allOf\":[{\"items\":{\"type\":\"integer\"}}],\"unevaluatedItems\":false}", {"[1,2,3]"}, {"[\"a\"]"}},
        {"{\"type\":\"array\",\"anyOf\":[{\"prefixItems\":[{\"const\":1}]},{\"prefixItems\":[true,{\"const\":2}]}],"
         "\"unevaluatedItems\":false}",
         {"[]", "[1]", "[1,2]", "[3,2]"},
         {"[1,3]", "[1,2,3]"}},
        {"{\"type\":\"array\",\"contains\":{\"type\":\"string\"},\"unevaluatedItems\":{\"type\":\"integer\"}}",
         {"[\"a\"]", "[1,\"a\",2]"},
         {"[]", "[1]", "[\"a\",null]"}},
        {"{\"type\":\"array\",\"contains\":{\"type\":\"string\"},\"minContains\":0,\"unevaluatedItems\":false}",
         {"[]", "[\"a\",\"b\"]"},
         {"[1]"}},
        {"{\"$schema\":\"https://json-schema.org/draft/2019-09/schema\",\"type\":\"array\",\"items\":[{}],"
         "\"contains\":{\"type\":\"string\"},\"unevaluatedItems\":{\"type\":\"integer\"}}",
         {"[\"a\",1]"},
         {"[\"a\",\"b\"]", "[1,\"a\"]"}},
        {"{\"type\":\"array\",\"not\":{\"prefixItems\":[{\"const\":1}]},\"unevaluatedItems\":{\"type\":\"integer\"}}",
         {"[2]", "[2,3]"},
         {"[1]", "[\"a\"]", "[]"}},
        {"{\"type\":\"array\",\"allOf\":[{\"unevaluatedItems\":true}],\"unevaluatedItems\":false}", {"[1]"}, {"1"}},
        {"{\"enum\":[[1],[1,2]],\"prefixItems\":[true],\"unevaluatedItems\":false}", {"[1]"}, {"[1,2]"}},
    };
    SCHEMA_CHECK(examples);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_contains),          cmocka_unit_test(test_unique),
        cmocka_unit_test(test_refusals),          cmocka_unit_test(test_lists_in_items_are_older_drafts_tuples),
        cmocka_unit_test(test_unevaluated_items),
    };
    return cmocka_run_group_tests(tests, schema_init_json, NULL);
}
