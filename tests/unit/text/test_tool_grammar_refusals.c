/* Parameters of tools that no grammar holds, and others that say nothing which one would have to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/json.h"
#include "small_tokenizer.h"
#include "text/tool_grammar.h"
#include "unit/shipped_tokenizer.h"

static qn_tokenizer *tokenizer;
static qn_vocabulary_trie *trie;

static int open_all(void **state)
{
    (void)state;
    qn_json_init();
    return shipped_tokenizer_open(&tokenizer, &trie);
}

static int close_all(void **state)
{
    (void)state;
    qn_vocabulary_trie_free(trie);
    qn_tokenizer_free(tokenizer);
    return 0;
}

static json_t *parse(const char *text)
{
    json_t *value = NULL;
    qn_error err;
    if (qn_json_parse(text, strlen(text), "test", &value, &err) != QN_OK) {
        fail_msg("%s: %s", err.message, text);
    }
    return value;
}

/* A grammar of one call of the tools. */
static qn_status build(const json_t *tools, qn_error *err)
{
    qn_grammar_builder *b = NULL;
    qn_grammar *grammar = NULL;
    qn_expr root;
    qn_call_rules rules = {.tools = tools, .min = 1, .max = 1};
    assert_int_equal(qn_grammar_builder_new(&b, err), QN_OK);
    qn_status status = qn_tool_calls_expr(b, tokenizer, &rules, &root, err);
    if (status == QN_OK && qn_grammar_build(b, root, &grammar, err) != QN_OK) {
        fail_msg("%s", err->message);
    }
    qn_grammar_free(grammar);
    qn_grammar_builder_free(b);
    return status;
}

static void what_cannot_be_enforced_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *parameters, *told;
    } cases[] = {
        {"{\"anyOf\":[{\"required\":[\"a\"]}]}", "parameters: /anyOf: cannot be enforced"},
        {"{\"allOf\":[]}", "/allOf: "},
        {"{\"oneOf\":[]}", "/oneOf: "},
        {"{\"not\":{}}", "/not: "},
        {"{\"if\":{}}", "/if: "},
        {"{\"enum\":[{}]}", "/enum: "},
        {"{\"const\":{}}", "/const: "},
        {"{\"$ref\":\"#/$defs/a\"}", "/$ref: "},
        {"{\"$ref\":\"#\"}", "/$ref: "},
        {"{\"$ref\":\"#/$defs/a\",\"$defs\":{\"a\":{}},\"required\":[]}",
         "parameters: /required: cannot be enforced beside"},
        {"{\"$ref\":\"#/$defs/a\",\"$defs\":{\"a\":{\"$ref\":\"#/$defs/b\",\"anyOf\":[]},\"b\":{}}}",
         "parameters: /$defs/a: /anyOf: cannot be enforced beside"},
        {"{\"$ref\":\"#/$defs/a\",\"$defs\":{\"a\":{\"properties\":{\"b\":{}},\"required\":[\"c\"]}}}",
         "parameters: /$defs/a: /required: \"c\" is no property"},
        {"{\"$ref\":\"#/$defs/a\",\"$defs\":{\"a\":{\"properties\":{\"b\":{\"type\":\"no\"}}}}}",
         "parameters: /$defs/a: /properties/b: /type: must be"},
        {"{\"patternProperties\":{\"a\":{}}}", "/patternProperties: "},
        {"{\"propertyNames\":{}}", "/propertyNames: "},
        {"{\"dependentRequired\":{}}", "/dependentRequired: "},
        {"{\"dependentSchemas\":{}}", "/dependentSchemas: "},
        {"{\"dependencies\":{}}", "/dependencies: "},
        {"{\"type\":\"array\"}", "/type: arguments are an object"},
        {"{\"type\":[\"object\"]}", "/type: "},
        {"{\"properties\":[]}", "/properties: send an object"},
        {"{\"required\":[\"a\"]}", "/required: \"a\" is no property"},
        {"{\"required\":\"a\"}", "/required: send a list"},
        {"{\"properties\":{\"a\":{}},\"required\":[\"a\",1]}", "/required: send a list"},
        {"{\"minProperties\":-1}", "/minProperties: send an integer"},
        {"{\"minProperties\":\"1\"}", "/minProperties: send an integer"},
        {"{\"maxProperties\":1.5}", "/maxProperties: send an integer"},
        {"{\"minProperties\":1}", "/minProperties: only 0 properties"},
        {"{\"properties\":{\"a\":{}},\"required\":[\"a\"],\"maxProperties\":0}", "/maxProperties: at least 1"},
        {"{\"properties\":{\"a\":{},\"b\":{}},\"minProperties\":2,\"maxProperties\":1}", "/maxProperties: at least 2"},
        {"{\"properties\":{\"\":{}}}", "/properties/: the model's calls"},
        {"{\"properties\":{\" a\":{}}}", "/properties/ a: the model's calls"},
        {"{\"properties\":{\"a\\n\":{}}}", "the model's calls"},
        {"{\"properties\":{\"a\":{\"uniqueItems\":true}}}", "/properties/a: /uniqueItems: "},
        {"{\"properties\":{\"a\":{\"type\":\"integer\",\"minimum\":2,\"maximum\":1}}}", "/properties/a"},
        {"{\"properties\":{\"a\":{\"items\":{\"$ref\":\"#/$defs/none\"}}}}", "/properties/a: /items"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int other = 0; other < 2; other++) { /* alone, or beside a tool that is well */
            json_t *tools = json_array();
            if (other) {
                json_array_append_new(tools, json_pack("{s:s, s:{s:s}}", "type", "function", "function", "name", "n"));
            }
            json_array_append_new(tools, json_pack("{s:s, s:{s:s, s:o}}", "type", "function", "function", "name", "f",
                                                   "parameters", parse(cases[i].parameters)));
            qn_error err;
            qn_status status = build(tools, &err);
            if (status != QN_USAGE || strcmp(err.field, "tools") != 0 || strstr(err.message, cases[i].told) == NULL ||
                strncmp(err.message, other ? "tools[1].function.parameters: " : "tools[0].function.parameters: ", 30) !=
                    0) {
                fail_msg("%s: status %d, field %s, %s", cases[i].parameters, (int)status, err.field, err.message);
            }
            json_decref(tools);
        }
    }
}

static void what_says_nothing_more_is_taken(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "{}",
        "{\"type\":\"object\"}",
        "{\"title\":\"T\",\"description\":\"d\",\"$schema\":\"s\",\"$id\":\"i\",\"$comment\":\"c\",\"deprecated\":true,"
        "\"default\":{},\"examples\":[],\"strict\":true,\"$defs\":{\"a\":{}},\"x-own\":1,\"readOnly\":true}",
        "{\"additionalProperties\":true}",
        "{\"additionalProperties\":{\"type\":\"string\"},\"unevaluatedProperties\":false}",
        "{\"properties\":{\"a\":{\"type\":\"null\"}},\"required\":[\"a\",\"a\"],\"minProperties\":1.0,"
        "\"maxProperties\":9}",
        "{\"properties\":{\"a\":true,\"b\":{}},\"required\":[]}",
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *tools = json_pack("[{s:s, s:{s:s, s:o}}]", "type", "function", "function", "name", "f", "parameters",
                                  parse(cases[i]));
        qn_error err;
        if (build(tools, &err) != QN_OK) {
            fail_msg("%s: %s", cases[i], err.message);
        }
        json_decref(tools);
    }
}

static void a_tokenizer_without_a_tag_is_told(void **state)
{
    (void)state;
    qn_tokenizer *plain = small_open(&(small_spec){0});
    qn_grammar_builder *b = NULL;
    qn_expr root;
    qn_error err;
    json_t *tools = parse("[{\"type\":\"function\",\"function\":{\"name\":\"n\"}}]");
    assert_int_equal(qn_grammar_builder_new(&b, &err), QN_OK);
    assert_int_equal(qn_tool_calls_expr(b, plain, &(qn_call_rules){.tools = tools, .min = 1, .max = 1}, &root, &err),
                     QN_BAD_INPUT);
    assert_non_null(strstr(err.message, "<tool_call>"));
    qn_grammar_builder_free(b);
    qn_tokenizer_free(plain);
    json_decref(tools);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_cannot_be_enforced_is_refused_by_name),
        cmocka_unit_test(what_says_nothing_more_is_taken),
        cmocka_unit_test(a_tokenizer_without_a_tag_is_told),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
