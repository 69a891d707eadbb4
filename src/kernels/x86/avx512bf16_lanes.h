/* What the AVX-512 kernels share, inlined into each: the dot product step, the reduction of lanes. Include it
 * from avx512bf16*.c only: other files are compiled without the instructions. */
#ifndef QN_KERNELS_X86_AVX512BF16_LANES_H
#define QN_KERNELS_X86_AVX512BF16_LANES_H

#include "kernels/x86/intrinsics.h"

#include "kernels/x86/avx2_lanes.h"
#include "kernels/x86/avx512bf16.h"

enum { QN_GROUP_BYTES = QN_GROUP * 2, QN_VECTORS = 4 /* of 32 BF16 in a group */ };

QN_INLINE __m512i qn_load32(const uint8_t *p)
{
    return _mm512_loadu_si512((const void *)p);
}

QN_INLINE __m512 qn_dot_bf16(__m512 sums, __m512i a, __m512i b)
{
    return _mm512_dpbf16_ps(sums, (__m512bh)a, (__m512bh)b);
}

/* count float32 values rounded to BF16, then zeros up to `padded`. */
QN_INLINE void qn_round_row_bf16(uint8_t *out, const float *x, size_t count, size_t padded)
{
    qn_avx2_store_row(out, x, count);
    memset(out + 2 * count, 0, (padded - count) * 2);
}

/* The fixed reduction of a dot product's 16 lanes. */
QN_INLINE float qn_reduce_lanes(__m512 sums)
{
    __m256 high = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(sums), 1));
    return qn_reduce8(_mm256_add_ps(_mm512_castps512_ps256(sums), high));
}

#endif
