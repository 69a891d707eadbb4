#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/utf8.h"

static void test_every_code_point_round_trips(void **state)
{
    (void)state;
    for (uint32_t code = 0; code <= 0x110010; code++) {
        char text[4];
        size_t length = qn_utf8_encode(code, text);
        if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) {
            assert_int_equal(length, 0);
            continue;
        }
        assert_int_equal(length, code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4);
        uint32_t back = UINT32_MAX;
        if (qn_utf8_decode(text, length, &back) != length || back != code)
            fail_msg("U+%04X came back as U+%04X", code, back);
        for (size_t cut = 0; cut < length; cut++)
            assert_int_equal(qn_utf8_decode(text, cut, &back), 0);
    }
}

/* Counts the valid sequences among all of one to three bytes, and of four with their last byte fixed: the numbers
 * follow from the sizes of the Unicode planes, so neither overlong forms nor surrogates can hide. */
static void test_exactly_the_valid_sequences_decode(void **state)
{
    (void)state;
    unsigned counts[5] = {0};
    for (uint32_t word = 0; word < 1u << 24; word++) {
        char text[4] = {(char)(word >> 16), (char)(word >> 8), (char)word, (char)0x80};
        uint32_t code;
        for (size_t length = 1; length <= 4; length++) {
            if (length < 3 && (word & ((1u << (24 - 8 * length)) - 1)) != 0)
                continue; /* each shorter prefix once */
            counts[length] += qn_utf8_decode(text, length, &code) == length;
        }
    }
    assert_int_equal(counts[1], 0x80);
    assert_int_equal(counts[2], 0x800 - 0x80);
    assert_int_equal(counts[3], 0x10000 - 0x800 - 0x800);
    assert_int_equal(counts[4], (0x110000 - 0x10000) / 64);
}

static void test_valid(void **state)
{
    (void)state;
    assert_true(qn_utf8_valid("", 0));
    assert_true(qn_utf8_valid("a\0\xc3\xa9\xf4\x8f\xbf\xbf", 8));
    assert_false(qn_utf8_valid("a\xc3", 2));
    assert_false(qn_utf8_valid("\xc0\x80", 2));
    assert_false(qn_utf8_valid("\xed\xa0\x80", 3));
    assert_false(qn_utf8_valid("\xf4\x90\x80\x80", 4));
    assert_false(qn_utf8_valid("ok\x80", 3));
    assert_false(qn_utf8_valid("\xfe", 1));
}

static void test_incomplete_tail(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t tail;
    } cases[] = {
        {"", 0},         {"abc", 0},          {"a\xc3", 1},        {"a\xe2\x82", 2},    {"\xf0\x9f\x98", 3},
        {"\xf0", 1},     {"\xc3\xa9", 0},     {"\xe2\x82\xac", 0}, {"\x80\x80", 0},     {"\xff", 0},
        {"\xe0\x80", 0}, {"\xed\xa0", 0},     {"\xf4\x90", 0},     {"\xc3\xa9\x80", 0}, {"\xc0", 0},
        {"\xe0", 1},     {"\xf4\x8f\xbf", 3}, {"\xf0\x80\x80", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(qn_utf8_incomplete_tail(cases[i].text, strlen(cases[i].text)), cases[i].tail);
}

/* What the tail means, on every split of a text: what lies before it is whole, and the next bytes complete it. */
static void test_any_split_is_put_together_again(void **state)
{
    (void)state;
    static const char text[] = "a\xc3\xa9z\xe2\x82\xac\xf0\x9f\x98\x80!\xef\xbf\xbd";
    size_t bytes = sizeof text - 1;
    for (size_t split = 0; split <= bytes; split++) {
        size_t tail = qn_utf8_incomplete_tail(text, split);
        assert_true(qn_utf8_valid(text, split - tail));
        assert_true(qn_utf8_valid(text + split - tail, bytes - split + tail));
    }
}

static void test_printable(void **state)
{
    (void)state;
    char out[16];
    assert_int_equal(qn_utf8_printable("a\n\xff", 3, out, sizeof out), 3);
    assert_string_equal(out, "a\\x0a\\xff");
    assert_int_equal(qn_utf8_printable("\0", 1, out, sizeof out), 1);
    assert_string_equal(out, "\\x00");
    /* neither an escape nor a character is split */
    assert_int_equal(qn_utf8_printable("ab\n", 3, out, 6), 2);
    assert_string_equal(out, "ab");
    assert_int_equal(qn_utf8_printable("ab\xe2\x82\xac", 5, out, 5), 2);
    assert_string_equal(out, "ab");
    assert_int_equal(qn_utf8_printable("ab\xe2\x82\xac", 5, out, 6), 5);
    assert_int_equal(qn_utf8_printable("x", 1, out, 1), 0);
    assert_string_equal(out, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_code_point_round_trips),
        cmocka_unit_test(test_exactly_the_valid_sequences_decode),
        cmocka_unit_test(test_valid),
        cmocka_unit_test(test_incomplete_tail),
        cmocka_unit_test(test_any_split_is_put_together_again),
        cmocka_unit_test(test_printable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
