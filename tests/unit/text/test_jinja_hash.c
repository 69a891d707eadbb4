/* SipHash-1-3 against another implementation's values: CPython hashes bytes with it, under PYTHONHASHSEED=0 with a key
 * of zeros. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "text/jinja/hash.h"

static void agrees_with_cpython(void **state)
{
    (void)state;
    static const uint64_t zeros[2] = {0, 0};
    assert_true(qn_siphash_1_3(zeros, "abcdefghij", 10) == UINT64_C(0xf47c264806c40ff1));
}

static void vectors(void **state)
{
    (void)state;
    static const uint64_t key[2] = {UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)};
    static const struct {
        size_t bytes;
        uint64_t hash;
    } expected[] = {{0, UINT64_C(0xabac0158050fc4dc)},
                    {7, UINT64_C(0xd3927d989bb11140)},
                    {8, UINT64_C(0x369095118d299a8e)},
                    {63, UINT64_C(0x9d199062b7bbb3a8)}};
    unsigned char data[63];
    for (size_t i = 0; i < sizeof data; ++i)
        data[i] = (unsigned char)i;
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; ++i)
        assert_true(qn_siphash_1_3(key, data, expected[i].bytes) == expected[i].hash);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_cpython),
        cmocka_unit_test(vectors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
