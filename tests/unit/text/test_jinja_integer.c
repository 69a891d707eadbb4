/* Wide integers against the compiler's 128-bit ones, and against identities beyond those. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "text/jinja/integer.h"

__extension__ typedef __int128 wide;
__extension__ typedef unsigned __int128 unsigned_wide;

static uint64_t random_state = 20240611;

static uint64_t random_word(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static void from_wide(wide value, qn_integer *out)
{
    unsigned_wide magnitude = value < 0 ? -(unsigned_wide)value : (unsigned_wide)value;
    *out = (qn_integer){.negative = value < 0};
    for (; magnitude > 0; magnitude >>= 32)
        out->limbs[out->count++] = (uint32_t)magnitude;
}

static bool same(const qn_integer *a, wide value)
{
    qn_integer b;
    from_wide(value, &b);
    return qn_integer_compare(a, &b) == 0 && a->negative == b.negative && a->count == b.count;
}

/* Of up to `bits` bits, small ones as often as large ones. */
static wide random_wide(unsigned bits)
{
    wide value = (wide)((unsigned_wide)random_word() << 62 ^ random_word());
    value >>= 126 - random_word() % bits;
    return random_word() & 1 ? -value : value;
}

static void agrees_with_128_bits(void **state)
{
    (void)state;
    printf("seed %llu\n", (unsigned long long)random_state);
    for (int round = 0; round < 200000; ++round) {
        wide x = random_wide(62), y = random_wide(62), z = random_wide(125);
        qn_integer a, b, c, out, rest;
        from_wide(x, &a);
        from_wide(y, &b);
        from_wide(z, &c);
        assert_true(qn_integer_add(&a, &b, &out) && same(&out, x + y));
        assert_true(qn_integer_subtract(&c, &b, &out) && same(&out, z - y));
        assert_true(qn_integer_multiply(&a, &b, &out) && same(&out, x * y));
        assert_int_equal(qn_integer_compare(&a, &b) < 0, x < y);
        if (y == 0)
            continue;
        wide quotient = z / y, remainder = z % y;
        if (remainder != 0 && (remainder < 0) != (y < 0)) {
            --quotient;
            remainder += y;
        }
        qn_integer_divide(&c, &b, &out, &rest);
        assert_true(same(&out, quotient));
        assert_true(same(&rest, remainder));
    }
}

static void random_integer(qn_integer *out, uint32_t limbs)
{
    *out = (qn_integer){.count = limbs, .negative = random_word() & 1};
    for (uint32_t i = 0; i < limbs; ++i)
        out->limbs[i] = random_word() % 4 ? (uint32_t)random_word() : random_word() % 2 ? 0xFFFFFFFF : 0;
    while (out->count > 0 && out->limbs[out->count - 1] == 0)
        --out->count;
    out->negative = out->negative && out->count > 0;
}

/* quotient * divisor + remainder is the dividend, and the remainder lies between 0 and the divisor. */
static void division_undoes_multiplication(void **state)
{
    (void)state;
    for (int round = 0; round < 20000; ++round) {
        qn_integer a, b, quotient, rest, back;
        random_integer(&a, (uint32_t)(random_word() % 120));
        random_integer(&b, (uint32_t)(1 + random_word() % 60));
        if (b.count == 0)
            continue;
        qn_integer_divide(&a, &b, &quotient, &rest);
        assert_true(rest.count == 0 || rest.negative == b.negative);
        qn_integer magnitude = rest, divisor = b;
        magnitude.negative = divisor.negative = false;
        assert_true(qn_integer_compare(&magnitude, &divisor) < 0);
        assert_true(qn_integer_multiply(&quotient, &b, &back));
        assert_true(qn_integer_add(&back, &rest, &back));
        assert_int_equal(qn_integer_compare(&back, &a), 0);
    }
}

static void digits_survive(void **state)
{
    (void)state;
    for (int round = 0; round < 2000; ++round) {
        qn_integer a, back;
        char text[QN_INTEGER_TEXT_BYTES];
        unsigned base = 2 + (unsigned)(random_word() % 35);
        random_integer(&a, (uint32_t)(random_word() % 128));
        size_t bytes = qn_integer_format(&a, base, text);
        assert_int_equal(bytes, strlen(text));
        assert_true(qn_integer_parse(text + a.negative, bytes - a.negative, base, &back));
        back.negative = a.negative;
        assert_int_equal(qn_integer_compare(&a, &back), 0);
    }
    qn_integer ten, power;
    char digits[1400];
    qn_integer_set(&ten, 10);
    assert_true(qn_integer_power(&ten, 1233, &power));
    assert_false(qn_integer_power(&ten, 1234, &power));
    memset(digits, '9', sizeof digits);
    assert_true(qn_integer_parse(digits, 1233, 10, &power));
    assert_false(qn_integer_parse(digits, 1234, 10, &power));
}

static void doubles_are_exact_or_nearest(void **state)
{
    (void)state;
    for (int round = 0; round < 100000; ++round) {
        uint64_t word = random_word();
        double value;
        qn_integer a;
        memcpy(&value, &word, sizeof value);
        if (!isfinite(value))
            continue;
        assert_true(qn_integer_from_double(value, &a));
        assert_true(qn_integer_to_double(&a) == trunc(value));
        wide x = random_wide(120);
        from_wide(x, &a);
        assert_true(qn_integer_to_double(&a) == (double)x);
    }
    /* 2^53 + 1 lies between two doubles and goes to the even one, a trifle more goes up. */
    qn_integer a, b;
    from_wide(((wide)1 << 53) + 1, &a);
    assert_true(qn_integer_to_double(&a) == 9007199254740992.0);
    from_wide((((wide)1 << 53) + 1) * 1024 + 1, &a);
    from_wide(1024, &b);
    assert_true(qn_integer_ratio(&a, &b) == 9007199254740994.0);
    qn_integer_set(&a, -1);
    qn_integer_set(&b, 3);
    assert_true(qn_integer_ratio(&a, &b) == -1.0 / 3.0);
    qn_integer_set(&a, 2);
    assert_true(qn_integer_power(&a, 1024, &a));
    assert_true(isinf(qn_integer_to_double(&a)));
    assert_true(qn_integer_ratio(&b, &a) == 3.0 * 0x1p-1024);
}

static void words_fit(void **state)
{
    (void)state;
    static const int64_t values[] = {0, 1, -1, INT64_MAX, INT64_MIN, 1LL << 32, -(1LL << 32)};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; ++i) {
        qn_integer a;
        int64_t back = 1;
        qn_integer_set(&a, values[i]);
        assert_true(qn_integer_fits(&a, &back));
        assert_true(back == values[i]);
    }
    qn_integer a, one;
    int64_t back;
    qn_integer_set(&a, INT64_MAX);
    qn_integer_set(&one, 1);
    assert_true(qn_integer_add(&a, &one, &a));
    assert_false(qn_integer_fits(&a, &back));
    assert_int_equal(qn_integer_bits(&a), 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_128_bits),
        cmocka_unit_test(division_undoes_multiplication),
        cmocka_unit_test(digits_survive),
        cmocka_unit_test(doubles_are_exact_or_nearest),
        cmocka_unit_test(words_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
