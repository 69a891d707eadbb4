#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "grammar/matcher_internal.h"
#include "grammar/plain_text.h"
#include "grammar/regex.h"
#include "grammar/vocabulary_trie.h"

enum { LOOK = -1 }; /* the tokens are to be looked at */

static qn_error err;

/* The vocabulary: words, of which few have a space or a dash. */
static const char *const WORDS[] = {"a",
                                    "ab",
                                    "abba",
                                    "bcd",
                                    "cde",
                                    "fgh",
                                    "ijk",
                                    "lmn",
                                    "opq",
                                    "rstuvw",
                                    "xyz",
                                    "\xC3\xA9",
                                    "a\xC3\xA9",
                                    "\xE4\xBD\xA0",
                                    "\xE4\xBD",
                                    ("\xD0\xB0"
                                     "b"),
                                    "zebra",
                                    "Zoo",
                                    "zoom",
                                    "why",
                                    "hello",
                                    "world",
                                    "a b",
                                    "-",
                                    "a-b",
                                    "~"};
enum { WORD_COUNT = sizeof WORDS / sizeof *WORDS };

static const char *word_bytes(void *context, int32_t token, size_t *length)
{
    (void)context;
    *length = strlen(WORDS[token]);
    return WORDS[token];
}

/* Holds the tokens without odd characters to what the matcher takes. */
static void check_tokens(const qn_vocabulary_trie *trie, const qn_plain_reach *r, const qn_matcher *m)
{
    uint64_t mask = 0, room;
    qn_plain_text_allow(trie, r, &mask, &room);
    for (int32_t t = 0; t < WORD_COUNT; t++) {
        qn_matcher *next;
        size_t bytes = strlen(WORDS[t]);
        bool odd = false;
        for (size_t k = 0; k < QN_KINDS; k++)
            odd |= (r->odd >> k & 1) && (trie->chars.kind_tokens[k] >> t & 1);
        assert_int_equal(qn_matcher_clone(m, &next, &err), QN_OK);
        bool takes = qn_matcher_bytes(next, WORDS[t], bytes) == bytes;
        if (!odd && takes != (mask >> t & 1))
            fail_msg("%s", WORDS[t]);
        qn_matcher_free(next);
    }
}

static uint64_t odd; /* of the last reach */

/* The reach behind `text` of a regex, or LOOK. */
static int reach(const char *regex, const char *text)
{
    qn_grammar_builder *b;
    qn_expr root;
    qn_grammar *g;
    qn_matcher *m;
    qn_set_table table;
    assert_int_equal(qn_grammar_builder_new(&b, &err), QN_OK);
    assert_int_equal(qn_regex_expr(b, regex, strlen(regex), false, NULL, &root, &err), QN_OK);
    assert_int_equal(qn_grammar_build(b, root, &g, &err), QN_OK);
    assert_int_equal(qn_matcher_new(g, &m, &err), QN_OK);
    assert_true(qn_set_table_init(&table, g));
    qn_set_table_begin(&table);
    uint32_t set = qn_set_table_start(&table, g->start, QN_FRAME_BOTTOM);
    for (size_t i = 0; i < strlen(text); i++)
        set = qn_set_table_next(&table, set, (uint8_t)text[i]);
    assert_int_not_equal(set, QN_SET_EMPTY);
    qn_vocabulary_trie *trie;
    qn_plain_reach r;
    assert_int_equal(qn_vocabulary_trie_new(WORD_COUNT, word_bytes, NULL, &trie, &err), QN_OK);
    int found = qn_plain_text_reach(&table, trie, set, false, &r) ? (int)r.chars : LOOK;
    assert_false(table.failed);
    odd = found == LOOK ? 0 : r.odd;
    assert_int_equal(qn_matcher_bytes(m, text, strlen(text)), strlen(text));
    if (found != LOOK)
        check_tokens(trie, &r, m);
    qn_vocabulary_trie_free(trie);
    qn_set_table_free(&table);
    qn_matcher_free(m);
    qn_grammar_free(g);
    qn_grammar_builder_free(b);
    return found;
}

static void strings_without_an_end_take_all(void **state)
{
    (void)state;
    assert_int_equal(reach("\"[^\"\\\\]*\"", "\"x"), QN_PLAIN_MAX_CHARS);
    assert_int_equal(reach("[^\\n]*", ""), QN_PLAIN_MAX_CHARS);
    assert_int_equal(reach("[^\\n]*a[^\\n]*", ""), QN_PLAIN_MAX_CHARS);
    assert_int_equal(reach("[^\\n]*a[^\\n]*", "\xC3\xA9"
                                              "a"),
                     QN_PLAIN_MAX_CHARS);
}

static void bounded_strings_take_what_is_left(void **state)
{
    (void)state;
    assert_int_equal(reach("\"[^\"]{2,9}\"", "\""), 9);
    assert_int_equal(reach("\"[^\"]{2,9}\"", "\"abc"), 6);
    assert_int_equal(reach("\"[^\"]{2,9}\"", "\"abcdefghi"), 0);
    assert_int_equal(reach("\"[^\"]{2,900}\"", "\"abc"), QN_PLAIN_MAX_CHARS);
}

static void no_text_at_all_is_known_too(void **state)
{
    (void)state;
    assert_int_equal(reach("\"[^\"]*\"", ""), 0);
    assert_int_equal(reach("\"[^\"]*\"", "\"\""), 0);
    assert_int_equal(reach("[^\\n]*", "\xE4\xBD"), 0); /* inside of a character */
}

static void text_without_some_characters_is_told(void **state)
{
    (void)state;
    assert_int_equal(reach("[a-z]*", ""), QN_PLAIN_MAX_CHARS);
    assert_int_equal(reach("[ -~]*", ""), QN_PLAIN_MAX_CHARS);          /* no character beyond ASCII */
    assert_int_equal(reach("[^\\n\xC3\xA9]*", ""), QN_PLAIN_MAX_CHARS); /* but one */
    assert_int_equal(reach("[^b]*f?[^b]*", ""), QN_PLAIN_MAX_CHARS);
    assert_int_equal(reach("\\p{L}{2,9}", "ab"), 7);
    assert_int_equal(reach("\\p{L}+", ""), QN_PLAIN_MAX_CHARS); /* the first one comes before the others */
    assert_int_equal(reach("\\p{L}{3}", ""), 3);
}

static void what_leads_elsewhere_is_odd(void **state)
{
    (void)state;
    assert_int_equal(reach("[a-z]+ [0-9]", "a"), QN_PLAIN_MAX_CHARS);
    assert_int_equal(odd, UINT64_C(1) << QN_KIND_SPACE);
    assert_int_equal(reach("[a-z]+ [0-9]", ""), QN_PLAIN_MAX_CHARS); /* no space at first */
    assert_int_equal(odd, UINT64_C(1) << QN_KIND_SPACE);
    assert_int_equal(reach("\\p{L}+-\\p{L}", "a"), QN_PLAIN_MAX_CHARS);
    assert_int_equal(odd, UINT64_C(1) << QN_KIND_DASH_OR_POINT);
    assert_int_equal(reach("[a-z]+e[0-9]", "a"), QN_PLAIN_MAX_CHARS);
    assert_int_equal(odd, UINT64_C(1) << qn_ascii_kind('e'));
    assert_int_equal(reach("[a-z]+b[0-9]", "a"), LOOK); /* in too many tokens */
    assert_int_equal(reach("[a-z]{1,3} x", "a"), LOOK); /* the last letters lead elsewhere, others do not */
}

static void text_that_changes_is_looked_at(void **state)
{
    (void)state;
    assert_int_equal(reach("[ab]*", ""), LOOK); /* a walk is short */
    assert_int_equal(reach("[^\\n]{3}[a-z]*", ""), LOOK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings_without_an_end_take_all), cmocka_unit_test(bounded_strings_take_what_is_left),
        cmocka_unit_test(no_text_at_all_is_known_too),     cmocka_unit_test(text_without_some_characters_is_told),
        cmocka_unit_test(what_leads_elsewhere_is_odd),     cmocka_unit_test(text_that_changes_is_looked_at),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
