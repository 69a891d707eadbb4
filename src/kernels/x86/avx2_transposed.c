/* The transposed product: a chain of FMAs down each column, weight rows ascending, so that neither the tile a column
 * falls into nor the other rows can change it.
 *
 * Activations are rounded a block of weight rows at a time; between blocks the chains rest in y. One row of activations
 * takes 64 columns at once, a linear piece of each weight row; several take 16 columns, four rows to a tile. Packed
 * BF16 is unpacked into the L1 cache first, some rows of some hundred columns at a time. */
#include "kernels/x86/avx2_lanes.h"

#include <math.h>

enum {
    BLOCK_ROWS = 128,
    TILE = 4,
    WIDE = 64,
    NARROW = 16,
    UNPACKED_ROWS = 16, /* of 512 columns: 16 KiB */
    UNPACKED_COLS = 512
};

/* Continues `vectors` times eight columns from c on, of R rows of activations, by `count` weight rows. */
QN_INLINE void columns(float *const *y, size_t c, const uint8_t *w, size_t row_bytes, const float (*x)[BLOCK_ROWS],
                       size_t count, const qn_dtype dtype, const int R, const int vectors)
{
    const size_t vector_bytes = dtype == QN_DTYPE_F32 ? 32 : 16;
    __m256 sums[TILE][8];
    for (int r = 0; r < R; r++)
        for (int v = 0; v < vectors; v++)
            sums[r][v] = _mm256_loadu_ps(y[r] + c + 8 * (size_t)v);
    for (size_t n = 0; n < count; n++) {
        const uint8_t *row = w + n * row_bytes + c / 8 * vector_bytes;
        for (int v = 0; v < vectors; v++) {
            __m256 weight = qn_load8(dtype, row + (size_t)v * vector_bytes);
            for (int r = 0; r < R; r++)
                sums[r][v] = _mm256_fmadd_ps(_mm256_broadcast_ss(&x[r][n]), weight, sums[r][v]);
        }
    }
    for (int r = 0; r < R; r++)
        for (int v = 0; v < vectors; v++)
            _mm256_storeu_ps(y[r] + c + 8 * (size_t)v, sums[r][v]);
}

/* The last columns, fewer than eight. */
QN_INLINE void last_columns(float *y, size_t c, size_t cols, const uint8_t *w, size_t row_bytes, const float *x,
                            size_t count, const qn_dtype dtype)
{
    const size_t bytes = dtype == QN_DTYPE_F32 ? 4 : 2;
    const __m256i mask = qn_tail_mask(cols - c);
    __m256 sums = _mm256_maskload_ps(y + c, mask);
    for (size_t n = 0; n < count; n++) {
        uint8_t rest[32] = {0};
        memcpy(rest, w + n * row_bytes + c * bytes, (cols - c) * bytes);
        sums = _mm256_fmadd_ps(_mm256_broadcast_ss(x + n), qn_load8(dtype, rest), sums);
    }
    _mm256_maskstore_ps(y + c, mask, sums);
}

QN_INLINE void block(float *const *y, size_t cols, const uint8_t *w, const float (*x)[BLOCK_ROWS], size_t rows,
                     size_t count, const qn_dtype dtype)
{
    const size_t row_bytes = cols * (dtype == QN_DTYPE_F32 ? 4 : 2);
    size_t r = 0;
    for (; r + TILE <= rows; r += TILE)
        for (size_t c = 0; c + NARROW <= cols; c += NARROW)
            columns(y + r, c, w, row_bytes, x + r, count, dtype, TILE, NARROW / 8);
    for (; r < rows; r++) {
        size_t c = 0;
        for (; c + WIDE <= cols; c += WIDE)
            columns(y + r, c, w, row_bytes, x + r, count, dtype, 1, WIDE / 8);
        for (; c + NARROW <= cols; c += NARROW)
            columns(y + r, c, w, row_bytes, x + r, count, dtype, 1, NARROW / 8);
    }
    for (r = 0; r < rows; r++) {
        size_t c = cols / NARROW * NARROW;
        if (c + 8 <= cols) {
            columns(y + r, c, w, row_bytes, x + r, count, dtype, 1, 1);
            c += 8;
        }
        if (c < cols)
            last_columns(y[r], c, cols, w, row_bytes, x[r], count, dtype);
    }
}

static void round_block(float (*out)[BLOCK_ROWS], const float *const *x, size_t rows, size_t at, size_t count)
{
    for (size_t r = 0; r < rows; r++) {
        memset(out[r], 0, sizeof out[r]);
        memcpy(out[r], x[r] + at, count * sizeof(float));
        for (size_t i = 0; i < count; i += 8)
            _mm256_storeu_ps(out[r] + i, qn_round_bf16(_mm256_loadu_ps(out[r] + i)));
    }
}

/* Weight rows [first, first + count) of packed BF16, at most UNPACKED_ROWS. */
static void packed_block(float *const *y, const qn_matrix *w, size_t first, const float (*x)[BLOCK_ROWS], size_t rows,
                         size_t count)
{
    uint16_t values[UNPACKED_ROWS * UNPACKED_COLS + QN_GROUP]; /* the last row may be filled up to a whole group */
    for (size_t c = 0; c < w->cols; c += UNPACKED_COLS) {
        const size_t cols = qn_min_size(UNPACKED_COLS, w->cols - c);
        float *piece[QN_MATMUL_MAX_ROWS];
        for (size_t r = 0; r < rows; r++)
            piece[r] = y[r] + c;
        for (size_t n = 0; n < count; n++)
            qn_avx2_packed_to_bf16(w, first + n, c, cols, values + n * cols);
        block(piece, cols, (const uint8_t *)values, x, rows, count, QN_DTYPE_BF16);
    }
}

void qn_avx2_matmul_transposed(const qn_matrix *w, size_t first, size_t last, const float *const *x, size_t rows,
                               float *const *y)
{
    float rounded[QN_MATMUL_MAX_ROWS][BLOCK_ROWS];
    const size_t row_bytes = w->cols * (w->dtype == QN_DTYPE_F32 ? 4 : 2);
    const size_t step = w->dtype == QN_DTYPE_PACKED_BF16 ? UNPACKED_ROWS : BLOCK_ROWS;
    for (size_t r = 0; r < rows; r++)
        memset(y[r], 0, w->cols * sizeof(float));
    for (size_t n = first; n < last; n += step) {
        size_t count = qn_min_size(step, last - n);
        const uint8_t *data = w->data + n * row_bytes;
        round_block(rounded, x, rows, n - first, count);
        const float(*xs)[BLOCK_ROWS] = (const float(*)[BLOCK_ROWS])rounded;
        if (w->dtype == QN_DTYPE_PACKED_BF16)
            packed_block(y, w, n, xs, rows, count);
        else if (w->dtype == QN_DTYPE_F32)
            block(y, w->cols, data, xs, rows, count, QN_DTYPE_F32);
        else if (w->dtype == QN_DTYPE_F16)
            block(y, w->cols, data, xs, rows, count, QN_DTYPE_F16);
        else
            block(y, w->cols, data, xs, rows, count, QN_DTYPE_BF16);
    }
}
