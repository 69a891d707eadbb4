#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buffer.h"
#include "grammar/grammar_internal.h"
#include "unit/grammar/schema_check.h"

/* The states of a grammar in which two members are held to these schemas. */
static size_t states_of(const char *first, const char *second)
{
    qn_buffer text = {0};
    qn_error err;
    qn_buffer_format(&text,
                     "{\"properties\":{\"a\":%s,\"b\":%s},\"$defs\":{\"d\":{\"type\":\"boolean\"}},"
                     "\"additionalProperties\":false}",
                     first, second);
    json_t *schema = schema_of(qn_buffer_string(&text));
    qn_grammar *grammar = schema_grammar(schema, QN_SCHEMA_JSON, false, &err);
    if (!grammar)
        fail_msg("%s: %s", qn_buffer_string(&text), err.message);
    size_t count = grammar->state_count;
    qn_grammar_free(grammar);
    json_decref(schema);
    qn_buffer_free(&text);
    return count;
}

static void test_equal_schemas_are_made_once(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"{\"type\":\"string\",\"maxLength\":40}", "{\"maxLength\":40.0,\"type\":\"string\"}"},
        {"{\"type\":\"string\",\"maxLength\":40,\"title\":\"A\",\"default\":\"\",\"$comment\":\"\"}",
         "{\"type\":\"string\",\"description\":\"b\",\"maxLength\":40,\"deprecated\":true,\"examples\":[\"b\"]}"},
        {"{\"type\":\"array\",\"items\":{\"anyOf\":[{\"type\":\"string\",\"title\":\"A\"},{\"type\":\"null\"}]}}",
         "{\"type\":\"array\",\"items\":{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]}}"},
        {"{\"type\":\"object\",\"properties\":{\"title\":{\"enum\":[\"x\",{\"y\":[1,null]}]},\"d\":{\"$ref\":\"#/$defs/"
         "d\"}}}",
         "{\"type\":\"object\",\"properties\":{\"d\":{\"$ref\":\"#/$defs/"
         "d\"},\"title\":{\"enum\":[\"x\",{\"y\":[1,null]"
         "}]}}}"},
        {"{\"type\":\"array\",\"prefixItems\":[{\"type\":\"integer\",\"minimum\":0},false],\"items\":false}",
         "{\"type\":\"array\",\"prefixItems\":[{\"type\":\"integer\",\"minimum\":0},false],\"items\":false}"},
        {"{\"enum\":[100000000000000000000000000000,\"x\"]}", "{\"enum\":[100000000000000000000000000000,\"x\"]}"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        size_t once = states_of(pairs[i][0], "{\"$ref\":\"#/properties/a\"}");
        assert_int_equal(states_of(pairs[i][0], pairs[i][1]), once);
    }
}

static void test_what_differs_in_little_stays_apart(void **state)
{
    (void)state;
    static const schema_example examples[] = {
        {"{\"properties\":{\"a\":{\"enum\":[1,\"1\"]},\"b\":{\"enum\":[true,\"1\"]},\"c\":{\"enum\":[\"1\",1]}}}",
         {"{\"a\":1,\"b\":true,\"c\":1}"},
         {"{\"a\":true}", "{\"b\":1}"}},
        /* names are no annotations */
        {"{\"properties\":{\"a\":{\"properties\":{\"title\":{\"const\":1}}},\"b\":{\"properties\":{\"title\":{"
         "\"const\":2}"
         "}}}}",
         {"{\"a\":{\"title\":1},\"b\":{\"title\":2}}"},
         {"{\"a\":{\"title\":2}}", "{\"b\":{\"title\":1}}"}},
        /* nor are members of values */
        {"{\"properties\":{\"a\":{\"const\":{\"title\":1}},\"b\":{\"const\":{\"title\":2}}}}",
         {"{\"a\":{\"title\":1},\"b\":{\"title\":2}}"},
         {"{\"a\":{\"title\":2}}"}},
        {"{\"properties\":{\"a\":{\"patternProperties\":{\"^x\":{\"const\":1}}},\"b\":{\"patternProperties\":{\"^y\":{"
         "\"const\":1}}}}}",
         {"{\"a\":{\"y\":2},\"b\":{\"x\":2}}"},
         {"{\"a\":{\"x\":2}}", "{\"b\":{\"y\":2}}"}},
        {"{\"properties\":{\"a\":{\"prefixItems\":[{},{\"const\":1}]},\"b\":{\"prefixItems\":[{\"const\":1},{}]}}}",
         {"{\"a\":[2,1],\"b\":[1,2]}"},
         {"{\"a\":[1,2]}", "{\"b\":[2,1]}"}},
        {"{\"properties\":{\"a\":{\"dependencies\":{\"x\":[\"y\"]}},\"b\":{\"dependencies\":{\"x\":[\"z\"]}}}}",
         {"{\"a\":{\"x\":1,\"y\":1},\"b\":{\"x\":1,\"z\":1}}"},
         {"{\"a\":{\"x\":1,\"z\":1}}", "{\"b\":{\"x\":1}}"}},
        {"{\"properties\":{\"a\":{\"items\":{\"not\":{\"const\":1}}},\"b\":{\"items\":{\"not\":{\"const\":2}}}}}",
         {"{\"a\":[2],\"b\":[1]}"},
         {"{\"a\":[1]}", "{\"b\":[2]}"}},
        /* an integer of any size, and one beyond 64 bits */
        {"{\"properties\":{\"a\":{\"const\":100000000000000000000},\"b\":{\"const\":100000000000000000001}}}",
         {"{\"a\":100000000000000000000,\"b\":100000000000000000001}"},
         {"{\"a\":100000000000000000001}"}},
    };
    SCHEMA_CHECK(examples);
}

/* The same reference leads elsewhere from another resource. */
static void test_references_of_two_resources(void **state)
{
    (void)state;
    static const schema_example examples[] = {
        {"{\"properties\":{\"a\":{\"$id\":\"http://x/"
         "a\",\"type\":\"object\",\"properties\":{\"v\":{\"items\":{\"$ref\":"
         "\"#/$defs/d\"}}},\"$defs\":{\"d\":{\"const\":1}}},\"b\":{\"$id\":\"http://x/b\",\"type\":\"object\","
         "\"properties\":{\"v\":{\"items\":{\"$ref\":\"#/$defs/d\"}}},\"$defs\":{\"d\":{\"const\":2}}}}}",
         {"{\"a\":{\"v\":[1]},\"b\":{\"v\":[2]}}"},
         {"{\"a\":{\"v\":[2]}}", "{\"b\":{\"v\":[1]}}"}},
        /* what is no definition where it stands, and is one for its own resource */
        {"{\"properties\":{\"a\":{\"items\":{\"$id\":\"http://x/a\",\"$ref\":\"#/examples/"
         "0\",\"examples\":[{\"const\":1}"
         "]}},\"b\":{\"items\":{\"$id\":\"http://x/b\",\"$ref\":\"#/examples/0\",\"examples\":[{\"const\":2}]}}}}",
         {"{\"a\":[1],\"b\":[2]}"},
         {"{\"a\":[2]}", "{\"b\":[1]}"}},
    };
    SCHEMA_CHECK(examples);
}

static void test_a_schema_that_is_written_within_itself(void **state)
{
    (void)state;
    static const schema_example examples[] = {
        {"{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/d\"}}},"
         "\"$defs\":{\"d\":{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/"
         "$defs/"
         "d\"}}},\"additionalProperties\":false}},\"additionalProperties\":false}",
         {"{\"v\":[{\"v\":[{\"v\":[]},{}]}]}"},
         {"{\"v\":[{\"v\":[{\"w\":[]}]}]}", "{\"v\":[[]]}"}},
    };
    SCHEMA_CHECK(examples);
}

/* Numbers beyond 64 bits have one hash: only so many are looked at. */
static void test_many_schemas_of_one_hash(void **state)
{
    (void)state;
    enum { MANY = 300 };
    qn_buffer text = {0};
    qn_error err;
    qn_buffer_text(&text, "{\"prefixItems\":[");
    for (int i = 0; i < MANY; i++)
        qn_buffer_format(&text, "%s{\"maximum\":9900000000000000000000%03d}", i ? "," : "", i);
    qn_buffer_text(&text, "]}");
    json_t *schema = schema_of(qn_buffer_string(&text));
    qn_grammar *grammar = schema_grammar(schema, QN_SCHEMA_JSON, false, &err);
    if (!grammar)
        fail_msg("%s", err.message);
    static const char fits[] = "[9900000000000000000000000,9900000000000000000000001,9900000000000000000000002]";
    static const char not [] = "[9900000000000000000000000,9900000000000000000000001,9900000000000000000000003]";
    assert_true(schema_matches(grammar, fits, sizeof fits - 1));
    assert_false(schema_matches(grammar, not, sizeof not -1));
    qn_grammar_free(grammar);
    json_decref(schema);
    qn_buffer_free(&text);
}

static void test_short_memory(void **state)
{
    (void)state;
    json_t *schema = schema_of(
        "{\"properties\":{\"a\":{\"maxLength\":4,\"items\":{\"minimum\":1}},\"b\":{\"maxLength\":"
        "4,\"items\":{\"minimum\":1}},\"c\":{\"items\":{\"minimum\":1}}}}");
    qn_grammar *grammar = schema_grammar_after_faults(schema);
    qn_grammar_free(grammar);
    json_decref(schema);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_schemas_are_made_once),
        cmocka_unit_test(test_what_differs_in_little_stays_apart),
        cmocka_unit_test(test_references_of_two_resources),
        cmocka_unit_test(test_a_schema_that_is_written_within_itself),
        cmocka_unit_test(test_many_schemas_of_one_hash),
        cmocka_unit_test(test_short_memory),
    };
    return cmocka_run_group_tests(tests, schema_init_json, NULL);
}
