#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "unit/grammar/front_end.h"
#include "grammar/char_set.h"
#include "grammar/regex.h"
#include "unit/random_stream.h"

typedef const char *const texts[];

static void check(const char *regex, const char *const *accept, const char *const *reject)
{
    front_end_check(regex_front_end, regex, accept, reject);
}

static void refused(const char *regex, const char *part)
{
    front_end_refuses(regex_front_end, regex, part);
}

static void test_literals_and_escapes(void **state)
{
    (void)state;
    check("", (texts){"", NULL}, (texts){"a", NULL});
    check("abc", (texts){"abc", NULL}, (texts){"", "ab", "abcd", "xabc", NULL});
    check("é你😀", (texts){"é你😀", NULL}, (texts){"é你", NULL});
    check("\\t\\n\\v\\f\\r", (texts){"\t\n\v\f\r", NULL}, (texts){"tnvfr", NULL});
    check("\\x41\\u00e9\\u{1F600}\\uD83D\\uDE00\\x{42}", (texts){"Aé😀😀B", NULL}, (texts){"A", NULL});
    check("\\cA\\cz", (texts){"\x01\x1A", NULL}, (texts){"A", NULL});
    check("\\.\\\\\\-\\ \\/\\_\\é", (texts){".\\- /_é", NULL}, (texts){"a", NULL});
    check("a{b}c{,x}]}", (texts){"a{b}c{,x}]}", NULL}, (texts){"ab", NULL});
    check(".", (texts){"a", "é", "\t", "😀", NULL}, (texts){"", "\n", "\r", "\xE2\x80\xA8", "ab", "\xFF", NULL});
}

static void test_nul(void **state)
{
    (void)state;
    qn_error err = {0};
    qn_grammar *grammar = front_end_grammar(regex_front_end, "a\\0b", 4, &err);
    assert_non_null(grammar);
    assert_true(grammar_matches(grammar, "a\0b", 3));
    assert_false(grammar_matches(grammar, "a0b", 3));
    qn_grammar_free(grammar);
    grammar = front_end_grammar(regex_front_end, "a\0[\0b]", 6, &err);
    assert_non_null(grammar);
    assert_true(grammar_matches(grammar, "a\0\0", 3));
    qn_grammar_free(grammar);
    front_end_refuses_bytes(regex_front_end, "(?\0)", 4, "byte 3");
    front_end_refuses_bytes(regex_front_end, "\\\0\\", 3, "byte 3: nothing behind the backslash");
}

static void test_classes(void **state)
{
    (void)state;
    check("[a-c]+\\d{2,3}", (texts){"a12", "abc123", NULL}, (texts){"12", "a1", "a1234", NULL});
    check("[^\\n]{1,5}", (texts){"你好", NULL}, (texts){"", "123456", "a\n", NULL});
    check("[-a]+[a-][\\-b][\\]c][+--]", (texts){"-aa-b]+", "a-bc,", NULL}, (texts){"b", NULL});
    check("[\\b]", (texts){"\b", NULL}, (texts){"b", NULL});
    check("[\\d\\-x]+", (texts){"1-x", NULL}, (texts){"a", NULL});
    check("[^\\D]", (texts){"7", NULL}, (texts){"a", NULL});
    check("[\\u0430-\\u044f]+", (texts){"привет", NULL}, (texts){"Привет", NULL});
    check("[^a-z\\u{80}-\\u{10FFFF}]", (texts){"A", "\n", NULL}, (texts){"a", "é", "😀", NULL});
    check("[\\ud7ff-\\ue000]", (texts){"\xED\x9F\xBF", "\xEE\x80\x80", NULL}, (texts){"\xED\xA0\x80", NULL});
    check("\\w\\W\\s\\S\\d\\D", (texts){"_- x1a", "aé\xC2\xA0y0é", NULL}, (texts){"éa xx1a", NULL});
    check("[.*+?^$|()\\[{}]+", (texts){".*+?^$|()[{}", NULL}, (texts){"a", NULL});
}

static void test_properties(void **state)
{
    (void)state;
    check("\\p{L}+ \\S", (texts){"é x", "你 x", NULL}, (texts){"1 x", NULL});
    check("\\p{Lu}\\p{Lowercase_Letter}\\P{L}", (texts){"Éé1", NULL}, (texts){"ÉÉ1", "Ééé", NULL});
    check("[\\p{gc=Nd}\\p{General_Category=Punctuation}]+", (texts){"1٣!", NULL}, (texts){"a", NULL});
    check("\\pL[\\PL]", (texts){"a1", NULL}, (texts){"aa", NULL});
    check("\\p{LC}", (texts){"a", "A", NULL}, (texts){"ª", "你", NULL});
    check("\\p{ASCII}\\p{AHex}\\p{White_Space}\\p{Any}\\p{Assigned}", (texts){"~f\xE3\x80\x80\nz", NULL},
          (texts){"~g z", NULL});
    check("\\P{Any}|x", (texts){"x", NULL}, (texts){"y", NULL});
    refused("\\p{Klingon}", "byte 1: \\p{Klingon}: unknown property");
    refused("\\p{gc=Klingon}", "unknown property");
    refused("a\\p{L", "byte 2: \\p names no property");
    refused("a\\p{}", "byte 2: \\p names no property");
    refused("a\\p", "byte 2: \\p names no property");
}

static void test_groups_and_quantifiers(void **state)
{
    (void)state;
    check("(yes|no)( maybe)?", (texts){"yes", "no maybe", NULL}, (texts){"y", "yes maybe maybe", NULL});
    check("(?:a|b)*?(?<n>c)+?(?P<m>d)??", (texts){"c", "abccd", NULL}, (texts){"", "ab", "cdd", NULL});
    check("(a|)(|b)", (texts){"", "a", "b", "ab", NULL}, (texts){"ba", NULL});
    check("a{3}b{2,}c{0,1}d{0}", (texts){"aaabb", "aaabbbbbc", NULL}, (texts){"aabb", "aaab", "aaabbccd", NULL});
    check("(a*)*b", (texts){"b", "aaab", NULL}, (texts){"a", NULL});
    check("x{1000}", (texts){NULL}, (texts){"xx", NULL});
    refused("(a", "byte 1: the group is not closed");
    refused("a)", "byte 2: a ) without its (");
    refused("*a", "byte 1: nothing to repeat");
    refused("a|+", "byte 3: nothing to repeat");
    refused("({2})", "byte 2: nothing to repeat");
    refused("a**", "byte 3: a quantifier behind a quantifier");
    refused("a*+", "byte 2: a possessive quantifier");
    refused("a{3,2}", "byte 2: {n,m} with m below n");
    refused("a{,2}", "byte 2: {,m} means different things");
    refused("{,2}", "byte 1: {,m} means different things");
    refused("a{1000001}", "byte 2: more than 1000000 repetitions");
    refused("a{1,99999999999999999999999999}", "more than 1000000 repetitions");
}

static void test_flags(void **state)
{
    (void)state;
    check("(?i)abc", (texts){"aBc", "ABC", NULL}, (texts){"abd", NULL});
    check("a(?i)b|c", (texts){"ab", "aB", "C", NULL}, (texts){"Ab", NULL});
    check("(?i:a)b", (texts){"Ab", NULL}, (texts){"AB", NULL});
    check("((?i)a)b", (texts){"Ab", NULL}, (texts){"AB", NULL});
    check("(?i)a(?-i:b)", (texts){"Ab", NULL}, (texts){"AB", NULL});
    check("(?i)[^b]é[δ-ζ]Σ", (texts){"aÉΕς", "aéδσ", NULL}, (texts){"BéδΣ", NULL});
    check("(?i)k", (texts){"K", NULL}, (texts){"\xE2\x84\xAA", NULL});
    check("(?s).(?-s).", (texts){"\na", NULL}, (texts){"a\n", NULL});
    check("(?x) a b # comment )(\n [ c] \\  {2}", (texts){"ab   ", "abc  ", NULL}, (texts){"abc ", "a b  ", NULL});
    check("(?isx:A .)b", (texts){"a\nb", NULL}, (texts){"a\nB", NULL});
    refused("(?m)a", "byte 3: flag or group (?m is not known");
    refused("(?i", "byte 1: the group is not closed");
    refused("(?i--s)", "byte 5: flag");
    refused("a(?\x01)", "byte 4: this flag is not known");
    refused("(?i)*", "byte 5: nothing to repeat");
}

static void test_anchors(void **state)
{
    (void)state;
    check("^abc$", (texts){"abc", NULL}, (texts){"ab", NULL});
    check("^(a|b$)", (texts){"a", "b", NULL}, (texts){"c", NULL});
    check("\\A(^a)$$\\z|x\\Z", (texts){"a", "x", NULL}, (texts){"aa", NULL});
    check("a^b|c", (texts){"c", NULL}, (texts){"ab", NULL});
    check("(a$)?b|c", (texts){"b", "c", NULL}, (texts){"ab", NULL});
    refused("a*^b", "byte 3: ^ behind what may be empty");
    refused("a$b*", "byte 2: $ before what may be empty");
    refused("(^a)*", "byte 5: an anchor inside a repetition");
    refused("^*", "byte 2: nothing to repeat");
    refused("a^b", "no text can match");
}

static void search(const char *regex, const char *const *accept, const char *const *reject)
{
    front_end_check(search_front_end, regex, accept, reject);
}

static void test_search(void **state)
{
    (void)state;
    search("b+", (texts){"b", "abba", "\nb\n", NULL}, (texts){"", "aa", NULL});
    search("", (texts){"", "anything", NULL}, (texts){NULL});
    search("^b", (texts){"b", "ba", NULL}, (texts){"ab", NULL});
    search("b$", (texts){"b", "ab", NULL}, (texts){"ba", NULL});
    search("^b$", (texts){"b", NULL}, (texts){"bb", "", NULL});
    search("^a|b$", (texts){"a", "ax", "xb", "b", NULL}, (texts){"xa", "bx", NULL});
    search("(^|,)x(,|$)", (texts){"x", "a,x", "x,b", "a,x,b", NULL}, (texts){"ax", "a,xb", NULL});
    search("^", (texts){"", "a", NULL}, (texts){NULL});
    search("^$", (texts){"", NULL}, (texts){"a", NULL});
    search("f.*o", (texts){"foo", "xfoox", NULL}, (texts){"f\no", "of", NULL});
    search("^(?:x$|y)", (texts){"x", "y", "yy", NULL}, (texts){"xx", NULL});
    front_end_refuses(search_front_end, "a^b", "no text can match");
}

static void test_what_cannot_be_enforced(void **state)
{
    (void)state;
    refused("a(?=b)", "byte 2: lookahead (?=");
    refused("(?!b)", "byte 1: lookahead (?!");
    refused("(?<=b)", "byte 1: lookbehind (?<=");
    refused("(?<!b)", "byte 1: lookbehind (?<!");
    refused("(?>b)", "atomic group");
    refused("(a)\\1", "byte 4: a backreference");
    refused("\\k<a>", "byte 1: a backreference");
    refused("(?P=a)", "backreference");
    refused("\\012", "byte 1: a backreference or octal");
    refused("(?R)", "recursion");
    refused("(?1)", "recursion (?1");
    refused("(?&a)(?P>a)", "recursion");
    refused("(?(1)a)", "condition");
    refused("(?|a)", "branch reset");
    refused("(?#a)", "comment");
    refused("a\\b", "byte 2: a word boundary (\\b)");
    refused("\\B", "byte 1: a word boundary (\\B)");
    refused("[\\B]", "word boundary");
    refused("[[:alpha:]]", "byte 2: a POSIX class");
    refused("[a-z&&b]", "byte 5: an intersection");
}

static void test_errors_of_characters(void **state)
{
    (void)state;
    refused("\\", "byte 1: nothing behind the backslash");
    refused("[\\", "byte 2: nothing behind the backslash");
    refused("\\q", "byte 1: \\q is no escape");
    refused("\\x4", "byte 1: \\x is not followed by two");
    refused("\\x{}", "\\x is not followed");
    refused("\\u12", "byte 1: \\u is not followed by four");
    refused("\\u{110000}", "\\u is not followed");
    refused("\\u{41", "\\u is not followed");
    refused("\\c1", "\\c is not followed by a letter");
    refused("\\uD83D", "half a surrogate pair");
    refused("\\uD83D\\u0041", "half a surrogate pair");
    refused("[abc", "byte 1: the class is not closed");
    refused("[]", "byte 1: an empty class");
    refused("[^]", "byte 1: an empty class");
    refused("[b-a]", "byte 2: the range runs backwards");
    refused("[a-\\d]", "byte 2: a range ends in a set");
    refused("[\\d-z]", "byte 2: a range ends in a set");
    refused("(?<n", "byte 1: the group's name is not complete");
    refused("(?<>a)", "byte 1: the group's name is not complete");
    refused("a\xFF", "byte 2: invalid UTF-8");
    refused("[\xC3]", "byte 2: invalid UTF-8");
}

static void test_bounds(void **state)
{
    (void)state;
    qn_buffer text = {0};
    for (int i = 0; i < QN_REGEX_MAX_DEPTH + 1; i++) {
        qn_buffer_char(&text, '(');
    }
    refused(qn_buffer_string(&text), "byte 201: groups nested deeper than 200");
    qn_buffer_clear(&text);
    for (int i = 0; i < QN_REGEX_MAX_BYTES; i++) {
        qn_buffer_char(&text, 'a');
    }
    qn_error err;
    qn_grammar *grammar = front_end_grammar(regex_front_end, text.data, text.size, &err);
    assert_non_null(grammar);
    assert_true(grammar_matches(grammar, text.data, text.size));
    qn_grammar_free(grammar);
    qn_buffer_char(&text, 'a');
    refused(qn_buffer_string(&text), "longer than 65536 bytes");
    qn_buffer_free(&text);
}

/* ---- letters ---- */

static qn_expr in_brackets(void *context, qn_grammar_builder *b, const qn_char_range *ranges, size_t count)
{
    ++*(int *)context;
    qn_expr parts[] = {qn_expr_text(b, "<"), qn_expr_chars(b, ranges, count), qn_expr_text(b, ">")};
    return qn_expr_concat(b, parts, 3);
}

static int sets_asked;

static qn_status bracket_front_end(qn_grammar_builder *b, const char *text, size_t bytes, qn_expr *out, qn_error *err)
{
    const qn_regex_letters letters = {.context = &sets_asked, .chars = in_brackets};
    return qn_regex_expr(b, text, bytes, true, &letters, out, err);
}

static void test_letters_spell_each_set(void **state)
{
    (void)state;
    front_end_check(bracket_front_end, "^ab[cd].", (texts){"<a><b><d><x>", "<a><b><c><😀><\n>", NULL},
                    (texts){"ab", "<a><b><c>", "<x><a><b><c><x>", NULL});
    assert_int_equal(sets_asked, 5);
}

/* ---- against the C library ---- */

static void random_regex(random_stream *random, qn_buffer *out, int depth)
{
    static const char *const atoms[] = {"a", "b", "[ab]", "[^a]", ".", "c"};
    static const char *const counts[] = {"*", "+", "?", "{2}", "{1,2}", "{0,3}", "{1,}"};
    uint32_t kind = random_word(random) % (depth > 0 ? 10 : 4);
    if (kind < 4) {
        qn_buffer_text(out, atoms[random_word(random) % (sizeof atoms / sizeof atoms[0])]);
    } else if (kind < 7) {
        random_regex(random, out, depth - 1);
        random_regex(random, out, depth - 1);
    } else if (kind < 9) {
        qn_buffer_char(out, '(');
        random_regex(random, out, depth - 1);
        qn_buffer_text(out, kind == 7 ? "|" : ")");
        if (kind == 7) {
            random_regex(random, out, depth - 1);
            qn_buffer_char(out, ')');
        }
        if (random_word(random) % 2 == 0) {
            qn_buffer_text(out, counts[random_word(random) % (sizeof counts / sizeof counts[0])]);
        }
    } else {
        qn_buffer_text(out, random_word(random) % 2 == 0 ? "^" : "$");
        random_regex(random, out, depth - 1);
    }
}

/* All texts of a, b and c up to five letters. */
static void compare(const qn_grammar *grammar, const regex_t *reference, const char *pattern)
{
    char text[6] = "";
    for (size_t length = 0; length <= 5; length++) {
        size_t count = 1;
        for (size_t i = 0; i < length; i++) {
            count *= 3;
        }
        for (size_t n = 0; n < count; n++) {
            size_t rest = n;
            for (size_t i = 0; i < length; i++, rest /= 3) {
                text[i] = (char)('a' + rest % 3);
            }
            text[length] = '\0';
            bool expected = regexec(reference, text, 0, NULL, 0) == 0;
            if (grammar_matches(grammar, text, length) != expected) {
                fail_msg("%s: \"%s\" should %smatch", pattern, text, expected ? "" : "not ");
            }
        }
    }
}

static void test_random_regexes(void **state)
{
    (void)state;
    random_stream random = {.seed = 20261202};
    int compared = 0;
    for (int round = 0; round < 300; round++) {
        qn_buffer pattern = {0}, whole = {0};
        random_regex(&random, &pattern, 4);
        bool anywhere = round % 2 == 0;
        qn_buffer_format(&whole, anywhere ? "%s" : "^(%s)$", qn_buffer_string(&pattern));
        qn_error err;
        qn_grammar *grammar = front_end_grammar(anywhere ? search_front_end : regex_front_end, pattern.data,
                                                pattern.size, &err);
        if (grammar != NULL) {
            regex_t reference;
            assert_int_equal(regcomp(&reference, qn_buffer_string(&whole), REG_EXTENDED | REG_NOSUB), 0);
            compare(grammar, &reference, qn_buffer_string(&pattern));
            regfree(&reference);
            compared++;
        } else {
            assert_int_equal(err.status, QN_USAGE);
            assert_true(strstr(err.message, "cannot be enforced") != NULL ||
                        strstr(err.message, "no text can match") != NULL);
        }
        qn_grammar_free(grammar);
        qn_buffer_free(&pattern);
        qn_buffer_free(&whole);
    }
    assert_true(compared > 150);
}

static void test_no_memory(void **state)
{
    (void)state;
    front_end_walks_faults(regex_front_end, "^(?i)(a|[^\\p{L}é]\\D){2,5}(?x) bc*\\x41$");
    front_end_walks_faults(search_front_end, "(^a|b$|\\p{Assigned})");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_literals_and_escapes),
        cmocka_unit_test(test_nul),
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_properties),
        cmocka_unit_test(test_groups_and_quantifiers),
        cmocka_unit_test(test_flags),
        cmocka_unit_test(test_anchors),
        cmocka_unit_test(test_search),
        cmocka_unit_test(test_what_cannot_be_enforced),
        cmocka_unit_test(test_errors_of_characters),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_letters_spell_each_set),
        cmocka_unit_test(test_random_regexes),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
