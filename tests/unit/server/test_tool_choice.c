/* What requests demand, as grammars of the shipped model's answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "base/json.h"
#include "base/log.h"
#include "grammar/matcher.h"
#include "server/tool_choice.h"
#include "unit/server/api_texts.h"

static qn_server server;

static void ignore_line(void *context, const char *line)
{
    (void)context;
    (void)line;
}

static int start(void **state)
{
    (void)state;
    qn_error err;
    qn_json_init();
    qn_log_set_sink(ignore_line, NULL);
    const qn_engine_options options = {
        .model_dir = "models/quern-tiny", .threads = 1, .max_model_len = 64, .max_num_seqs = 1, .block_size = 16};
    assert_int_equal(qn_engine_open(&options, &server.engine, &err), QN_OK);
    const qn_tokenizer *tokenizer = qn_engine_tokenizer(server.engine);
    assert_int_equal(qn_tokenizer_trie(tokenizer, &server.trie, &err), QN_OK);
    assert_int_equal(qn_grammar_cache_new(tokenizer, server.trie, &server.grammars, &err), QN_OK);
    server.call_line_breaks = qn_tool_choice_line_breaks(server.engine);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    qn_grammar_cache_free(server.grammars);
    qn_vocabulary_trie_free(server.trie);
    qn_engine_close(server.engine);
    qn_log_set_sink(NULL, NULL);
    return 0;
}

/* ---- choices ---- */

static void add(qn_tool_choice *choice, const char *name, const char *parameters, bool strict)
{
    qn_error err;
    json_t *called = json_string(name), *schema = quoted_json(parameters);
    assert_int_equal(qn_tool_choice_add(choice, called, NULL, schema, strict, &err), QN_OK);
    json_decref(called);
    json_decref(schema);
}

/* f takes an integer a, g nothing at all. */
static qn_tool_choice two_tools(qn_tool_demand demand, bool several, bool strict)
{
    qn_tool_choice choice = {.demand = demand, .several = several};
    add(&choice, "f", "{'type':'object','properties':{'a':{'type':'integer'}},'required':['a']}", strict);
    add(&choice, "g", "{'type':'object','properties':{}}", strict);
    return choice;
}

static void allow(qn_tool_choice *choice, const char *name)
{
    bool found = false;
    qn_error err;
    assert_int_equal(qn_tool_choice_allow(choice, name, &found, &err), QN_OK);
    assert_true(found);
}

/* An answer as text in which the tags are the added tokens; NULL: everything is one. */
static bool is_answer(const qn_answer_grammar *grammar, const char *text)
{
    const qn_tokenizer *tokenizer = qn_engine_tokenizer(server.engine);
    qn_error err;
    qn_matcher *m = NULL;
    qn_tokens ids = {0};
    bool taken = true;
    if (grammar == NULL) {
        return true;
    }
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

#define F7 "<tool_call>f<arg_key>a</arg_key><arg_value>7</arg_value></tool_call>"
#define FX "<tool_call>f<arg_key>a</arg_key><arg_value>x</arg_value></tool_call>"
#define G "<tool_call>g</tool_call>"

static const char *const answers[] = {"",       "text",    "red",         F7,         FX,
                                      G,        F7 G,      "text" F7,     "text" G G, "<tool_call>h</tool_call>",
                                      "red" F7, F7 "text", "text</think>"};

/* Bit i of `taken` stands for answers[i]. */
static void check_answers(qn_tool_choice choice, bool form, unsigned taken, const char *what)
{
    qn_error err;
    qn_answer_grammar *grammar = NULL;
    json_t *red = quoted_json("['red']");
    qn_answer_format format = {.kind = QN_FORMAT_TEXT};
    if (form) {
        format = (qn_answer_format){.kind = QN_FORMAT_CHOICE, .value = red, .field = "guided_choice"};
    }
    if (qn_tool_choice_grammar(&server, &choice, &format, &grammar, &err) != QN_OK) {
        fail_msg("%s: %s", what, err.message);
    }
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        if (is_answer(grammar, answers[i]) != (taken >> i & 1)) {
            fail_msg("%s: %s is %s", what, answers[i], taken >> i & 1 ? "refused" : "taken");
        }
    }
    qn_answer_grammar_release(grammar);
    qn_tool_choice_free(&choice);
    json_decref(red);
}

enum {
    EMPTY = 1 << 0,
    TEXT = 1 << 1,
    RED = 1 << 2,
    F_7 = 1 << 3,
    F_X = 1 << 4,
    G_ = 1 << 5,
    F_G = 1 << 6,
    TEXT_F = 1 << 7,
    TEXT_G_G = 1 << 8,
    RED_F = 1 << 10,
    ALL = (1 << 13) - 1,
    SAYS = EMPTY | TEXT | RED
};

static void demands_are_enforced(void **state)
{
    (void)state;
    check_answers((qn_tool_choice){.list = NULL}, false, ALL, "no tools");
    check_answers((qn_tool_choice){.list = NULL}, true, RED, "no tools, a form");
    check_answers(two_tools(QN_TOOLS_NONE, false, true), false, SAYS, "none");
    check_answers(two_tools(QN_TOOLS_NONE, false, true), true, RED, "none, a form");
    check_answers(two_tools(QN_TOOLS_CALL, false, false), false, F_7 | G_, "a call");
    check_answers(two_tools(QN_TOOLS_CALL, false, false), true, F_7 | G_, "a call, whatever the form");
    check_answers(two_tools(QN_TOOLS_CALL, true, false), false, F_7 | G_ | F_G, "calls");
    check_answers(two_tools(QN_TOOLS_AUTO, true, true), false, SAYS | F_7 | G_ | F_G | TEXT_F | TEXT_G_G | RED_F,
                  "auto, strict");
    check_answers(two_tools(QN_TOOLS_AUTO, false, true), false, SAYS | F_7 | G_ | TEXT_F | RED_F,
                  "one at most, strict");
    check_answers(two_tools(QN_TOOLS_AUTO, true, false), false, SAYS | F_7 | F_X | G_ | F_G | TEXT_F | TEXT_G_G | RED_F,
                  "auto");
    check_answers(two_tools(QN_TOOLS_AUTO, true, true), true, RED | F_7 | G_ | F_G, "auto, strict, a form");
    check_answers(two_tools(QN_TOOLS_AUTO, false, false), true, RED | F_7 | F_X | G_, "one at most, a form");
}

static void only_allowed_tools_are_called(void **state)
{
    (void)state;
    qn_tool_choice named = two_tools(QN_TOOLS_CALL, false, false);
    allow(&named, "g");
    check_answers(named, false, G_, "g");
    qn_tool_choice some = two_tools(QN_TOOLS_AUTO, true, false);
    allow(&some, "f");
    check_answers(some, false, SAYS | F_7 | F_X | TEXT_F | RED_F, "f, if any");
    qn_tool_choice both = two_tools(QN_TOOLS_CALL, false, false);
    allow(&both, "f");
    allow(&both, "g");
    check_answers(both, false, F_7 | G_, "both");
}

static void an_unknown_tool_is_not_found(void **state)
{
    (void)state;
    qn_tool_choice choice = two_tools(QN_TOOLS_AUTO, true, false), none = {.list = NULL};
    bool found = true;
    qn_error err;
    assert_int_equal(qn_tool_choice_allow(&choice, "h", &found, &err), QN_OK);
    assert_false(found);
    found = true;
    assert_int_equal(qn_tool_choice_allow(&none, "f", &found, &err), QN_OK);
    assert_false(found);
    qn_tool_choice_free(&choice);
    qn_tool_choice_free(&none);
}

/* The grammar of one request is not another's that looks alike. */
static void requests_that_differ_share_no_grammar(void **state)
{
    (void)state;
    for (int round = 0; round < 2; round++) {
        demands_are_enforced(NULL);
        only_allowed_tools_are_called(NULL);
    }
}

static void what_cannot_be_enforced_is_refused_where_it_has_to_be(void **state)
{
    (void)state;
    static const qn_answer_format free = {.kind = QN_FORMAT_TEXT};
    for (int i = 0; i < 4; i++) {
        bool strict = i & 1;
        qn_error err;
        qn_answer_grammar *grammar = NULL;
        qn_tool_choice choice = {.demand = i & 2 ? QN_TOOLS_CALL : QN_TOOLS_AUTO, .several = true};
        add(&choice, "f", "{'type':'object','oneOf':[{}]}", strict);
        qn_status status = qn_tool_choice_grammar(&server, &choice, &free, &grammar, &err);
        assert_int_equal(status, i == 0 ? QN_OK : QN_USAGE);
        if (i > 0) {
            assert_error_is("f", &err, "tools", "tools[0].function.parameters: /oneOf");
        }
        qn_answer_grammar_release(grammar);
        qn_tool_choice_free(&choice);
    }
}

static void tools_are_told_unless_there_are_to_be_no_calls(void **state)
{
    (void)state;
    for (int demand = QN_TOOLS_AUTO; demand <= QN_TOOLS_CALL; demand++) {
        qn_tool_choice choice = two_tools((qn_tool_demand)demand, true, false);
        qn_tool_list *list = NULL;
        qn_error err;
        assert_int_equal(qn_tool_choice_tools(&choice, &list, &err), QN_OK);
        assert_int_equal(list == NULL, demand == QN_TOOLS_NONE);
        assert_true(list == NULL || qn_tool_list_count(list) == 2);
        qn_tool_list_free(list);
        qn_tool_choice_free(&choice);
    }
}

static void the_shipped_template_breaks_no_lines(void **state)
{
    (void)state;
    assert_false(server.call_line_breaks);
}

static void memory_runs_out(void **state)
{
    (void)state;
    static const qn_answer_format free = {.kind = QN_FORMAT_TEXT};
    qn_tool_choice choice = two_tools(QN_TOOLS_CALL, false, false);
    bool failed = true;
    for (long n = 1; failed; n++) {
        qn_error err;
        qn_answer_grammar *grammar = NULL;
        qn_grammar_cache *kept = server.grammars;
        const qn_tokenizer *tokenizer = qn_engine_tokenizer(server.engine);
        assert_int_equal(qn_grammar_cache_new(tokenizer, server.trie, &server.grammars, &err), QN_OK);
        qn_fault_arm(QN_FAULT_ALLOC, n);
        qn_status status = qn_tool_choice_grammar(&server, &choice, &free, &grammar, &err);
        failed = qn_fault_seen(QN_FAULT_ALLOC) >= n;
        qn_fault_disarm();
        assert_true(status == QN_OK ? is_answer(grammar, F7) : failed && status == QN_RESOURCE && grammar == NULL);
        qn_answer_grammar_release(grammar);
        qn_grammar_cache_free(server.grammars);
        server.grammars = kept;
        assert_true(n < 100000);
    }
    qn_tool_choice_free(&choice);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(demands_are_enforced),
        cmocka_unit_test(only_allowed_tools_are_called),
        cmocka_unit_test(an_unknown_tool_is_not_found),
        cmocka_unit_test(requests_that_differ_share_no_grammar),
        cmocka_unit_test(what_cannot_be_enforced_is_refused_where_it_has_to_be),
        cmocka_unit_test(tools_are_told_unless_there_are_to_be_no_calls),
        cmocka_unit_test(the_shipped_template_breaks_no_lines),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
