#include "base/dtype.h"

#include <assert.h>
#include <math.h>

const char *qn_dtype_name(qn_dtype dtype)
{
    static const char *const names[QN_DTYPE_COUNT] = {
        [QN_DTYPE_F32] = "F32",         [QN_DTYPE_F16] = "F16",
        [QN_DTYPE_BF16] = "BF16",       [QN_DTYPE_U8] = "U8",
        [QN_DTYPE_I32] = "I32",         [QN_DTYPE_MXFP4] = "MXFP4",
        [QN_DTYPE_F8_E4M3] = "F8_E4M3", [QN_DTYPE_PACKED_BF16] = "PACKED_BF16",
    };
    assert(dtype < QN_DTYPE_COUNT);
    return names[dtype];
}

size_t qn_dtype_bits(qn_dtype dtype)
{
    static const size_t bits[QN_DTYPE_COUNT] = {
        [QN_DTYPE_F32] = 32, [QN_DTYPE_F16] = 16,  [QN_DTYPE_BF16] = 16,   [QN_DTYPE_U8] = 8,
        [QN_DTYPE_I32] = 32, [QN_DTYPE_MXFP4] = 4, [QN_DTYPE_F8_E4M3] = 8, [QN_DTYPE_PACKED_BF16] = 12,
    };
    assert(dtype < QN_DTYPE_COUNT);
    return bits[dtype];
}

float qn_f16_to_f32(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16;
    uint32_t exponent = bits >> 10 & 0x1F;
    uint32_t fraction = bits & 0x3FF;
    if (exponent == 0) {
        float magnitude = (float)fraction * 0x1p-24f; /* exact: 10 bits times a power of two */
        return sign ? -magnitude : magnitude;
    }
    uint32_t word = exponent == 0x1F ? sign | 0x7F800000u | fraction << 13
                                     : sign | (exponent + (127 - 15)) << 23 | fraction << 13;
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

float qn_f8_e4m3_to_f32(uint8_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x80) << 24, rest = bits & 0x7F;
    if (rest < 8) { /* subnormal: a multiple of 2^-9 */
        float magnitude = (float)rest * 0x1p-9f;
        return sign ? -magnitude : magnitude;
    }
    uint32_t word = rest == 0x7F ? sign | 0x7FC00000u : sign | ((rest << 20) + ((127u - 7) << 23));
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

float qn_e2m1_value(unsigned code)
{
    static const float magnitudes[8] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
    float magnitude = magnitudes[code & 7];
    return code & 8 ? -magnitude : magnitude;
}

float qn_e8m0_value(unsigned scale)
{
    if ((scale & 0xFF) == 0xFF)
        return NAN;
    return ldexpf(1.0f, (int)(scale & 0xFF) - 127);
}
