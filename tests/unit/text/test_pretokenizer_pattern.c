#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/fault.h"
#include "text/pretokenizer_pattern.h"

static void check(const char *pattern, const char *expected)
{
    qn_buffer out = {0};
    qn_error err;
    if (qn_pattern_translate(pattern, strlen(pattern), &out, &err) != QN_OK)
        fail_msg("%s: %s", pattern, err.message);
    assert_string_equal(qn_buffer_string(&out), expected);
    qn_buffer_free(&out);
}

static void refused(const char *pattern, const char *part)
{
    qn_buffer out = {0};
    qn_error err;
    qn_status status = qn_pattern_translate(pattern, strlen(pattern), &out, &err);
    if (status != QN_BAD_INPUT)
        fail_msg("%s became %s", pattern, qn_buffer_string(&out));
    if (!strstr(err.message, part))
        fail_msg("%s: \"%s\" does not tell of \"%s\"", pattern, err.message, part);
    qn_buffer_free(&out);
}

static void test_literals_and_escapes(void **state)
{
    (void)state;
    check("", "");
    check("aB", "\\x{61}\\x{42}");
    check("\xC3\xA9", "\\x{E9}");
    check("\\t\\n\\v\\f\\r", "\\x{9}\\x{A}\\x{B}\\x{C}\\x{D}");
    check("\\.\\\\\\-\\ ", "\\x{2E}\\x{5C}\\x{2D}\\x{20}");
    check("\\x41\\x7\\x{1F600}\\u00e9", "\\x{41}\\x{7}\\x{1F600}\\x{E9}");
    check("]}#", "\\x{5D}\\x{7D}\\x{23}");
    check(".", "[^\\x{A}]");
}

static void test_sets(void **state)
{
    (void)state;
    check("\\p{Nl}\\P{Nl}", "[\\p{Nl}][^\\p{Nl}]");
    check("[\\p{Nl}a-z]", "[\\p{Nl}\\x{61}-\\x{7A}]");
    check("[^\\S\\n]", "[^\\P{WSpace}\\x{A}]");
    check("[a-]", "[\\x{61}\\x{2D}]");
    check("[-a]", "[\\x{2D}\\x{61}]");
    check("[\\-a\\]]", "[\\x{2D}\\x{61}\\x{5D}]");
    check("[+--]", "[\\x{2B}-\\x{2D}]");
}

static void test_groups_and_quantifiers(void **state)
{
    (void)state;
    check("(a)|(?:b)|(?>c)", "(?:\\x{61})|(?:\\x{62})|(?>\\x{63})");
    check("(?=a)(?!b)(?<=c)(?<!d)", "(?=\\x{61})(?!\\x{62})(?<=\\x{63})(?<!\\x{64})");
    check("(?i:'s)", "(?i:\\x{27}\\x{73})");
    check("a*b+c?d*?e++f?+", "\\x{61}*\\x{62}+\\x{63}?\\x{64}*?\\x{65}++\\x{66}?+");
    check("a{3}b{1,3}c{2,}d{,4}", "\\x{61}{3}\\x{62}{1,3}\\x{63}{2,}\\x{64}{0,4}");
    check("(a?)?", "(?:\\x{61}?)?");
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *part;
    } cases[] = {
        {"^a", "anchor"},
        {"a$", "anchor"},
        {"\\ba", "escape"},
        {"\\w+", "escape"},
        {"\\h", "escape"},
        {"(a)\\1", "escape"},
        {"\\Aa", "escape"},
        {"a\\", "backslash"},
        {"\\xff", "escape"},
        {"\\x{110000}", "escape"},
        {"\\x{d800}", "escape"},
        {"\\u12", "escape"},
        {"\\x{41", "escape"},
        {"\\xg", "escape"},
        {"\\\xC3\xA9", "escape"},
        {"\\p{Han}", "categories"},
        {"\\p{^L}", "categories"},
        {"\\pL", "categories"},
        {"\\p{L", "categories"},
        {"\\p{}", "categories"},
        {"\\p", "categories"},
        {"[\\P{L}]", "negated"},
        {"[\\D]", "negated"},
        {"[a[b]]", "inside a class"},
        {"[a&&b]", "inside a class"},
        {"[]", "empty"},
        {"[^]", "empty"},
        {"[a", "does not end"},
        {"[a-", "does not end"},
        {"[z-a]", "backwards"},
        {"[\\s-z]", "set"},
        {"[a-\\s]", "escape"},
        {"[a-c-e]", "hyphen"},
        {"(a", "does not end"},
        {"a)", "no group"},
        {"(?<n>a)", "group"},
        {"(?i)a", "group"},
        {"(?m:a)", "group"},
        {"(?#x)", "group"},
        {"*a", "repeated"},
        {"{2}", "repeated"},
        {"a**", "repeat of a repeat"},
        {"a{2}+", "repeat of a repeat"},
        {"a{", "1000"},
        {"a{2,1}", "1000"},
        {"a{,}", "1000"},
        {"a{1001}", "1000"},
        {"(?=a)*", "lookaround"},
        {"(a*)*", "empty"},
        {"(a?){2}", "empty"},
        {"(|a)+", "empty"},
        {"(a|(?=b))+", "empty"},
        {"(?i:ss)", "fold"},
        {"(?i:aST)", "fold"},
        {"(?i:ffi)", "fold"},
        {"(?i:\xC3\xA9)", "ASCII"},
        {"(?i:[\xC3\xA9])", "ASCII"},
        {"(?i:[^a])", "negated"},
        {"(?i:\\s)", "set"},
        {"(?i:[\\d])", "set"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refused(cases[i].pattern, cases[i].part);
    check("(?i:s+s)", "(?i:\\x{73}+\\x{73})"); /* apart, they fold to nothing else */
    check("(?i:(?:f)i)", "(?i:(?:\\x{66})\\x{69})");
}

static void test_names_the_place(void **state)
{
    (void)state;
    refused("abc\\bd", "byte 3 (\"\\bd\")");
    refused("\xC3\xA9^\xE4\xBD\xA0\xE4\xBD\xA0\xE4\xBD\xA0\xE4\xBD\xA0",
            "byte 2 (\"^\xE4\xBD\xA0\xE4\xBD\xA0\xE4\xBD\xA0\")");
}

static void test_bounds(void **state)
{
    (void)state;
    qn_buffer pattern = {0}, out = {0};
    qn_error err;
    for (int i = 0; i < 100; i++)
        qn_buffer_text(&pattern, "(");
    refused(pattern.data, "too deep");
    qn_buffer_clear(&pattern);
    for (int i = 0; i <= QN_PATTERN_MAX_BYTES; i++)
        qn_buffer_char(&pattern, 'a');
    assert_int_equal(qn_pattern_translate(pattern.data, pattern.size, &out, &err), QN_BAD_INPUT);
    assert_int_equal(qn_pattern_translate("a\0*", 3, &out, &err), QN_OK); /* NUL is a character like others */
    assert_string_equal(out.data, "\\x{61}\\x{0}*");
    qn_buffer_free(&out);
    out = (qn_buffer){0};
    qn_fault_arm(QN_FAULT_ALLOC, 1);
    assert_int_equal(qn_pattern_translate("a", 1, &out, &err), QN_RESOURCE);
    qn_fault_disarm();
    qn_buffer_free(&out);
    qn_buffer_free(&pattern);
}

static void test_literal_text(void **state)
{
    (void)state;
    qn_buffer out = {0};
    qn_pattern_literal("a.*\xC3\xA9", 5, &out);
    assert_string_equal(out.data, "\\x{61}\\x{2E}\\x{2A}\\x{E9}");
    qn_buffer_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_literals_and_escapes),   cmocka_unit_test(test_sets),
        cmocka_unit_test(test_groups_and_quantifiers), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_names_the_place),        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_literal_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
