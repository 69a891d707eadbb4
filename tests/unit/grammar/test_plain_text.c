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
    size_t chars = 0;
    int found = qn_plain_text_reach(&table, set, false, &chars) ? (int)chars : LOOK;
    assert_false(table.failed);
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

static void text_of_some_characters_is_looked_at(void **state)
{
    (void)state;
    assert_int_equal(reach("[a-z]*", ""), LOOK);
    assert_int_equal(reach("[ -~]*", ""), LOOK);          /* no character beyond ASCII */
    assert_int_equal(reach("[^\\n\xC3\xA9]*", ""), LOOK); /* but one */
    assert_int_equal(reach("[^\\n]{3}[a-z]*", ""), LOOK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings_without_an_end_take_all),
        cmocka_unit_test(bounded_strings_take_what_is_left),
        cmocka_unit_test(no_text_at_all_is_known_too),
        cmocka_unit_test(text_of_some_characters_is_looked_at),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
