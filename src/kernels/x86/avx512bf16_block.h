/* Many rows of activations times BF16 weights of any form: blocks are unpacked into the L1 cache and meet the
 * activations in register tiles. A dtype brings a function that unpacks; all else is here.
 *
 * Two forms of a product, with the same bits: by vdpbf16ps on pairs of BF16, or `wide`, by two float32 FMAs a pair, the
 * odd element first, as the instruction does. Some CPUs run the instruction as fast as an FMA, others four times slower
 * (qn_avx512bf16_form finds out). Subnormal operands and results count as zero in both, which FMAs do only while
 * qn_flush_subnormals is in force: whoever calls sets it, around few rows as well, so that their sums are the same.
 *
 * Include it from avx512bf16*.c only. */
#ifndef QN_KERNELS_X86_AVX512BF16_BLOCK_H
#define QN_KERNELS_X86_AVX512BF16_BLOCK_H

#include "kernels/x86/avx2_tile.h"
#include "kernels/x86/avx512bf16_cross.h"

enum {
    QN_BLOCK_BYTES = 2048,                 /* of a row in a block of K: 4 rows of weights are 8 KiB */
    QN_BLOCK_STRIDE = QN_BLOCK_BYTES + 64, /* padded, so that rows fall into different cache sets */
    QN_MOST_GROUPS = QN_BLOCK_BYTES / QN_GROUP_BYTES,
    QN_FEW_ROWS = 4,     /* at most */
    QN_TILE_WEIGHTS = 4, /* rows of weights in a register tile, three rows of activations */
    QN_FEWER_ROWS = QN_MATMUL_MAX_ROWS / 2,
    QN_CHUNK_WEIGHTS = 32, /* weight rows that share a pass over the activations; twice as many for fewer rows */
    QN_MOST_SUMS = QN_MATMUL_MAX_ROWS * (QN_CHUNK_WEIGHTS + 1)
};

/* Bytes of an unpacked group. */
QN_INLINE size_t qn_group_stride(const int wide)
{
    return wide ? 2 * QN_GROUP_BYTES : QN_GROUP_BYTES;
}

/* A vector of 32 BF16 as it is or, wide, as 16 float32 of its odd elements and 16 of the even ones. */
QN_INLINE void qn_store_vector(uint8_t *out, __m512i pairs, const int wide)
{
    if (!wide) {
        _mm512_storeu_si512((void *)out, pairs);
        return;
    }
    _mm512_storeu_si512((void *)out, _mm512_and_si512(pairs, _mm512_set1_epi32((int)0xffff0000)));
    _mm512_storeu_si512((void *)(out + 64), _mm512_slli_epi32(pairs, 16));
}

QN_INLINE void qn_store_group(uint8_t *out, const __m512i values[QN_VECTORS], const int wide)
{
    for (size_t j = 0; j < QN_VECTORS; j++)
        qn_store_vector(out + j * (qn_group_stride(wide) / QN_VECTORS), values[j], wide);
}

/* Unpacks groups [group, group + groups) of weight row n with qn_store_group, qn_group_stride(wide) apart; beyond the
 * end of the row they are zero. Scales, if the dtype has any: a float for each lane of each group. */
typedef void (*qn_row_unpacker)(uint8_t *out, float *scales, const qn_matrix *w, size_t n, size_t group, size_t groups,
                                const int wide);

/* Memory of a product, some 290 KB, on the stack. */
typedef struct qn_block {
    _Alignas(64) uint8_t weights[QN_TILE_WEIGHTS][QN_BLOCK_STRIDE];
    _Alignas(64) float scales[QN_TILE_WEIGHTS][QN_MOST_GROUPS * QN_LANES];
    _Alignas(64) uint8_t x[QN_MATMUL_MAX_ROWS][QN_BLOCK_STRIDE];
    _Alignas(64) float lanes[QN_MOST_SUMS * QN_LANES];
} qn_block;

/* GCC would load a vector that several products share again for each of them. */
QN_INLINE __m512 qn_load16_once(const uint8_t *p)
{
    __m512 x = _mm512_loadu_ps((const float *)(const void *)p);
#if !defined(__clang__) && !defined(QUERN_AVX512_INTRINSICS)
    __asm__("" : "+v"(x));
#endif
    return x;
}

/* One vector of a group: 4 weights times C activations, the first products starting the sums. */
QN_INLINE void qn_block_step(__m512 fresh[QN_TILE_WEIGHTS][3], const uint8_t *w, const uint8_t *x, const int C,
                             const int wide, const int first)
{
    __m512 xs[3];
    for (int c = 0; c < C; c++)
        xs[c] = qn_load16_once(x + (size_t)c * QN_BLOCK_STRIDE);
    for (int r = 0; r < QN_TILE_WEIGHTS; r++) {
        const __m512 weight = qn_load16_once(w + (size_t)r * QN_BLOCK_STRIDE);
        for (int c = 0; c < C; c++) {
            if (wide && first)
                fresh[r][c] = _mm512_mul_ps(weight, xs[c]);
            else if (wide)
                fresh[r][c] = _mm512_fmadd_ps(weight, xs[c], fresh[r][c]);
            else
                fresh[r][c] = qn_dot_bf16(first ? _mm512_setzero_ps() : fresh[r][c], _mm512_castps_si512(weight),
                                          _mm512_castps_si512(xs[c]));
        }
    }
}

/* Adds `groups` groups to the lanes of 4 weight rows times C activation rows: those of (r, c) at
 * lanes + r * 16 + c * row_stride. 4 x 3 sums of a group, as many of the rows, three activations and one weight fit the
 * 32 registers. */
QN_INLINE void qn_block_tile(float *lanes, size_t row_stride, const qn_block *b, size_t at_x, size_t groups,
                             const int C, const int scaled, const int wide)
{
    const uint8_t *w = b->weights[0], *x = b->x[at_x];
    __m512 rows[QN_TILE_WEIGHTS][3];
    for (int r = 0; r < QN_TILE_WEIGHTS; r++)
        for (int c = 0; c < C; c++)
            rows[r][c] = _mm512_loadu_ps(lanes + r * QN_LANES + (size_t)c * row_stride);
    for (size_t g = 0; g < groups; g++, w += qn_group_stride(wide), x += qn_group_stride(wide)) {
        __m512 fresh[QN_TILE_WEIGHTS][3];
        qn_block_step(fresh, w, x, C, wide, 1);
        qn_block_step(fresh, w + 64, x + 64, C, wide, 0);
        qn_block_step(fresh, w + 128, x + 128, C, wide, 0);
        qn_block_step(fresh, w + 192, x + 192, C, wide, 0);
        if (wide) {
            qn_block_step(fresh, w + 256, x + 256, C, wide, 0);
            qn_block_step(fresh, w + 320, x + 320, C, wide, 0);
            qn_block_step(fresh, w + 384, x + 384, C, wide, 0);
            qn_block_step(fresh, w + 448, x + 448, C, wide, 0);
        }
        for (int r = 0; r < QN_TILE_WEIGHTS; r++) {
            __m512 scale = _mm512_setzero_ps();
            if (scaled)
                scale = _mm512_load_ps(b->scales[r] + g * QN_LANES);
            for (int c = 0; c < C; c++)
                rows[r][c] = scaled ? _mm512_fmadd_ps(fresh[r][c], scale, rows[r][c])
                                    : _mm512_add_ps(rows[r][c], fresh[r][c]);
        }
    }
    for (int r = 0; r < QN_TILE_WEIGHTS; r++)
        for (int c = 0; c < C; c++)
            _mm512_storeu_ps(lanes + r * QN_LANES + (size_t)c * row_stride, rows[r][c]);
}

/* A block of 4 weight rows times all rows of activations, three at a time and the rest in twos: a lone row would leave
 * too few sums in flight. */
QN_INLINE void qn_block_multiply(float *lanes, size_t row_stride, const qn_block *b, size_t rows, size_t groups,
                                 const int scaled, const int wide)
{
    for (size_t c = 0; c < rows;) {
        const size_t left = rows - c, taken = left == 2 || left == 4 ? 2 : 3;
        if (taken == 3)
            qn_block_tile(lanes + c * row_stride, row_stride, b, c, groups, 3, scaled, wide);
        else
            qn_block_tile(lanes + c * row_stride, row_stride, b, c, groups, 2, scaled, wide);
        c += taken;
    }
}

/* Weight rows [first, first + count) times rows >= 2 rows of activations; the lanes of all sums stay in memory while
 * the blocks of K go by. */
QN_INLINE void qn_multiply_chunk(qn_block *b, const qn_matrix *w, size_t first, size_t count, const uint8_t *const *x,
                                 size_t rows, float *const *y, size_t at_y, const qn_row_unpacker unpack,
                                 const int scaled, const int wide)
{
    const size_t groups = qn_round_up(w->cols) / QN_GROUP, most = QN_BLOCK_BYTES / qn_group_stride(wide);
    const size_t row_stride = ((count + QN_TILE_WEIGHTS - 1) / QN_TILE_WEIGHTS * QN_TILE_WEIGHTS + 1) * QN_LANES;
    memset(b->lanes, 0, rows * row_stride * sizeof(float));
    for (size_t g = 0; g < groups; g += most) {
        const size_t block = qn_min_size(most, groups - g);
        for (size_t r = 0; r < rows; r++)
            for (size_t j = 0; j < block * QN_VECTORS; j++)
                qn_store_vector(b->x[r] + j * (qn_group_stride(wide) / QN_VECTORS),
                                qn_load32(x[r] + g * QN_GROUP_BYTES + j * 64), wide);
        for (size_t n = 0; n < count; n += QN_TILE_WEIGHTS) {
            /* where rows are left over, the last one is computed several times */
            for (size_t r = 0; r < QN_TILE_WEIGHTS; r++)
                unpack(b->weights[r], b->scales[r], w, first + qn_min_size(n + r, count - 1), g, block, wide);
            qn_block_multiply(b->lanes + n * QN_LANES, row_stride, b, rows, block, scaled, wide);
        }
    }
    for (size_t r = 0; r < rows; r++)
        qn_reduce_sums(y[r] + at_y, b->lanes + r * row_stride, QN_LANES, count);
}

/* Whether weights are better unpacked in registers and multiplied by vdpbf16ps. */
QN_INLINE int qn_rows_are_few(size_t rows)
{
    return rows <= (qn_avx512bf16_form() == QN_FORM_WIDE ? QN_FEW_ROWS - 1 : QN_FEW_ROWS);
}

/* y[r][n - first] for n in [first, last) and 2 <= rows <= QN_MATMUL_MAX_ROWS, x as packed for BF16 or for w's dtype. */
QN_INLINE void qn_multiply_many(const qn_matrix *w, size_t first, size_t last, const uint8_t *const *x, size_t rows,
                                float *const *y, const qn_row_unpacker unpack, const int scaled)
{
    qn_block block;
    const size_t most = rows <= QN_FEWER_ROWS ? 2 * QN_CHUNK_WEIGHTS : QN_CHUNK_WEIGHTS;
    const int wide = qn_avx512bf16_form() == QN_FORM_WIDE;
    for (size_t n = first; n < last; n += most) {
        const size_t count = qn_min_size(most, last - n);
        if (wide)
            qn_multiply_chunk(&block, w, n, count, x, rows, y, n - first, unpack, scaled, 1);
        else
            qn_multiply_chunk(&block, w, n, count, x, rows, y, n - first, unpack, scaled, 0);
    }
}

#endif
