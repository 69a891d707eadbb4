#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "text/unicode.h"

static void test_tables_ascend(void **state)
{
    (void)state;
    for (size_t i = 0; i < qn_unicode_new_category_count; i++) {
        const qn_unicode_range *r = &qn_unicode_new_categories[i];
        assert_true(r->first <= r->last && strlen(r->category) == 2);
        assert_true(i == 0 || r->first > r[-1].last);
    }
    for (size_t i = 0; i < qn_unicode_left_alone_count; i++) {
        const qn_unicode_range *r = &qn_unicode_left_alone[i];
        assert_true(r->first <= r->last);
        assert_true(i == 0 || r->first > r[-1].last);
    }
}

static void test_categories(void **state)
{
    (void)state;
    assert_string_equal(qn_unicode_category('a'), "Ll");
    assert_string_equal(qn_unicode_category(0x4E00), "Lo");
    assert_string_equal(qn_unicode_category(0x0301), "Mn");
    assert_string_equal(qn_unicode_category(0x31350), "Lo"); /* CJK extension H, Unicode 15 */
    assert_string_equal(qn_unicode_category(0x1FADF), "So"); /* Unicode 16 */
    assert_string_equal(qn_unicode_category(0x0378), "Cn");
    assert_string_equal(qn_unicode_category(0xE000), "Co");
}

static void test_space_is_white_space(void **state)
{
    (void)state;
    size_t count = 0;
    for (uint32_t code = 0; code < 0x110000; code++)
        count += qn_unicode_is_space(code);
    assert_int_equal(count, 25); /* PropList.txt: "Total code points: 25" */
    assert_true(qn_unicode_is_space(0x85) && qn_unicode_is_space(0x3000) && qn_unicode_is_space('\v'));
    assert_false(qn_unicode_is_space(0x180E) || qn_unicode_is_space(0x200B) || qn_unicode_is_space(0x1C));
}

static void test_numbers_and_words(void **state)
{
    (void)state;
    assert_true(qn_unicode_is_number('7') && qn_unicode_is_number(0x0663) && qn_unicode_is_number(0x2163) &&
                qn_unicode_is_number(0xBD) && qn_unicode_is_number(0x11F50) && !qn_unicode_is_number('x'));
    assert_true(qn_unicode_is_word('_') && qn_unicode_is_word('9') && qn_unicode_is_word(0x0301) &&
                qn_unicode_is_word(0x200D) && qn_unicode_is_word(0x24B6) && qn_unicode_is_word(0x2160) &&
                qn_unicode_is_word(0x31350));
    assert_false(qn_unicode_is_word('-') || qn_unicode_is_word(0xBD) || qn_unicode_is_word(0x2460) ||
                 qn_unicode_is_word(0x1F600) || qn_unicode_is_word(' '));
}

static void test_later_marks_are_left_alone(void **state)
{
    (void)state;
    assert_true(qn_unicode_is_left_alone(0x7FD) && qn_unicode_is_left_alone(0x1DFA) &&
                qn_unicode_is_left_alone(0x11938));
    assert_false(qn_unicode_is_left_alone(0x301) || qn_unicode_is_left_alone('a') ||
                 qn_unicode_is_left_alone(0x10FFFF));
}

static void test_new_characters_of_a_category(void **state)
{
    (void)state;
    qn_buffer nl = {0}, lu = {0}, all = {0};
    qn_unicode_append_new("Nl", &nl);
    assert_int_equal(nl.size, 0);
    qn_unicode_append_new("Lu", &lu);
    assert_non_null(strstr(lu.data, "\\x{1C89}-\\x{1C89}"));
    assert_null(strstr(lu.data, "31350"));
    qn_unicode_append_new("L", &all);
    assert_non_null(strstr(all.data, "\\x{31350}-\\x{323AF}"));
    assert_true(all.size > lu.size);
    qn_buffer_free(&lu);
    qn_buffer_free(&all);
    qn_buffer_free(&nl);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables_ascend),
        cmocka_unit_test(test_categories),
        cmocka_unit_test(test_space_is_white_space),
        cmocka_unit_test(test_numbers_and_words),
        cmocka_unit_test(test_later_marks_are_left_alone),
        cmocka_unit_test(test_new_characters_of_a_category),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
