#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/buffer.h"
#include "unit/grammar/front_end.h"
#include "grammar/gbnf.h"

typedef const char *const texts[];

static void check(const char *grammar, const char *const *accept, const char *const *reject)
{
    front_end_check(qn_gbnf_expr, grammar, accept, reject);
}

static void refused(const char *grammar, const char *part)
{
    front_end_refuses(qn_gbnf_expr, grammar, part);
}

static void test_rules(void **state)
{
    (void)state;
    check("root ::= expr\nexpr ::= term ((\"+\" | \"-\") term)*\nterm ::= num | \"(\" expr \")\"\nnum ::= [0-9]+",
          (texts){"1", "1+2-(3+4)", NULL}, (texts){"", "1+", "(1", NULL});
    check("root ::= item{2,3}\nitem ::= \"- \" [^\\n]+ \"\\n\" # comment", (texts){"- a\n- b\n", NULL},
          (texts){"- a\n", "- a\n- b\n- c\n- d\n", NULL});
    check("root ::= \"a\" root \"b\" | \"\"", (texts){"", "ab", "aaabbb", NULL}, (texts){"aab", "ba", NULL});
    check("# first\n\nroot ::= # here\n  a-1 | # or\n  b_2\n  | \"z\" # last\n\na-1::=\"x\"\r\nb_2 ::= (\n \"y\"\n # "
          "in\n)\n",
          (texts){"x", "y", "z", NULL}, (texts){"", "xy", NULL});
    check("root ::= \"a\" | \n| \"b\"", (texts){"a", "", "b", NULL}, (texts){"ab", NULL});
    check("root ::=\n  (\"a\" ) (\"b\" |\"c\" )", (texts){"ab", "ac", NULL}, (texts){"a", NULL});
}

static void test_characters(void **state)
{
    (void)state;
    check("root ::= \"\\\"\\\\\\n\\t\\r\\x41\\u00e9\\U0001F600é\\[\\]#\"", (texts){"\"\\\n\t\rAé😀é[]#", NULL},
          (texts){"", NULL});
    check("root ::= [a-c\\]\\-] [^a-c\\x64] [é-ü]", (texts){"a]ü", "]Zê", "-\nû", NULL}, (texts){"aaé", "adé", NULL});
    check("root ::= [-a] [a-] . [\\^^]", (texts){"-a\n^", "a-é^", NULL}, (texts){"b-x^", "a-\xFF^", NULL});
    check("root ::= [^^]", (texts){"a", NULL}, (texts){"^", NULL});
}

static void test_quantifiers(void **state)
{
    (void)state;
    check("root ::= \"a\"* \"b\"+ \"c\"?", (texts){"b", "aabbc", NULL}, (texts){"a", "bcc", NULL});
    check("root ::= \"a\"{2} \"b\"{1,} \"c\"{,2} \"d\"{ 1 , 2 } \"e\"{0}", (texts){"aabd", "aabbbccdd", NULL},
          (texts){"abd", "aabcccd", "aabde", NULL});
    check("root ::= (\"a\" | \"b\"){2}", (texts){"ab", "ba", NULL}, (texts){"a", "aba", NULL});
    check("root ::= \"a\" {2} +", (texts){"aa", "aaaa", NULL}, (texts){"aaa", NULL});
}

static void test_rules_that_begin_with_themselves(void **state)
{
    (void)state;
    check("root ::= root \"a\" | \"a\"", (texts){"a", "aaa", NULL}, (texts){"", "b", NULL});
    check("root ::= sum\nsum ::= sum \"+\" num | sum \"-\" num | num\nnum ::= [0-9]", (texts){"1", "1+2-3", NULL},
          (texts){"1+", "+1", NULL});
    refused("root ::= root? \"a\"", "recursive on its left");
    refused("root ::= root \"a\"", "no text can match");
    refused("root ::= a\na ::= b \"x\" | \"y\"\nb ::= a | \"z\"", "recursive on its left");
}

static void test_errors(void **state)
{
    (void)state;
    refused("", "line 1, column 1: there is no rule root");
    refused("# nothing\n", "line 2, column 1: there is no rule root");
    refused("a ::= \"x\"", "line 1, column 10: there is no rule root");
    refused("root ::= missing", "line 1, column 10: rule missing is not defined");
    refused("root ::= \"é\" b\nb ::= \"c\"\nb ::= \"d\"", "line 3, column 1: rule b is defined twice");
    refused("root ::= \"é\" é", "line 1, column 14: not what an item begins with");
    refused("root \"a\"", "line 1, column 6: ::= is missing");
    refused("root ::= \"a\" )", "line 1, column 14: a ) without its (");
    refused("root ::= (\"a\"", "line 1, column 10: the group is not closed");
    refused("root ::= \"a", "line 1, column 10: the literal is not closed");
    refused("root ::= \"a\n\"", "line 1, column 10: the literal is not closed");
    refused("root ::= [a", "line 1, column 10: the class is not closed");
    refused("root ::= []", "line 1, column 10: an empty class");
    refused("root ::= [^]", "line 1, column 10: an empty class");
    refused("root ::= [b-a]", "line 1, column 11: the range runs backwards");
    refused("root ::= \"\\q\"", "line 1, column 11: unknown escape");
    refused("root ::= \"\\", "line 1, column 11: unknown escape");
    refused("root ::= [\\x4]", "line 1, column 11: \\x is not followed");
    refused("root ::= [a-\\U00110000]", "line 1, column 13: \\U is not followed");
    refused("root ::= \"\\uD800\"", "line 1, column 11: \\u is not followed");
    refused("root ::= *", "line 1, column 10: nothing to repeat");
    refused("root ::= \"a\"{}", "line 1, column 13: not a count");
    refused("root ::= \"a\"{1", "line 1, column 13: not a count");
    refused("root ::= \"a\"{2,1}", "line 1, column 13: {m,n} with n below m");
    refused("root ::= \"a\"{1000001}", "more than 1000000 repetitions");
    refused("root ::= <think>", "line 1, column 10: tokens (<...>)");
    refused("root ::= \"a\"\n\"b\"", "line 2, column 1: not what a rule begins with");
    refused("root ::= \"a\"\n b", "line 2, column 3: ::= is missing");
    refused("root ::= \"\xFF\"", "line 1, column 11: invalid UTF-8");
}

static void test_bounds(void **state)
{
    (void)state;
    qn_buffer text = {0};
    qn_buffer_text(&text, "root ::= ");
    for (int i = 0; i < 201; i++) {
        qn_buffer_char(&text, '(');
    }
    refused(qn_buffer_string(&text), "column 210: parentheses nested deeper than 200");
    qn_buffer_clear(&text);
    for (int i = 0; i < 129; i++) {
        qn_buffer_char(&text, 'x');
    }
    refused(qn_buffer_string(&text), "a name longer than 128 bytes");
    for (int i = 0; i < 1 << 20; i++) {
        qn_buffer_char(&text, ' ');
    }
    refused(qn_buffer_string(&text), "gbnf: longer than 1048576 bytes");
    qn_buffer_free(&text);
}

static void test_many_rules(void **state)
{
    (void)state;
    qn_buffer text = {0};
    qn_buffer_text(&text, "root ::= r0\n");
    for (int i = 0; i < 5000; i++) {
        qn_buffer_format(&text, "r%d ::= \"a\" r%d | \"%d.\"\n", i, i + 1, i);
    }
    qn_buffer_text(&text, "r5000 ::= \"end\"\n");
    check(qn_buffer_string(&text), (texts){"0.", "aaa3.", NULL}, (texts){"aaa4.", NULL});
    qn_buffer_free(&text);
}

static void test_no_memory(void **state)
{
    (void)state;
    front_end_walks_faults(qn_gbnf_expr, "root ::= root [a-c]{2,3} | ([^é] \"x\")* | b\nb ::= \"c\" | .");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules),       cmocka_unit_test(test_characters),
        cmocka_unit_test(test_quantifiers), cmocka_unit_test(test_rules_that_begin_with_themselves),
        cmocka_unit_test(test_errors),      cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_many_rules),  cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
