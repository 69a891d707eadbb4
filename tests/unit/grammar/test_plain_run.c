#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "grammar/char_kinds.h"
#include "grammar/matcher_internal.h"
#include "grammar/plain_run.h"
#include "grammar/regex.h"

static qn_error err;

/* The vocabulary's words; where a run is asked for, behind the first one. */
typedef struct words {
    const char *const *list;
    size_t count;
} words;

static const char *word_bytes(void *context, int32_t token, size_t *length)
{
    const words *w = context;
    *length = strlen(w->list[token]);
    return w->list[token];
}

static uint64_t bits_of(const char *ascii)
{
    uint64_t bits = 0;
    for (; *ascii; ascii++)
        bits |= UINT64_C(1) << qn_ascii_kind((uint8_t)*ascii);
    return bits;
}

static uint32_t find_node(const qn_vocabulary_trie *trie, const char *text)
{
    uint32_t node = (uint32_t)trie->first_plain;
    for (size_t depth = 1; depth <= strlen(text); depth++) {
        while (trie->nodes[node].depth == depth && trie->nodes[node].byte != (uint8_t)text[depth - 1])
            node = trie->nodes[node].skip;
        assert_int_equal(trie->nodes[node].depth, depth);
        node += depth < strlen(text);
    }
    return node;
}

/* Whether what is below the first word is known at once; *kinds: the characters that go on. */
static bool run_of(const char *regex, const words *w, uint64_t *kinds)
{
    qn_grammar_builder *b;
    qn_expr root;
    qn_grammar *g;
    qn_vocabulary_trie *trie;
    qn_set_table table;
    assert_int_equal(qn_grammar_builder_new(&b, &err), QN_OK);
    assert_int_equal(qn_regex_expr(b, regex, strlen(regex), false, NULL, &root, &err), QN_OK);
    assert_int_equal(qn_grammar_build(b, root, &g, &err), QN_OK);
    assert_int_equal(qn_vocabulary_trie_new(w->count, word_bytes, (void *)w, &trie, &err), QN_OK);
    assert_true(qn_set_table_init(&table, g));
    qn_set_table_begin(&table);
    uint32_t set = qn_set_table_start(&table, g->start, QN_FRAME_BOTTOM);
    for (const char *at = w->list[0]; *at; at++)
        set = qn_set_table_next(&table, set, (uint8_t)*at);
    assert_int_not_equal(set, QN_SET_EMPTY);
    bool found = qn_plain_run_find(&table, trie, find_node(trie, w->list[0]), set, false, kinds);
    assert_false(table.failed);
    qn_set_table_free(&table);
    qn_vocabulary_trie_free(trie);
    qn_grammar_free(g);
    qn_grammar_builder_free(b);
    return found;
}

static void words_of_letters_go_on(void **state)
{
    (void)state;
    const words ab = {(const char *const[]){"x", "xab", "xabba", "y0"}, 4};
    uint64_t kinds;
    assert_true(run_of("[a-z]*", &ab, &kinds));
    assert_int_equal(kinds, bits_of("ab"));
    assert_true(run_of("x[ab]{4,9}", &ab, &kinds));
    assert_int_equal(kinds, bits_of("ab"));
    assert_true(run_of("[^a]*", &ab, &kinds)); /* what is refused does not go on */
    assert_int_equal(kinds, bits_of("b"));
    assert_true(run_of("x0*", &ab, &kinds));
    assert_int_equal(kinds, 0);
}

static void what_ends_or_leads_elsewhere_is_looked_at(void **state)
{
    (void)state;
    const words ab = {(const char *const[]){"x", "xab", "xabba"}, 3};
    uint64_t kinds;
    assert_false(run_of("x[ab]{1,3}", &ab, &kinds)); /* shorter than the longest word */
    assert_false(run_of("x[ab][a]*", &ab, &kinds));
    assert_false(run_of("x[^a]*(a[^b]*)?", &ab, &kinds));
}

static void blocks_of_letters_go_on(void **state)
{
    (void)state;
    const words whole = {(const char *const[]){"x", "x\xE4\xBD\xA0", "x\xD0\xB0\xED\x95\x9C", "x\xE5\xA5\xBD"}, 4};
    const words cut = {(const char *const[]){"x", "x\xE4\xBD\xA0", "x\xE4\xBD"}, 3};
    uint64_t kinds,
        letters = UINT64_C(1) << QN_KIND_IDEOGRAPH | UINT64_C(1) << QN_KIND_CYRILLIC | UINT64_C(1) << QN_KIND_HANGUL;
    assert_true(run_of("[^\\n]*", &whole, &kinds));
    assert_int_equal(kinds, letters);
    assert_true(run_of("x[\\u{4E00}-\\u{9FFF}]*", &whole, &kinds));
    assert_int_equal(kinds, UINT64_C(1) << QN_KIND_IDEOGRAPH);
    assert_true(run_of("x[\\u{4E00}-\\u{9FA5}]*", &whole, &kinds)); /* all that the vocabulary has */
    assert_false(run_of("x[\\u{4E00}-\\u{4FFF}]*", &whole, &kinds));
    assert_false(run_of("[^\\n]*", &cut, &kinds));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_of_letters_go_on),
        cmocka_unit_test(what_ends_or_leads_elsewhere_is_looked_at),
        cmocka_unit_test(blocks_of_letters_go_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
