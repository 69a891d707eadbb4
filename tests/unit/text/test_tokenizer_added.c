#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "base/memory.h"
#include "text/tokenizer_added.h"

/* flags of "wlr": single_word, lstrip, rstrip */
static void add(qn_added_set *set, const char *content, int32_t id, const char *flags)
{
    qn_error err;
    qn_added_token token = {.content = (char *)content,
                            .bytes = strlen(content),
                            .id = id,
                            .single_word = strchr(flags, 'w') != NULL,
                            .lstrip = strchr(flags, 'l') != NULL,
                            .rstrip = strchr(flags, 'r') != NULL};
    assert_int_equal(qn_added_set_add(set, &token, &err), QN_OK);
}

/* The parts as "text[id:text]text". */
static void check(const qn_added_set *set, const char *text, const qn_span *spans, size_t count, const char *expected)
{
    qn_error err;
    qn_added_parts parts = {0};
    char written[512] = "";
    assert_int_equal(qn_added_set_find(set, text, strlen(text), spans, count, &parts, &err), QN_OK);
    for (size_t i = 0; i < parts.count; i++) {
        const qn_added_part *p = &parts.items[i];
        size_t at = strlen(written);
        int length = (int)(p->end - p->start);
        if (p->id >= 0)
            snprintf(written + at, sizeof written - at, "[%d:%.*s]", (int)p->id, length, text + p->start);
        else
            snprintf(written + at, sizeof written - at, "{%.*s}", length, text + p->start);
    }
    assert_string_equal(written, expected);
    qn_free(parts.items);
}

static void seal(qn_added_set *set)
{
    qn_error err;
    assert_int_equal(qn_added_set_seal(set, &err), QN_OK);
}

static void test_leftmost_longest(void **state)
{
    (void)state;
    qn_added_set set = {0};
    check(&set, "abc", NULL, 0, "{abc}"); /* an empty set */
    add(&set, "ab", 1, "");
    add(&set, "abcd", 2, "");
    add(&set, "bcx", 3, "");
    add(&set, "b", 4, "");
    add(&set, "\xC3\xA9", 5, "");
    seal(&set);
    check(&set, "", NULL, 0, "");
    check(&set, "abcd", NULL, 0, "[2:abcd]");
    check(&set, "abcx", NULL, 0, "[1:ab]{cx}"); /* bcx begins later, in what ab has taken */
    check(&set, "xbcx", NULL, 0, "{x}[3:bcx]");
    check(&set, "bb", NULL, 0, "[4:b][4:b]");
    check(&set, "\xC3\xA8\xC3\xA9", NULL, 0, "{\xC3\xA8}[5:\xC3\xA9]");
    assert_int_equal(qn_added_set_get(&set, "ab", 2)->id, 1);
    assert_null(qn_added_set_get(&set, "abc", 3));
    assert_null(qn_added_set_get(&set, "", 0));
    qn_added_set_free(&set);
}

static void test_single_words(void **state)
{
    (void)state;
    qn_added_set set = {0};
    add(&set, "cat", 1, "w");
    add(&set, "<c>", 2, "w");
    seal(&set);
    check(&set, "cat", NULL, 0, "[1:cat]");
    check(&set, "a cat.", NULL, 0, "{a }[1:cat]{.}");
    check(&set, "cats", NULL, 0, "{cats}");
    check(&set, "bobcat", NULL, 0, "{bobcat}");
    check(&set,
          "\xC3\xA9"
          "cat",
          NULL, 0,
          "{\xC3\xA9"
          "cat}");
    check(&set, "cat\xCC\x81", NULL, 0, "{cat\xCC\x81}");
    check(&set, "x<c>", NULL, 0, "{x<c>}");
    check(&set, "cat\xC2\xBD", NULL, 0, "[1:cat]{\xC2\xBD}"); /* a half is no character of a word */
    qn_added_set_free(&set);
}

static void test_stripping(void **state)
{
    (void)state;
    qn_added_set set = {0};
    add(&set, "<l>", 1, "l");
    add(&set, "<r>", 2, "r");
    add(&set, "<b>", 3, "lr");
    add(&set, "\n", 4, "");
    seal(&set);
    check(&set, "a  <l>  b", NULL, 0, "{a}[1:  <l>]{  b}");
    check(&set, "a  <r>  b", NULL, 0, "{a  }[2:<r>  ]{b}");
    check(&set, "a \xE3\x80\x80<b>\xC2\xA0 b", NULL, 0, "{a}[3: \xE3\x80\x80<b>\xC2\xA0 ]{b}");
    check(&set, "<r> <l>", NULL, 0, "[2:<r> ][1:<l>]"); /* the space is taken once */
    check(&set, "<b> <b>", NULL, 0, "[3:<b> ][3:<b>]");
    /* a token within the white space that another took along is still found, and text goes on behind it */
    check(&set, "<r>\n  x", NULL, 0, "[2:<r>\n  ][4:\n]{  x}");
    qn_added_set_free(&set);
    add(&set, "<r>", 1, "r");
    add(&set, " ", 2, "l");
    seal(&set);
    check(&set, "<r> x", NULL, 0, "[1:<r> ]{x}"); /* nothing is left of the space's own token: it is dropped */
    qn_added_set_free(&set);
}

static void test_spans_are_out_of_reach(void **state)
{
    (void)state;
    qn_added_set set = {0};
    add(&set, "ab", 1, "lr");
    add(&set, "abc", 2, "");
    seal(&set);
    const qn_span c = {2, 3}, inner = {1, 1}, all = {0, 9};
    check(&set, "abc", &c, 1, "[1:ab]{c}");
    check(&set, "abc", &inner, 1, "[2:abc]");
    check(&set, "abcab abc", &all, 1, "{abcab abc}");
    const qn_span spaces[] = {{1, 2}, {4, 5}};
    check(&set, "x ab y", spaces, 2, "{x}[1: ab ]{y}"); /* white space is no token's own text */
    qn_added_set_free(&set);
}

static void test_the_same_content_twice_is_refused(void **state)
{
    (void)state;
    qn_error err;
    qn_added_set set = {0};
    add(&set, "<x>", 7, "");
    add(&set, "<y>", 8, "");
    add(&set, "<x>", 9, "");
    assert_int_equal(qn_added_set_seal(&set, &err), QN_BAD_INPUT);
    assert_non_null(strstr(err.message, "\"<x>\""));
    qn_added_set_free(&set);
}

/* Tokens of white space that strip: each match could read the whole run again. */
static void test_a_megabyte_of_space(void **state)
{
    (void)state;
    enum { BYTES = 1 << 20 };
    qn_error err;
    qn_added_set set = {0};
    qn_added_parts parts = {0};
    char *text = qn_alloc(BYTES, 1);
    assert_non_null(text);
    memset(text, ' ', BYTES);
    add(&set, " ", 1, "lr");
    add(&set, "  \t", 2, "lr");
    seal(&set);
    assert_int_equal(qn_added_set_find(&set, text, BYTES, NULL, 0, &parts, &err), QN_OK);
    assert_true(parts.count >= 1);
    qn_free(parts.items);
    qn_free(text);
    qn_added_set_free(&set);
}

static void test_every_failed_allocation_is_an_error(void **state)
{
    (void)state;
    for (long nth = 1;; nth++) {
        qn_error err;
        qn_added_set set = {0};
        qn_added_parts parts = {0};
        const qn_added_token token = {.content = "<x>", .bytes = 3};
        qn_fault_arm(QN_FAULT_ALLOC, nth);
        qn_status status = qn_added_set_add(&set, &token, &err);
        if (status == QN_OK)
            status = qn_added_set_seal(&set, &err);
        if (status == QN_OK)
            status = qn_added_set_find(&set, "a<x>b", 5, NULL, 0, &parts, &err);
        bool reached = qn_fault_seen(QN_FAULT_ALLOC) >= nth;
        qn_fault_disarm();
        assert_int_equal(status, reached ? QN_RESOURCE : QN_OK);
        qn_free(parts.items);
        qn_added_set_free(&set);
        if (!reached)
            break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_leftmost_longest),
        cmocka_unit_test(test_single_words),
        cmocka_unit_test(test_stripping),
        cmocka_unit_test(test_spans_are_out_of_reach),
        cmocka_unit_test(test_the_same_content_twice_is_refused),
        cmocka_unit_test(test_a_megabyte_of_space),
        cmocka_unit_test(test_every_failed_allocation_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
