/* Masks of answers, held against a check of every token of the vocabulary with a fresh matcher. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "grammar/json_schema.h"
#include "grammar/matcher.h"
#include "mask_walk.h"
#include "small_tokenizer.h"
#include "text/answer_grammar.h"
#include "text/constraint.h"
#include "unit/random_grammar.h"

enum { GRAMMARS = 150, WALKS = 3, THREADS = 3, LONG = 70 };

/* Of the small tokenizer. BAAB is an added token that is spelled like text. */
enum { THINK = 264, THINK_END, END, STOP, CALL, BAAB, SMALL_SIZE, SMALL_VOCAB = SMALL_SIZE + 70 };

static qn_tokenizer *small, *tiny;
static qn_vocabulary_trie *small_trie, *tiny_trie;
static const int32_t small_eos[] = {END, STOP}, tiny_eos[] = {1515, 1522, 1524};

static int open_all(void **state)
{
    (void)state;
    qn_buffer added = {0};
    qn_error err;
    qn_buffer_char(&added, '[');
    small_added(&added, THINK, "<think>", "");
    small_added(&added, THINK_END, "</think>", "");
    small_added(&added, END, "<|end|>", "s");
    small_added(&added, STOP, "<|stop|>", "s");
    small_added(&added, CALL, "<tool_call>", "");
    small_added(&added, BAAB, "baab", "");
    qn_buffer_char(&added, ']');
    small = small_open(&(small_spec){.tokens = "\"ab\":256,\"ba\":257,\"aa\":258,\"bb\":259,\"aab\":260,\"abab\":261,"
                                               "\"bba\":262,\"bbbb\":263",
                                     .added = qn_buffer_string(&added)});
    qn_buffer_free(&added);
    return qn_tokenizer_open("models/quern-tiny", &tiny, &err) == QN_OK &&
                   qn_tokenizer_trie(small, &small_trie, &err) == QN_OK &&
                   qn_tokenizer_trie(tiny, &tiny_trie, &err) == QN_OK
               ? 0
               : -1;
}

static int close_all(void **state)
{
    (void)state;
    qn_vocabulary_trie_free(small_trie);
    qn_vocabulary_trie_free(tiny_trie);
    qn_tokenizer_free(small);
    qn_tokenizer_free(tiny);
    return 0;
}

/* ---- options and their grammars ---- */

static qn_constraint_options small_options(void)
{
    return (qn_constraint_options){.tokenizer = small, .vocab_size = SMALL_VOCAB, .eos = small_eos, .eos_count = 2};
}

static qn_constraint_options tiny_options(void)
{
    return (qn_constraint_options){.tokenizer = tiny, .vocab_size = 1536, .eos = tiny_eos, .eos_count = 3};
}

static qn_grammar_builder *new_builder(void)
{
    qn_error err;
    qn_grammar_builder *b = NULL;
    assert_int_equal(qn_grammar_builder_new(&b, &err), QN_OK);
    return b;
}

/* Takes the builder. */
static void hold_to(qn_constraint_options *o, qn_grammar_builder *b, qn_expr root)
{
    qn_error err;
    qn_grammar *grammar = NULL;
    if (qn_grammar_build(b, root, &grammar, &err) != QN_OK) {
        fail_msg("%s", err.message);
    }
    qn_grammar_builder_free(b);
    o->grammar = grammar;
    assert_int_equal(qn_mask_cache_new(grammar, o->tokenizer == small ? small_trie : tiny_trie, &o->cache, &err),
                     QN_OK);
}

static void let_go(qn_constraint_options *o)
{
    qn_mask_cache_free(o->cache);
    qn_grammar_free((qn_grammar *)(uintptr_t)o->grammar);
    o->cache = NULL;
    o->grammar = NULL;
}

static void hold_to_text(qn_constraint_options *o, const char *text)
{
    qn_grammar_builder *b = new_builder();
    hold_to(o, b, qn_expr_text(b, text));
}

/* A call, a list of objects with strings of any length, in a row. */
static void hold_to_json(qn_constraint_options *o)
{
    const qn_schema_options spelling = {.any_whitespace = true};
    qn_grammar_builder *b = new_builder();
    qn_expr object = qn_json_object_expr(b, &spelling);
    qn_expr call = qn_expr_token(b, qn_tokenizer_find_added(o->tokenizer, "<tool_call>"));
    hold_to(o, b, qn_expr_concat2(b, qn_expr_optional(b, call), object));
}

static qn_constraint *constrain(const qn_constraint_options *o)
{
    qn_error err;
    qn_constraint *c = NULL;
    assert_int_equal(qn_constraint_new(o, &c, &err), QN_OK);
    return c;
}

/* ---- what masks should be ---- */

static void set(uint64_t *mask, int32_t token)
{
    mask[token / 64] |= UINT64_C(1) << (token % 64);
}

static bool takes(const qn_tokenizer *tokenizer, qn_matcher *m, int32_t token)
{
    size_t bytes = 0;
    const char *text = qn_tokenizer_token_bytes(tokenizer, token, &bytes);
    return qn_tokenizer_is_added(tokenizer, token)
               ? qn_matcher_token(m, token)
               : text != NULL && bytes > 0 && qn_matcher_bytes(m, text, bytes) == bytes;
}

/* Behind `count` tokens of a word; false where some token has more readings than a matcher follows. */
static bool expect_word(const qn_constraint_options *o, const int32_t *word, size_t count, uint64_t *mask)
{
    qn_error err;
    qn_matcher *m = NULL;
    bool alive = true, exhausted = false;
    assert_int_equal(qn_matcher_new(o->grammar, &m, &err), QN_OK);
    for (size_t i = 0; i < count && alive; i++) {
        alive = takes(o->tokenizer, m, word[i]);
    }
    for (int32_t token = 0; alive && (size_t)token < qn_tokenizer_size(o->tokenizer); token++) {
        qn_matcher *next = NULL;
        assert_int_equal(qn_matcher_clone(m, &next, &err), QN_OK);
        if (takes(o->tokenizer, next, token)) {
            set(mask, token);
        }
        exhausted = exhausted || qn_matcher_exhausted(next);
        qn_matcher_free(next);
    }
    for (size_t i = 0; i < o->eos_count && (!alive || qn_matcher_can_end(m)); i++) {
        set(mask, o->eos[i]);
    }
    qn_matcher_free(m);
    return !exhausted;
}

/* All text and what is named besides; -1 names nothing. */
static void expect_text(const qn_constraint_options *o, int32_t besides, uint64_t *mask)
{
    for (int32_t token = 0; (size_t)token < qn_tokenizer_size(o->tokenizer); token++) {
        if (!qn_tokenizer_is_added(o->tokenizer, token) || token == besides) {
            set(mask, token);
        }
    }
}

static void expect_all(const qn_constraint_options *o, uint64_t *mask)
{
    for (int32_t token = 0; (size_t)token < o->vocab_size; token++) {
        set(mask, token);
    }
}

static void check_mask(qn_constraint *c, const qn_tokens *answer, const uint64_t *expected, const char *what)
{
    uint64_t mask[MASK_WORDS];
    mask_fill(c, answer, mask);
    for (int32_t token = 0; token < MASK_WORDS * 64; token++) {
        if (mask_has(mask, token) != mask_has(expected, token)) {
            fail_msg("%s: token %d behind %zu tokens is %s", what, token, answer->count,
                     mask_has(mask, token) ? "allowed" : "not allowed");
        }
    }
}

static void check_only(qn_constraint *c, const qn_tokens *answer, const int32_t *tokens, size_t count)
{
    uint64_t expected[MASK_WORDS] = {0};
    for (size_t i = 0; i < count; i++) {
        set(expected, tokens[i]);
    }
    check_mask(c, answer, expected, "only");
}

static void add_text(const qn_tokenizer *tokenizer, const char *text, qn_tokens *out)
{
    qn_error err;
    const qn_span all = {0, strlen(text)};
    assert_int_equal(qn_tokenizer_encode(tokenizer, text, strlen(text), &all, 1, out, &err), QN_OK);
}

/* ---- words of grammars ---- */

/* Draws on until the end; each mask is the slow check's, and the end comes behind a word only. */
static void walk(const qn_constraint_options *o, const random_grammar *judge, random_stream *random, size_t most)
{
    qn_constraint *c = constrain(o);
    qn_tokens answer = {0};
    char what[64];
    snprintf(what, sizeof what, "seed %llu", (unsigned long long)random->seed);
    for (size_t i = 0; i < most; i++) {
        uint64_t expected[MASK_WORDS] = {0};
        if (!expect_word(o, answer.ids, answer.count, expected)) {
            break;
        }
        check_mask(c, &answer, expected, what);
        qn_buffer text = {0};
        mask_text(o->tokenizer, &answer, 0, &text);
        if (judge != NULL && text.size <= RANDOM_LONGEST_WORD) {
            assert_int_equal(mask_has(expected, o->eos[0]), random_grammar_has(judge, text.data, text.size));
        }
        qn_buffer_free(&text);
        int32_t token = mask_draw(o->tokenizer, expected, random);
        assert_true(token >= 0);
        assert_true(qn_tokens_add(&answer, token));
        if (token == o->eos[0] || token == o->eos[1]) {
            break;
        }
    }
    qn_tokens_free(&answer);
    qn_constraint_free(c);
}

static void masks_of_random_grammars_are_exact(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= GRAMMARS; seed++) {
        random_grammar r;
        random_stream random = {.seed = seed};
        qn_constraint_options o = small_options();
        qn_grammar_builder *b = new_builder();
        qn_expr root = random_grammar_make(seed, b, &r);
        hold_to(&o, b, root);
        for (int i = 0; i < WALKS; i++) {
            walk(&o, &r, &random, 12);
        }
        let_go(&o);
    }
}

static void masks_of_json_are_exact(void **state)
{
    (void)state;
    qn_constraint_options o = tiny_options();
    hold_to_json(&o);
    for (uint64_t seed = 1; seed <= 3; seed++) {
        walk(&o, NULL, &(random_stream){.seed = seed}, 25);
    }
    let_go(&o);
}

/* A word of `count` tokens or fewer. */
static void draw_word(const qn_constraint_options *o, size_t count, random_stream *random, qn_tokens *out)
{
    qn_constraint *c = constrain(o);
    mask_walk(c, o, count, random, out);
    qn_constraint_free(c);
}

/* As drafts are asked for: beginnings of several answers in turn, near and far, some wrong from a place on. */
static void the_order_of_questions_changes_no_mask(void **state)
{
    (void)state;
    qn_constraint_options o = tiny_options();
    hold_to_json(&o);
    for (uint64_t seed = 1; seed <= 4; seed++) {
        random_stream random = {.seed = seed};
        qn_tokens answers[2] = {{0}, {0}};
        draw_word(&o, LONG, &random, &answers[0]);
        assert_true(qn_tokens_append(&answers[1], answers[0].ids, answers[0].count / 2));
        draw_word(&o, LONG, &random, &answers[1]);
        qn_constraint *c = constrain(&o);
        for (int i = 0; i < 120; i++) {
            const qn_tokens *from = &answers[random_word(&random) % 2];
            size_t last = from->count < 8 || random_word(&random) % 3 == 0 ? 0 : from->count - 8;
            qn_tokens asked = {0};
            assert_true(qn_tokens_append(&asked, from->ids, last + random_word(&random) % (from->count - last + 1)));
            if (asked.count > 0 && random_word(&random) % 4 == 0) {
                asked.ids[asked.count - 1] = (int32_t)(random_word(&random) % o.vocab_size);
            }
            uint64_t expected[MASK_WORDS];
            qn_constraint *fresh = constrain(&o);
            mask_fill(fresh, &asked, expected);
            check_mask(c, &asked, expected, "asked in another order");
            qn_constraint_free(fresh);
            qn_tokens_free(&asked);
        }
        qn_constraint_free(c);
        qn_tokens_free(&answers[0]);
        qn_tokens_free(&answers[1]);
    }
    let_go(&o);
}

static void a_word_that_cannot_go_on_only_ends(void **state)
{
    (void)state;
    qn_constraint_options o = small_options();
    hold_to_text(&o, "abab");
    qn_constraint *c = constrain(&o);
    qn_tokens answer = {0};
    check_only(c, &answer, (int32_t[]){'a', 256, 261}, 3);
    assert_true(qn_tokens_add(&answer, 256));
    check_only(c, &answer, (int32_t[]){'a', 256}, 2);
    assert_true(qn_tokens_add(&answer, 256));
    check_only(c, &answer, small_eos, 2);
    assert_true(qn_tokens_add(&answer, END)); /* behind the end as well */
    check_only(c, &answer, small_eos, 2);
    assert_true(qn_tokens_add(&answer, 'a'));
    check_only(c, &answer, small_eos, 2);
    qn_constraint_free(c);
    let_go(&o);
    qn_tokens_free(&answer);
}

/* Whoever goes on behind end tokens asks for a mask without them, and gets none at all. */
static void without_end_tokens_a_complete_word_allows_nothing(void **state)
{
    (void)state;
    qn_constraint_options o = small_options();
    o.eos_count = 0;
    hold_to_text(&o, "ab");
    qn_constraint *c = constrain(&o);
    qn_tokens answer = {0};
    add_text(small, "ab", &answer);
    check_only(c, &answer, NULL, 0);
    qn_constraint_free(c);
    let_go(&o);
    qn_tokens_free(&answer);
}

static void a_token_that_may_not_come_leaves_the_end(void **state)
{
    (void)state;
    qn_constraint_options o = small_options();
    hold_to_text(&o, "baab");
    qn_constraint *c = constrain(&o);
    static const int32_t wrong[] = {'a', BAAB, CALL, THINK, SMALL_SIZE, SMALL_VOCAB - 1};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        check_only(c, &(qn_tokens){.ids = (int32_t[]){wrong[i]}, .count = 1}, small_eos, 2);
        check_only(c, &(qn_tokens){0}, (int32_t[]){'b', 257}, 2);
    }
    qn_constraint_free(c);
    let_go(&o);
}

/* Each "a" doubles the readings. What comes behind more of them than a matcher follows is not known: never an end. */
static void too_many_readings_are_told(void **state)
{
    (void)state;
    qn_constraint_options o = small_options();
    qn_grammar_builder *b = new_builder();
    qn_rule rule = qn_rule_declare(b, "r");
    qn_expr a = qn_expr_text(b, "a"), self = qn_expr_rule(b, rule);
    qn_expr first = qn_expr_concat(b, (qn_expr[]){a, self, qn_expr_text(b, "b")}, 3);
    qn_expr second = qn_expr_concat(b, (qn_expr[]){a, self, qn_expr_text(b, "c")}, 3);
    qn_rule_define(b, rule, qn_expr_choice(b, (qn_expr[]){first, second, qn_expr_text(b, "d")}, 3));
    hold_to(&o, b, self);
    qn_constraint *c = constrain(&o);
    qn_tokens answer = {0};
    bool filled = true;
    add_text(small, "aa", &answer);
    for (size_t i = 0; i < 40; i++) {
        uint64_t mask[MASK_WORDS] = {0};
        filled = qn_constraint_fill(c, answer.ids, answer.count, mask);
        assert_false(mask_has(mask, END));
        assert_true(!filled || mask_has(mask, 'a') || mask_has(mask, 'd'));
        assert_true(qn_tokens_add(&answer, 'a'));
    }
    assert_false(filled);
    qn_constraint_free(c);
    let_go(&o);
    qn_tokens_free(&answer);
}

/* ---- thoughts ---- */

static void thoughts_of_a_form_are_text_until_their_end(void **state)
{
    (void)state;
    qn_constraint_options o = small_options();
    o.thoughts = QN_THOUGHTS_OPEN;
    hold_to_text(&o, "ab");
    qn_constraint *c = constrain(&o);
    qn_tokens answer = {0};
    uint64_t thinking[MASK_WORDS] = {0};
    expect_text(&o, THINK_END, thinking);
    check_mask(c, &answer, thinking, "the first thought");
    add_text(small, "abba", &answer);
    check_mask(c, &answer, thinking, "a thought");
    assert_true(qn_tokens_add(&answer, THINK_END));
    check_only(c, &answer, (int32_t[]){'a', 256}, 2);
    add_text(small, "ab", &answer);
    check_only(c, &answer, small_eos, 2);
    qn_constraint_free(c);
    let_go(&o);
    qn_tokens_free(&answer);
}

static void optional_thoughts_begin_with_their_tag(void **state)
{
    (void)state;
    qn_constraint_options o = small_options();
    o.thoughts = QN_THOUGHTS_OPTIONAL;
    hold_to_text(&o, "ab");
    qn_constraint *c = constrain(&o);
    uint64_t thinking[MASK_WORDS] = {0};
    expect_text(&o, THINK_END, thinking);
    check_only(c, &(qn_tokens){0}, (int32_t[]){'a', 256, THINK}, 3);
    check_only(c, &(qn_tokens){.ids = (int32_t[]){'a'}, .count = 1}, (int32_t[]){'b'}, 1);
    check_mask(c, &(qn_tokens){.ids = (int32_t[]){THINK}, .count = 1}, thinking, "behind <think>");
    check_only(c, &(qn_tokens){.ids = (int32_t[]){THINK, 'x', THINK_END}, .count = 3}, (int32_t[]){'a', 256}, 2);
    check_only(c, &(qn_tokens){.ids = (int32_t[]){'a', THINK}, .count = 2}, small_eos, 2);
    qn_constraint_free(c);
    let_go(&o);
}

static void without_a_form_everything_is_free(void **state)
{
    (void)state;
    static const int32_t answer[] = {THINK, 'x', THINK_END, 'y', CALL, END, SMALL_SIZE + 3};
    for (int thoughts = QN_THOUGHTS_NONE; thoughts <= QN_THOUGHTS_OPTIONAL; thoughts++) {
        qn_constraint_options o = small_options();
        o.thoughts = (qn_thoughts)thoughts;
        qn_constraint *c = constrain(&o);
        uint64_t all[MASK_WORDS] = {0};
        expect_all(&o, all);
        for (size_t count = 0; count <= sizeof answer / sizeof *answer; count++) {
            check_mask(c, &(qn_tokens){.ids = (int32_t *)(uintptr_t)answer, .count = count}, all, "free");
        }
        qn_constraint_free(c);
    }
}

static void a_tokenizer_without_tags_has_no_thoughts(void **state)
{
    (void)state;
    qn_tokenizer *plain = small_open(&(small_spec){0});
    qn_vocabulary_trie *trie = NULL;
    qn_error err;
    assert_int_equal(qn_tokenizer_trie(plain, &trie, &err), QN_OK);
    for (int thoughts = QN_THOUGHTS_OPEN; thoughts <= QN_THOUGHTS_OPTIONAL; thoughts++) {
        static const int32_t eos[] = {0};
        qn_constraint_options o = {.tokenizer = plain,
                                   .vocab_size = 256,
                                   .eos = eos,
                                   .eos_count = 1,
                                   .thoughts = (qn_thoughts)thoughts,
                                   .has_budget = true};
        hold_to_text(&o, "ab");
        qn_mask_cache_free(o.cache);
        assert_int_equal(qn_mask_cache_new(o.grammar, trie, &o.cache, &err), QN_OK);
        qn_constraint *c = constrain(&o);
        check_only(c, &(qn_tokens){0}, (int32_t[]){'a'}, 1);
        qn_constraint_free(c);
        let_go(&o);
    }
    qn_vocabulary_trie_free(trie);
    qn_tokenizer_free(plain);
}

/* With and without a form, open and behind their tag. */
static void a_budget_closes_thoughts(void **state)
{
    (void)state;
    static const size_t budgets[] = {0, 1, 5};
    for (size_t i = 0; i < 12; i++) {
        qn_constraint_options o = small_options();
        bool optional = i & 1;
        o.thoughts = optional ? QN_THOUGHTS_OPTIONAL : QN_THOUGHTS_OPEN;
        o.has_budget = true;
        o.budget = budgets[i / 4];
        if (i & 2) {
            hold_to_text(&o, "ab");
        }
        qn_constraint *c = constrain(&o);
        qn_tokens answer = {0};
        uint64_t free[MASK_WORDS] = {0};
        if (o.grammar != NULL) {
            expect_text(&o, THINK_END, free);
        } else {
            expect_all(&o, free);
        }
        assert_true(!optional || qn_tokens_add(&answer, THINK));
        for (size_t thought = 0; thought < o.budget; thought++) {
            check_mask(c, &answer, free, "within the budget");
            assert_true(qn_tokens_add(&answer, 'x'));
        }
        check_only(c, &answer, (int32_t[]){THINK_END}, 1);
        assert_true(qn_tokens_add(&answer, 'x')); /* a draft beyond */
        check_only(c, &answer, (int32_t[]){THINK_END}, 1);
        answer.ids[answer.count - 1] = THINK_END;
        uint64_t behind[MASK_WORDS] = {0};
        if (o.grammar != NULL) {
            assert_true(expect_word(&o, NULL, 0, behind));
        } else {
            expect_all(&o, behind);
        }
        check_mask(c, &answer, behind, "behind the thoughts");
        qn_constraint_free(c);
        let_go(&o);
        qn_tokens_free(&answer);
    }
}

/* One token a byte: thoughts close where the next byte begins a character. */
static void a_budget_waits_for_the_end_of_a_character(void **state)
{
    (void)state;
    static const char text[] = "a\xC3\xA9z\xE2\x82\xAC\xF0\x9F\x98\x80\xF0\x9F\x98\x81q";
    int32_t bytes[sizeof text];
    for (size_t i = 0; i < sizeof text; i++) {
        bytes[i] = (unsigned char)text[i];
    }
    for (size_t budget = 0; budget < sizeof text - 1; budget++) {
        qn_constraint_options o = small_options();
        o.thoughts = QN_THOUGHTS_OPEN;
        o.has_budget = true;
        o.budget = budget;
        qn_constraint *c = constrain(&o);
        for (size_t count = budget; count < sizeof text - 1; count++) {
            uint64_t mask[MASK_WORDS];
            bool within = (bytes[count] & 0xC0) == 0x80;
            mask_fill(c, &(qn_tokens){.ids = bytes, .count = count}, mask);
            assert_true(mask_has(mask, THINK_END));
            assert_int_equal(mask_count(mask) > 1, within);
            if (!within) {
                break;
            }
        }
        qn_constraint_free(c);
    }
}

/* Beginnings of characters that never end, and bytes that are no text at all. */
static void a_budget_waits_for_three_tokens_at_most(void **state)
{
    (void)state;
    static const unsigned char bad[] = {0xF0, 0xE2, 0xC3, 0x80, 0xFF};
    for (size_t i = 0; i < sizeof bad; i++) {
        qn_constraint_options o = small_options();
        o.thoughts = QN_THOUGHTS_OPEN;
        o.has_budget = true;
        o.budget = 2;
        qn_constraint *c = constrain(&o);
        qn_tokens answer = {0};
        for (size_t k = 0; k < 2 + 8; k++) {
            uint64_t mask[MASK_WORDS];
            mask_fill(c, &answer, mask);
            if (k >= 2 + 3) {
                assert_int_equal(mask_count(mask), 1);
            }
            assert_true(mask_has(mask, THINK_END));
            assert_true(qn_tokens_add(&answer, bad[i]));
        }
        qn_constraint_free(c);
        qn_tokens_free(&answer);
    }
}

/* ---- threads and memory ---- */

typedef struct job {
    qn_constraint *c;
    const qn_tokens *answer;
    const uint64_t (*expected)[MASK_WORDS];
    uint64_t seed;
    size_t wrong;
} job;

static void *ask(void *argument)
{
    job *j = argument;
    random_stream random = {.seed = j->seed};
    for (int i = 0; i < 150; i++) {
        uint64_t mask[MASK_WORDS] = {0};
        size_t count = random_word(&random) % (j->answer->count + 1);
        bool filled = qn_constraint_fill(j->c, j->answer->ids, count, mask);
        j->wrong += !filled || memcmp(mask, j->expected[count], sizeof mask) != 0;
    }
    return NULL;
}

static void threads_may_ask_at_once(void **state)
{
    (void)state;
    static uint64_t expected[2][LONG + 1][MASK_WORDS];
    qn_constraint_options o = tiny_options();
    hold_to_json(&o);
    qn_tokens answers[2] = {{0}, {0}};
    random_stream random = {.seed = 5};
    for (size_t i = 0; i < 2; i++) {
        draw_word(&o, LONG, &random, &answers[i]);
        for (size_t count = 0; count <= answers[i].count; count++) {
            qn_constraint *fresh = constrain(&o);
            mask_fill(fresh, &(qn_tokens){.ids = answers[i].ids, .count = count}, expected[i][count]);
            qn_constraint_free(fresh);
        }
    }
    qn_constraint *c = constrain(&o);
    pthread_t threads[THREADS];
    job jobs[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        jobs[i] = (job){.c = c, .answer = &answers[i % 2], .expected = (const void *)expected[i % 2], .seed = i};
        assert_int_equal(pthread_create(&threads[i], NULL, ask, &jobs[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(jobs[i].wrong, 0);
    }
    qn_constraint_free(c);
    qn_tokens_free(&answers[0]);
    qn_tokens_free(&answers[1]);
    let_go(&o);
}

/* A mask is right or there is none; and once there is memory again, it is right. */
static void memory_runs_out(void **state)
{
    (void)state;
    qn_constraint_options o = tiny_options();
    hold_to_json(&o);
    qn_tokens answer = {0};
    add_text(tiny, "{\"a\": [1, {\"b\": \"c\"}], \"de\": \"f", &answer);
    uint64_t expected[MASK_WORDS] = {0};
    assert_true(expect_word(&o, answer.ids, answer.count, expected));
    bool failed = true;
    for (long n = 1; failed; n++) {
        qn_error err;
        qn_constraint *c = NULL;
        uint64_t mask[MASK_WORDS] = {0};
        qn_fault_arm(QN_FAULT_ALLOC, n);
        qn_status status = qn_constraint_new(&o, &c, &err);
        bool filled = status == QN_OK && qn_constraint_fill(c, answer.ids, answer.count, mask);
        failed = qn_fault_seen(QN_FAULT_ALLOC) >= n;
        qn_fault_disarm();
        if (status != QN_OK) {
            assert_int_equal(status, QN_RESOURCE);
            continue;
        }
        if (filled && memcmp(mask, expected, sizeof mask) != 0) {
            fail_msg("allocation %ld failed, and the mask is wrong", n);
        }
        assert_true(filled || failed);
        check_mask(c, &answer, expected, "memory is there again");
        qn_constraint_free(c);
        assert_true(n < 100000);
    }
    qn_tokens_free(&answer);
    let_go(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_of_random_grammars_are_exact),
        cmocka_unit_test(masks_of_json_are_exact),
        cmocka_unit_test(the_order_of_questions_changes_no_mask),
        cmocka_unit_test(a_word_that_cannot_go_on_only_ends),
        cmocka_unit_test(without_end_tokens_a_complete_word_allows_nothing),
        cmocka_unit_test(a_token_that_may_not_come_leaves_the_end),
        cmocka_unit_test(too_many_readings_are_told),
        cmocka_unit_test(thoughts_of_a_form_are_text_until_their_end),
        cmocka_unit_test(optional_thoughts_begin_with_their_tag),
        cmocka_unit_test(without_a_form_everything_is_free),
        cmocka_unit_test(a_tokenizer_without_tags_has_no_thoughts),
        cmocka_unit_test(a_budget_closes_thoughts),
        cmocka_unit_test(a_budget_waits_for_the_end_of_a_character),
        cmocka_unit_test(a_budget_waits_for_three_tokens_at_most),
        cmocka_unit_test(threads_may_ask_at_once),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
