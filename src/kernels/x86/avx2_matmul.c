/* Matrix products of BF16 and MXFP4 weights with packed activations.
 *
 * Few rows (decode): each weight row is unpacked in registers, met by every row of activations at once, and read once
 * from memory in one linear stream, prefetched. More rows (prompts): blocks of weights are unpacked to float32 in the
 * L1 cache and meet the activations in register tiles. Both do the same operations on the lanes of a sum. */
#include "kernels/x86/avx2_weights.h"

enum {
    FEW_ROWS = 4,         /* up to here weights are unpacked in registers */
    TILE_ROWS = 4,        /* weight rows of a register tile */
    CHUNK_ROWS = 16,      /* weight rows that share a pass over the activations */
    BLOCK_GROUPS = 8,     /* groups of a block: 4 rows of 1,024 float32 are 16 KiB */
    PREFETCH_BF16 = 1024, /* bytes ahead in the stream of weights */
    PREFETCH_MXFP4 = 4096
};

/* One group of one weight row times R rows of activations, sums[r] the two registers of row r. */
QN_INLINE void add_group(__m256 sums[][2], qn_dtype dtype, const uint8_t *data, const uint8_t *scales,
                         const float *const *x, size_t at, const int R)
{
    __m256 spread[2];
    if (dtype == QN_DTYPE_MXFP4)
        qn_spread_scales(scales, spread);
    for (int half = 0; half < 2; half++) {
        __m256 w[8];
        qn_unpack_half(dtype, data + (size_t)half * qn_half_bytes(dtype), w);
        for (int r = 0; r < R; r++) {
            const float *xs = x[r] + at + half * QN_HALF;
            __m256 fresh = _mm256_mul_ps(w[0], _mm256_load_ps(xs));
            for (int j = 1; j < 8; j++)
                fresh = _mm256_fmadd_ps(w[j], _mm256_load_ps(xs + 8 * j), fresh);
            sums[r][half] = dtype == QN_DTYPE_MXFP4 ? _mm256_fmadd_ps(fresh, spread[half], sums[r][half])
                                                    : _mm256_add_ps(sums[r][half], fresh);
        }
    }
}

/* One weight row times R rows of activations. */
QN_INLINE void dot_row(const qn_matrix *w, size_t n, const float *const *x, float *const *y, size_t at_y,
                       const qn_dtype dtype, const int R)
{
    const size_t group_bytes = 2 * qn_half_bytes(dtype);
    const size_t ahead = dtype == QN_DTYPE_MXFP4 ? PREFETCH_MXFP4 : PREFETCH_BF16;
    const size_t full = w->cols / QN_GROUP * QN_GROUP;
    const uint8_t *data = w->data + n * (w->cols * qn_half_bytes(dtype) / QN_HALF);
    const uint8_t *scales = dtype == QN_DTYPE_MXFP4 ? w->scales + n * (w->cols / QN_MXFP4_BLOCK) : NULL;
    __m256 sums[FEW_ROWS][2];
    for (int r = 0; r < R; r++)
        sums[r][0] = sums[r][1] = _mm256_setzero_ps();
    for (size_t at = 0; at < full; at += QN_GROUP) {
        for (size_t line = 0; line < group_bytes; line += 64)
            _mm_prefetch((const char *)data + ahead + line, _MM_HINT_T0);
        add_group(sums, dtype, data, scales, x, at, R);
        data += group_bytes;
        if (dtype == QN_DTYPE_MXFP4)
            scales += QN_GROUP / QN_MXFP4_BLOCK;
    }
    if (full < w->cols) {
        qn_last_group last;
        qn_copy_last_group(&last, dtype, data, scales, w->cols - full);
        add_group(sums, dtype, last.data, last.scales, x, full, R);
    }
    for (int r = 0; r < R; r++)
        y[r][at_y] = qn_reduce16(sums[r][0], sums[r][1]);
}

QN_INLINE void few_rows(const qn_matrix *w, size_t first, size_t last, const float *const *x, size_t rows,
                        float *const *y, const qn_dtype dtype)
{
    for (size_t n = first; n < last; n++)
        switch (rows) {
        case 1:
            dot_row(w, n, x, y, n - first, dtype, 1);
            break;
        case 2:
            dot_row(w, n, x, y, n - first, dtype, 2);
            break;
        case 3:
            dot_row(w, n, x, y, n - first, dtype, 3);
            break;
        default:
            dot_row(w, n, x, y, n - first, dtype, 4);
            break;
        }
}

/* A block of up to four weight rows, unpacked. */
typedef struct panel {
    _Alignas(64) float values[TILE_ROWS][BLOCK_GROUPS * QN_GROUP];
    _Alignas(64) float scales[TILE_ROWS][BLOCK_GROUPS * QN_LANES]; /* MXFP4 only */
} panel;

QN_INLINE void unpack_group(float *values, float *spread, const uint8_t *data, const uint8_t *scales,
                            const qn_dtype dtype)
{
    __m256 w[8], s[2];
    for (int half = 0; half < 2; half++) {
        qn_unpack_half(dtype, data + (size_t)half * qn_half_bytes(dtype), w);
        for (int j = 0; j < 8; j++)
            _mm256_store_ps(values + half * QN_HALF + 8 * j, w[j]);
    }
    if (dtype != QN_DTYPE_MXFP4)
        return;
    qn_spread_scales(scales, s);
    _mm256_store_ps(spread, s[0]);
    _mm256_store_ps(spread + 8, s[1]);
}

/* Groups from element `at` on of row n into row r of the panel; beyond the end of the row they are zero. */
QN_INLINE void unpack_row(panel *p, size_t r, const qn_matrix *w, size_t n, size_t at, size_t groups,
                          const qn_dtype dtype)
{
    size_t element = n * w->cols + at;
    for (size_t g = 0; g < groups; g++, element += QN_GROUP) {
        const uint8_t *data = w->data + element * qn_half_bytes(dtype) / QN_HALF;
        const uint8_t *scales = dtype == QN_DTYPE_MXFP4 ? w->scales + element / QN_MXFP4_BLOCK : NULL;
        size_t left = w->cols - at - g * QN_GROUP;
        qn_last_group last;
        if (left < QN_GROUP) {
            qn_copy_last_group(&last, dtype, data, scales, left);
            data = last.data;
            scales = last.scales;
        }
        unpack_group(p->values[r] + g * QN_GROUP, p->scales[r] + g * QN_LANES, data, scales, dtype);
    }
}

/* Up to CHUNK_ROWS weight rows; the lanes of all sums stay in memory while the blocks of K go by. */
QN_INLINE void many_rows_chunk(const qn_matrix *w, size_t first, size_t count, const float *const *x, size_t rows,
                               float *const *y, size_t at_y, const qn_dtype dtype)
{
    _Alignas(64) float sums[CHUNK_ROWS * QN_SUMS_STRIDE];
    panel p;
    const int scaled = dtype == QN_DTYPE_MXFP4;
    const size_t groups = (w->cols + QN_GROUP - 1) / QN_GROUP;
    memset(sums, 0, count * QN_SUMS_STRIDE * sizeof(float));
    for (size_t g = 0; g < groups; g += BLOCK_GROUPS) {
        size_t block = qn_min_size(BLOCK_GROUPS, groups - g);
        const float *xs[QN_MATMUL_MAX_ROWS];
        for (size_t r = 0; r < rows; r++)
            xs[r] = x[r] + g * QN_GROUP;
        for (size_t n = 0; n < count; n += TILE_ROWS) {
            size_t tile = qn_min_size(TILE_ROWS, count - n);
            float *tile_sums = sums + n * QN_SUMS_STRIDE;
            for (size_t r = 0; r < tile; r++)
                unpack_row(&p, r, w, first + n + r, g * QN_GROUP, block, dtype);
            if (tile == TILE_ROWS)
                qn_tile_rows(tile_sums, p.values[0], p.scales[0], BLOCK_GROUPS * QN_GROUP, xs, rows, block, 4, scaled);
            else
                for (size_t r = 0; r < tile; r++)
                    qn_tile_rows(tile_sums + r * QN_SUMS_STRIDE, p.values[r], p.scales[r], BLOCK_GROUPS * QN_GROUP, xs,
                                 rows, block, 1, scaled);
        }
    }
    for (size_t n = 0; n < count; n++)
        for (size_t r = 0; r < rows; r++) {
            const float *lanes = sums + n * QN_SUMS_STRIDE + r * QN_LANES;
            y[r][at_y + n] = qn_reduce16(_mm256_load_ps(lanes), _mm256_load_ps(lanes + 8));
        }
}

QN_INLINE void matmul(const qn_matrix *w, size_t first, size_t last, const float *const *x, size_t rows,
                      float *const *y, const qn_dtype dtype)
{
    if (rows <= FEW_ROWS) {
        few_rows(w, first, last, x, rows, y, dtype);
        return;
    }
    for (size_t n = first; n < last; n += CHUNK_ROWS)
        many_rows_chunk(w, n, qn_min_size(CHUNK_ROWS, last - n), x, rows, y, n - first, dtype);
}

void qn_avx2_matmul(const qn_matrix *w, size_t first, size_t last, const void *const *x, size_t rows, float *const *y)
{
    const float *xs[QN_MATMUL_MAX_ROWS];
    for (size_t r = 0; r < rows; r++)
        xs[r] = x[r];
    if (w->dtype == QN_DTYPE_BF16)
        matmul(w, first, last, xs, rows, y, QN_DTYPE_BF16);
    else if (w->dtype == QN_DTYPE_MXFP4)
        matmul(w, first, last, xs, rows, y, QN_DTYPE_MXFP4);
    else
        qn_avx2_matmul_f32(w, first, last, xs, rows, y);
}
