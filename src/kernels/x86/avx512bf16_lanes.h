/* What the AVX-512 kernels share, inlined into each: the dot product step, the register tile, the reduction of lanes.
 * Include it from avx512bf16*.c only: other files are compiled without the instructions. */
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

/* Adds `groups` groups to the lanes of R weight rows times C activation rows: sums[r * QN_SUMS_STRIDE + c * 16 ..].
 * Rows are BF16 of any alignment; weight row r starts at w + r * w_stride (bytes), its scales (a float for each lane of
 * each group, if `scaled`) at scales + r * scales_stride. 4 x 3 sums of a group, as many of the rows, three activations
 * and one weight fit the 32 registers. */
QN_INLINE void qn_tile_bf16(float *sums, const uint8_t *w, size_t w_stride, const float *scales, size_t scales_stride,
                            const uint8_t *const *x, size_t groups, const int R, const int C, const int scaled)
{
    __m512 rows[4][3];
    for (int r = 0; r < R; r++)
        for (int c = 0; c < C; c++)
            rows[r][c] = _mm512_loadu_ps(sums + r * QN_SUMS_STRIDE + c * QN_LANES);
    for (size_t g = 0; g < groups; g++) {
        __m512 fresh[4][3];
        for (int r = 0; r < R; r++)
            for (int c = 0; c < C; c++)
                fresh[r][c] = _mm512_setzero_ps();
        for (size_t at = g * QN_GROUP_BYTES; at < (g + 1) * QN_GROUP_BYTES; at += 64) {
            __m512i xs[3];
            for (int c = 0; c < C; c++)
                xs[c] = qn_load32(x[c] + at);
            for (int r = 0; r < R; r++) {
                __m512i weight = qn_load32(w + (size_t)r * w_stride + at);
                for (int c = 0; c < C; c++)
                    fresh[r][c] = qn_dot_bf16(fresh[r][c], weight, xs[c]);
            }
        }
        for (int r = 0; r < R; r++) {
            __m512 scale = _mm512_setzero_ps();
            if (scaled)
                scale = _mm512_loadu_ps(scales + (size_t)r * scales_stride + g * QN_LANES);
            for (int c = 0; c < C; c++)
                rows[r][c] = scaled ? _mm512_fmadd_ps(fresh[r][c], scale, rows[r][c])
                                    : _mm512_add_ps(rows[r][c], fresh[r][c]);
        }
    }
    for (int r = 0; r < R; r++)
        for (int c = 0; c < C; c++)
            _mm512_storeu_ps(sums + r * QN_SUMS_STRIDE + c * QN_LANES, rows[r][c]);
}

/* qn_tile_bf16 over any number of activation rows, three at a time and the rest in twos: a lone row would leave too few
 * sums in flight. */
QN_INLINE void qn_tile_rows_bf16(float *sums, const uint8_t *w, size_t w_stride, const float *scales,
                                 size_t scales_stride, const uint8_t *const *x, size_t rows, size_t groups, const int R,
                                 const int scaled)
{
    for (size_t c = 0; c < rows;) {
        const size_t left = rows - c, taken = left == 1 ? 1 : left == 2 || left == 4 ? 2 : 3;
        float *of = sums + c * QN_LANES;
        if (taken == 3)
            qn_tile_bf16(of, w, w_stride, scales, scales_stride, x + c, groups, R, 3, scaled);
        else if (taken == 2)
            qn_tile_bf16(of, w, w_stride, scales, scales_stride, x + c, groups, R, 2, scaled);
        else
            qn_tile_bf16(of, w, w_stride, scales, scales_stride, x + c, groups, R, 1, scaled);
        c += taken;
    }
}

#endif
