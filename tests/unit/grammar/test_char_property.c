#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/char_property.h"
#include "grammar/property_tables.h"

static qn_char_set property(const char *name)
{
    qn_char_set set = {0};
    assert_true(qn_char_property_add(name, strlen(name), &set));
    qn_char_set_normalize(&set);
    assert_false(set.failed);
    return set;
}

static bool has(const char *name, uint32_t code)
{
    qn_char_set set = property(name);
    bool found = qn_char_ranges_contain(set.ranges, set.count, code);
    qn_char_set_free(&set);
    return found;
}

static size_t size_of(const qn_char_set *set)
{
    size_t size = 0;
    for (size_t i = 0; i < set->count; i++) {
        size += set->ranges[i].last - set->ranges[i].first + 1;
    }
    return size;
}

static void test_tables(void **state)
{
    (void)state;
    assert_int_equal(qn_category_runs[0].first, 0);
    for (size_t i = 1; i < qn_category_run_count; i++) {
        assert_true(qn_category_runs[i].first > qn_category_runs[i - 1].first);
        assert_string_not_equal(qn_category_runs[i].category, qn_category_runs[i - 1].category);
    }
    assert_true(qn_category_runs[qn_category_run_count - 1].first <= QN_CHAR_MAX);
    for (size_t i = 1; i < qn_case_link_count; i++) {
        assert_true(qn_case_links[i].code > qn_case_links[i - 1].code);
    }
    for (size_t i = 0; i < qn_case_link_count; i++) { /* each character is one other's next */
        size_t before = 0;
        for (size_t j = 0; j < qn_case_link_count; j++) {
            before += qn_case_links[j].next == qn_case_links[i].code;
        }
        assert_int_equal(before, 1);
        assert_true(qn_case_links[i].code >= 0x80 && qn_case_links[i].next != qn_case_links[i].code);
    }
}

static void test_categories(void **state)
{
    (void)state;
    assert_true(has("Lu", 'A') && has("Ll", 0xDF) && has("Lt", 0x1C5) && has("Lo", 0x4E00) && has("Lm", 0x2B0));
    assert_true(has("Nd", 0x660) && has("Nl", 0x2160) && has("No", 0xBD) && has("Mn", 0x301) && has("Zs", 0x3000));
    assert_true(has("Co", 0xE000) && has("Co", 0x10FFFD) && has("Cn", 0x10FFFF) && has("Cn", 0x378) && has("Cc", 0));
    assert_true(has("LC", 'a') && has("LC", 'A') && has("LC", 0x1C5) && !has("LC", 0x4E00) && !has("L", '0'));
    assert_true(has("Assigned", 'a') && !has("Assigned", 0x10FFFF) && has("C", 0x10FFFF) && !has("C", 0x4E00));
    assert_true(has("gc=Letter", 'a') && has("General_Category=Decimal_Number", '7'));
    qn_char_set none = {0};
    assert_false(qn_char_property_add("Lx", 2, &none) || qn_char_property_add("gc=Any", 6, &none) ||
                 qn_char_property_add("", 0, &none));
    assert_int_equal(none.count, 0);
}

/* Every character is in one category with two letters, and all of these make up those with one. */
static void test_categories_share_out_all_characters(void **state)
{
    (void)state;
    static const char *const names[] = {"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl",
                                        "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc",
                                        "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Co", "Cn"};
    static const char *const groups[] = {"L", "M", "N", "P", "S", "Z", "C"};
    size_t by_two = 0, by_one = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        qn_char_set set = property(names[i]);
        assert_true(set.count > 0);
        by_two += size_of(&set);
        qn_char_set_free(&set);
    }
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        qn_char_set set = property(groups[i]);
        by_one += size_of(&set);
        qn_char_set_free(&set);
    }
    size_t surrogates = QN_SURROGATE_LAST - QN_SURROGATE_FIRST + 1;
    assert_int_equal(by_two, QN_CHAR_MAX + 1 - surrogates);
    assert_int_equal(by_one, QN_CHAR_MAX + 1 - surrogates);
}

static void folds(uint32_t first, uint32_t last, const uint32_t *expected)
{
    qn_char_set set = {0};
    qn_char_set_add(&set, first, last);
    qn_char_set_normalize(&set);
    qn_char_set_fold(&set);
    size_t count = last - first + 1;
    for (; *expected != 0; expected++, count++) {
        assert_true(qn_char_ranges_contain(set.ranges, set.count, *expected));
    }
    assert_int_equal(size_of(&set), count);
    qn_char_set_free(&set);
}

static void test_case(void **state)
{
    (void)state;
    typedef const uint32_t codes[];
    folds('a', 'b', (codes){'A', 'B', 0});
    folds('k', 'k', (codes){'K', 0}); /* not the Kelvin sign */
    folds('0', '9', (codes){0});
    folds(0xE9, 0xE9, (codes){0xC9, 0});
    folds(0xC9, 0xC9, (codes){0xE9, 0});
    folds(0x3C3, 0x3C3, (codes){0x3A3, 0x3C2, 0}); /* sigma has three forms */
    folds(0x3C2, 0x3C3, (codes){0x3A3, 0});
    folds(0x1C5, 0x1C5, (codes){0x1C4, 0x1C6, 0}); /* a title-case letter */
    folds(0x1E943, 0x1E943, (codes){0x1E921, 0});  /* the last of all */
    folds(0, QN_SURROGATE_FIRST - 1, (codes){0});  /* its letters have their others within */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_categories),
        cmocka_unit_test(test_categories_share_out_all_characters),
        cmocka_unit_test(test_case),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
