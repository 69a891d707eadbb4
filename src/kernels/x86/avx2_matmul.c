/* Matrix products of BF16, packed BF16 and MXFP4 weights with packed activations.
 *
 * Few rows (decode): each weight row is unpacked in registers, met by every row of activations at once, and read once
 * from memory in one linear stream, prefetched. More rows (prompts): blocks of sixteen weight rows are unpacked to
 * float32 in the L1 cache and meet all rows of activations in register tiles. Both do the same operations on the lanes
 * of a sum. */
#include "kernels/x86/avx2_tile.h"
#include "kernels/x86/avx2_weights.h"

enum {
    FEW_ROWS = 2,          /* up to here weights are unpacked in registers */
    CHUNK_ROWS = 16,       /* weight rows that share a pass over the activations */
    BLOCK_GROUPS = 2,      /* groups of a block: 16 rows of 256 float32 are 16 KiB */
    PADDING = 16,          /* floats between rows of a block, so that they fall into different cache sets */
    PREFETCH_BF16 = 1024,  /* bytes ahead in the stream of weights */
    PREFETCH_PACKED = 4096 /* of MXFP4 and packed BF16 */
};

/* One group of one weight row times R rows of activations, sums[r] the two registers of row r. */
QN_INLINE void add_group(__m256 sums[][2], qn_dtype dtype, const uint8_t *data, const uint8_t *scales, __m256i window,
                         const float *const *x, size_t at, const int R)
{
    __m256 spread[2];
    if (dtype == QN_DTYPE_MXFP4)
        qn_spread_scales(scales, spread);
    for (int half = 0; half < 2; half++) {
        __m256 w[8];
        qn_unpack_half(dtype, data, half, window, w);
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

/* One weight row times R rows of activations. A group with exceptions is unpacked to BF16 in memory. */
QN_INLINE void dot_row(const qn_matrix *w, size_t n, const float *const *x, float *const *y, size_t at_y,
                       const qn_dtype dtype, const int R)
{
    const size_t group_bytes = 2 * qn_half_bytes(dtype);
    const size_t ahead = dtype == QN_DTYPE_BF16 ? PREFETCH_BF16 : PREFETCH_PACKED;
    const int packed = dtype == QN_DTYPE_PACKED_BF16;
    const size_t full = packed ? qn_round_up(w->cols) : w->cols / QN_GROUP * QN_GROUP;
    const uint8_t *data = w->data + n * (packed ? full / QN_GROUP * group_bytes : w->cols * group_bytes / QN_GROUP);
    const uint8_t *scales = dtype == QN_DTYPE_MXFP4 ? w->scales + n * (w->cols / QN_MXFP4_BLOCK) : NULL;
    const __m256i window = qn_window_words(packed ? w->sides[n].window : 0);
    qn_exception_walk exceptions = {.at = (size_t)QN_NO_GROUP};
    if (packed)
        exceptions = qn_exceptions_of(&w->sides[n]);
    __m256 sums[FEW_ROWS][2];
    for (int r = 0; r < R; r++)
        sums[r][0] = sums[r][1] = _mm256_setzero_ps();
    for (size_t at = 0; at < full; at += QN_GROUP) {
        for (size_t line = 0; line < group_bytes; line += 64)
            _mm_prefetch((const char *)data + ahead + line, _MM_HINT_T0);
        if (packed && at == exceptions.at) {
            uint16_t group[QN_GROUP];
            qn_unpack_group(group, data, window);
            qn_exceptions_put(&exceptions, group);
            add_group(sums, QN_DTYPE_BF16, (const uint8_t *)group, NULL, window, x, at, R);
        } else {
            add_group(sums, dtype, data, scales, window, x, at, R);
        }
        data += group_bytes;
        if (dtype == QN_DTYPE_MXFP4)
            scales += QN_GROUP / QN_MXFP4_BLOCK;
    }
    if (full < w->cols) {
        qn_last_group last;
        qn_copy_last_group(&last, dtype, data, scales, w->cols - full);
        add_group(sums, dtype, last.data, last.scales, window, x, full, R);
    }
    for (int r = 0; r < R; r++)
        y[r][at_y] = qn_reduce16(sums[r][0], sums[r][1]);
}

QN_INLINE void few_rows(const qn_matrix *w, size_t first, size_t last, const float *const *x, size_t rows,
                        float *const *y, const qn_dtype dtype)
{
    for (size_t n = first; n < last; n++)
        if (rows == 1)
            dot_row(w, n, x, y, n - first, dtype, 1);
        else
            dot_row(w, n, x, y, n - first, dtype, 2);
}

enum { PANEL_STRIDE = BLOCK_GROUPS * QN_GROUP + PADDING };

/* A block of weight rows, unpacked. */
typedef struct panel {
    _Alignas(64) float values[CHUNK_ROWS][PANEL_STRIDE];
    _Alignas(64) float scales[CHUNK_ROWS][BLOCK_GROUPS * QN_LANES]; /* MXFP4 only */
} panel;

QN_INLINE void unpack_group(float *values, float *spread, const uint8_t *data, const uint8_t *scales,
                            const qn_dtype dtype)
{
    __m256 w[8], s[2];
    for (int half = 0; half < 2; half++) {
        qn_unpack_half(dtype, data, half, _mm256_setzero_si256(), w);
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

/* The same of packed BF16, by way of BF16. */
QN_INLINE void unpack_packed_row(panel *p, size_t r, const qn_matrix *w, size_t n, size_t at, size_t groups)
{
    uint16_t values[BLOCK_GROUPS * QN_GROUP];
    qn_avx2_packed_to_bf16(w, n, at, groups * QN_GROUP, values);
    const qn_matrix row = {
        .dtype = QN_DTYPE_BF16, .rows = 1, .cols = groups * QN_GROUP, .data = (const uint8_t *)values};
    unpack_row(p, r, &row, 0, 0, groups, QN_DTYPE_BF16);
}

/* A block of a row, from element `at` on, that is wanted soon: many short streams are more than the processor sees
 * coming. */
QN_INLINE void prefetch_row(const qn_matrix *w, size_t n, size_t at, const qn_dtype dtype)
{
    const size_t cols = dtype == QN_DTYPE_PACKED_BF16 ? qn_round_up(w->cols) : w->cols, element = n * cols + at;
    const char *data = (const char *)w->data + element * qn_half_bytes(dtype) / QN_HALF;
    for (size_t line = 0; line < BLOCK_GROUPS * 2 * qn_half_bytes(dtype); line += 64)
        _mm_prefetch(data + line, _MM_HINT_T0);
    if (dtype == QN_DTYPE_MXFP4)
        _mm_prefetch((const char *)w->scales + element / QN_MXFP4_BLOCK, _MM_HINT_T0);
}

/* Up to CHUNK_ROWS weight rows; the lanes of all sums stay in memory while the blocks of K go by. */
QN_INLINE void many_rows_chunk(const qn_matrix *w, size_t first, size_t count, const float *const *x, size_t rows,
                               float *const *y, size_t at_y, const qn_dtype dtype)
{
    _Alignas(64) float lanes[QN_MATMUL_MAX_ROWS * CHUNK_ROWS * QN_LANES];
    panel p;
    const qn_sums sums = {.lanes = lanes, .weight_stride = QN_LANES, .row_stride = CHUNK_ROWS * QN_LANES};
    const qn_tile_weights weights = {
        .values = p.values[0], .scales = p.scales[0], .stride = PANEL_STRIDE, .scales_stride = BLOCK_GROUPS * QN_LANES};
    const size_t groups = (w->cols + QN_GROUP - 1) / QN_GROUP;
    memset(lanes, 0, rows * sums.row_stride * sizeof(float));
    for (size_t g = 0; g < groups; g += BLOCK_GROUPS) {
        size_t block = qn_min_size(BLOCK_GROUPS, groups - g);
        const float *xs[QN_MATMUL_MAX_ROWS];
        for (size_t r = 0; r < rows; r++)
            xs[r] = x[r] + g * QN_GROUP;
        for (size_t n = 0; n < count; n++) {
            if (dtype == QN_DTYPE_PACKED_BF16)
                unpack_packed_row(&p, n, w, first + n, g * QN_GROUP, block);
            else
                unpack_row(&p, n, w, first + n, g * QN_GROUP, block, dtype);
            prefetch_row(w, first + n, g * QN_GROUP + BLOCK_GROUPS * QN_GROUP, dtype);
        }
        qn_multiply_block(sums, weights, count, xs, rows, block, dtype == QN_DTYPE_MXFP4);
    }
    for (size_t r = 0; r < rows; r++)
        qn_reduce_sums(y[r] + at_y, lanes + r * sums.row_stride, sums.weight_stride, count);
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
    else if (w->dtype == QN_DTYPE_PACKED_BF16)
        matmul(w, first, last, xs, rows, y, QN_DTYPE_PACKED_BF16);
    else if (w->dtype == QN_DTYPE_MXFP4)
        matmul(w, first, last, xs, rows, y, QN_DTYPE_MXFP4);
    else
        qn_avx2_matmul_f32(w, first, last, xs, rows, y);
}
