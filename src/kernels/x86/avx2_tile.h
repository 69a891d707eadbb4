/* The register tile of matrix products and the walk of a block of weights over rows of activations. Include it from
 * avx2*.c only. */
#ifndef QN_KERNELS_X86_AVX2_TILE_H
#define QN_KERNELS_X86_AVX2_TILE_H

#include "kernels/x86/avx2_lanes.h"

/* Where the lanes of the sums of a tile lie: those of weight row r and activation row c at
 * lanes + r * weight_stride + c * row_stride. */
typedef struct qn_sums {
    float *lanes;
    size_t weight_stride, row_stride;
} qn_sums;

/* Weight rows of a tile: row r starts at values + r * stride; its scales, if any, at scales + r * scales_stride (a
 * float for each lane of each group). */
typedef struct qn_tile_weights {
    const float *values, *scales;
    size_t stride, scales_stride;
} qn_tile_weights;

/* GCC would load a vector that several products share again for each of them: a tile has no loads to spare. */
QN_INLINE __m256 qn_load_once(const float *p)
{
    __m256 x = _mm256_loadu_ps(p);
#ifndef __clang__
    __asm__("" : "+x"(x));
#endif
    return x;
}

/* Vector j of a half: R weights times C activations, the first products starting the sums. */
QN_INLINE void qn_tile_step(__m256 fresh[4][3], const float *w, size_t w_stride, const float *const *x, size_t at,
                            const int R, const int C, const int first)
{
    __m256 xs[3];
    for (int c = 0; c < C; c++)
        xs[c] = qn_load_once(x[c] + at);
    for (int r = 0; r < R; r++) {
        __m256 weight = qn_load_once(w + (size_t)r * w_stride + at);
        for (int c = 0; c < C; c++)
            fresh[r][c] = first ? _mm256_mul_ps(weight, xs[c]) : _mm256_fmadd_ps(weight, xs[c], fresh[r][c]);
    }
}

/* Adds `groups` groups to the sums of R weight rows times C activation rows. 4 x 3 sums of a half, three activations
 * and one weight fill the registers; the row sums stay in memory, which is touched once in eight products. */
QN_INLINE void qn_register_tile(qn_sums sums, qn_tile_weights w, const float *const *x, size_t groups, const int R,
                                const int C, const int scaled)
{
    for (size_t half = 0; half < 2 * groups; half++) {
        __m256 fresh[4][3];
        const size_t at = half * QN_HALF;
        qn_tile_step(fresh, w.values, w.stride, x, at, R, C, 1);
        qn_tile_step(fresh, w.values, w.stride, x, at + 8, R, C, 0);
        qn_tile_step(fresh, w.values, w.stride, x, at + 16, R, C, 0);
        qn_tile_step(fresh, w.values, w.stride, x, at + 24, R, C, 0);
        qn_tile_step(fresh, w.values, w.stride, x, at + 32, R, C, 0);
        qn_tile_step(fresh, w.values, w.stride, x, at + 40, R, C, 0);
        qn_tile_step(fresh, w.values, w.stride, x, at + 48, R, C, 0);
        qn_tile_step(fresh, w.values, w.stride, x, at + 56, R, C, 0);
        for (int r = 0; r < R; r++) {
            __m256 scale = _mm256_setzero_ps();
            if (scaled)
                scale = _mm256_loadu_ps(w.scales + (size_t)r * w.scales_stride + half * 8);
            for (int c = 0; c < C; c++) {
                float *sum = sums.lanes + (size_t)r * sums.weight_stride + (size_t)c * sums.row_stride + (half & 1) * 8;
                __m256 old = _mm256_loadu_ps(sum);
                _mm256_storeu_ps(sum,
                                 scaled ? _mm256_fmadd_ps(fresh[r][c], scale, old) : _mm256_add_ps(old, fresh[r][c]));
            }
        }
    }
}

/* qn_register_tile for `count` weight rows, four at a time. */
QN_INLINE void qn_multiply_weights(qn_sums sums, qn_tile_weights w, size_t count, const float *const *x, size_t groups,
                                   const int C, const int scaled)
{
    size_t n = 0;
    for (; n < count; n += n + 4 <= count ? 4 : 1) {
        qn_sums tile = sums;
        qn_tile_weights rows = w;
        tile.lanes += n * sums.weight_stride;
        rows.values += n * w.stride;
        if (scaled)
            rows.scales += n * w.scales_stride;
        if (n + 4 <= count)
            qn_register_tile(tile, rows, x, groups, 4, C, scaled);
        else
            qn_register_tile(tile, rows, x, groups, 1, C, scaled);
    }
}

/* Adds `groups` groups to the sums of `count` weight rows times any number of activation rows, three at a time and the
 * rest in twos: a lone row would leave too few sums in flight. The weights pass by for each three rows, so that a block
 * of them in the L1 cache serves all. */
QN_INLINE void qn_multiply_block(qn_sums sums, qn_tile_weights w, size_t count, const float *const *x, size_t rows,
                                 size_t groups, const int scaled)
{
    for (size_t c = 0; c < rows;) {
        const size_t left = rows - c, taken = left == 1 ? 1 : left == 2 || left == 4 ? 2 : 3;
        qn_sums tile = sums;
        tile.lanes += c * sums.row_stride;
        if (taken == 3)
            qn_multiply_weights(tile, w, count, x + c, groups, 3, scaled);
        else if (taken == 2)
            qn_multiply_weights(tile, w, count, x + c, groups, 2, scaled);
        else
            qn_multiply_weights(tile, w, count, x + c, groups, 1, scaled);
        c += taken;
    }
}

/* y[n] = the dot product of weight row n < count, whose lanes are `stride` apart. */
QN_INLINE void qn_reduce_sums(float *y, const float *lanes, size_t stride, size_t count)
{
    size_t n = 0;
    for (; n + 8 <= count; n += 8)
        _mm256_storeu_ps(y + n, qn_reduce16x8(lanes + n * stride, stride));
    for (; n < count; n++)
        y[n] = qn_reduce16(_mm256_loadu_ps(lanes + n * stride), _mm256_loadu_ps(lanes + n * stride + 8));
}

#endif
