/* Element types of tensors, and conversions between them.
 *
 * BF16 and F16 values travel as their bit patterns in uint16_t. */
#ifndef QN_BASE_DTYPE_H
#define QN_BASE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef enum qn_dtype {
    QN_DTYPE_F32,
    QN_DTYPE_F16,
    QN_DTYPE_BF16,
    QN_DTYPE_U8, /* raw bytes: packed MXFP4 codes, E8M0 scales */
    QN_DTYPE_I32,
    QN_DTYPE_MXFP4,       /* not on disk under this name: a matrix of E2M1 codes (two a byte, low nibble the even
                             element) with one E8M0 scale per 32 elements of a row */
    QN_DTYPE_F8_E4M3,     /* on disk as "F8_E4M3", the OCP E4M3 without infinities; only `convert` reads it */
    QN_DTYPE_PACKED_BF16, /* never on disk: BF16 in 12 bits without loss (packed_bf16.h) */
    QN_DTYPE_COUNT
} qn_dtype;

const char *qn_dtype_name(qn_dtype dtype); /* as safetensors spells it: "BF16"; else "MXFP4", "PACKED_BF16" */
size_t qn_dtype_bits(qn_dtype dtype);      /* per element; scales (MXFP4: 4) and sides (packed BF16: 12) not counted */

float qn_f16_to_f32(uint16_t bits);    /* exact, subnormals, infinities and NaN included */
float qn_f8_e4m3_to_f32(uint8_t bits); /* exact; 0x7f and 0xff are NaN */
float qn_e2m1_value(unsigned code);    /* code 0..15: 0 .5 1 1.5 2 3 4 6, bit 3 the sign */
float qn_e8m0_value(unsigned scale);   /* 2^(scale - 127); scale 0 is 2^-127; 255 is NaN */

static inline float qn_bf16_to_f32(uint16_t bits)
{
    uint32_t word = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

/* To nearest, ties to even; NaN stays NaN (quiet). */
static inline uint16_t qn_f32_to_bf16(float value)
{
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    bool nan = (word & 0x7FFFFFFFu) > 0x7F800000u; /* rounding could carry it into infinity */
    /* half of the cut-off part less one, plus the last kept bit: ties go to even; overflow carries into infinity */
    uint32_t rounded = word + (0x7FFFu + (word >> 16 & 1));
    return (uint16_t)((nan ? word | 0x400000u : rounded) >> 16);
}

#endif
