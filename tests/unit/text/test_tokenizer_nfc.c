#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

#include "base/fault.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "text/tokenizer_nfc.h"
#include "text/unicode.h"

static void check(const char *text, const char *expected)
{
    qn_error err;
    qn_nfc_scratch scratch = {0};
    qn_buffer out = {0};
    assert_int_equal(qn_nfc_normalize(&scratch, text, strlen(text), NULL, 0, &out, NULL, &err), QN_OK);
    assert_string_equal(qn_buffer_string(&out), expected);
    qn_nfc_scratch_free(&scratch);
    qn_buffer_free(&out);
}

static void test_composes(void **state)
{
    (void)state;
    check("", "");
    check("plain text, \xE4\xBD\xA0\xE5\xA5\xBD \xED\x95\x9C \xE3\x81\x82",
          "plain text, \xE4\xBD\xA0\xE5\xA5\xBD \xED\x95\x9C \xE3\x81\x82");
    check("e\xCC\x81", "\xC3\xA9");
    check("xe\xCC\x81y", "x\xC3\xA9y");
    check("\xE2\x84\xAA\xE2\x84\xAB", "K\xC3\x85");                /* Kelvin, Angstrom */
    check("\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8", "\xEA\xB0\x81"); /* Hangul letters */
    check("\xEA\xB0\x80\xE1\x86\xA8", "\xEA\xB0\x81");             /* a syllable and a final */
    check("\xE3\x81\x8B\xE3\x82\x99", "\xE3\x81\x8C");             /* kana and its voicing mark */
    check(">\xCC\xB8=", "\xE2\x89\xAF=");                          /* even ASCII composes */
    check("\xE0\xA5\x98", "\xE0\xA4\x95\xE0\xA4\xBC");             /* excluded from composition */
    check("\xF0\xA0\x80\x80\xCC\x81", "\xF0\xA0\x80\x80\xCC\x81");
}

static void test_orders_marks(void **state)
{
    (void)state;
    check("q\xCC\x87\xCC\xA3", "q\xCC\xA3\xCC\x87");    /* above, below: below comes first */
    check("a\xCC\x87\xCC\xA3", "\xE1\xBA\xA1\xCC\x87"); /* and composes first */
    check("q\xCC\x81\xCC\x80", "q\xCC\x81\xCC\x80");    /* one class: as written */
    check("\xCC\x87\xCC\xA3q", "\xCC\xA3\xCC\x87q");    /* without anything to stand on */
    check("a\xCC\x96\xCC\x81", "\xC3\xA1\xCC\x96");     /* composes past a lower class */
    check("a\xCC\x80\xCC\x81", "\xC3\xA0\xCC\x81");     /* but not past its own */
}

/* Unicode 9 did not know these marks: `tokenizers` neither reorders nor composes them. */
static void test_later_marks_stay(void **state)
{
    (void)state;
    check("q\xCC\x81\xDF\xBD", "q\xCC\x81\xDF\xBD"); /* U+07FD, class 220 */
    check("q\xDF\xBD\xCC\xB4", "q\xDF\xBD\xCC\xB4");
    check("\xF0\x91\xA4\xB5\xF0\x91\xA4\xB0", "\xF0\x91\xA4\xB5\xF0\x91\xA4\xB0"); /* U+11935 U+11930 */
    check("\xDF\xBD\xCC\x81\xCC\x96", "\xDF\xBD\xCC\x96\xCC\x81");                 /* those behind are ordered */
}

/* utf8proc's own NFC of a text. */
static char *reference(const char *text)
{
    return (char *)utf8proc_NFC((const utf8proc_uint8_t *)text);
}

static void test_every_character_as_utf8proc_has_it(void **state)
{
    (void)state;
    qn_nfc_scratch scratch = {0};
    qn_buffer out = {0};
    qn_error err;
    for (uint32_t code = 1; code < 0x110000; code += code < 0x20000 ? 1 : 17) {
        char text[24], encoded[4];
        size_t length = qn_utf8_encode(code, encoded);
        if (length == 0 || qn_unicode_is_left_alone(code))
            continue;
        snprintf(text, sizeof text, "a%.*s\xCC\xA3\xCC\x81%.*s", (int)length, encoded, (int)length, encoded);
        char *expected = reference(text);
        qn_buffer_clear(&out);
        assert_int_equal(qn_nfc_normalize(&scratch, text, strlen(text), NULL, 0, &out, NULL, &err), QN_OK);
        if (strcmp(out.data, expected) != 0)
            fail_msg("U+%04X: \"%s\" instead of \"%s\"", (unsigned)code, out.data, expected);
        free(expected);
    }
    qn_buffer_free(&out);
    qn_nfc_scratch_free(&scratch);
}

static void check_spans(const char *text, const qn_span *spans, size_t count, const char *expected)
{
    qn_error err;
    qn_nfc_scratch scratch = {0};
    qn_buffer out = {0};
    qn_span_list mapped = {0};
    char written[256] = "";
    qn_buffer_text(&out, "before");
    assert_int_equal(qn_nfc_normalize(&scratch, text, strlen(text), spans, count, &out, &mapped, &err), QN_OK);
    for (size_t i = 0; i < mapped.count; i++) {
        size_t at = strlen(written);
        snprintf(written + at, sizeof written - at, at ? " %zu-%zu" : "%zu-%zu", mapped.items[i].start,
                 mapped.items[i].end);
    }
    assert_string_equal(written, expected);
    qn_span_list_free(&mapped);
    qn_nfc_scratch_free(&scratch);
    qn_buffer_free(&out);
}

static void test_spans_follow(void **state)
{
    (void)state;
    const qn_span plain[] = {{1, 3}, {5, 6}};
    check_spans("abcdef", plain, 2, "1-3 5-6");
    const qn_span behind[] = {{4, 5}};
    check_spans("e\xCC\x81xy", behind, 1, "3-4"); /* three bytes became two */
    const qn_span accent[] = {{1, 3}};
    check_spans("e\xCC\x81xy", accent, 1, "0-2"); /* what changed with it belongs to it */
    const qn_span both[] = {{0, 1}, {1, 2}, {4, 5}};
    check_spans("e\xCC\x81xy", both, 3, "0-2 3-4");
    const qn_span unchanged[] = {{1, 4}};
    check_spans("q\xCC\xA3\xCC\x87x", unchanged, 1, "1-4"); /* a chunk that stays keeps its bytes */
    const qn_span empty[] = {{2, 2}, {3, 4}};
    check_spans("abcd", empty, 2, "3-4");
    const qn_span across[] = {{0, 7}};
    check_spans("ae\xCC\x81xyz", across, 1, "0-6");
}

static void test_a_megabyte_of_marks(void **state)
{
    (void)state;
    enum { MARKS = 1 << 19 };
    qn_error err;
    qn_nfc_scratch scratch = {0};
    qn_buffer text = {0}, out = {0};
    qn_buffer_char(&text, 'q');
    for (int i = 0; i < MARKS; i++)
        qn_buffer_text(&text, i % 2 ? "\xCC\x96" : "\xCC\x81");
    assert_int_equal(qn_nfc_normalize(&scratch, text.data, text.size, NULL, 0, &out, NULL, &err), QN_OK);
    assert_int_equal(out.size, text.size);
    assert_memory_equal(out.data + 1, "\xCC\x96\xCC\x96", 4);
    assert_memory_equal(out.data + out.size - 4, "\xCC\x81\xCC\x81", 4);
    qn_buffer_free(&text);
    qn_buffer_free(&out);
    qn_nfc_scratch_free(&scratch);
}

static void test_every_failed_allocation_is_an_error(void **state)
{
    (void)state;
    const qn_span span = {0, 3};
    for (long nth = 1;; nth++) {
        qn_error err;
        qn_nfc_scratch scratch = {0};
        qn_buffer out = {0};
        qn_span_list spans = {0};
        qn_fault_arm(QN_FAULT_ALLOC, nth);
        qn_status status = qn_nfc_normalize(&scratch, "e\xCC\x81x", 4, &span, 1, &out, &spans, &err);
        bool reached = qn_fault_seen(QN_FAULT_ALLOC) >= nth;
        qn_fault_disarm();
        assert_int_equal(status, reached ? QN_RESOURCE : QN_OK);
        qn_nfc_scratch_free(&scratch);
        qn_buffer_free(&out);
        qn_span_list_free(&spans);
        if (!reached)
            break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_composes),
        cmocka_unit_test(test_orders_marks),
        cmocka_unit_test(test_later_marks_stay),
        cmocka_unit_test(test_every_character_as_utf8proc_has_it),
        cmocka_unit_test(test_spans_follow),
        cmocka_unit_test(test_a_megabyte_of_marks),
        cmocka_unit_test(test_every_failed_allocation_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
