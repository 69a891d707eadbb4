#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "grammar/byte_classes.h"

static qn_error err;

static qn_grammar_builder *new_builder(void)
{
    qn_grammar_builder *b;
    assert_int_equal(qn_grammar_builder_new(&b, &err), QN_OK);
    return b;
}

static void find_classes(qn_grammar_builder *b, qn_expr root, qn_byte_classes *out)
{
    qn_grammar *g;
    assert_int_equal(qn_grammar_build(b, root, &g, &err), QN_OK);
    qn_byte_classes_find(g, out);
    qn_grammar_free(g);
    qn_grammar_builder_free(b);
}

static qn_expr letters(qn_grammar_builder *b, uint32_t first, uint32_t last)
{
    qn_char_range range = {first, last};
    return qn_expr_chars(b, &range, 1);
}

static void bytes_of_the_same_sets_are_one_class(void **state)
{
    (void)state;
    qn_byte_classes c;
    qn_grammar_builder *b = new_builder();
    find_classes(b, qn_expr_concat2(b, letters(b, 'a', 'm'), letters(b, 'h', 'z')), &c);
    assert_int_equal(c.count, 4);
    for (unsigned x = 0; x < 256; x++)
        for (unsigned y = 0; y < 256; y++) {
            bool alike = (x >= 'a' && x <= 'm') == (y >= 'a' && y <= 'm') &&
                         (x >= 'h' && x <= 'z') == (y >= 'h' && y <= 'z');
            assert_int_equal(c.of[x] == c.of[y], alike);
        }
}

static void no_set_tells_nothing_apart(void **state)
{
    (void)state;
    qn_byte_classes c;
    qn_grammar_builder *b = new_builder();
    find_classes(b, qn_expr_token(b, 3), &c);
    assert_int_equal(c.count, 1);
}

static void too_many_sets_tell_all_apart(void **state)
{
    (void)state;
    qn_byte_classes c;
    qn_grammar_builder *b = new_builder();
    qn_expr all = qn_expr_empty(b);
    for (uint64_t i = 1; i <= 5000; i++)
        all = qn_expr_concat2(b, all, qn_expr_byte_set(b, (uint64_t[]){i * 2 + 1, 0, 0, 0}));
    find_classes(b, all, &c);
    assert_int_equal(c.count, 256);
    for (unsigned x = 0; x < 256; x++)
        assert_int_equal(c.of[x], x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_of_the_same_sets_are_one_class),
        cmocka_unit_test(no_set_tells_nothing_apart),
        cmocka_unit_test(too_many_sets_tell_all_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
