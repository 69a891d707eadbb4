/* Steps are counted, so that what hostile grammars cost is a number and no time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "grammar/gbnf.h"
#include "grammar/matcher.h"
#include "grammar/regex.h"
#include "grammar/stack_sets.h"

static qn_error err;

static qn_grammar *compile(const char *text, bool is_regex)
{
    qn_grammar_builder *b;
    qn_expr root;
    qn_grammar *g;
    assert_int_equal(qn_grammar_builder_new(&b, &err), QN_OK);
    if (is_regex ? qn_regex_expr(b, text, strlen(text), false, NULL, &root, &err)
                 : qn_gbnf_expr(b, text, strlen(text), &root, &err))
        fail_msg("%s", err.message);
    if (qn_grammar_build(b, root, &g, &err))
        fail_msg("%s", err.message);
    qn_grammar_builder_free(b);
    return g;
}

static uint32_t start(qn_set_table *table, const qn_grammar *g)
{
    assert_true(qn_set_table_init(table, g));
    qn_set_table_begin(table);
    return qn_set_table_start(table, g->start, QN_FRAME_BOTTOM);
}

static uint32_t walk(qn_set_table *table, uint32_t set, const char *text)
{
    for (; *text; text++)
        set = qn_set_table_next(table, set, (uint8_t)*text);
    return set;
}

static void equal_places_are_one_set(void **state)
{
    (void)state;
    qn_set_table table;
    qn_grammar *g = compile("\"[^\"]*\"", true);
    uint32_t first = start(&table, g), inside = walk(&table, first, "\"");
    assert_int_not_equal(inside, QN_SET_EMPTY);
    assert_int_equal(walk(&table, inside, "abc \xC3\xA9\xF0\x9F\x98\x80"), inside);
    assert_int_equal(walk(&table, first, "a"), QN_SET_EMPTY);
    assert_int_not_equal(walk(&table, inside, "\xC3"), inside);
    qn_set_table_free(&table);
    qn_grammar_free(g);
}

/* All three-byte characters in turn: their last bytes are 64 each, but where they lead is found once. */
static void what_bytes_lead_to_is_found_once(void **state)
{
    (void)state;
    qn_set_table table;
    qn_grammar *g = compile("(\\p{L}|\\p{N}+x|[^a]y)*", true);
    uint32_t first = start(&table, g);
    size_t widest = table.sets[first].count;
    for (unsigned c = 0x800; c < 0xD800; c++) {
        const uint8_t bytes[] = {(uint8_t)(0xE0 | c >> 12), (uint8_t)(0x80 | (c >> 6 & 0x3F)),
                                 (uint8_t)(0x80 | (c & 0x3F))};
        uint32_t set = first;
        for (size_t i = 0; i < sizeof bytes; i++)
            set = qn_set_table_next(&table, set, bytes[i]);
        widest = table.sets[set].count > widest ? table.sets[set].count : widest;
    }
    assert_false(table.failed);
    assert_true(widest >= 16);
    assert_in_range(table.store.work, 1, 20 * widest * table.set_count);
    qn_set_table_free(&table);
    qn_grammar_free(g);
}

/* Along a text that a grammar can read in ever more ways a piece of work ends at its bound. */
static void check_bounded(const char *text, bool is_regex, const char *letters)
{
    qn_set_table table;
    qn_grammar *g = compile(text, is_regex);
    uint32_t set = start(&table, g);
    uint64_t begin = table.store.work;
    for (size_t i = 0; i < 3000 && set != QN_SET_EMPTY && !table.failed; i++) {
        for (unsigned b = 0; b < 256 && !table.failed; b++)
            qn_set_table_next(&table, set, (uint8_t)b);
        set = qn_set_table_next(&table, set, (uint8_t)letters[i % strlen(letters)]);
    }
    /* The last step may be one past it, as large as the matcher allows. */
    assert_in_range(table.store.work - begin, 1, QN_SET_TABLE_WORK + 5 * QN_MATCHER_MAX_STACKS);
    assert_true(table.set_count <= QN_SET_TABLE_WORK / 8);
    qn_set_table_begin(&table);
    assert_false(table.failed);
    qn_set_table_free(&table);
    qn_grammar_free(g);
}

static void hostile_grammars_cost_bounded_work(void **state)
{
    (void)state;
    static const char *const regexes[] = {"(a*)*b",
                                          "(a|aa|aaa){0,1000}",
                                          ".*a.{500}",
                                          "(.*a){50}",
                                          "((a{0,50}){0,50}){0,50}",
                                          "(.{0,1000}){0,1000}",
                                          "(x+x+|[ab])+y?",
                                          "[\\p{L}]{3,40}.*\\p{Lu}.{20,300}"};
    static const char *const grammars[] = {
        "root ::= \"a\" root root | \"a\" | \"b\"",
        "root ::= x{0,1000} x{0,1000} x{0,1000}\nx ::= [a-z] | [a-z] [a-z] | [a-z]+",
        "root ::= \"a\" root? \"b\"? | \"b\" root{0,1000}",
    };
    for (size_t i = 0; i < sizeof regexes / sizeof *regexes; i++)
        check_bounded(regexes[i], true, "ab");
    for (size_t i = 0; i < sizeof grammars / sizeof *grammars; i++)
        check_bounded(grammars[i], false, "aab");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_places_are_one_set),
        cmocka_unit_test(what_bytes_lead_to_is_found_once),
        cmocka_unit_test(hostile_grammars_cost_bounded_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
