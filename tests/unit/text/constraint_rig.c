#include "constraint_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/memory.h"
#include "grammar/json_schema.h"
#include "grammar/matcher.h"
#include "small_tokenizer.h"
#include "text/answer_grammar.h"
#include "unit/shipped_tokenizer.h"

static qn_tokenizer *small, *tiny;
static qn_vocabulary_trie *small_trie, *tiny_trie;
static uint64_t *small_thoughts, *tiny_thoughts;
const int32_t small_eos[2] = {END, STOP};

int constraint_rig_open(void **state)
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
    return shipped_tokenizer_open(&tiny, &tiny_trie) == 0 && qn_tokenizer_trie(small, &small_trie, &err) == QN_OK &&
                   qn_thought_mask_new(small, SMALL_VOCAB, &small_thoughts, &err) == QN_OK &&
                   qn_thought_mask_new(tiny, SHIPPED_VOCABULARY, &tiny_thoughts, &err) == QN_OK
               ? 0
               : -1;
}

int constraint_rig_close(void **state)
{
    (void)state;
    qn_vocabulary_trie_free(small_trie);
    qn_vocabulary_trie_free(tiny_trie);
    qn_free(small_thoughts);
    qn_free(tiny_thoughts);
    qn_tokenizer_free(small);
    qn_tokenizer_free(tiny);
    return 0;
}

/* ---- options and their grammars ---- */

qn_constraint_options small_options(void)
{
    return (qn_constraint_options){.tokenizer = small,
                                   .vocab_size = SMALL_VOCAB,
                                   .thought_mask = small_thoughts,
                                   .eos = small_eos,
                                   .eos_count = 2};
}

qn_constraint_options tiny_options(void)
{
    return (qn_constraint_options){.tokenizer = tiny,
                                   .vocab_size = SHIPPED_VOCABULARY,
                                   .thought_mask = tiny_thoughts,
                                   .eos = shipped_eos,
                                   .eos_count = 3};
}

qn_grammar_builder *new_builder(void)
{
    qn_error err;
    qn_grammar_builder *b = NULL;
    assert_int_equal(qn_grammar_builder_new(&b, &err), QN_OK);
    return b;
}

/* Takes the builder. */
void hold_to(qn_constraint_options *o, qn_grammar_builder *b, qn_expr root)
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

void let_go(qn_constraint_options *o)
{
    qn_mask_cache_free(o->cache);
    qn_grammar_free((qn_grammar *)(uintptr_t)o->grammar);
    o->cache = NULL;
    o->grammar = NULL;
}

void hold_to_text(qn_constraint_options *o, const char *text)
{
    qn_grammar_builder *b = new_builder();
    hold_to(o, b, qn_expr_text(b, text));
}

/* A call, a list of objects with strings of any length, in a row. */
void hold_to_json(qn_constraint_options *o)
{
    const qn_schema_options spelling = {.any_whitespace = true};
    qn_grammar_builder *b = new_builder();
    qn_expr object = qn_json_object_expr(b, &spelling);
    qn_expr call = qn_expr_token(b, qn_tokenizer_find_added(o->tokenizer, "<tool_call>"));
    hold_to(o, b, qn_expr_concat2(b, qn_expr_optional(b, call), object));
}

qn_constraint *constrain(const qn_constraint_options *o)
{
    qn_error err;
    qn_constraint *c = NULL;
    assert_int_equal(qn_constraint_new(o, &c, &err), QN_OK);
    return c;
}

/* ---- what masks should be ---- */

static bool takes(const qn_tokenizer *tokenizer, qn_matcher *m, int32_t token)
{
    size_t bytes = 0;
    const char *text = qn_tokenizer_token_bytes(tokenizer, token, &bytes);
    return qn_tokenizer_is_added(tokenizer, token)
               ? qn_matcher_token(m, token)
               : text != NULL && bytes > 0 && qn_matcher_bytes(m, text, bytes) == bytes;
}

/* Behind `count` tokens of a word; false where some token has more readings than a matcher follows. */
bool expect_word(const qn_constraint_options *o, const int32_t *word, size_t count, uint64_t *mask)
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
            mask_set(mask, token);
        }
        exhausted = exhausted || qn_matcher_exhausted(next);
        qn_matcher_free(next);
    }
    for (size_t i = 0; i < o->eos_count && (!alive || qn_matcher_can_end(m)); i++) {
        mask_set(mask, o->eos[i]);
    }
    qn_matcher_free(m);
    return !exhausted;
}

/* All text and what is named besides; -1 names nothing. */
void expect_text(const qn_constraint_options *o, int32_t besides, uint64_t *mask)
{
    for (int32_t token = 0; (size_t)token < qn_tokenizer_size(o->tokenizer); token++) {
        if (!qn_tokenizer_is_added(o->tokenizer, token) || token == besides) {
            mask_set(mask, token);
        }
    }
}

void expect_all(const qn_constraint_options *o, uint64_t *mask)
{
    for (int32_t token = 0; (size_t)token < o->vocab_size; token++) {
        mask_set(mask, token);
    }
}

void check_mask(qn_constraint *c, const qn_tokens *answer, const uint64_t *expected, const char *what)
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

void check_only(qn_constraint *c, const qn_tokens *answer, const int32_t *tokens, size_t count)
{
    uint64_t expected[MASK_WORDS] = {0};
    for (size_t i = 0; i < count; i++) {
        mask_set(expected, tokens[i]);
    }
    check_mask(c, answer, expected, "only");
}

void add_text(const qn_tokenizer *tokenizer, const char *text, qn_tokens *out)
{
    qn_error err;
    const qn_span all = {0, strlen(text)};
    assert_int_equal(qn_tokenizer_encode(tokenizer, text, strlen(text), &all, 1, out, &err), QN_OK);
}
