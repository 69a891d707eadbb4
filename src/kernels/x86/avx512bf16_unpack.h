/* Packed BF16 (base/packed_bf16.h) to BF16 in registers. Include it from avx512bf16*.c only. */
#ifndef QN_KERNELS_X86_AVX512BF16_UNPACK_H
#define QN_KERNELS_X86_AVX512BF16_UNPACK_H

#include "kernels/x86/avx512bf16_lanes.h"

/* The exponents of codes 0..14 in their place, 0 for code 15; the same again. */
QN_INLINE __m512i qn_exponent_table(unsigned window)
{
    static const uint16_t codes[32] = {0 << 7, 1 << 7, 2 << 7,  3 << 7,  4 << 7,  5 << 7,  6 << 7,  7 << 7,
                                       8 << 7, 9 << 7, 10 << 7, 11 << 7, 12 << 7, 13 << 7, 14 << 7, 0,
                                       0 << 7, 1 << 7, 2 << 7,  3 << 7,  4 << 7,  5 << 7,  6 << 7,  7 << 7,
                                       8 << 7, 9 << 7, 10 << 7, 11 << 7, 12 << 7, 13 << 7, 14 << 7, 0};
    return _mm512_maskz_add_epi16(0x7FFF7FFF, qn_load32((const uint8_t *)codes),
                                  _mm512_set1_epi16((short)(window << 7)));
}

/* Sign and mantissa out of a word, the exponent as looked up: (rest & 0x807F) | exponents. */
QN_INLINE __m512i qn_join_exponents(__m512i rest, __m512i exponents)
{
    return _mm512_ternarylogic_epi32(rest, _mm512_set1_epi16((short)0x807F), exponents, 0xEA);
}

QN_INLINE __m512i qn_swap_bytes(__m512i words)
{
    const __m512i places = _mm512_set4_epi32(0x0E0F0C0D, 0x0A0B0809, 0x06070405, 0x02030001);
    return _mm512_shuffle_epi8(words, places);
}

/* A group: vector j has elements 32j .. 32j + 31; exceptions are not yet in their places. */
QN_INLINE void qn_unpack_vectors(__m512i out[QN_VECTORS], const uint8_t *data, __m512i table)
{
    const __m512i codes = qn_load32(data), low = qn_load32(data + 64), high = qn_load32(data + 128);
    out[0] = qn_join_exponents(low, _mm512_permutexvar_epi16(codes, table));
    out[1] = qn_join_exponents(qn_swap_bytes(low), _mm512_permutexvar_epi16(_mm512_srli_epi16(codes, 4), table));
    out[2] = qn_join_exponents(high, _mm512_permutexvar_epi16(_mm512_srli_epi16(codes, 8), table));
    out[3] = qn_join_exponents(qn_swap_bytes(high), _mm512_permutexvar_epi16(_mm512_srli_epi16(codes, 12), table));
}

#endif
