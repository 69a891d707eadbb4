/* Floats are written as Python writes them: the fewest digits that read back as the same double. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "text/jinja/repr.h"

static void known_floats(void **state)
{
    (void)state;
    static const struct {
        double real;
        const char *text;
    } cases[] = {
        {0.0, "0.0"},
        {-0.0, "-0.0"},
        {1.0, "1.0"},
        {0.1, "0.1"},
        {100.0, "100.0"},
        {1e15, "1000000000000000.0"},
        {1e16, "1e+16"},
        {123456789012345680.0, "1.2345678901234568e+17"},
        {0.0001, "0.0001"},
        {0.00001, "1e-05"},
        {0.00012345, "0.00012345"},
        {1.5e-7, "1.5e-07"},
        {5e-324, "5e-324"},
        {2.2250738585072014e-308, "2.2250738585072014e-308"},
        {1.7976931348623157e308, "1.7976931348623157e+308"},
        {9007199254740993.0, "9007199254740992.0"},
        {-2.5, "-2.5"},
        {1.0 / 3.0, "0.3333333333333333"},
        {0.1 + 0.2, "0.30000000000000004"},
        {INFINITY, "inf"},
        {-INFINITY, "-inf"},
        {NAN, "nan"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        char text[QN_FLOAT_TEXT_BYTES];
        qn_float_text(cases[i].real, text);
        assert_string_equal(text, cases[i].text);
    }
}

static size_t digits_of(const char *text)
{
    size_t count = 0, zeros = 0;
    for (; *text && *text != 'e'; ++text) {
        if (*text < '0' || *text > '9' || (count == 0 && *text == '0'))
            continue;
        ++count;
        zeros = *text == '0' ? zeros + 1 : 0;
    }
    return count - zeros;
}

static void random_floats(void **state)
{
    (void)state;
    uint64_t word = 20240612;
    printf("seed %llu\n", (unsigned long long)word);
    for (int round = 0; round < 100000; ++round) {
        char text[QN_FLOAT_TEXT_BYTES], shorter[40];
        double real;
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        memcpy(&real, &word, sizeof real);
        if (round % 3 == 0)
            real = (double)(word % 1000000) / 1000; /* short ones too */
        if (!isfinite(real) || real == 0)
            continue;
        qn_float_text(real, text);
        assert_true(strtod(text, NULL) == real);
        size_t digits = digits_of(text);
        assert_true(digits >= 1 && digits <= 17);
        if (digits > 1) {
            snprintf(shorter, sizeof shorter, "%.*e", (int)digits - 2, real);
            assert_true(strtod(shorter, NULL) != real);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_floats),
        cmocka_unit_test(random_floats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
