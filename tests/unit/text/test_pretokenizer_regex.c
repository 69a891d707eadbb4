#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "base/log.h"
#include "base/memory.h"
#include "text/pretokenizer_pattern.h"
#include "text/pretokenizer_regex.h"

static qn_regex *compile(const char *pattern, qn_regex_engine engine)
{
    qn_error err;
    qn_buffer translated = {0};
    qn_regex *regex = NULL;
    if (qn_pattern_translate(pattern, strlen(pattern), &translated, &err) != QN_OK ||
        qn_regex_compile(qn_buffer_string(&translated), translated.size, engine, &regex, &err) != QN_OK)
        fail_msg("%s: %s", pattern, err.message);
    qn_buffer_free(&translated);
    return regex;
}

/* All matches as "start-end start-end". */
static void check_engine(const char *pattern, const char *text, const char *expected, qn_regex_engine engine)
{
    qn_error err;
    qn_regex *regex = compile(pattern, engine);
    qn_regex_search *search = NULL;
    char written[512] = "";
    assert_int_equal(qn_regex_search_new(&search, &err), QN_OK);
    qn_regex_begin(search, text, strlen(text));
    for (;;) {
        bool found;
        size_t start, end, at = strlen(written);
        assert_int_equal(qn_regex_next(regex, search, &found, &start, &end, &err), QN_OK);
        if (!found)
            break;
        snprintf(written + at, sizeof written - at, at ? " %zu-%zu" : "%zu-%zu", start, end);
    }
    assert_string_equal(written, expected);
    qn_regex_search_free(search);
    qn_regex_free(regex);
}

static void check(const char *pattern, const char *text, const char *expected)
{
    check_engine(pattern, text, expected, QN_REGEX_JIT);
    check_engine(pattern, text, expected, QN_REGEX_INTERPRETER);
}

static void test_matches_from_left_to_right(void **state)
{
    (void)state;
    check("\\d+", "a12b3", "1-3 4-5");
    check("b", "aaa", "");
    check("\\s+(?!\\S)|\\s+", "a   b ", "1-3 3-4 5-6");
    check("(?<=a)b", "abab", "1-2 3-4");
    check("\\p{L}+", "\xC3\xA9t\xC3\xA9 \xF0\xB1\x8D\x90", "0-5 6-10"); /* the last is of Unicode 15 */
    check("\\s", "\xC2\x85 \xE1\xA0\x8E", "0-2 2-3");                   /* U+0085 is white space, U+180E is not */
    check("(?i:'s|k)", "'\xC5\xBF \xE2\x84\xAA", "0-3 4-7");            /* long s, Kelvin */
}

static void test_empty_matches_advance(void **state)
{
    (void)state;
    check("x*", "axxb", "0-0 1-3 4-4");
    check("x*", "\xC3\xA9", "0-0 2-2");
    check("", "ab", "0-0 1-1 2-2");
    check("(?=b)", "abb", "1-1 2-2");
}

static void fail_or_match(const char *pattern, const char *text, size_t bytes, qn_regex_engine engine,
                          qn_status expected)
{
    qn_error err;
    qn_regex *regex = compile(pattern, engine);
    qn_regex_search *search = NULL;
    bool found = true;
    size_t start, end;
    qn_status status;
    assert_int_equal(qn_regex_search_new(&search, &err), QN_OK);
    qn_regex_begin(search, text, bytes);
    do
        status = qn_regex_next(regex, search, &found, &start, &end, &err);
    while (status == QN_OK && found);
    if (status != expected)
        fail_msg("%s: status %d (%s)", pattern, (int)status, status == QN_OK ? "" : err.message);
    if (status != QN_OK)
        assert_non_null(strstr(err.message, "linear work"));
    qn_regex_search_free(search);
    qn_regex_free(regex);
}

/* Patterns that would take minutes to years on such a text. */
static void test_hungry_patterns_are_stopped(void **state)
{
    (void)state;
    enum { BYTES = 1 << 20 };
    char *text = qn_alloc(BYTES, 1);
    assert_non_null(text);
    memset(text, 'a', BYTES);
    for (qn_regex_engine engine = QN_REGEX_JIT; engine <= QN_REGEX_INTERPRETER; engine++) {
        fail_or_match("a*b", text, BYTES, engine, QN_BAD_INPUT);
        fail_or_match("(?:a+)+[bc]", text, BYTES, engine, QN_BAD_INPUT);
        fail_or_match("(?:a|a)+[bc]", text, 200, engine, QN_BAD_INPUT);
        fail_or_match("a*a*a*a*[bc]", text, 200, engine, QN_BAD_INPUT);
        fail_or_match("(?=a*b)a", text, BYTES, engine, QN_BAD_INPUT);
    }
    qn_free(text);
}

/* What such a text of one kind of character costs must not depend on its length. */
static void test_long_runs_are_no_effort(void **state)
{
    (void)state;
    static const char pattern[] =
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+"
        "[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
    static const char cased[] =
        "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+"
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+"
        "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}|"
        " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
    enum { BYTES = 1 << 20 };
    char *text = qn_alloc(BYTES, 1);
    assert_non_null(text);
    static const char fills[] = "aA \n1'.\t";
    for (size_t i = 0; fills[i]; i++) {
        memset(text, fills[i], BYTES);
        for (size_t last = 0; last < 2; last++) {
            text[BYTES - 1] = last ? 'x' : fills[i];
            fail_or_match(pattern, text, BYTES, QN_REGEX_JIT, QN_OK);
            fail_or_match(cased, text, BYTES, QN_REGEX_JIT, QN_OK);
            fail_or_match(pattern, text + BYTES - BYTES / 16, BYTES / 16, QN_REGEX_INTERPRETER, QN_OK);
        }
    }
    qn_free(text);
}

/* A window that ends within a match, a lookahead or a character must not change what is found. */
static void test_windows_do_not_show(void **state)
{
    (void)state;
    enum { LONGEST = 600 };
    char text[2 * LONGEST + 8];
    for (size_t length = 200; length < LONGEST; length += 7) {
        size_t bytes = 0;
        for (size_t i = 0; i < length; i++) {
            memcpy(text + bytes, "\xC3\xA9", 2);
            bytes += 2;
        }
        memcpy(text + bytes, "  x", 4);
        char expected[64];
        snprintf(expected, sizeof expected, "0-%zu %zu-%zu", bytes, bytes, bytes + 1);
        check("\\p{L}+(?=  )|\\s+(?!\\S)", text, expected);
    }
}

static void test_refuses_what_pcre2_refuses(void **state)
{
    (void)state;
    qn_error err;
    qn_regex *regex = NULL;
    assert_int_equal(qn_regex_compile("(?<=a*)b", 8, QN_REGEX_JIT, &regex, &err), QN_BAD_INPUT);
    assert_non_null(strstr(err.message, "PCRE2"));
    static const char bomb[] = "(?:(?:(?:a{1,1000}){1,1000}){1,1000}){1,1000}";
    assert_int_equal(qn_regex_compile(bomb, sizeof bomb - 1, QN_REGEX_JIT, &regex, &err), QN_BAD_INPUT);
    assert_null(regex);
    qn_regex_free(NULL);
    qn_regex_search_free(NULL);
}

static void drop_line(void *context, const char *line)
{
    (*(int *)context)++;
    assert_non_null(strstr(line, "interpreted"));
}

static void test_every_failed_allocation(void **state)
{
    (void)state;
    int lines = 0;
    qn_log_set_sink(drop_line, &lines);
    for (long nth = 1;; nth++) {
        qn_error err;
        qn_regex *regex = NULL;
        qn_regex_search *search = NULL;
        bool found = false;
        size_t start, end;
        qn_fault_arm(QN_FAULT_ALLOC, nth);
        qn_status status = qn_regex_compile("(?:ab|c)+", 9, QN_REGEX_JIT, &regex, &err);
        if (status == QN_OK)
            status = qn_regex_search_new(&search, &err);
        if (status == QN_OK) {
            qn_regex_begin(search, "xabc", 4);
            status = qn_regex_next(regex, search, &found, &start, &end, &err);
        }
        bool reached = qn_fault_seen(QN_FAULT_ALLOC) >= nth;
        qn_fault_disarm();
        if (status == QN_OK)
            assert_true(found && start == 1 && end == 4);
        else
            assert_int_equal(status, QN_RESOURCE);
        qn_regex_free(regex);
        qn_regex_search_free(search);
        if (!reached)
            break;
    }
    qn_log_set_sink(NULL, NULL);
    assert_true(lines > 0); /* a pattern without machine code is told of */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matches_from_left_to_right),  cmocka_unit_test(test_empty_matches_advance),
        cmocka_unit_test(test_hungry_patterns_are_stopped), cmocka_unit_test(test_long_runs_are_no_effort),
        cmocka_unit_test(test_windows_do_not_show),         cmocka_unit_test(test_refuses_what_pcre2_refuses),
        cmocka_unit_test(test_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
