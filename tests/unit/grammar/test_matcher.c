#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/fault.h"
#include "base/memory.h"
#include "grammar/matcher.h"
#include "unit/random_grammar.h"

enum { RANDOM_GRAMMARS = 400, LONGEST = 7 };

static qn_error err;

static qn_grammar_builder *new_builder(void)
{
    qn_grammar_builder *b;
    assert_int_equal(qn_grammar_builder_new(&b, &err), QN_OK);
    return b;
}

static qn_grammar *build(qn_grammar_builder *b, qn_expr root)
{
    qn_grammar *g = NULL;
    qn_status status = qn_grammar_build(b, root, &g, &err);
    if (status)
        fail_msg("%s", err.message);
    qn_grammar_builder_free(b);
    return g;
}

static qn_matcher *new_matcher(const qn_grammar *g)
{
    qn_matcher *m;
    assert_int_equal(qn_matcher_new(g, &m, &err), QN_OK);
    return m;
}

static bool is_word(const qn_grammar *g, const char *word, size_t length)
{
    qn_matcher *m = new_matcher(g);
    bool is = qn_matcher_bytes(m, word, length) == length && qn_matcher_can_end(m);
    qn_matcher_free(m);
    return is;
}

/* Whether some word goes on from here within so many letters. */
static bool can_complete(const qn_matcher *m, int letters)
{
    if (qn_matcher_can_end(m))
        return true;
    for (int c = 'a'; c <= 'b' && letters > 0; c++) {
        qn_matcher *next;
        char letter = (char)c;
        assert_int_equal(qn_matcher_clone(m, &next, &err), QN_OK);
        bool done = qn_matcher_bytes(next, &letter, 1) == 1 && can_complete(next, letters - 1);
        qn_matcher_free(next);
        if (done)
            return true;
    }
    return false;
}

/* Words on which a matcher ran out of stacks are told and not judged. */
static size_t check_words(const random_grammar *r, const qn_grammar *g, uint64_t seed)
{
    size_t exhausted = 0;
    for (size_t length = 0; length <= LONGEST; length++)
        for (unsigned bits = 0; bits < 1U << length; bits++) {
            char word[LONGEST + 1] = "";
            for (size_t i = 0; i < length; i++)
                word[i] = (char)('a' + (bits >> i & 1));
            qn_matcher *m = new_matcher(g);
            bool is = qn_matcher_bytes(m, word, length) == length && qn_matcher_can_end(m);
            if (qn_matcher_exhausted(m))
                exhausted++;
            else if (is != random_grammar_has(r, word, length))
                fail_msg("seed %llu: \"%s\" should %sbe a word", (unsigned long long)seed, word, is ? "not " : "");
            qn_matcher_free(m);
        }
    return exhausted;
}

/* What is taken can be completed: shortest completions of these grammars are short. */
static void check_no_dead_end(const qn_grammar *g, uint64_t seed)
{
    uint64_t random = seed;
    qn_matcher *m = new_matcher(g);
    for (int i = 0; i < 12; i++) {
        char letter = (char)('a' + random_next(&random) % 2);
        if (qn_matcher_bytes(m, &letter, 1) == 1 && !can_complete(m, 14))
            fail_msg("seed %llu: a dead end after %d letters", (unsigned long long)seed, i + 1);
    }
    qn_matcher_free(m);
}

static void random_grammars_match_as_the_judge_says(void **state)
{
    (void)state;
    size_t exhausted = 0;
    for (uint64_t seed = 1; seed <= RANDOM_GRAMMARS; seed++) {
        random_grammar r;
        qn_grammar_builder *b = new_builder();
        qn_expr root = random_grammar_make(seed, b, &r);
        qn_grammar *g = build(b, root);
        exhausted += check_words(&r, g, seed) > 0;
        if (seed % 8 == 0)
            check_no_dead_end(g, seed);
        qn_grammar_free(g);
    }
    assert_true(exhausted < RANDOM_GRAMMARS / 20);
}

static void counts_are_exact(void **state)
{
    (void)state;
    static const struct {
        size_t min, max, length;
        bool is;
    } CASES[] = {{0, 0, 0, true},
                 {0, 0, 1, false},
                 {3, 3, 3, true},
                 {3, 3, 2, false},
                 {3, 3, 4, false},
                 {10000, 10000, 10000, true},
                 {10000, 10000, 9999, false},
                 {10000, 10000, 10001, false},
                 {5, 1000000, 4, false},
                 {5, 1000000, 5, true},
                 {30, QN_UNBOUNDED, 29, false},
                 {30, QN_UNBOUNDED, 3000, true},
                 {999999, 1000000, 1000000, true},
                 {999999, 1000000, 999998, false}};
    char *word = malloc(1000001);
    memset(word, 'x', 1000001);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        qn_grammar_builder *b = new_builder();
        qn_grammar *g = build(b, qn_expr_repeat(b, qn_expr_text(b, "x"), CASES[i].min, CASES[i].max));
        assert_int_equal(is_word(g, word, CASES[i].length), CASES[i].is);
        qn_grammar_free(g);
    }
    free(word);
}

static void nested_and_empty_rounds_count(void **state)
{
    (void)state;
    qn_grammar_builder *b = new_builder();
    qn_expr pair = qn_expr_repeat(b, qn_expr_text(b, "xyz"), 30, 31);
    qn_grammar *g = build(b, qn_expr_repeat(b, pair, 40, 50));
    char word[3 * 31 * 51];
    for (size_t i = 0; i < sizeof word; i++)
        word[i] = "xyz"[i % 3];
    assert_true(is_word(g, word, 3 * 30 * 40));
    assert_true(is_word(g, word, 3 * (30 * 40 + 7)));
    assert_false(is_word(g, word, 3 * (30 * 40 - 1)));
    assert_true(is_word(g, word, 3 * 31 * 50));
    assert_false(is_word(g, word, 3 * (31 * 50 + 1)));
    qn_grammar_free(g);
    b = new_builder();
    qn_expr maybe = qn_expr_repeat(b, qn_expr_optional(b, qn_expr_text(b, "a")), 100, 1000000);
    g = build(b, qn_expr_repeat(b, maybe, 7, 1000));
    assert_true(is_word(g, "", 0));
    assert_true(is_word(g, "aaaa", 4));
    assert_false(is_word(g, "ab", 2));
    qn_grammar_free(g);
}

/* r = "a" r | "a" */
static void recursion_on_the_right_keeps_no_stack(void **state)
{
    (void)state;
    qn_grammar_builder *b = new_builder();
    qn_rule r = qn_rule_declare(b, "r");
    qn_expr a = qn_expr_text(b, "a");
    qn_expr again = qn_expr_concat2(b, a, qn_expr_rule(b, r));
    qn_rule_define(b, r, qn_expr_choice(b, (qn_expr[]){again, a}, 2));
    qn_grammar *g = build(b, qn_expr_rule(b, r));
    qn_matcher *m = new_matcher(g);
    for (int i = 0; i < 100000; i++)
        assert_int_equal(qn_matcher_bytes(m, "a", 1), 1);
    assert_true(qn_matcher_can_end(m));
    assert_false(qn_matcher_exhausted(m));
    qn_matcher_free(m);
    qn_grammar_free(g);
}

/* r = "(" r ")" | "" is as deep as its brackets. */
static void depth_is_bounded(void **state)
{
    (void)state;
    qn_grammar_builder *b = new_builder();
    qn_rule r = qn_rule_declare(b, "r");
    qn_expr nested = qn_expr_concat(b, (qn_expr[]){qn_expr_text(b, "("), qn_expr_rule(b, r), qn_expr_text(b, ")")}, 3);
    qn_rule_define(b, r, qn_expr_optional(b, nested));
    qn_grammar *g = build(b, qn_expr_rule(b, r));
    qn_matcher *m = new_matcher(g);
    for (int i = 0; i < QN_MATCHER_MAX_DEPTH; i++)
        assert_int_equal(qn_matcher_bytes(m, "(", 1), 1);
    assert_false(qn_matcher_exhausted(m));
    assert_int_equal(qn_matcher_bytes(m, "(", 1), 0);
    assert_true(qn_matcher_exhausted(m));
    for (int i = 0; i < QN_MATCHER_MAX_DEPTH; i++)
        assert_int_equal(qn_matcher_bytes(m, ")", 1), 1);
    assert_true(qn_matcher_must_end(m));
    qn_matcher_free(m);
    qn_grammar_free(g);
}

/* r = "a" r "b" | "a" r "c" | "d": each "a" doubles what may be on the stack. */
static void stacks_are_bounded(void **state)
{
    (void)state;
    qn_grammar_builder *b = new_builder();
    qn_rule r = qn_rule_declare(b, "r");
    qn_expr a = qn_expr_text(b, "a"), self = qn_expr_rule(b, r);
    qn_expr options[3] = {qn_expr_concat(b, (qn_expr[]){a, self, qn_expr_text(b, "b")}, 3),
                          qn_expr_concat(b, (qn_expr[]){a, self, qn_expr_text(b, "c")}, 3), qn_expr_text(b, "d")};
    qn_rule_define(b, r, qn_expr_choice(b, options, 3));
    qn_grammar *g = build(b, self);
    qn_matcher *m = new_matcher(g);
    assert_int_equal(qn_matcher_bytes(m, "aaaaaaaa", 8), 8);
    size_t taken = 0;
    while (taken < 100 && qn_matcher_bytes(m, "a", 1) == 1)
        taken++;
    assert_true(taken < 8);
    assert_true(qn_matcher_exhausted(m));
    qn_matcher_free(m);
    assert_true(is_word(g, "aaadbcb", 7));
    qn_grammar_free(g);
}

static void tokens_are_letters(void **state)
{
    (void)state;
    qn_grammar_builder *b = new_builder();
    qn_expr parts[3] = {qn_expr_token(b, 7), qn_expr_text(b, "x"), qn_expr_token(b, 0)};
    qn_grammar *g = build(b, qn_expr_concat(b, parts, 3));
    qn_matcher *m = new_matcher(g);
    assert_int_equal(qn_matcher_bytes(m, "x", 1), 0);
    assert_false(qn_matcher_token(m, 8));
    assert_false(qn_matcher_token(m, -1));
    assert_true(qn_matcher_token(m, 7));
    assert_false(qn_matcher_token(m, 7));
    assert_int_equal(qn_matcher_bytes(m, "xx", 2), 1);
    assert_true(qn_matcher_token(m, 0));
    assert_true(qn_matcher_must_end(m));
    assert_int_equal(qn_matcher_bytes(m, "", 0), 0);
    qn_matcher_free(m);
    qn_grammar_free(g);
}

static void clones_part_ways(void **state)
{
    (void)state;
    qn_grammar_builder *b = new_builder();
    qn_expr options[2] = {qn_expr_text(b, "abc"), qn_expr_text(b, "abd")};
    qn_grammar *g = build(b, qn_expr_choice(b, options, 2));
    qn_matcher *one = new_matcher(g), *two;
    assert_int_equal(qn_matcher_bytes(one, "ab", 2), 2);
    assert_int_equal(qn_matcher_clone(one, &two, &err), QN_OK);
    assert_int_equal(qn_matcher_bytes(one, "c", 1), 1);
    assert_int_equal(qn_matcher_bytes(two, "x", 1), 0);
    assert_int_equal(qn_matcher_bytes(two, "d", 1), 1);
    assert_true(qn_matcher_must_end(one));
    qn_matcher_free(one);
    assert_true(qn_matcher_must_end(two));
    qn_matcher_free(two);
    qn_grammar_free(g);
}

/* Each allocation fails once: new and clone say so, a step counts as exhausted and leaves the place as it was. */
static void memory_runs_out(void **state)
{
    (void)state;
    qn_grammar_builder *b = new_builder();
    random_grammar r;
    qn_expr root = random_grammar_make(8, b, &r);
    qn_grammar *g = build(b, root);
    bool failed = true;
    for (long n = 1; failed; n++) {
        qn_matcher *m = NULL, *copy = NULL;
        qn_fault_arm(QN_FAULT_ALLOC, n);
        qn_status status = qn_matcher_new(g, &m, &err);
        if (!status)
            status = qn_matcher_clone(m, &copy, &err);
        if (!status)
            qn_matcher_bytes(copy, "abababababab", 12);
        failed = qn_fault_seen(QN_FAULT_ALLOC) >= n;
        qn_fault_disarm();
        if (status)
            assert_int_equal(status, QN_RESOURCE);
        qn_matcher_free(m);
        qn_matcher_free(copy);
        assert_true(n < 1000);
    }
    qn_grammar_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_grammars_match_as_the_judge_says),
        cmocka_unit_test(counts_are_exact),
        cmocka_unit_test(nested_and_empty_rounds_count),
        cmocka_unit_test(recursion_on_the_right_keeps_no_stack),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(stacks_are_bounded),
        cmocka_unit_test(tokens_are_letters),
        cmocka_unit_test(clones_part_ways),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
