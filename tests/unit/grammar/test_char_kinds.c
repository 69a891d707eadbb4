#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/utf8.h"
#include "grammar/char_kinds.h"

static unsigned kind_of(uint32_t code)
{
    char bytes[4];
    size_t count = qn_utf8_encode(code, bytes);
    return qn_char_kind((const uint8_t *)bytes, count);
}

static unsigned kind_by_blocks(uint32_t code)
{
    if (code < 0x80)
        return qn_ascii_kind((uint8_t)code);
    if (code < 0x800)
        return code >= 0x400 && code <= 0x47F ? QN_KIND_CYRILLIC : QN_KIND_OTHER_TWO;
    if (code >= 0x10000)
        return QN_KIND_FOUR;
    if (code >= 0x4E00 && code <= 0x9FFF)
        return QN_KIND_IDEOGRAPH;
    return code >= 0xAC00 && code <= 0xD77F ? QN_KIND_HANGUL : QN_KIND_OTHER_THREE;
}

static void each_character_is_of_the_kind_of_its_block(void **state)
{
    (void)state;
    for (uint32_t code = ' '; code <= 0x10FFFF; code++)
        if (code < 0xD800 || code > 0xDFFF)
            assert_int_equal(kind_of(code), kind_by_blocks(code));
}

static void letters_are_kinds_of_their_own(void **state)
{
    (void)state;
    assert_int_equal(qn_ascii_kind('a'), QN_KIND_LOWER);
    assert_int_equal(qn_ascii_kind('z'), QN_KIND_LOWER + 25);
    assert_int_equal(qn_ascii_kind('Z'), QN_KIND_UPPER + 25);
    assert_int_equal(qn_ascii_kind('7'), QN_KIND_DIGIT);
    assert_int_equal(qn_ascii_kind('_'), QN_KIND_UNDERSCORE);
    assert_int_equal(qn_ascii_kind('+'), QN_KIND_OTHER_ASCII);
    assert_true(QN_KINDS <= 64);
}

static void a_character_without_its_end_is_cut(void **state)
{
    (void)state;
    const uint8_t ideograph[] = {0xE4, 0xBD, 0xA0};
    assert_int_equal(qn_char_kind(ideograph, 3), QN_KIND_IDEOGRAPH);
    assert_int_equal(qn_char_kind(ideograph, 2), QN_KIND_CUT);
    assert_int_equal(qn_char_kind(ideograph, 1), QN_KIND_CUT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_character_is_of_the_kind_of_its_block),
        cmocka_unit_test(letters_are_kinds_of_their_own),
        cmocka_unit_test(a_character_without_its_end_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
