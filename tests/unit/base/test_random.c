#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/random.h"

/* The known-answer vectors that Random123 publishes for philox4x32-10. */
static void test_philox_known_answers(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } cases[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t out[4];
        qn_philox4x32_10(cases[i].counter, cases[i].key, out);
        assert_memory_equal(out, cases[i].out, sizeof out);
    }
}

static void test_output_may_be_the_counter(void **state)
{
    (void)state;
    uint32_t words[4] = {0}, key[2] = {0}, expected[4];
    qn_philox4x32_10(words, key, expected);
    qn_philox4x32_10(words, key, words);
    assert_memory_equal(words, expected, sizeof words);
}

static void test_told_seeds_are_doubles(void **state)
{
    (void)state;
    uint64_t all = 0;
    for (int i = 0; i < 64; i++) {
        uint64_t seed = qn_random_told_seed();
        assert_true(seed < UINT64_C(1) << 53);
        all |= seed;
    }
    assert_true(all >> 45 != 0);
}

static void test_seeds_differ(void **state)
{
    (void)state;
    uint64_t seeds[16];
    for (int i = 0; i < 16; i++) {
        seeds[i] = qn_random_seed();
        for (int j = 0; j < i; j++)
            assert_true(seeds[i] != seeds[j]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_philox_known_answers),
        cmocka_unit_test(test_output_may_be_the_counter),
        cmocka_unit_test(test_told_seeds_are_doubles),
        cmocka_unit_test(test_seeds_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
