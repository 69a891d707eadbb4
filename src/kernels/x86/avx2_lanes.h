/* What the AVX2 kernels share, inlined into each: loading, rounding, the reduction of lanes. Include it from avx2*.c
 * only: other files are compiled without the instructions. */
#ifndef QN_KERNELS_X86_AVX2_LANES_H
#define QN_KERNELS_X86_AVX2_LANES_H

#include <immintrin.h>
#include <string.h>

#include "base/size.h"
#include "kernels/x86/avx2.h"

/* Kernels are written once for a dtype or a tile shape that is a constant at the call: they must be inlined there. */
#define QN_INLINE static inline __attribute__((always_inline))

enum {
    QN_HALF = QN_GROUP / 2, /* elements of a group that share a register of sums */
    QN_LANES = 16           /* partial sums of a dot product */
};

/* count rounded up to whole groups. */
QN_INLINE size_t qn_round_up(size_t count)
{
    return (count + QN_GROUP - 1) / QN_GROUP * QN_GROUP;
}

/* Eight values rounded to BF16 (nearest even) and back; NaN stays NaN, made quiet. */
QN_INLINE __m256 qn_round_bf16(__m256 x)
{
    __m256i bits = _mm256_castps_si256(x);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    __m256 nan = _mm256_cmp_ps(x, x, _CMP_UNORD_Q);
    __m256 quiet = _mm256_or_ps(x, _mm256_castsi256_ps(_mm256_set1_epi32(0x00400000)));
    __m256 chosen = _mm256_blendv_ps(_mm256_castsi256_ps(rounded), quiet, nan);
    return _mm256_and_ps(chosen, _mm256_castsi256_ps(_mm256_set1_epi32((int)0xffff0000)));
}

/* Eight BF16, F16 or F32 values at any address, in their order, as float32. */
QN_INLINE __m256 qn_load8(qn_dtype dtype, const uint8_t *p)
{
    if (dtype == QN_DTYPE_F32)
        return _mm256_loadu_ps((const float *)(const void *)p);
    __m128i words = _mm_loadu_si128((const __m128i *)(const void *)p);
    if (dtype == QN_DTYPE_F16)
        return _mm256_cvtph_ps(words);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(words), 16));
}

/* count BF16 values as float32, then zeros up to `padded`, a multiple of eight. */
QN_INLINE void qn_widen_row(float *out, const uint8_t *row, size_t count, size_t padded)
{
    size_t i = 0;
    for (; i + 8 <= count; i += 8)
        _mm256_storeu_ps(out + i, qn_load8(QN_DTYPE_BF16, row + 2 * i));
    if (i == padded)
        return;
    uint8_t rest[16] = {0};
    memcpy(rest, row + 2 * i, (count - i) * 2);
    _mm256_storeu_ps(out + i, qn_load8(QN_DTYPE_BF16, rest));
    memset(out + i + 8, 0, (padded - i - 8) * sizeof(float));
}

/* count float32 values rounded to BF16, then zeros up to `padded`, a multiple of eight. */
QN_INLINE void qn_round_row(float *out, const float *x, size_t count, size_t padded)
{
    memcpy(out, x, count * sizeof(float));
    memset(out + count, 0, (padded - count) * sizeof(float));
    for (size_t i = 0; i < padded; i += 8)
        _mm256_storeu_ps(out + i, qn_round_bf16(_mm256_loadu_ps(out + i)));
}

/* All ones in lanes 0..count-1: for masked loads and stores, which leave other memory alone. */
QN_INLINE __m256i qn_tail_mask(size_t count)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

QN_INLINE float qn_reduce8(__m256 sums)
{
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(sums), _mm256_extractf128_ps(sums, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

/* The fixed reduction of a dot product's 16 lanes. */
QN_INLINE float qn_reduce16(__m256 low, __m256 high)
{
    return qn_reduce8(_mm256_add_ps(low, high));
}

/* Two registers of which each holds, in either half, four sums of one row: a and b become pairs (a, b) of what
 * qn_reduce8 adds next, in both halves. */
QN_INLINE __m256 qn_fold4(__m256 a, __m256 b)
{
    return _mm256_add_ps(_mm256_blend_ps(a, b, 0xcc), _mm256_shuffle_ps(a, b, 0x4e));
}

/* a's eight sums folded to four in the lower half, b's in the upper. */
QN_INLINE __m256 qn_fold8(__m256 a, __m256 b)
{
    return _mm256_add_ps(_mm256_blend_ps(a, b, 0xf0), _mm256_permute2f128_ps(a, b, 0x21));
}

/* The rest of eight reductions whose i-th and (i + 4)-th sums are folded to folded[i]. */
QN_INLINE __m256 qn_reduce4x8(const __m256 folded[4])
{
    __m256 low = qn_fold4(folded[0], folded[1]), high = qn_fold4(folded[2], folded[3]);
    return _mm256_add_ps(_mm256_shuffle_ps(low, high, 0x88), _mm256_shuffle_ps(low, high, 0xdd));
}

/* Eight reductions at once: lane i becomes qn_reduce8(sums[i]), by the same additions. */
QN_INLINE __m256 qn_reduce8x8(const __m256 sums[8])
{
    const __m256 folded[4] = {qn_fold8(sums[0], sums[4]), qn_fold8(sums[1], sums[5]), qn_fold8(sums[2], sums[6]),
                              qn_fold8(sums[3], sums[7])};
    return qn_reduce4x8(folded);
}

/* Eight dot products: lane i becomes qn_reduce16 of the 16 lanes at lanes + i * stride. */
QN_INLINE __m256 qn_reduce16x8(const float *lanes, size_t stride)
{
    __m256 sums[8];
    for (size_t i = 0; i < 8; i++)
        sums[i] = _mm256_add_ps(_mm256_loadu_ps(lanes + i * stride), _mm256_loadu_ps(lanes + i * stride + 8));
    return qn_reduce8x8(sums);
}

/* One head of the indexer: eight scores + weight * relu(scale * dots), nothing fused. */
QN_INLINE __m256 qn_add_head(__m256 scores, __m256 dots, float scale, float weight)
{
    /* NaN, as the first operand, becomes 0 */
    __m256 positive = _mm256_max_ps(_mm256_mul_ps(_mm256_set1_ps(scale), dots), _mm256_setzero_ps());
    return _mm256_add_ps(scores, _mm256_mul_ps(_mm256_set1_ps(weight), positive));
}

#endif
