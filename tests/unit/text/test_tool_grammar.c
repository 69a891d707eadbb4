/* Tool calls as a grammar: what is drawn through its masks is read by the parser of calls and judged by the schemas. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "mask_walk.h"
#include "schema_judge.h"
#include "text/answer_grammar.h"
#include "text/output.h"
#include "text/tool_grammar.h"
#include "unit/shipped_tokenizer.h"

enum { LISTS = 500, TOOLS_MAX = 4, CALLS_MAX = 8, LONGEST_ANSWER = 4000 };

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

/* ---- random tools ---- */

#define OBJECT                                                                                       \
    "{\"type\":\"object\",\"properties\":{\"x\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":9}," \
    "\"y\":{\"type\":\"boolean\"}},\"required\":[\"x\"],\"additionalProperties\":false}"
static const char *const schemas[] = {
    "{\"type\":\"string\",\"maxLength\":6}",
    "{\"type\":\"string\",\"minLength\":2,\"maxLength\":9}",
    "{\"type\":[\"string\",\"null\"],\"maxLength\":4}",
    "{\"enum\":[\"c\",\"f\",\"c f\"]}",
    "{\"enum\":[\"a\",1,null,true,\"null\"]}",
    "{\"const\":\"only\"}",
    "{\"type\":\"integer\",\"minimum\":-3,\"maximum\":120}",
    "{\"type\":\"number\",\"minimum\":-1.5,\"maximum\":10}",
    "{\"type\":\"boolean\"}",
    "{\"type\":\"null\"}",
    "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"maxLength\":3},\"minItems\":1,\"maxItems\":3}",
    OBJECT,
    "{\"type\":[\"integer\",\"string\"],\"maxLength\":3,\"minimum\":0,\"maximum\":5}",
    "{\"type\":[\"boolean\",\"null\"]}",
    "{\"enum\":[1.5,2,[\"a\"],{\"x\":\"y\"},\"1\"]}",
    "{\"anyOf\":[{\"type\":\"string\",\"maxLength\":2},{\"type\":\"integer\",\"minimum\":0,\"maximum\":9}]}",
    "{\"anyOf\":[{\"type\":\"null\"},{\"type\":\"integer\",\"minimum\":0,\"maximum\":9}]}",
    "{\"anyOf\":[{\"type\":\"string\",\"maxLength\":2},{\"type\":\"null\"}]}",
    "{\"type\":\"string\",\"enum\":[\"true\",\"1\",\"null\",\"{}\",\"\"]}",
    "{\"type\":[\"string\",\"null\"],\"enum\":[\"null\",null,\"x\"]}",
    "{\"type\":\"array\",\"items\":{\"type\":[\"string\",\"null\"],\"maxLength\":2},\"maxItems\":2}",
    "{\"const\":null}",
    "{\"const\":12}",
    "{\"const\":\"12\"}",
    "{\"enum\":[\" a\",\"b\\n\",\" \"]}",
    "{\"type\":\"string\",\"minLength\":1,\"maxLength\":1}",
    "{\"type\":[\"array\",\"string\"],\"items\":{\"type\":\"boolean\"},\"maxItems\":2,\"maxLength\":3}",
    "{\"type\":\"object\",\"properties\":{\"a\":{\"const\":1}},\"additionalProperties\":false}",
    "{\"$ref\":\"#/$defs/short\"}",
    "{\"anyOf\":[{\"type\":\"integer\",\"minimum\":1,\"maximum\":7},{\"enum\":[\"all\"]}]}",
};
static const char *const names[] = {"a",         "ab",  "gr\xC3\xB6\xC3\x9F\x65", "two words", "<arg_key>", "quo\"ted",
                                    "new\nline", "null"};

static json_t *random_parameters(random_stream *random)
{
    json_t *properties = json_object(), *required = json_array();
    size_t count = random_word(random) % 5;
    for (size_t i = 0; i < count; i++) {
        const char *name = names[random_word(random) % (sizeof names / sizeof *names)];
        json_object_set_new(properties, name, parse(schemas[random_word(random) % (sizeof schemas / sizeof *schemas)]));
    }
    const char *name;
    json_t *ignored;
    json_object_foreach(properties, name, ignored)
    {
        if (random_word(random) % 2 == 0) {
            json_array_append_new(required, json_string(name));
        }
    }
    size_t declared = json_object_size(properties), least = json_array_size(required);
    json_t *parameters = json_pack("{s:s, s:o, s:o, s:{s:{s:s, s:i}}, s:b}", "type", "object", "properties", properties,
                                   "required", required, "$defs", "short", "type", "string", "maxLength", 5,
                                   "additionalProperties", 0);
    if (declared > 0 && random_word(random) % 3 == 0) {
        json_object_set_new(parameters, "minProperties",
                            json_integer((json_int_t)(random_word(random) % (declared + 1))));
        json_int_t min = json_integer_value(json_object_get(parameters, "minProperties"));
        json_int_t low = min > (json_int_t)least ? min : (json_int_t)least;
        json_object_set_new(parameters, "maxProperties", json_integer(low + random_word(random) % 3));
    }
    return parameters;
}

static json_t *random_tools(random_stream *random)
{
    json_t *tools = json_array();
    size_t count = 1 + random_word(random) % TOOLS_MAX;
    for (size_t i = 0; i < count; i++) {
        static const char *const called[] = {"get", "get_time", "get-time.now", "f"};
        json_t *function = json_pack("{s:s}", "name", called[i]);
        if (random_word(random) % 8 != 0) {
            json_object_set_new(function, "parameters", random_parameters(random));
        }
        json_array_append_new(tools, json_pack("{s:s, s:o}", "type", "function", "function", function));
    }
    return tools;
}

/* ---- from rules to calls ---- */

/* Made by the rules; the expression's error where it fails. */
static qn_status make(const qn_call_rules *rules, qn_constraint_options *o, qn_error *err)
{
    qn_grammar_builder *b = NULL;
    qn_grammar *grammar = NULL;
    qn_expr root;
    assert_int_equal(qn_grammar_builder_new(&b, err), QN_OK);
    qn_status status = qn_tool_calls_expr(b, tokenizer, rules, &root, err);
    if (status == QN_OK && qn_grammar_build(b, root, &grammar, err) != QN_OK) {
        fail_msg("%s", err->message);
    }
    qn_grammar_builder_free(b);
    if (status == QN_OK) {
        *o = (qn_constraint_options){.tokenizer = tokenizer,
                                     .vocab_size = SHIPPED_VOCABULARY,
                                     .eos = shipped_eos,
                                     .eos_count = 3,
                                     .grammar = grammar};
        assert_int_equal(qn_mask_cache_new(grammar, trie, &o->cache, err), QN_OK);
    }
    return status;
}

static void drop(qn_constraint_options *o)
{
    qn_mask_cache_free(o->cache);
    qn_grammar_free((qn_grammar *)(uintptr_t)o->grammar);
}

typedef struct heard {
    qn_buffer names[CALLS_MAX], arguments[CALLS_MAX];
    size_t calls, ended;
} heard;

/* Nothing but calls. */
static void hear(const json_t *tools, const qn_tokens *answer, heard *h)
{
    qn_error err;
    qn_tool_list *list = NULL;
    qn_output_stream *stream = NULL;
    if (qn_tool_list_new(tools, &list, &err) != QN_OK) {
        fail_msg("%s", err.message);
    }
    assert_int_equal(qn_output_stream_new(tokenizer, &(qn_output_options){.split = true, .tools = list}, &stream, &err),
                     QN_OK);
    for (size_t i = 0; i < answer->count; i++) {
        assert_int_equal(qn_output_stream_feed(stream, answer->ids[i], &err), QN_OK);
    }
    assert_int_equal(qn_output_stream_finish(stream, false, &err), QN_OK);
    size_t count;
    const qn_output_event *events = qn_output_stream_events(stream, &count);
    for (size_t i = 0; i < count; i++) {
        const qn_output_event *e = &events[i];
        assert_true(e->kind != QN_OUTPUT_CONTENT && e->kind != QN_OUTPUT_REASONING && e->call < CALLS_MAX);
        h->calls += e->kind == QN_OUTPUT_CALL;
        h->ended += e->kind == QN_OUTPUT_CALL_END;
        if (e->kind == QN_OUTPUT_CALL) {
            qn_buffer_append(&h->names[e->call], e->text, e->bytes);
        } else if (e->kind == QN_OUTPUT_ARGUMENTS) {
            qn_buffer_append(&h->arguments[e->call], e->text, e->bytes);
        }
    }
    qn_output_stream_free(stream);
    qn_tool_list_free(list);
}

static void forget(heard *h)
{
    for (size_t i = 0; i < CALLS_MAX; i++) {
        qn_buffer_free(&h->names[i]);
        qn_buffer_free(&h->arguments[i]);
    }
    *h = (heard){0};
}

/* ---- the property ---- */

static void check_call(const json_t *tools, const qn_call_rules *rules, const char *name, const char *arguments,
                       const char *what)
{
    size_t index = 0;
    const json_t *function = NULL;
    for (; index < json_array_size(tools); index++) {
        function = json_object_get(json_array_get(tools, index), "function");
        if (strcmp(json_string_value(json_object_get(function, "name")), name) == 0) {
            break;
        }
    }
    if (index == json_array_size(tools) || (rules->callable != NULL && !rules->callable[index])) {
        fail_msg("%s: calls %s", what, name);
    }
    json_t *given = parse(arguments);
    const json_t *parameters = json_object_get(function, "parameters");
    bool held = rules->held == NULL || rules->held[index];
    bool good = json_is_object(given) &&
                (!held || (parameters != NULL ? schema_accepts_members(parameters, parameters, given)
                                              : json_object_size(given) == 0));
    if (!good) {
        char *schema = json_dumps(parameters, 0);
        fail_msg("%s: %s called with %s\n%s", what, name, arguments, schema);
    }
    json_decref(given);
}

static void drawn_answers_are_calls_as_declared(void **state)
{
    (void)state;
    size_t calls = 0, finished = 0;
    for (uint64_t seed = 1; seed <= LISTS; seed++) {
        random_stream random = {.seed = seed};
        json_t *tools = random_tools(&random);
        size_t count = json_array_size(tools);
        bool callable[TOOLS_MAX] = {false}, held[TOOLS_MAX];
        for (size_t i = 0; i < count; i++) {
            callable[i] = random_word(&random) % 2;
            held[i] = random_word(&random) % 4;
        }
        callable[random_word(&random) % count] = true;
        qn_call_rules rules = {.tools = tools, .line_breaks = random_word(&random) % 2};
        rules.callable = random_word(&random) % 2 ? callable : NULL;
        rules.held = random_word(&random) % 2 ? held : NULL;
        rules.min = random_word(&random) % 3;
        rules.max = rules.min + (rules.min == 0) + random_word(&random) % 2;
        qn_constraint_options o;
        qn_constraint *c = NULL;
        qn_tokens answer = {0};
        qn_error err;
        heard h = {0};
        char what[64];
        snprintf(what, sizeof what, "seed %llu", (unsigned long long)seed);
        if (make(&rules, &o, &err) != QN_OK) {
            fail_msg("%s: %s", what, err.message);
        }
        assert_int_equal(qn_constraint_new(&o, &c, &err), QN_OK);
        if (mask_walk(c, &o, LONGEST_ANSWER, &random, &answer)) {
            finished++;
            hear(tools, &answer, &h);
            assert_true(h.calls >= rules.min && h.calls <= rules.max && h.ended == h.calls);
            for (size_t i = 0; i < h.calls; i++) {
                check_call(tools, &rules, qn_buffer_string(&h.names[i]), qn_buffer_string(&h.arguments[i]), what);
            }
            calls += h.calls;
        }
        forget(&h);
        qn_tokens_free(&answer);
        qn_constraint_free(c);
        drop(&o);
        json_decref(tools);
    }
    assert_true(finished == LISTS && calls > LISTS / 2);
}

/* ---- the format, token by token ---- */

/* An answer as text in which the tags are the added tokens. */
static bool is_word(const qn_constraint_options *o, const char *text)
{
    qn_error err;
    qn_constraint *c = NULL;
    qn_tokens ids = {0};
    bool good = true;
    assert_int_equal(qn_tokenizer_encode(tokenizer, text, strlen(text), NULL, 0, &ids, &err), QN_OK);
    assert_true(qn_tokens_add(&ids, shipped_eos[0]));
    assert_int_equal(qn_constraint_new(o, &c, &err), QN_OK);
    for (size_t count = 0; count < ids.count && good; count++) {
        uint64_t mask[MASK_WORDS];
        mask_fill(c, &(qn_tokens){.ids = ids.ids, .count = count}, mask);
        good = mask_has(mask, ids.ids[count]);
    }
    qn_constraint_free(c);
    qn_tokens_free(&ids);
    return good;
}

static const char weather[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"w\",\"parameters\":{\"type\":\"object\","
    "\"properties\":{\"a\":{\"type\":\"string\"},\"b\":{\"type\":\"integer\"}},"
    "\"required\":[\"a\"]}}},{\"type\":\"function\",\"function\":{\"name\":\"n\"}}]";

#define A "<arg_key>a</arg_key><arg_value>x y</arg_value>"
#define B "<arg_key>b</arg_key><arg_value>-7</arg_value>"
#define LINES_A "<arg_key>a</arg_key>\n<arg_value>x y</arg_value>\n"
#define LINES_W "<tool_call>w\n" LINES_A "</tool_call>"

static void check_words(qn_call_rules rules, const char *const *right, const char *const *wrong)
{
    qn_error err;
    qn_constraint_options o;
    json_t *tools = rules.tools != NULL ? json_deep_copy(rules.tools) : parse(weather);
    rules.tools = tools;
    assert_int_equal(make(&rules, &o, &err), QN_OK);
    for (; *right != NULL; right++) {
        if (!is_word(&o, *right)) {
            fail_msg("refused: %s", *right);
        }
    }
    for (; *wrong != NULL; wrong++) {
        if (is_word(&o, *wrong)) {
            fail_msg("taken: %s", *wrong);
        }
    }
    drop(&o);
    json_decref(tools);
}

static void a_call_is_in_the_native_format(void **state)
{
    (void)state;
    check_words(
        (qn_call_rules){.min = 1, .max = 1},
        (const char *const[]){"<tool_call>w" A "</tool_call>", "<tool_call>w" A B "</tool_call>",
                              "<tool_call>w" B A "</tool_call>", "<tool_call>n</tool_call>", NULL},
        (const char *const[]){"", "w", "<tool_call>w</tool_call>", "<tool_call>w" B "</tool_call>",
                              "<tool_call>w" A A "</tool_call>", "<tool_call>n" A "</tool_call>",
                              "<tool_call>v" A "</tool_call>", "<tool_call>n</tool_call><tool_call>n</tool_call>",
                              "\n<tool_call>n</tool_call>", "<tool_call>n</tool_call>\n", LINES_W,
                              "<tool_call>w<arg_key>c</arg_key><arg_value>1</arg_value>" A "</tool_call>",
                              "<tool_call>w" A "<arg_key>b</arg_key><arg_value>x</arg_value></tool_call>", NULL});
}

static void the_older_dialect_breaks_lines(void **state)
{
    (void)state;
    check_words((qn_call_rules){.min = 1, .max = 2, .line_breaks = true},
                (const char *const[]){LINES_W, "\n" LINES_W, "<tool_call>n\n</tool_call>", LINES_W "\n" LINES_W, NULL},
                (const char *const[]){"<tool_call>w" A "</tool_call>", LINES_W LINES_W, LINES_W "\n",
                                      "<tool_call>n</tool_call>", "\n\n" LINES_W, LINES_W "\n" LINES_W "\n" LINES_W,
                                      NULL});
}

static void calls_come_as_often_as_asked(void **state)
{
    (void)state;
#define N "<tool_call>n</tool_call>"
    static const char *const counts[] = {"", N, N N, N N N, N N N N};
    static const size_t bounds[][2] = {{0, 1},           {0, 2}, {1, 1}, {1, 3}, {2, 2}, {2, 3}, {0, QN_UNBOUNDED},
                                       {3, QN_UNBOUNDED}};
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        const char *right[6] = {NULL}, *wrong[6] = {NULL};
        size_t rights = 0, wrongs = 0;
        for (size_t calls = 0; calls < 5; calls++) {
            if (calls >= bounds[i][0] && calls <= bounds[i][1]) {
                right[rights++] = counts[calls];
            } else {
                wrong[wrongs++] = counts[calls];
            }
        }
        check_words((qn_call_rules){.min = bounds[i][0], .max = bounds[i][1]}, right, wrong);
    }
}

static void only_what_may_be_called_is(void **state)
{
    (void)state;
    check_words((qn_call_rules){.min = 1, .max = 1, .callable = (const bool[]){true, false}},
                (const char *const[]){"<tool_call>w" A "</tool_call>", NULL}, (const char *const[]){N, NULL});
    check_words((qn_call_rules){.min = 1, .max = 1, .callable = (const bool[]){false, true}},
                (const char *const[]){N, NULL}, (const char *const[]){"<tool_call>w" A "</tool_call>", NULL});
}

static void a_tool_that_is_not_held_takes_any_arguments(void **state)
{
    (void)state;
    check_words((qn_call_rules){.min = 1, .max = 1, .held = (const bool[]){false, false}},
                (const char *const[]){N, "<tool_call>w</tool_call>", "<tool_call>w" A A B "</tool_call>",
                                      "<tool_call>n<arg_key>k k</arg_key><arg_value></arg_value></tool_call>", NULL},
                (const char *const[]){"<tool_call>v</tool_call>", "<tool_call>w<arg_key>a</arg_key></tool_call>",
                                      "<tool_call>wx" A "</tool_call>", NULL});
}

static void parameters_may_be_a_reference(void **state)
{
    (void)state;
    json_t *tools = parse(
        "[{\"type\":\"function\",\"function\":{\"name\":\"w\",\"parameters\":{\"$ref\":\"#/$defs/"
        "Args\",\"title\":\"T\","
        "\"$defs\":{\"Args\":{\"$ref\":\"#/definitions/More\",\"type\":\"object\"}},\"definitions\":{\"More\":{"
        "\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\"},\"b\":{\"$ref\":\"#/$defs/Args\"},"
        "\"c\":{\"$ref\":\"#/definitions/Int\"}},\"required\":[\"a\"],\"maxProperties\":2},"
        "\"Int\":{\"type\":\"integer\"}}}}}]");
    check_words(
        (qn_call_rules){.tools = tools, .min = 1, .max = 1},
        (const char *const[]){"<tool_call>w" A "</tool_call>",
                              "<tool_call>w" A "<arg_key>c</arg_key><arg_value>12</arg_value></tool_call>",
                              "<tool_call>w<arg_key>b</arg_key><arg_value>{\"a\": \"\"}</arg_value>" A "</tool_call>",
                              NULL},
        (const char *const[]){"<tool_call>w</tool_call>", "<tool_call>w" A B "</tool_call>",
                              "<tool_call>w" A "<arg_key>c</arg_key><arg_value>x</arg_value></tool_call>",
                              "<tool_call>w<arg_key>b</arg_key><arg_value>{}</arg_value>" A "</tool_call>", NULL});
    json_decref(tools);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drawn_answers_are_calls_as_declared),
        cmocka_unit_test(a_call_is_in_the_native_format),
        cmocka_unit_test(the_older_dialect_breaks_lines),
        cmocka_unit_test(calls_come_as_often_as_asked),
        cmocka_unit_test(only_what_may_be_called_is),
        cmocka_unit_test(a_tool_that_is_not_held_takes_any_arguments),
        cmocka_unit_test(parameters_may_be_a_reference),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
