/* Forms of answers with and without calls, and what becomes of one that cannot be made. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "base/json.h"
#include "grammar/matcher.h"
#include "text/answer_grammar.h"
#include "unit/shipped_tokenizer.h"

static qn_tokenizer *tokenizer;
static qn_vocabulary_trie *trie;
static json_t *tools;

#define CALL "<tool_call>f<arg_key>a</arg_key><arg_value>7</arg_value></tool_call>"

static json_t *parse(const char *text)
{
    json_t *value = NULL;
    qn_error err;
    if (qn_json_parse(text, strlen(text), "test", &value, &err) != QN_OK) {
        fail_msg("%s: %s", err.message, text);
    }
    return value;
}

static int open_all(void **state)
{
    (void)state;
    qn_json_init();
    tools = parse("[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\","
                  "\"properties\":{\"a\":{\"type\":\"integer\"}},\"required\":[\"a\"]}}}]");
    return shipped_tokenizer_open(&tokenizer, &trie);
}

static int close_all(void **state)
{
    (void)state;
    json_decref(tools);
    qn_vocabulary_trie_free(trie);
    qn_tokenizer_free(tokenizer);
    return 0;
}

/* ---- forms ---- */

typedef struct form {
    qn_format_kind kind;
    const char *value; /* JSON; NULL: none */
    bool compact;
} form;

static qn_status make(const form *f, qn_calls_place place, qn_answer_grammar **out, qn_error *err)
{
    json_t *value = NULL;
    if (f->value != NULL) { /* a string is no document by itself */
        json_t *list = NULL;
        char text[512];
        snprintf(text, sizeof text, "[%s]", f->value);
        list = parse(text);
        value = json_incref(json_array_get(list, 0));
        json_decref(list);
    }
    const qn_answer_format format = {.kind = f->kind, .value = value, .field = "the_field", .compact = f->compact};
    const qn_call_rules rules = {.tools = tools, .min = 1, .max = 1};
    qn_status status = qn_answer_grammar_new(tokenizer, trie, &format, place, &rules, out, err);
    json_decref(value); /* nothing of it is needed any more */
    return status;
}

/* An answer as text in which the tags are the added tokens. */
static bool is_word(const qn_answer_grammar *grammar, const char *text)
{
    qn_error err;
    qn_matcher *m = NULL;
    qn_tokens ids = {0};
    bool taken = true;
    assert_int_equal(qn_tokenizer_encode(tokenizer, text, strlen(text), NULL, 0, &ids, &err), QN_OK);
    assert_int_equal(qn_matcher_new(qn_answer_grammar_of(grammar), &m, &err), QN_OK);
    for (size_t i = 0; i < ids.count && taken; i++) {
        size_t bytes = 0;
        const char *piece = qn_tokenizer_token_bytes(tokenizer, ids.ids[i], &bytes);
        taken = qn_tokenizer_is_added(tokenizer, ids.ids[i]) ? qn_matcher_token(m, ids.ids[i])
                                                             : qn_matcher_bytes(m, piece, bytes) == bytes;
    }
    taken = taken && qn_matcher_can_end(m);
    qn_matcher_free(m);
    qn_tokens_free(&ids);
    return taken;
}

static void check_words(form f, qn_calls_place place, const char *const *right, const char *const *wrong)
{
    qn_error err;
    qn_answer_grammar *grammar = NULL;
    if (make(&f, place, &grammar, &err) != QN_OK) {
        fail_msg("%s", err.message);
    }
    for (; *right != NULL; right++) {
        if (!is_word(grammar, *right)) {
            fail_msg("refused: %s", *right);
        }
    }
    for (; *wrong != NULL; wrong++) {
        if (is_word(grammar, *wrong)) {
            fail_msg("taken: %s", *wrong);
        }
    }
    qn_answer_grammar_release(grammar);
}

#define WORDS(...)        \
    (const char *const[]) \
    {                     \
        __VA_ARGS__, NULL \
    }

static void each_kind_is_its_language(void **state)
{
    (void)state;
    check_words((form){QN_FORMAT_TEXT, NULL, false}, QN_CALLS_NONE, WORDS("", "any text\n\xE2\x82\xAC"),
                WORDS(CALL, "a</think>", "<|user|>"));
    check_words((form){QN_FORMAT_JSON_OBJECT, NULL, false}, QN_CALLS_NONE, WORDS("{}", "{ \"a\" : [1, null] }"),
                WORDS("", "[]", "1", "{", "{} {}", CALL));
    check_words((form){QN_FORMAT_JSON_OBJECT, NULL, true}, QN_CALLS_NONE, WORDS("{}", "{\"a\": [1, null]}"),
                WORDS("{ }", "{\"a\" : 1}", "{\n}"));
    check_words((form){QN_FORMAT_JSON_SCHEMA, "{\"type\":\"array\",\"items\":{\"enum\":[1,\"x\"]}}", false},
                QN_CALLS_NONE, WORDS("[]", "[1, \"x\"]", "[ 1 ]"), WORDS("[2]", "1", "[x]", ""));
    check_words((form){QN_FORMAT_JSON_SCHEMA, "true", false}, QN_CALLS_NONE, WORDS("1", "[]", "\"a\"", "null"),
                WORDS("", "a", CALL));
    check_words((form){QN_FORMAT_REGEX, "\"[ab]+|\\\\d{2}\"", false}, QN_CALLS_NONE, WORDS("a", "abba", "12"),
                WORDS("", "abc", "1", "123"));
    check_words((form){QN_FORMAT_CHOICE, "[\"red\",\"red blue\",\"\"]", false}, QN_CALLS_NONE,
                WORDS("red", "red blue", ""), WORDS("re", "red ", "blue"));
    check_words((form){QN_FORMAT_GBNF, "\"root ::= \\\"a\\\" root \\\"b\\\" | \\\"-\\\"\"", false}, QN_CALLS_NONE,
                WORDS("-", "aa-bb"), WORDS("", "a-", "a-bb"));
    check_words((form){QN_FORMAT_LARK, "\"start: \\\"x\\\" N\\nN: /[0-9]+/\"", false}, QN_CALLS_NONE,
                WORDS("x1", "x20"), WORDS("x", "1", "x1 "));
}

static void calls_stand_where_they_may(void **state)
{
    (void)state;
    static const form text = {QN_FORMAT_TEXT, NULL, false}, choice = {QN_FORMAT_CHOICE, "[\"red\"]", false};
    check_words(text, QN_CALLS_ONLY, WORDS(CALL), WORDS("", "red", "red" CALL, CALL CALL, CALL "red"));
    check_words(choice, QN_CALLS_ONLY, WORDS(CALL), WORDS("", "red"));
    check_words(text, QN_CALLS_EITHER, WORDS("", "some text", CALL, "some text" CALL, "\n" CALL),
                WORDS(CALL "text", CALL CALL, "<tool_call>g</tool_call>", "text<tool_call>"));
    static const form forms[] = {
        {QN_FORMAT_CHOICE, "[\"red\"]", false},
        {QN_FORMAT_JSON_SCHEMA, "{\"const\":\"red\"}", false},
        {QN_FORMAT_REGEX, "\"r[e]d\"", false},
        {QN_FORMAT_GBNF, "\"root ::= \\\"red\\\"\"", false},
        {QN_FORMAT_LARK, "\"start: \\\"red\\\"\"", false},
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        const char *red = forms[i].kind == QN_FORMAT_JSON_SCHEMA ? "\"red\"" : "red";
        check_words(forms[i], QN_CALLS_EITHER, WORDS(red, CALL), WORDS("", "red" CALL, CALL "red", "text" CALL));
    }
}

static void the_last_of_several_references_frees_it(void **state)
{
    (void)state;
    qn_error err;
    qn_answer_grammar *grammar = NULL;
    assert_int_equal(make(&(form){QN_FORMAT_CHOICE, "[\"a\"]", false}, QN_CALLS_NONE, &grammar, &err), QN_OK);
    assert_ptr_equal(qn_answer_grammar_share(grammar), grammar);
    qn_answer_grammar_release(grammar);
    assert_true(is_word(grammar, "a"));
    assert_non_null(qn_answer_grammar_masks(grammar));
    qn_answer_grammar_release(grammar);
    qn_answer_grammar_release(NULL);
}

/* ---- what cannot be made ---- */

static void a_form_that_cannot_be_enforced_is_told_by_its_field(void **state)
{
    (void)state;
    static const form cases[] = {
        {QN_FORMAT_JSON_SCHEMA, "{\"type\":\"objekt\"}", false},
        {QN_FORMAT_JSON_SCHEMA, "{\"properties\":{\"a\":{\"uniqueItems\":true}}}", false},
        {QN_FORMAT_JSON_SCHEMA, "false", false},
        {QN_FORMAT_REGEX, "\"(a\"", false},
        {QN_FORMAT_REGEX, "\"a(?=b)\"", false},
        {QN_FORMAT_REGEX, "\"[^\\\\s\\\\S]\"", false},
        {QN_FORMAT_GBNF, "\"root ::= missing\"", false},
        {QN_FORMAT_GBNF, "\"root ::= root \\\"a\\\"\"", false},
        {QN_FORMAT_GBNF, "\"root ::= \\\"a\\\" root\"", false},
        {QN_FORMAT_LARK, "\"start: missing\"", false},
        {QN_FORMAT_LARK, "\"other: \\\"a\\\"\"", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int place = 0; place < 2; place++) {
            qn_error err = {0};
            qn_answer_grammar *grammar = NULL;
            qn_status status = make(&cases[i], place ? QN_CALLS_EITHER : QN_CALLS_NONE, &grammar, &err);
            if (status != QN_USAGE || strcmp(err.field, "the_field") != 0 || grammar != NULL) {
                fail_msg("%s, place %d: status %d, field %s: %s", cases[i].value, place, (int)status, err.field,
                         err.message);
            }
        }
    }
}

static void a_tool_that_cannot_be_enforced_is_told_as_tools(void **state)
{
    (void)state;
    json_t *good = tools;
    tools = parse("[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"oneOf\":[]}}}]");
    for (int place = QN_CALLS_ONLY; place <= QN_CALLS_EITHER; place++) {
        qn_error err;
        qn_answer_grammar *grammar = NULL;
        assert_int_equal(make(&(form){QN_FORMAT_TEXT, NULL, false}, (qn_calls_place)place, &grammar, &err), QN_USAGE);
        assert_string_equal(err.field, "tools");
    }
    json_decref(tools);
    tools = good;
}

static void memory_runs_out(void **state)
{
    (void)state;
    static const form forms[] = {
        {QN_FORMAT_JSON_SCHEMA, "{\"type\":\"object\",\"properties\":{\"a\":{\"enum\":[1,\"x\"]}}}", true},
        {QN_FORMAT_CHOICE, "[\"red\",\"green\"]", false},
        {QN_FORMAT_REGEX, "\"r[e]d\"", false},
        {QN_FORMAT_TEXT, NULL, false},
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        json_t *value = forms[i].value != NULL ? parse(forms[i].value) : NULL;
        const qn_answer_format format = {.kind = forms[i].kind, .value = value, .field = "f", .compact = true};
        const qn_call_rules rules = {.tools = tools, .min = 1, .max = QN_UNBOUNDED};
        bool failed = true;
        for (long n = 1; failed; n++) {
            qn_error err;
            qn_answer_grammar *grammar = NULL;
            qn_fault_arm(QN_FAULT_ALLOC, n);
            qn_status status = qn_answer_grammar_new(tokenizer, trie, &format, QN_CALLS_EITHER, &rules, &grammar, &err);
            failed = qn_fault_seen(QN_FAULT_ALLOC) >= n;
            qn_fault_disarm();
            if (status != QN_OK && (status != QN_RESOURCE || grammar != NULL)) {
                fail_msg("form %zu, allocation %ld: status %d: %s", i, n, (int)status, err.message);
            }
            if (status == QN_OK && !is_word(grammar, CALL)) {
                fail_msg("form %zu: allocation %ld changed the grammar", i, n);
            }
            assert_true(failed || status == QN_OK);
            qn_answer_grammar_release(grammar);
            assert_true(n < 100000);
        }
        json_decref(value);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_is_its_language),
        cmocka_unit_test(calls_stand_where_they_may),
        cmocka_unit_test(the_last_of_several_references_frees_it),
        cmocka_unit_test(a_form_that_cannot_be_enforced_is_told_by_its_field),
        cmocka_unit_test(a_tool_that_cannot_be_enforced_is_told_as_tools),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
