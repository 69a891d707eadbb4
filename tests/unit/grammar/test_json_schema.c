#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_wide.h"
#include "grammar/json_schema.h"
#include "unit/grammar/schema_check.h"
#include "unit/shared_files.h"

static void test_scalars(void **state)
{
    (void)state;
    static const schema_example examples[] = {
        {"{\"type\":\"integer\"}", {"0", "-12", "12345678901234567890123"}, {"1.5", "01", "-", "\"1\"", "", "1 "}},
        {"{\"type\":[\"integer\",\"null\"]}", {"7", "null"}, {"1.5", "nul", "true"}},
        {"{\"type\":\"number\",\"minimum\":-2.5,\"exclusiveMaximum\":10}",
         {"-2.5", "-2.50", "0", "-0.1", "9.999", "9", "1e0", "9.99E+00", "1e-05", "-2.5e0", "0.25"},
         {"-2.51", "-3", "10", "10.0", "1e1", "1e2", "-2.6e0", "-1e1", "+1", "01"}},
        {"{\"type\":\"integer\",\"minimum\":7,\"maximum\":1203}",
         {"7", "10", "99", "100", "999", "1000", "1199", "1203"},
         {"6", "07", "1204", "1210", "2000", "-8", "7.0"}},
        {"{\"type\":\"integer\",\"exclusiveMinimum\":-20,\"exclusiveMaximum\":0.5}",
         {"-19", "-1", "0"},
         {"-20", "1", "-100", "2"}},
        {"{\"type\":\"integer\",\"minimum\":12345678901234567890123}",
         {"12345678901234567890123", "99999999999999999999999"},
         {"12345678901234567890122", "1"}},
        {"{\"const\":2}", {"2", "2.0"}, {"3", "2.01", "20", "\"2\""}},
        {"{\"enum\":[0.1,1e30,\"a\",null]}", {"0.1", "0.10", "1e30", "1e+30", "\"a\"", "null"}, {"0.11", "1e31", "a"}},
        {"true", {"1", "{\"a\":[true,{}]}", "\"\\ud83d\\ude00\""}, {"\"\\ud83d\"", "{\"a\":}", "[1,]", "nan"}},
    };
    SCHEMA_CHECK(examples);
}

static void test_strings(void **state)
{
    (void)state;
    static const schema_example examples[] = {
        {"{\"type\":\"string\",\"minLength\":1,\"maxLength\":2}",
         {"\"a\"", "\"\\n\\u0041\"", "\"\\ud83d\\ude00\\\"\"", "\"é\""},
         {"\"\"", "\"abc\"", "\"\\u12\"", "\"\n\"", "\"\xff\"", "\"\\ude00\""}},
        {"{\"type\":\"string\",\"pattern\":\"^a+$\",\"maxLength\":3}",
         {"\"a\"", "\"aaa\"", "\"\\u0061a\""},
         {"\"\"", "\"aaaa\"", "\"ab\""}},
        {"{\"type\":\"string\",\"allOf\":[{\"pattern\":\"a\"},{\"pattern\":\"b\"}]}",
         {"\"xbya\"", "\"ab\""},
         {"\"a\"", "\"b\"", "\"\""}},
        {"{\"type\":\"string\",\"pattern\":\"^(?!\\\\.)(?!.*\\\\.\\\\.)([A-Za-z0-9_'+\\\\-\\\\.]*)[A-Za-z0-9_+-]@([A-"
         "Za-z0-9]"
         "[A-Za-z0-9\\\\-]*\\\\.)+[A-Za-z]{2,}$\"}",
         {"\"a@b.cd\"", "\"a.b-c@x-y.z1.org\""},
         {"\".a@b.cd\"", "\"a..b@b.cd\"", "\"a@b.c\"", "\"a@b\"", "\"@b.cd\""}},
        {"{\"type\":\"string\",\"pattern\":\"^(?!^[-+.]*$)[+-]?0*\\\\d*\\\\.?\\\\d*$\",\"maxLength\":6}",
         {"\"1\"", "\"-0.5\"", "\"+12.\"", "\".5\""},
         {"\"\"", "\"-\"", "\"+.\"", "\"1e5\"", "\"1234567\""}},
        {"{\"type\":\"string\",\"pattern\":\"^(?=.*[0-9])(?=[^()|]*[a-z]$)[^ |]{2,4}\"}",
         {"\"1a\"", "\"ab2c\"", "\"1234567b\""},
         {"\"12\"", "\"ab\"", "\"1\"", "\"1 a\"", "\"1(a\""}},
        {"{\"type\":\"string\",\"format\":\"date\"}",
         {"\"2024-02-29\"", "\"2000-02-29\"", "\"2023-12-31\""},
         {"\"2023-02-29\"", "\"1900-02-29\"", "\"2023-04-31\"", "\"2023-13-01\""}},
        {"{\"type\":\"string\",\"format\":\"ipv6\"}",
         {"\"::1\"", "\"1:2:3:4:5:6:7:8\"", "\"fe80::1:2\"", "\"::ffff:1.2.3.4\""},
         {"\"1:2\"", "\":::\"", "\"1::2::3\"", "\"12345::\""}},
        {"{\"type\":\"string\",\"format\":\"uri\"}",
         {"\"https://a.b/c?d=e#f\"", "\"urn:x:y\"", "\"mailto:a@b.c\""},
         {"\"a b\"", "\"/x\"", "\"http://a b\""}},
        {"{\"type\":\"string\",\"format\":\"of-my-own\"}", {"\"x\""}, {"1"}},
        {"{\"enum\":[\"ab\",\"abc\",\"b\",\"\"]}",
         {"\"ab\"", "\"abc\"", "\"b\"", "\"\"", "\"\\u0061b\""},
         {"\"a\"", "\"abcd\""}},
        {"{\"enum\":[\"a\",\"bb\",3],\"pattern\":\"b\"}", {"\"bb\"", "3"}, {"\"a\""}},
    };
    SCHEMA_CHECK(examples);
}

static void test_arrays(void **state)
{
    (void)state;
    static const schema_example examples[] = {
        {"{\"type\":\"array\",\"prefixItems\":[{\"type\":\"integer\"},{\"type\":\"string\"}],\"items\":false}",
         {"[]", "[1]", "[1,\"a\"]"},
         {"[\"a\"]", "[1,\"a\",2]", "[,]"}},
        {"{\"type\":\"array\",\"prefixItems\":[{\"type\":\"integer\"}],\"items\":{\"type\":\"null\"},\"minItems\":2,"
         "\"maxItems\":3}",
         {"[1,null]", "[1,null,null]"},
         {"[]", "[1]", "[1,null,null,null]", "[null,null]"}},
        {"{\"allOf\":[{\"prefixItems\":[{\"minimum\":3}]}],\"items\":{\"minimum\":5}}",
         {"[5,5]", "7", "[]"},
         {"[3,5]", "[5,4]"}},
        {"{\"const\":[1,[\"x\"],{}]}", {"[1,[\"x\"],{}]", "[1, [\"x\"], {}]"}, {"[1,[\"x\"]]", "[]"}},
    };
    SCHEMA_CHECK(examples);
}

static void test_objects(void **state)
{
    (void)state;
    static const schema_example examples[] = {
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"string\"}},"
         "\"required\":[\"b\"]}",
         {"{\"b\":\"\"}", "{\"x\":[],\"b\":\"\",\"y\":1,\"a\":2}", "{\"b\":\"\",\"ab\":1,\"\":2}",
          "{\"\\u0062\":\"\"}"},
         {"{}", "{\"a\":1}", "{\"b\":1}", "{\"b\":\"\",\"\\u0061\":\"x\"}", "{\"b\":\"\",\"b\":\"\"}",
          "{\"b\":\"\",\"\\u0062\":\"\"}", "{\"b\":\"\",}"}},
        {"{\"type\":\"object\",\"properties\":{\"no\":false,\"a\":true},\"additionalProperties\":false}",
         {"{}", "{\"a\":1}"},
         {"{\"no\":1}", "{\"a\":1,\"c\":1}"}},
        {"{\"type\":\"object\",\"properties\":{\"no\":false}}", {"{\"a\":1}"}, {"{\"no\":1}", "{\"n\\u006f\":1}"}},
        {"{\"type\":\"object\",\"minProperties\":1,\"maxProperties\":2}",
         {"{\"a\":1}", "{\"a\":1,\"b\":2}"},
         {"{}", "{\"a\":1,\"b\":2,\"c\":3}"}},
        {"{\"type\":\"object\",\"maxProperties\":0}", {"{}"}, {"{\"a\":1}"}},
        {"{\"type\":\"object\",\"patternProperties\":{\"^a\":{\"type\":\"integer\"},\"b$\":{\"minimum\":5}},"
         "\"additionalProperties\":false}",
         {"{\"a\":1}", "{\"b\":7}", "{\"b\":\"x\"}", "{\"ab\":7}", "{\"a\":1,\"xb\":null}"},
         {"{\"a\":\"x\"}", "{\"b\":4}", "{\"ab\":4}", "{\"ab\":\"x\"}", "{\"c\":1}", "{\"\\u0061b\":4}"}},
        {"{\"type\":\"object\",\"properties\":{\"ab\":{\"maximum\":9}},\"patternProperties\":{\"^a\":{\"minimum\":5}}}",
         {"{\"ab\":7}", "{\"ac\":70}", "{\"b\":1}"},
         {"{\"ab\":4}", "{\"ab\":10}", "{\"ac\":4}"}},
        {"{\"const\":{\"a\":1,\"b\":[true]}}",
         {"{\"a\":1,\"b\":[true]}", "{\"b\":[true],\"a\":1.0}"},
         {"{\"a\":1}", "{\"a\":1,\"b\":[true],\"c\":1}", "{\"a\":1,\"a\":1,\"b\":[true]}"}},
        {"{\"enum\":[{\"a\":1},{\"a\":\"x\"},{}],\"required\":[\"a\"],\"properties\":{\"a\":{\"type\":\"string\"}}}",
         {"{\"a\":\"x\"}"},
         {"{\"a\":1}", "{}"}},
    };
    SCHEMA_CHECK(examples);
}

static void test_combinations(void **state)
{
    (void)state;
    static const schema_example examples[] = {
        {"{\"type\":\"string\",\"anyOf\":[{\"maxLength\":2},{\"minLength\":4}]}",
         {"\"ab\"", "\"abcd\""},
         {"\"abc\"", "3"}},
        {"{\"oneOf\":[{\"type\":\"string\"},{\"type\":\"integer\"}],\"minimum\":3}", {"\"\"", "3"}, {"2", "null"}},
        {"{\"oneOf\":[{\"properties\":{\"k\":{\"const\":\"a\"},\"v\":{\"type\":\"null\"}},\"required\":[\"k\"]},"
         "{\"properties\":{\"k\":{\"enum\":[\"b\",\"c\"]}},\"required\":[\"k\"]}],\"type\":\"object\"}",
         {"{\"k\":\"a\"}", "{\"k\":\"c\",\"v\":1}", "{\"v\":null,\"k\":\"a\"}"},
         {"{\"k\":\"a\",\"v\":1}", "{\"k\":\"d\"}", "{}"}},
        {"{\"allOf\":[{\"type\":[\"integer\",\"string\"]},{\"type\":[\"number\",\"null\"]},{\"maximum\":3}]}",
         {"3", "-1"},
         {"4", "2.5", "null", "\"\""}},
        {"{\"$defs\":{\"n\":{\"type\":\"object\",\"properties\":{\"next\":{\"anyOf\":[{\"$ref\":\"#/$defs/n\"},"
         "{\"type\":\"null\"}]}},\"required\":[\"next\"],\"additionalProperties\":false}},\"$ref\":\"#/$defs/n\"}",
         {"{\"next\":null}", "{\"next\":{\"next\":{\"next\":null}}}"},
         {"{}", "{\"next\":{}}", "{\"next\":1}"}},
        {"{\"$defs\":{\"s\":{\"$anchor\":\"here\",\"type\":\"array\"}},\"$ref\":\"#here\",\"maxItems\":1}",
         {"[]", "[1]"},
         {"[1,2]", "1"}},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}},\"allOf\":[{\"required\":[\"a\"]},"
         "{\"properties\":{\"a\":{\"minimum\":3}}}],\"additionalProperties\":false}",
         {"{\"a\":3}"},
         {"{}", "{\"a\":2}", "{\"a\":3,\"b\":1}"}},
        {"{\"type\":\"string\",\"uniqueItems\":true,\"multipleOf\":3}", {"\"x\""}, {"3"}},
        {"{\"if\":{\"type\":\"string\"},\"title\":\"t\",\"x-own\":1}", {"1"}, {""}},
    };
    SCHEMA_CHECK(examples);
}

static void test_arguments(void **state)
{
    (void)state;
    static const schema_example examples[] = {
        {"{\"type\":\"string\"}", {"", "a \"b\" \\ \n é", "42", "null"}, {"\xff"}},
        {"{\"type\":\"string\",\"maxLength\":2}", {"ab", "\"\""}, {"abc", "\"ab\""}},
        {"{\"type\":\"string\",\"pattern\":\"^[a-c]+$\"}", {"abc"}, {"", "abd", "\"abc\""}},
        {"{\"type\":[\"string\",\"null\"],\"pattern\":\"^a\"}", {"null", "a"}, {"b", "\"a\""}},
        {"{\"type\":\"integer\"}", {"12"}, {"\"12\"", "x", ""}},
        {"{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"null\"}]}", {"12", "null"}, {"x", "None"}},
        {"{\"anyOf\":[{\"type\":\"string\",\"maxLength\":1},{\"type\":\"number\"}]}", {"1", "x"}, {"12"}},
        {"{}", {"x", "{\"a\":1}", "1"}, {"\xff"}},
        {"{\"enum\":[1,\"1\",null,\"a b\"]}", {"1", "null", "a b"}, {"\"1\"", "2", ""}},
        {"{\"anyOf\":[{\"enum\":[\"auto\"]},{\"type\":\"integer\"}]}", {"auto", "3"}, {"\"auto\"", "x"}},
        {"{\"minLength\":2}", {"\"ab\"", "1"}, {"ab", "\"a\""}},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\"}}}", {"{\"a\":\"x\"}"}, {"{\"a\":x}", "x"}},
    };
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++)
        schema_check_example(&examples[i], QN_SCHEMA_ARGUMENT, false);
}

static void test_white_space_is_bounded(void **state)
{
    (void)state;
    json_t *schema = schema_of("{\"type\":\"array\",\"items\":{\"type\":\"integer\"}}");
    qn_error err;
    qn_grammar *spaced = schema_grammar(schema, QN_SCHEMA_JSON, true, &err),
               *compact = schema_grammar(schema, QN_SCHEMA_JSON, false, &err);
    assert_non_null(spaced);
    assert_non_null(compact);
    static const char text[] = "[ \n\t1 ,\r\n 2 ]";
    assert_true(schema_matches(spaced, text, strlen(text)));
    assert_false(schema_matches(compact, text, strlen(text)));
    assert_true(schema_matches(compact, "[1, 2]", 6));
    assert_true(schema_matches(compact, "[1,2]", 5));
    char many[64];
    snprintf(many, sizeof many, "[%*s1]", 20, "");
    assert_true(schema_matches(spaced, many, strlen(many)));
    snprintf(many, sizeof many, "[%*s1]", 21, "");
    assert_false(schema_matches(spaced, many, strlen(many)));
    qn_grammar_free(spaced);
    qn_grammar_free(compact);
    json_decref(schema);
}

static void test_refusals_tell_the_place(void **state)
{
    (void)state;
    static const schema_refusal refusals[] = {
        {"{\"properties\":{\"a\":{\"not\":{\"format\":\"date\"}}}}",
         "schema: /properties/a/not/format: cannot be enforced"},
        {"{\"properties\":{\"a/b~\":{\"type\":\"no\"}}}", "schema: /properties/a~1b~0/type: must be one of"},
        {"{\"type\":\"array\",\"uniqueItems\":true}", "schema: /uniqueItems: cannot be enforced"},
        {"{\"dependencies\":{\"a\":\"b\"}}", "schema: /dependencies/a: not a schema but a value of type string"},
        {"{\"type\":\"integer\",\"nullable\":1}", "schema: /nullable: must be true or false"},
        {"{\"divisibleBy\":3}", "schema: /divisibleBy: cannot be enforced"},
        {"{\"exclusiveMinimum\":true}", "schema: /exclusiveMinimum: true without a \"minimum\" beside it"},
        {"{\"additionalItems\":false}", "schema: /additionalItems: cannot be enforced: it belongs to a list"},
        {"{\"prefixItems\":[{}],\"additionalItems\":false}", "schema: /additionalItems: cannot be enforced"},
        {"{\"prefixItems\":[{}],\"items\":[{}]}", "schema: /items: must be a schema beside \"prefixItems\""},
        {"{\"items\":[3]}", "schema: /items/0: not a schema but a value of type integer"},
        {"{\"$ref\":\"#/$defs/a\"}", "schema: /$ref: nothing is at"},
        {"{\"$ref\":\"http://x/y\"}", "schema: /$ref: \"http://x/y\" cannot be resolved"},
        {"{\"$ref\":\"#\"}", "schema: /$ref: leads back to itself"},
        {"{\"allOf\":[{\"$ref\":\"#\"}]}", "schema: /allOf/0/$ref: leads back to itself"},
        {"{\"type\":\"string\",\"pattern\":\"(?=a)\"}", "schema: /pattern: cannot be enforced: regex: byte"},
        {"{\"type\":\"string\",\"pattern\":\"^(?!a)b|c\"}", "schema: /pattern: cannot be enforced: regex: byte"},
        {"{\"type\":\"string\",\"pattern\":\"^(?!a\"}", "schema: /pattern: cannot be enforced: regex: byte"},
        {"{\"type\":\"string\",\"not\":{\"pattern\":\"^(?!a)b\"}}", "schema: /not/pattern: cannot be enforced: regex"},
        {"{\"type\":\"string\",\"minLength\":3,\"maxLength\":2}", "schema: (root): no value can satisfy it"},
        {"{\"type\":\"integer\",\"minimum\":1.2,\"maximum\":1.8}", "schema: (root): no value can satisfy it"},
        {"{\"allOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]}", "schema: (root): no value can satisfy it"},
        {"{\"type\":\"object\",\"required\":[\"a\"],\"properties\":{\"a\":false}}", "schema: (root): no value can"},
        {"{\"enum\":[]}", "schema: (root): no value can satisfy it"},
        {"false", "schema: (root): no value can satisfy it"},
        {"{\"properties\":{\"a\":3}}", "schema: /properties/a: not a schema but a value of type integer"},
        {"{\"minimum\":\"3\"}", "schema: /minimum: must be a number"},
        {"{\"maxLength\":-1}", "schema: /maxLength: must be an integer, 0 or more"},
        {"{\"required\":true}", "schema: /required: must be an array of names"},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#\"}},\"required\":[\"a\"]}", "no text can match"},
    };
    SCHEMA_CHECK_REFUSALS(refusals);
}

static void test_any_object_and_value(void **state)
{
    (void)state;
    qn_error err;
    qn_schema_options options = {true};
    for (int object = 0; object < 2; object++) {
        qn_grammar_builder *b;
        qn_grammar *grammar;
        assert_int_equal(qn_grammar_builder_new(&b, &err), QN_OK);
        qn_expr expr = object ? qn_json_object_expr(b, &options) : qn_json_value_expr(b, &options);
        assert_int_equal(qn_grammar_build(b, expr, &grammar, &err), QN_OK);
        qn_grammar_builder_free(b);
        assert_true(schema_matches(grammar, "{\"a\": [1, {}]}", 14));
        assert_int_equal(schema_matches(grammar, "[1]", 3), !object);
        assert_false(schema_matches(grammar, "{\"a\" 1}", 7));
        qn_grammar_free(grammar);
    }
}

static void walk_faults(const char *text, const char *word)
{
    json_t *schema = schema_of(text);
    qn_grammar *grammar = schema_grammar_after_faults(schema);
    assert_true(schema_matches(grammar, word, strlen(word)));
    qn_grammar_free(grammar);
    json_decref(schema);
}

static void test_short_memory(void **state)
{
    (void)state;
    walk_faults("{\"type\":\"object\",\"properties\":{\"a\":{\"anyOf\":[{\"type\":\"string\",\"pattern\":\"^a\","
                "\"maxLength\":2},{\"type\":\"number\",\"minimum\":1.5}]},\"b\":{\"$ref\":\"#\"}},\"required\":[\"a\"],"
                "\"patternProperties\":{\"^x\":{\"enum\":[1,\"b\",[2]]}}}",
                "{\"a\": 2}");
    walk_faults(
        "{\"type\":[\"object\",\"array\"],\"propertyNames\":{\"maxLength\":1},\"dependentRequired\":{\"a\":[\"b\"]},"
        "\"additionalProperties\":{\"not\":{\"enum\":[\"x\"]},\"type\":\"string\"}}",
        "{\"c\":\"y\"}");
    walk_faults(
        "{\"$defs\":{\"n\":{\"$id\":\"n\",\"type\":\"integer\",\"multipleOf\":5}},\"items\":{\"if\":{\"$ref\":\"n\"},"
        "\"then\":{\"maximum\":9},\"else\":{\"type\":\"boolean\"}},\"contains\":{\"$ref\":\"n\"},\"type\":\"array\"}",
        "[true,5]");
    walk_faults("{\"type\":\"array\",\"items\":{\"enum\":[1,\"x\",true]},\"uniqueItems\":true}", "[true,1]");
}

/* The shared cases, where they are: every case of our own, and of the suite every instance that a compiled schema has.
 */
static const char *next_line(const qn_buffer *file, size_t *at, size_t *bytes)
{
    if (*at >= file->size)
        return NULL;
    const char *line = file->data + *at, *end = memchr(line, '\n', file->size - *at);
    *bytes = end ? (size_t)(end - line) : file->size - *at;
    *at += *bytes + 1;
    return line;
}

static void check_texts(const qn_grammar *grammar, const json_t *texts, bool expected, const char *name)
{
    for (size_t i = 0; i < json_array_size(texts); i++) {
        const json_t *text = json_array_get(texts, i);
        if (schema_matches(grammar, json_string_value(text), json_string_length(text)) != expected)
            fail_msg("%s: %s is %s", name, json_string_value(text), expected ? "rejected" : "accepted");
    }
}

static void test_own_cases(void **state)
{
    (void)state;
    qn_buffer file = {0};
    qn_error err;
    size_t at = 0, bytes;
    if (!shared_file_read("cases/json_schema/own.jsonl", &file))
        skip();
    for (const char *line; (line = next_line(&file, &at, &bytes));) {
        json_t *one;
        assert_int_equal(qn_json_parse(line, bytes, "case", &one, &err), QN_OK);
        const char *name = json_string_value(json_object_get(one, "name"));
        for (int spaced = 0; spaced < 2; spaced++) {
            qn_grammar *grammar = schema_grammar(json_object_get(one, "schema"), QN_SCHEMA_JSON, spaced, &err);
            if (!grammar)
                fail_msg("%s: %s", name, err.message);
            check_texts(grammar, json_object_get(one, "accept"), true, name);
            check_texts(grammar, json_object_get(one, "reject"), false, name);
            qn_grammar_free(grammar);
        }
        json_decref(one);
    }
    qn_buffer_free(&file);
}

static bool has_real(const json_t *value)
{
    const char *key;
    json_t *part;
    json_object_foreach((json_t *)(uintptr_t)value, key, part) if (has_real(part)) return true;
    for (size_t i = 0; i < json_array_size(value); i++)
        if (has_real(json_array_get(value, i)))
            return true;
    return json_is_real(value);
}

static void release(char *text)
{
    json_malloc_t allocate;
    json_free_t free_text;
    json_get_alloc_funcs(&allocate, &free_text);
    free_text(text);
}

static void check_instance(const qn_grammar *grammar, const json_t *test, const char *schema)
{
    enum { PLAIN = JSON_ENCODE_ANY | JSON_REAL_PRECISION(15) };
    static const size_t styles[] = {PLAIN, PLAIN | JSON_ENSURE_ASCII, PLAIN | JSON_COMPACT};
    const json_t *data = json_object_get(test, "data");
    bool valid = json_is_true(json_object_get(test, "valid"));
    for (size_t i = 0; i < sizeof styles / sizeof *styles; i++) {
        char *text = json_dumps(data, styles[i]);
        assert_non_null(text);
        bool accepted = schema_matches(grammar, text, strlen(text));
        if (accepted != valid && !(valid && has_real(data))) /* an integer spelt 1.0 may be refused */
            fail_msg("%s: %s is %s", schema, text, accepted ? "accepted" : "rejected");
        release(text);
    }
}

/* What may be refused at all; no other keyword of the suite may. */
static bool may_be_refused(const char *keyword)
{
    static const char *const keywords[] = {
        "not",   "if-then-else", "contains", "dependentRequired",   "uniqueItems", "multipleOf", "propertyNames",
        "oneOf", "ref",          "allOf",    "additionalProperties"};
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
        if (strcmp(keyword, keywords[i]) == 0)
            return true;
    return false;
}

static void test_suite_cases(void **state)
{
    (void)state;
    qn_buffer file = {0};
    qn_error err;
    size_t at = 0, bytes, compiled = 0, refused = 0;
    if (!shared_file_read("cases/json_schema/suite-2020-12.jsonl", &file))
        skip();
    for (const char *line; (line = next_line(&file, &at, &bytes));) {
        json_t *one, *test;
        size_t i;
        assert_int_equal(qn_json_parse(line, bytes, "case", &one, &err), QN_OK);
        const json_t *schema = json_object_get(one, "schema");
        char *text = json_dumps(schema, JSON_ENCODE_ANY);
        qn_grammar *grammar = schema_grammar(schema, QN_SCHEMA_JSON, false, &err);
        if (grammar) {
            compiled++;
            json_array_foreach(json_object_get(one, "tests"), i, test) check_instance(grammar, test, text);
        } else {
            refused++;
            bool contradictory = strstr(err.message, "no value can satisfy") != NULL;
            if (!contradictory && !may_be_refused(json_string_value(json_object_get(one, "keyword"))))
                fail_msg("%s: %s", text, err.message);
        }
        qn_grammar_free(grammar);
        release(text);
        json_decref(one);
    }
    print_message("suite: %zu schemas compiled, %zu refused\n", compiled, refused);
    assert_true(compiled >= 100);
    qn_buffer_free(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scalars),
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_arrays),
        cmocka_unit_test(test_objects),
        cmocka_unit_test(test_combinations),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_white_space_is_bounded),
        cmocka_unit_test(test_refusals_tell_the_place),
        cmocka_unit_test(test_any_object_and_value),
        cmocka_unit_test(test_short_memory),
        cmocka_unit_test(test_own_cases),
        cmocka_unit_test(test_suite_cases),
    };
    return cmocka_run_group_tests(tests, schema_init_json, NULL);
}
