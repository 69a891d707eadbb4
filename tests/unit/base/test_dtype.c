#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "base/dtype.h"

static uint32_t word_of(float value)
{
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    return word;
}

static float value_of(uint32_t word)
{
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

static void test_names_and_bits(void **state)
{
    (void)state;
    static const char *const names[] = {"F32", "F16", "BF16", "U8", "I32", "MXFP4", "F8_E4M3", "PACKED_BF16"};
    static const size_t bits[] = {32, 16, 16, 8, 32, 4, 8, 12};
    for (int i = 0; i < QN_DTYPE_COUNT; i++) {
        assert_string_equal(qn_dtype_name((qn_dtype)i), names[i]);
        assert_int_equal(qn_dtype_bits((qn_dtype)i), bits[i]);
    }
}

/* Every one of the 256 values, from the definition. */
static void test_f8_e4m3_is_exact(void **state)
{
    (void)state;
    for (unsigned bits = 0; bits < 256; bits++) {
        int exponent = (int)(bits >> 3 & 15), fraction = (int)(bits & 7);
        float magnitude = exponent == 0 ? ldexpf((float)fraction, -9) : ldexpf((float)(8 + fraction), exponent - 10);
        float value = qn_f8_e4m3_to_f32((uint8_t)bits);
        if ((bits & 0x7F) == 0x7F)
            assert_true(isnan(value));
        else
            assert_true(value == (bits & 0x80 ? -magnitude : magnitude) && !signbit(value) == !(bits & 0x80));
    }
    assert_true(qn_f8_e4m3_to_f32(0x7E) == 448);
}

/* Every one of the 65,536 values, from the definition. */
static void test_f16_is_exact(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits <= 0xFFFF; bits++) {
        float got = qn_f16_to_f32((uint16_t)bits);
        uint32_t exponent = bits >> 10 & 31, fraction = bits & 1023;
        assert_int_equal(word_of(got) >> 31, bits >> 15);
        double magnitude = exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, (int)exponent - 25);
        if (exponent == 31 && fraction != 0)
            assert_true(isnan(got));
        else if (exponent == 31)
            assert_true(isinf(got));
        else
            assert_true((double)fabsf(got) == magnitude);
    }
}

/* Every BF16 value comes back as itself, and between two neighbours the nearest is taken, even on a tie. */
static void test_bf16_rounds_to_nearest_even(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits <= 0xFFFF; bits++) {
        float value = qn_bf16_to_f32((uint16_t)bits);
        if (isnan(value)) {
            assert_true(isnan(qn_bf16_to_f32(qn_f32_to_bf16(value))));
            continue;
        }
        assert_int_equal(qn_f32_to_bf16(value), bits);
        if (isinf(value))
            continue;
        uint32_t next = bits + 1, even = bits & 1 ? next : bits; /* next in magnitude: may be infinity */
        assert_int_equal(qn_f32_to_bf16(value_of(bits << 16 | 0x7FFF)), bits);
        assert_int_equal(qn_f32_to_bf16(value_of(bits << 16 | 0x8000)), even);
        assert_int_equal(qn_f32_to_bf16(value_of(bits << 16 | 0x8001)), next);
        assert_int_equal(qn_f32_to_bf16(value_of(bits << 16 | 0xFFFF)), next);
    }
}

static void test_bf16_keeps_nan(void **state)
{
    (void)state;
    /* a payload in the low bits alone, which plain cutting would turn into infinity, and one that rounding overflows */
    assert_int_equal(qn_f32_to_bf16(value_of(0x7F800001)), 0x7FC0);
    assert_int_equal(qn_f32_to_bf16(value_of(0xFFFFFFFF)), 0xFFFF);
    assert_int_equal(qn_f32_to_bf16(value_of(0xFF800001)), 0xFFC0);
}

static void test_mxfp4_parts(void **state)
{
    (void)state;
    static const float magnitudes[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    for (unsigned code = 0; code < 16; code++)
        assert_int_equal(word_of(qn_e2m1_value(code)),
                         word_of(code & 8 ? -magnitudes[code & 7] : magnitudes[code & 7]));
    for (unsigned scale = 0; scale < 255; scale++)
        assert_true((double)qn_e8m0_value(scale) == ldexp(1, (int)scale - 127));
    assert_true(isnan(qn_e8m0_value(255)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_and_bits), cmocka_unit_test(test_f8_e4m3_is_exact),
        cmocka_unit_test(test_f16_is_exact),   cmocka_unit_test(test_bf16_rounds_to_nearest_even),
        cmocka_unit_test(test_bf16_keeps_nan), cmocka_unit_test(test_mxfp4_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
