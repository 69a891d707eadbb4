#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/buffer.h"
#include "unit/grammar/front_end.h"
#include "grammar/lark.h"

typedef const char *const texts[];

static void check(const char *grammar, const char *const *accept, const char *const *reject)
{
    front_end_check(qn_lark_expr, grammar, accept, reject);
}

static void refused(const char *grammar, const char *part)
{
    front_end_refuses(qn_lark_expr, grammar, part);
}

static void test_rules(void **state)
{
    (void)state;
    check("start: (WORD \" \"?)+ NUMBER\nWORD: /[a-z]+/\nNUMBER: /\\d+/", (texts){"ab c 12", NULL},
          (texts){"12", "ab", NULL});
    check("// head\n?start: a\n  | b -> other // tail\n  # more\n  | \"z\"\n!a.2: \"x\"\n_b_1: \"no\"\nb: [\"y\"] "
          "\"w\"\n",
          (texts){"x", "yw", "w", "z", NULL}, (texts){"", "no", NULL});
    check("start: (\"a\"\n  | \"b\"\n  [ \"c\" | \"d\" ]\n ) end\nend:\n", (texts){"a", "b", "bc", "bd", NULL},
          (texts){"ac", NULL});
    check("start: \"a\" -> x | \"b\" \"c\" -> y", (texts){"a", "bc", NULL}, (texts){"b", NULL});
    check("start: expr\nexpr: expr \"+\" term | term\nterm: /[0-9]/ | \"(\" expr \")\"", (texts){"1+(2+3)", NULL},
          (texts){"+", "1+", NULL});
}

static void test_terminals(void **state)
{
    (void)state;
    check("start: A \"x\"i \"é\\u0041\\n\\\"\"i B\nA.-1: \"a\"..\"c\"\nB: A | \"0\" .. \"9\"",
          (texts){"bXÉa\n\"7", NULL}, (texts){"dxéa\n\"7", "bxéa\n\"x", NULL});
    check("start: /a\\/b/ /C/i /./s / d # not /x", (texts){"a/bc\nd", NULL}, (texts){"a/bc\n", NULL});
    check("start: /[^\\W]/m", (texts){"a", NULL}, (texts){"-", NULL});
    check("start: \"a\"~2 \"b\" ~ 1..2 \"c\"* \"d\"+ \"e\"?", (texts){"aabd", "aabbccdde", NULL},
          (texts){"abd", "aabbbd", NULL});
}

static void test_imports(void **state)
{
    (void)state;
    check("%import common.SIGNED_NUMBER -> N\n%import common (CNAME, ESCAPED_STRING)\nstart: CNAME \"=\" "
          "(N|ESCAPED_STRING)\n",
          (texts){"a_1=-2.5e+3", "x=.5", "y=7", "z=\"a\\\"b\"", NULL}, (texts){"1=2", "a=1e", "a=\"\n\"", NULL});
    check("start: C_COMMENT NEWLINE\n%import common.C_COMMENT\n%import common.NEWLINE\n",
          (texts){"/* * / **/\r\n\n", NULL}, (texts){"/* */ */\n", "/**/", NULL});
    const char *const names[] = {"DIGIT",  "HEXDIGIT",     "INT",         "SIGNED_INT",   "DECIMAL",
                                 "FLOAT",  "SIGNED_FLOAT", "NUMBER",      "LCASE_LETTER", "UCASE_LETTER",
                                 "LETTER", "WORD",         "WS_INLINE",   "WS",           "CR",
                                 "LF",     "SH_COMMENT",   "CPP_COMMENT", "SQL_COMMENT"};
    const char *const examples[] = {"7", "f",  "12",  "-3",   "1.", "1e5", "-1.5", "12",   "a",   "A",
                                    "b", "cd", " \t", "\f\n", "\r", "\n",  "# x",  "// x", "-- x"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        qn_buffer text = {0};
        qn_buffer_format(&text, "start: %s\n%%import common.%s", names[i], names[i]);
        check(qn_buffer_string(&text), (texts){examples[i], NULL}, (texts){"", "\v", NULL});
        qn_buffer_free(&text);
    }
    assert_null(qn_lark_common("INTEGER", 7));
}

static void test_ignore(void **state)
{
    (void)state;
    check("start: \"a\" b* C\nb: \"b\" \"c\"\nC: \"x\" \"y\"\n%ignore \" \"\n%ignore /\\t+/\n",
          (texts){"abcxy", "  a b\t c xy ", "axy", NULL}, (texts){"ax y", "a\nxy", NULL});
    check("start: \"%ignore\"\n", (texts){"%ignore", NULL}, (texts){" %ignore", NULL});
}

static void test_errors(void **state)
{
    (void)state;
    refused("", "lark: line 1, column 1: there is no rule start");
    refused("a: \"x\"", "line 1, column 7: there is no rule start");
    refused("start: missing", "line 1, column 8: missing is not defined");
    refused("start: MISSING", "line 1, column 8: MISSING is not defined");
    refused("start: \"a\"\nstart: \"b\"", "line 2, column 1: start is defined twice");
    refused("start \"a\"", "line 1, column 7: : is missing");
    refused("start: Mixed", "line 1, column 8: a name of small letters and capitals");
    refused("start: mIxed", "line 1, column 8: a name of small letters and capitals");
    refused("1: \"a\"", "line 1, column 1: a name is expected");
    refused("start: _ \"a\"", "line 1, column 8: a name is expected");
    refused("start: \"a", "line 1, column 8: the string is not closed");
    refused("start: \"\\q\"", "line 1, column 9: unknown escape");
    refused("start: /a", "line 1, column 8: the regex is not closed");
    refused("start: /a\\", "line 1, column 8: the regex is not closed");
    refused("start: /(a/", "line 1, column 8: regex: byte 1: the group is not closed");
    refused("start: /^a/", "line 1, column 8: regex: byte 1: an anchor has no meaning");
    refused("start: /a/u", "line 1, column 11: flag u is not known");
    refused("start: \"ab\"..\"c\"", "line 1, column 8: a range goes from one character");
    refused("start: \"a\"..\"cd\"", "line 1, column 8: a range goes from one character");
    refused("start: \"a\"..b", "line 1, column 13: a range goes from one character");
    refused("start: \"c\"..\"a\"", "line 1, column 8: the range runs backwards");
    refused("start: (\"a\"", "line 1, column 8: the group is not closed: add )");
    refused("start: [\"a\")", "line 1, column 8: the group is not closed: add ]");
    refused("start: \"a\")", "line 1, column 11: the end of the line is expected");
    refused("start: *", "line 1, column 8: nothing to repeat");
    refused("start: \"a\"~", "line 1, column 11: not a count");
    refused("start: \"a\"~2..", "line 1, column 11: not a count");
    refused("start: \"a\"~3..2", "line 1, column 11: ~ n..m with m below n");
    refused("start: \"a\"~1000001", "more than 1000000 repetitions");
    refused("start: \"a\" -> ", "line 1, column 15: a name is expected");
    refused("start.x: \"a\"", "line 1, column 6: a priority is a number");
    refused("start: =", "line 1, column 8: not what an item begins with");
    refused("start{x}: x", "line 1, column 1: templates are not known");
    refused("start: list{x}", "line 1, column 8: templates are not known");
    refused("start: A\nA: b\nb: \"x\"", "line 2, column 4: a terminal is made of terminals");
    refused("start: \"a\"\n%declare X", "line 2, column 1: %declare is not known");
    refused("%importcommon.X", "%importcommon is not known");
    refused("%import python.X", "line 1, column 9: only terminals of common");
    refused("%import common", "line 1, column 15: not an import");
    refused("%import common.NOPE", "line 1, column 9: common has no terminal NOPE");
    refused("%import common.INT -> int", "line 1, column 9: a terminal's name is in capitals");
    refused("%import common.INT -> ", "line 1, column 23: a name is expected");
    refused("%import common.INT x", "line 1, column 20: the end of the line is expected");
    refused("%import common.INT\n%import common.INT", "line 2, column 9: INT is defined twice");
    refused("%import common (INT", "line 1, column 20: the list of names is not closed");
    refused("%import common (INT,)", "line 1, column 21: a name is expected");
    refused("%ignore )", "line 1, column 9: the end of the line is expected");
    refused("start: \"\xFF\"", "line 1, column 9: invalid UTF-8");
    refused("start: a\na: b \"x\" | \"y\"\nb: a | \"z\"", "recursive on its left");
    front_end_refuses_bytes(qn_lark_expr, "start: \"a\" \0", 12, "line 1, column 12: the end of the line");
}

static void test_bounds(void **state)
{
    (void)state;
    qn_buffer text = {0};
    qn_buffer_text(&text, "start: ");
    for (int i = 0; i < 201; i++) {
        qn_buffer_char(&text, i % 2 == 0 ? '(' : '[');
    }
    refused(qn_buffer_string(&text), "column 208: parentheses nested deeper than 200");
    qn_buffer_clear(&text);
    for (int i = 0; i < 129; i++) {
        qn_buffer_char(&text, 'x');
    }
    refused(qn_buffer_string(&text), "a name longer than 128 bytes");
    qn_buffer_free(&text);
}

/* What is known of all characters must not be gathered for each regex: this would take minutes. */
static void test_many_properties(void **state)
{
    (void)state;
    qn_buffer text = {0};
    qn_buffer_text(&text, "start: /x/ [");
    for (size_t i = 0; i < 15000; i++) {
        qn_buffer_text(&text, " /\\p{Zl}/i");
    }
    qn_buffer_text(&text, "] | \"");
    for (size_t i = 0; i < 10000; i++) {
        qn_buffer_text(&text, "\u00E9");
    }
    qn_buffer_text(&text, "\"i\n");
    check(qn_buffer_string(&text), (texts){"x", NULL}, (texts){"\u00E9", NULL});
    qn_buffer_free(&text);
}

static void test_no_memory(void **state)
{
    (void)state;
    front_end_walks_faults(qn_lark_expr, "start: start /a|b/i~2..3 | (\"é\"i \"x\"..\"z\")* | C\nC: \"c\" | INT\n"
                                         "%import common.INT\n%ignore /\\p{Zs}+/\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules),           cmocka_unit_test(test_terminals), cmocka_unit_test(test_imports),
        cmocka_unit_test(test_ignore),          cmocka_unit_test(test_errors),    cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_many_properties), cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
