#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/fault.h"
#include "grammar/grammar_internal.h"
#include "grammar/matcher.h"
#include "unit/random_grammar.h"

static qn_error err;

static qn_grammar_builder *new_builder(void)
{
    qn_grammar_builder *b;
    assert_int_equal(qn_grammar_builder_new(&b, &err), QN_OK);
    return b;
}

static bool has_word(const qn_grammar *g, const char *word)
{
    qn_matcher *m;
    assert_int_equal(qn_matcher_new(g, &m, &err), QN_OK);
    bool is = qn_matcher_bytes(m, word, strlen(word)) == strlen(word) && qn_matcher_can_end(m);
    qn_matcher_free(m);
    return is;
}

/* Words that end with NULL: those that must match, then those that must not. */
static void expect(qn_grammar_builder *b, qn_expr root, const char *const *words, const char *const *others)
{
    qn_grammar *g;
    if (qn_grammar_build(b, root, &g, &err))
        fail_msg("%s", err.message);
    for (; *words; words++)
        if (!has_word(g, *words))
            fail_msg("\"%s\" should be a word", *words);
    for (; *others; others++)
        if (has_word(g, *others))
            fail_msg("\"%s\" should be no word", *others);
    qn_grammar_free(g);
    qn_grammar_builder_free(b);
}

#define WORDS(...)        \
    (const char *const[]) \
    {                     \
        __VA_ARGS__, NULL \
    }

static void expect_error(qn_grammar_builder *b, qn_expr root, const char *says)
{
    qn_grammar *g;
    assert_int_equal(qn_grammar_build(b, root, &g, &err), QN_USAGE);
    if (!strstr(err.message, says))
        fail_msg("\"%s\" does not say \"%s\"", err.message, says);
    qn_grammar_builder_free(b);
}

static void simple_expressions_match(void **state)
{
    (void)state;
    qn_grammar_builder *b = new_builder();
    expect(b, qn_expr_empty(b), WORDS(""), WORDS("a"));
    b = new_builder();
    expect(b, qn_expr_bytes(b, "ab", 2), WORDS("ab"), WORDS("", "a", "abc", "b"));
    b = new_builder();
    expect(b, qn_expr_bytes(b, "", 0), WORDS(""), WORDS("a"));
    b = new_builder();
    uint64_t set[4] = {0, 1U << 1, 0, 0};
    expect(b, qn_expr_byte_set(b, set), WORDS("A"), WORDS("B", "", "AA"));
    b = new_builder();
    expect(b, qn_expr_concat(b, NULL, 0), WORDS(""), WORDS("a"));
    b = new_builder();
    qn_expr parts[3] = {qn_expr_text(b, "a"), qn_expr_never(b), qn_expr_text(b, "b")};
    expect(b, qn_expr_choice(b, parts, 3), WORDS("a", "b"), WORDS("", "ab"));
    b = new_builder();
    expect(b, qn_expr_optional(b, qn_expr_never(b)), WORDS(""), WORDS("a"));
    b = new_builder();
    expect(b, qn_expr_repeat(b, qn_expr_text(b, "a"), 0, 0), WORDS(""), WORDS("a"));
    b = new_builder();
    qn_expr twice = qn_expr_text(b, "long enough to be shared as a rule of its own");
    expect(b, qn_expr_concat2(b, twice, twice),
           WORDS("long enough to be shared as a rule of its ownlong enough to be shared as a rule of its own"),
           WORDS("long enough to be shared as a rule of its own"));
}

static void literals_share_their_beginnings(void **state)
{
    (void)state;
    qn_grammar_builder *b = new_builder();
    qn_expr digits = qn_expr_repeat(b, qn_expr_text(b, "1"), 1, QN_UNBOUNDED);
    qn_expr inner[2] = {qn_expr_text(b, "abc"), qn_expr_text(b, "")};
    qn_expr options[6] = {qn_expr_text(b, "ab"),       qn_expr_text(b, "ab"),
                          qn_expr_text(b, "b"),        qn_expr_concat2(b, qn_expr_text(b, "ab"), digits),
                          qn_expr_choice(b, inner, 2), qn_expr_concat2(b, qn_expr_text(b, "c"), digits)};
    expect(b, qn_expr_choice(b, options, 6), WORDS("", "ab", "abc", "b", "ab11", "c1"), WORDS("a", "c", "abc1", "bb"));
}

/* 20,000 words begin alike: as single stacks they would pass the matcher's bound. */
static void many_words_are_one_stack(void **state)
{
    (void)state;
    enum { WORD_COUNT = 20000 };
    qn_grammar_builder *b = new_builder();
    qn_expr *words = malloc(WORD_COUNT * sizeof *words);
    for (int i = 0; i < WORD_COUNT; i++) {
        char word[32];
        snprintf(word, sizeof word, "the word %d", i);
        words[i] = qn_expr_text(b, word);
    }
    qn_expr root = qn_expr_choice(b, words, WORD_COUNT);
    free(words);
    expect(b, root, WORDS("the word 0", "the word 19999"), WORDS("the word 20000", "the word "));
}

/* Every character, by a plain encoder, against the expression. */
static size_t encode(uint32_t c, char *out)
{
    size_t length = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char LEADS[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = length; i-- > 1; c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3F));
    out[0] = (char)(LEADS[length] | c);
    return length;
}

static bool in_ranges(const qn_char_range *ranges, size_t count, uint32_t c)
{
    for (size_t i = 0; i < count; i++)
        if (c >= ranges[i].first && c <= ranges[i].last)
            return c < 0xD800 || c > 0xDFFF;
    return false;
}

static void check_chars(const qn_char_range *ranges, size_t count, bool except)
{
    qn_grammar_builder *b = new_builder();
    qn_expr expr = except ? qn_expr_chars_except(b, ranges, count) : qn_expr_chars(b, ranges, count);
    qn_grammar *g;
    qn_matcher *start;
    assert_int_equal(qn_grammar_build(b, expr, &g, &err), QN_OK);
    assert_int_equal(qn_matcher_new(g, &start, &err), QN_OK);
    for (uint32_t c = 0; c < 0x110400; c += c < 0x900 || (c & 0xFFF) < 2 || (c & 0xFFF) > 0xFFD ? 1 : 37) {
        char bytes[4];
        size_t length = encode(c, bytes);
        qn_matcher *m;
        assert_int_equal(qn_matcher_clone(start, &m, &err), QN_OK);
        bool takes = qn_matcher_bytes(m, bytes, length) == length;
        bool scalar = c <= 0x10FFFF && (c < 0xD800 || c > 0xDFFF);
        if (takes != (scalar && in_ranges(ranges, count, c) != except) || (takes && !qn_matcher_must_end(m)))
            fail_msg("U+%04X is %staken", c, takes ? "" : "not ");
        qn_matcher_free(m);
    }
    qn_matcher_free(start);
    qn_grammar_free(g);
    qn_grammar_builder_free(b);
}

static void characters_are_utf8(void **state)
{
    (void)state;
    check_chars((qn_char_range[]){{0, 0x10FFFF}}, 1, false);
    check_chars((qn_char_range[]){{'z', 'z'}, {0x20AC, 0x1F600}, {'a', 'b'}, {0x90, 0x7FF}, {'b', 'f'}}, 5, false);
    check_chars((qn_char_range[]){{0xD7FF, 0xE000}, {0x10FFFF, 0x10FFFF}}, 2, false);
    check_chars((qn_char_range[]){{'"', '"'}, {0, 0x1F}, {0xDC00, 0xFFFF}}, 3, true);
    check_chars(NULL, 0, true);
    check_chars((qn_char_range[]){{0, 0}, {0x10FFFF, 0x200000}}, 2, true);
}

static void encodings_too_long_are_refused(void **state)
{
    (void)state;
    qn_grammar_builder *b = new_builder();
    expect(b, qn_expr_chars_except(b, NULL, 0), WORDS("\x01", "\xC2\x80", "\xE0\xA0\x80", "\xF4\x8F\xBF\xBF"),
           WORDS("\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xF0\x80\x80\x80", "\xF4\x90\x80\x80", "\x80",
                 "\xED\xA0\x80"));
}

static qn_expr group_of(qn_grammar_builder *b, const qn_expr *extra, size_t min, size_t max)
{
    qn_expr items[3] = {qn_expr_text(b, "ab"), qn_expr_text(b, "abc"), qn_expr_text(b, "d")};
    qn_each_once group = {items, (bool[]){false, true, false}, 3, extra, qn_expr_text(b, ","), min, max};
    return qn_expr_each_once(b, &group);
}

static void each_item_comes_once(void **state)
{
    (void)state;
    qn_grammar_builder *b = new_builder();
    expect(b, group_of(b, NULL, 0, QN_UNBOUNDED), WORDS("abc", "ab,abc", "abc,d,ab", "d,ab,abc"),
           WORDS("", "ab", "abc,abc", "ab,abc,ab", "abc,", ",abc", "abcd", "abc,x"));
    b = new_builder();
    qn_expr x = qn_expr_text(b, "x");
    expect(b, group_of(b, &x, 2, 3), WORDS("abc,x", "x,x,abc", "x,abc", "d,ab,abc"),
           WORDS("abc", "x,x,x,abc", "x,x,x", "x,x", "x,x,ab"));
    b = new_builder();
    expect(b, qn_expr_each_once(b, &(qn_each_once){.separator = qn_expr_empty(b), .max = QN_UNBOUNDED}), WORDS(""),
           WORDS("a"));
}

/* No place of a group is a dead end: where only the missing item has room, no other is offered. */
static void groups_keep_room_for_what_is_required(void **state)
{
    (void)state;
    qn_grammar_builder *b = new_builder();
    qn_grammar *g;
    qn_matcher *m;
    qn_expr x = qn_expr_text(b, "x");
    assert_int_equal(qn_grammar_build(b, group_of(b, &x, 0, 2), &g, &err), QN_OK);
    assert_int_equal(qn_matcher_new(g, &m, &err), QN_OK);
    assert_int_equal(qn_matcher_bytes(m, "x,x", 3), 2);
    assert_int_equal(qn_matcher_bytes(m, "d", 1), 0);
    assert_int_equal(qn_matcher_bytes(m, "abc", 3), 3);
    assert_true(qn_matcher_must_end(m));
    qn_matcher_free(m);
    qn_grammar_free(g);
    qn_grammar_builder_free(b);
}

static void items_without_words_are_left_out(void **state)
{
    (void)state;
    qn_grammar_builder *b = new_builder();
    qn_expr items[2] = {qn_expr_text(b, "a"), qn_expr_never(b)};
    bool required[2] = {false, false};
    qn_each_once group = {items, required, 2, NULL, qn_expr_text(b, ","), 0, QN_UNBOUNDED};
    expect(b, qn_expr_each_once(b, &group), WORDS("", "a"), WORDS("a,", ","));
    b = new_builder();
    items[0] = qn_expr_text(b, "a");
    required[1] = true;
    group.separator = qn_expr_text(b, ",");
    expect_error(b, qn_expr_each_once(b, &group), "no text can match");
    b = new_builder();
    items[0] = qn_expr_text(b, "a");
    items[1] = qn_expr_text(b, "b");
    required[1] = false;
    group.separator = qn_expr_never(b);
    expect(b, qn_expr_each_once(b, &group), WORDS("", "a", "b"), WORDS("ab"));
}

static void graphs_match(void **state)
{
    (void)state;
    qn_grammar_builder *b = new_builder();
    qn_graph_edge edges[4] = {{1, 0, qn_expr_text(b, "b")},
                              {0, 1, qn_expr_text(b, "a")},
                              {0, 2, qn_expr_text(b, "dead")},
                              {0, 0, qn_expr_text(b, "c")}};
    expect(b, qn_expr_graph(b, edges, 4, (bool[]){true, false, false}, 3), WORDS("", "ab", "abcab"),
           WORDS("a", "dead"));
    b = new_builder();
    edges[0].to = 7;
    expect_error(b, qn_expr_graph(b, edges, 1, (bool[]){true}, 1), "graph");
    b = new_builder();
    expect_error(b, qn_expr_graph(b, NULL, 0, NULL, 0), "no text can match");
}

static void left_recursion_is_named(void **state)
{
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        qn_grammar_builder *b = new_builder();
        qn_rule one = qn_rule_declare(b, "one"), two = qn_rule_declare(b, "two");
        qn_expr a = qn_expr_text(b, "a"), to_one = qn_expr_rule(b, one);
        qn_expr heads[4] = {qn_expr_empty(b), qn_expr_optional(b, a), qn_expr_repeat(b, qn_expr_optional(b, a), 3, 9),
                            qn_expr_rule(b, two)};
        qn_rule_define(b, two, kind == 3 ? qn_expr_choice(b, (qn_expr[]){a, to_one}, 2) : a);
        qn_expr again = qn_expr_concat(b, (qn_expr[]){heads[kind], to_one, a}, 3);
        qn_rule_define(b, one, qn_expr_choice(b, (qn_expr[]){again, a}, 2));
        qn_expr root = qn_expr_concat2(b, a, to_one);
        if (kind < 3)
            expect_error(b, root, "rule \"one\" is recursive on its left");
        else
            expect_error(b, root, "is recursive on its left");
    }
}

static void mistakes_are_told(void **state)
{
    (void)state;
    qn_grammar_builder *b = new_builder();
    qn_rule rule = qn_rule_declare(b, "later");
    expect_error(b, qn_expr_rule(b, rule), "rule \"later\" is used and not defined");
    b = new_builder();
    rule = qn_rule_declare(b, "endless");
    qn_rule_define(b, rule, qn_expr_concat2(b, qn_expr_text(b, "a"), qn_expr_rule(b, rule)));
    expect_error(b, qn_expr_rule(b, rule), "no text can match");
    b = new_builder();
    rule = qn_rule_declare(b, "r");
    qn_rule_define(b, rule, qn_expr_empty(b));
    qn_rule_define(b, rule, qn_expr_empty(b));
    expect_error(b, qn_expr_empty(b), "twice");
    b = new_builder();
    expect_error(b, qn_expr_rule(b, 3), "another builder");
    b = new_builder();
    expect_error(b, qn_expr_concat2(b, 77, 78), "another builder");
    b = new_builder();
    expect_error(b, 99, "another builder");
    b = new_builder();
    expect_error(b, qn_expr_token(b, -1), "token");
    b = new_builder();
    expect_error(b, qn_expr_repeat(b, qn_expr_text(b, "a"), 0, (size_t)1 << 40), "2^30");
    b = new_builder();
    expect_error(b, qn_expr_repeat(b, qn_expr_text(b, "a"), 5, 4), "no text can match");
    b = new_builder();
    expect_error(b, qn_expr_each_once(b, &(qn_each_once){.count = QN_GRAMMAR_MAX_ITEMS + 1}), "512");
    b = new_builder();
    qn_error own;
    qn_fail(&own, QN_USAGE, "mine: first");
    assert_int_equal(qn_grammar_builder_fail(b, &own), QN_USAGE);
    qn_expr_token(b, -1);
    expect_error(b, qn_expr_empty(b), "mine: first");
}

static void size_is_bounded(void **state)
{
    (void)state;
    qn_grammar_builder *b = new_builder();
    for (int i = 0; i <= QN_GRAMMAR_MAX_EXPRESSIONS; i++)
        qn_expr_token(b, 1);
    expect_error(b, qn_expr_empty(b), "expressions");
    b = new_builder();
    qn_expr a = qn_expr_text(b, "a"), many[1024];
    for (int i = 0; i < 1024; i++)
        many[i] = a;
    for (int i = 0; i < 1024; i++)
        qn_expr_concat(b, many, 1024);
    expect_error(b, qn_expr_concat(b, many, 1024), "parts");
}

/* Doubling an expression is no more than a call each, and nesting costs no C stack. */
static void doubling_and_nesting_are_cheap(void **state)
{
    (void)state;
    qn_grammar_builder *b = new_builder();
    qn_expr x = qn_expr_text(b, "ab");
    for (int i = 0; i < 60; i++)
        x = qn_expr_concat2(b, x, x);
    qn_grammar *g;
    qn_matcher *m;
    assert_int_equal(qn_grammar_build(b, x, &g, &err), QN_OK);
    assert_int_equal(qn_matcher_new(g, &m, &err), QN_OK);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(qn_matcher_bytes(m, "abb", 3), 2);
    assert_false(qn_matcher_can_end(m));
    assert_false(qn_matcher_exhausted(m));
    qn_matcher_free(m);
    qn_grammar_free(g);
    qn_grammar_builder_free(b);
    b = new_builder();
    x = qn_expr_text(b, "a");
    for (int i = 0; i < 10000; i++)
        x = qn_expr_optional(b, x);
    expect(b, x, WORDS("", "a"), WORDS("ab"));
}

/* Counts are no copies, however they are nested, and a word of a list costs its letters. */
static void size_follows_what_was_built(void **state)
{
    (void)state;
    qn_grammar_builder *b = new_builder();
    qn_expr x = qn_expr_text(b, "a");
    qn_grammar *g;
    for (int i = 0; i < 20; i++)
        x = qn_expr_repeat(b, x, 0, 1000000);
    assert_int_equal(qn_grammar_build(b, x, &g, &err), QN_OK);
    assert_in_range(g->state_count, 1, 20 * 6);
    qn_grammar_free(g);
    qn_grammar_builder_free(b);
    enum { WORDS_COUNT = 20000, LETTERS = 12 };
    b = new_builder();
    qn_expr *words = calloc(WORDS_COUNT, sizeof *words);
    for (int i = 0; i < WORDS_COUNT; i++) {
        char text[LETTERS + 1];
        snprintf(text, sizeof text, "%012d", i * 7919);
        words[i] = qn_expr_text(b, text);
    }
    assert_int_equal(qn_grammar_build(b, qn_expr_choice(b, words, WORDS_COUNT), &g, &err), QN_OK);
    assert_in_range(g->state_count, WORDS_COUNT, 2 * WORDS_COUNT * LETTERS);
    qn_grammar_free(g);
    qn_grammar_builder_free(b);
    free(words);
}

static void memory_runs_out(void **state)
{
    (void)state;
    bool failed = true;
    for (long n = 1; failed; n++) {
        qn_grammar_builder *b = NULL;
        qn_grammar *g = NULL;
        random_grammar r;
        qn_fault_arm(QN_FAULT_ALLOC, n);
        qn_status status = qn_grammar_builder_new(&b, &err);
        if (!status) {
            qn_expr root = random_grammar_make(14, b, &r);
            qn_char_range range = {0x20, 0x20AC};
            qn_graph_edge edge = {0, 0, qn_expr_chars(b, &range, 1)};
            qn_expr options[3] = {root, qn_expr_text(b, "abc"), qn_expr_graph(b, &edge, 1, (bool[]){true}, 1)};
            status = qn_grammar_build(b, qn_expr_choice(b, options, 3), &g, &err);
        }
        failed = qn_fault_seen(QN_FAULT_ALLOC) >= n;
        qn_fault_disarm();
        assert_int_equal(status, failed ? QN_RESOURCE : QN_OK);
        qn_grammar_builder_free(b);
        qn_grammar_free(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(simple_expressions_match),
        cmocka_unit_test(literals_share_their_beginnings),
        cmocka_unit_test(many_words_are_one_stack),
        cmocka_unit_test(characters_are_utf8),
        cmocka_unit_test(encodings_too_long_are_refused),
        cmocka_unit_test(each_item_comes_once),
        cmocka_unit_test(groups_keep_room_for_what_is_required),
        cmocka_unit_test(items_without_words_are_left_out),
        cmocka_unit_test(graphs_match),
        cmocka_unit_test(left_recursion_is_named),
        cmocka_unit_test(mistakes_are_told),
        cmocka_unit_test(size_is_bounded),
        cmocka_unit_test(doubling_and_nesting_are_cheap),
        cmocka_unit_test(size_follows_what_was_built),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
