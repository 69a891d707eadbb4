/* BF16, packed BF16 and MXFP4 weights into float32 registers, in the lanes of avx2.h. Include it from avx2*.c only. */
#ifndef QN_KERNELS_X86_AVX2_WEIGHTS_H
#define QN_KERNELS_X86_AVX2_WEIGHTS_H

#include "kernels/x86/avx2_lanes.h"
#include "kernels/x86/packed_row.h"

/* Half the bytes of a group. */
QN_INLINE size_t qn_half_bytes(qn_dtype dtype)
{
    return dtype == QN_DTYPE_MXFP4 ? QN_HALF / 2 : dtype == QN_DTYPE_BF16 ? QN_HALF * 2 : QN_PACKED_GROUP_BYTES / 2;
}

QN_INLINE __m256i qn_load_words(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
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

/* The window of a row of packed BF16 in the place of the exponent of each word. */
QN_INLINE __m256i qn_window_words(unsigned window)
{
    return _mm256_set1_epi16((short)(window << 7));
}

/* Elements 16j .. 16j + 15 of a half of a group of packed BF16 as BF16, exceptions not yet in their places. */
QN_INLINE __m256i qn_unpack_words(const uint8_t *group, const int half, const int j, __m256i window)
{
    const __m256i field = _mm256_set1_epi16(15 << 7);
    const __m256i swapped = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14));
    const int quarter = 2 * half + j / 2, at = j % 2 * 32;
    __m256i codes = qn_load_words(group + at), rest = qn_load_words(group + 64 * (1 + half) + at);
    codes = quarter == 0   ? _mm256_slli_epi16(codes, 7)
            : quarter == 1 ? _mm256_slli_epi16(codes, 3)
            : quarter == 2 ? _mm256_srli_epi16(codes, 1)
                           : _mm256_srli_epi16(codes, 5);
    codes = _mm256_and_si256(codes, field);
    __m256i is_zero = _mm256_cmpeq_epi16(codes, field);
    if (j >= 2)
        rest = _mm256_shuffle_epi8(rest, swapped);
    rest = _mm256_and_si256(rest, _mm256_set1_epi16((short)0x807F));
    return _mm256_or_si256(rest, _mm256_andnot_si256(is_zero, _mm256_add_epi16(codes, window)));
}

/* Half of a group as eight vectors; `window` is of packed BF16, whose exceptions are not yet in their places. */
QN_INLINE void qn_unpack_half(qn_dtype dtype, const uint8_t *group, const int half, __m256i window, __m256 out[8])
{
    const uint8_t *p = group + (size_t)half * qn_half_bytes(dtype);
    if (dtype == QN_DTYPE_BF16) {
        for (int j = 0; j < 4; j++)
            qn_split_bf16(qn_load_words(p + 32 * j), &out[2 * j], &out[2 * j + 1]);
    } else if (dtype == QN_DTYPE_PACKED_BF16) {
        for (int j = 0; j < 4; j++)
            qn_split_bf16(qn_unpack_words(group, half, j, window), &out[2 * j], &out[2 * j + 1]);
    } else {
        const __m256i nibble = _mm256_set1_epi8(15);
        __m256i codes = qn_load_words(p);
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

/* A group of packed BF16 as BF16, exceptions not yet in their places. */
QN_INLINE void qn_unpack_group(uint16_t out[QN_GROUP], const uint8_t *group, __m256i window)
{
    for (int half = 0; half < 2; half++)
        for (int j = 0; j < 4; j++)
            _mm256_storeu_si256((__m256i *)(void *)(out + half * QN_HALF + 16 * j),
                                qn_unpack_words(group, half, j, window));
}

/* The short last group of a row (of packed BF16 there is none), filled with zeros. */
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
