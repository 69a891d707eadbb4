/* BF16 and MXFP4 weights into float32 registers, in the lanes of avx2.h. Include it from avx2*.c only. */
#ifndef QN_KERNELS_X86_AVX2_WEIGHTS_H
#define QN_KERNELS_X86_AVX2_WEIGHTS_H

#include "kernels/x86/avx2_lanes.h"

QN_INLINE size_t qn_half_bytes(qn_dtype dtype)
{
    return dtype == QN_DTYPE_MXFP4 ? QN_HALF / 2 : QN_HALF * 2;
}

/* Sixteen BF16 values: the even ones are the low words of the dwords, the odd ones the high words. */
QN_INLINE void qn_split_bf16(__m256i words, __m256 *even, __m256 *odd)
{
    *even = _mm256_castsi256_ps(_mm256_slli_epi32(words, 16));
    *odd = _mm256_castsi256_ps(_mm256_and_si256(words, _mm256_set1_epi32((int)0xffff0000)));
}

/* 32 codes, one a byte, into 32 BF16 values (twice the E2M1 value) and on to float32: two byte tables give the halves
 * of a BF16, interleaving joins them. */
QN_INLINE void qn_look_up_e2m1(__m256i codes, __m256 out[4])
{
    const __m256i low_bytes = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, (char)0x80, 0, 0x40, (char)0x80, (char)0xC0,
                                                                        0, 0x40, 0, (char)0x80, 0, 0x40, (char)0x80,
                                                                        (char)0xC0, 0, 0x40));
    const __m256i high_bytes = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 0x3F, 0x40, 0x40, 0x40, 0x40, 0x41, 0x41, (char)0x80, (char)0xBF, (char)0xC0, (char)0xC0,
                      (char)0xC0, (char)0xC0, (char)0xC1, (char)0xC1));
    __m256i low = _mm256_shuffle_epi8(low_bytes, codes);
    __m256i high = _mm256_shuffle_epi8(high_bytes, codes);
    qn_split_bf16(_mm256_unpacklo_epi8(low, high), &out[0], &out[1]);
    qn_split_bf16(_mm256_unpackhi_epi8(low, high), &out[2], &out[3]);
}

/* Half a group as eight vectors. */
QN_INLINE void qn_unpack_half(qn_dtype dtype, const uint8_t *p, __m256 out[8])
{
    if (dtype == QN_DTYPE_BF16) {
        for (int j = 0; j < 4; j++)
            qn_split_bf16(_mm256_loadu_si256((const __m256i *)(const void *)(p + 32 * j)), &out[2 * j],
                          &out[2 * j + 1]);
    } else {
        const __m256i nibble = _mm256_set1_epi8(15);
        __m256i codes = _mm256_loadu_si256((const __m256i *)(const void *)p);
        qn_look_up_e2m1(_mm256_and_si256(codes, nibble), out);
        qn_look_up_e2m1(_mm256_and_si256(_mm256_srli_epi16(codes, 4), nibble), out + 4);
    }
}

/* The four scales of a group of MXFP4, spread over the 16 lanes, halved to make up for the doubled values. A scale byte
 * in the place of the exponent is the float 2^(s - 127). The saturated s - 1 turns the bytes 0 and 1, whose blocks
 * count as zero, into 0.0 and halves all others. */
QN_INLINE void qn_spread_scales(const uint8_t *p, __m256 out[2])
{
    const __m256i first = _mm256_setr_epi32(0x00808080, 0x00808080, 0x00808080, 0x00808080, 0x01808080, 0x01808080,
                                            0x01808080, 0x01808080);
    const __m256i second = _mm256_setr_epi32(0x02808080, 0x02808080, 0x02808080, 0x02808080, 0x03808080, 0x03808080,
                                             0x03808080, 0x03808080);
    int bytes;
    memcpy(&bytes, p, sizeof bytes);
    __m256i scales = _mm256_subs_epu8(_mm256_set1_epi32(bytes), _mm256_set1_epi8(1));
    out[0] = _mm256_castsi256_ps(_mm256_srli_epi32(_mm256_shuffle_epi8(scales, first), 1));
    out[1] = _mm256_castsi256_ps(_mm256_srli_epi32(_mm256_shuffle_epi8(scales, second), 1));
}

/* The short last group of a row, filled with zeros. */
typedef struct qn_last_group {
    uint8_t data[QN_GROUP * 2];
    uint8_t scales[QN_GROUP / QN_MXFP4_BLOCK];
} qn_last_group;

QN_INLINE void qn_copy_last_group(qn_last_group *group, qn_dtype dtype, const uint8_t *data, const uint8_t *scales,
                                  size_t count)
{
    memset(group, 0, sizeof *group);
    memcpy(group->data, data, count * qn_half_bytes(dtype) / QN_HALF);
    if (dtype == QN_DTYPE_MXFP4)
        memcpy(group->scales, scales, count / QN_MXFP4_BLOCK);
}

#endif
