/* Products with activations that are not rounded (the router and the indexer's head weights, small matrices both), and
 * of F32 and F16 weights.
 *
 * Weights are widened in their natural order (vector j of a group: elements 8j ..), four rows at a time, so that the
 * activations are used where they lie. MXFP4, which is not expected here, is widened by the reference. */
#include "kernels/ref/ref.h"
#include "kernels/x86/avx2_tile.h"

enum { TILE_ROWS = 4, BLOCK_GROUPS = 8, BLOCK = BLOCK_GROUPS * QN_GROUP };

QN_INLINE void widen_values(float *out, const uint8_t *data, size_t count, const qn_dtype dtype)
{
    const size_t bytes = dtype == QN_DTYPE_F32 ? 4 : 2;
    size_t i = 0;
    for (; i + 8 <= count; i += 8)
        _mm256_storeu_ps(out + i, qn_load8(dtype, data + i * bytes));
    if (i < count) {
        uint8_t rest[32] = {0};
        memcpy(rest, data + i * bytes, (count - i) * bytes);
        _mm256_storeu_ps(out + i, qn_load8(dtype, rest));
    }
}

/* Elements [at, at + count) of row n; out has room for count rounded up to eight. */
static void widen(float *out, const qn_matrix *w, size_t n, size_t at, size_t count)
{
    size_t element = n * w->cols + at;
    switch (w->dtype) {
    case QN_DTYPE_F32:
        widen_values(out, w->data + element * 4, count, QN_DTYPE_F32);
        break;
    case QN_DTYPE_F16:
        widen_values(out, w->data + element * 2, count, QN_DTYPE_F16);
        break;
    case QN_DTYPE_BF16:
        widen_values(out, w->data + element * 2, count, QN_DTYPE_BF16);
        break;
    case QN_DTYPE_PACKED_BF16: {
        uint16_t values[BLOCK];
        qn_avx2_packed_to_bf16(w, n, at, count, values);
        widen_values(out, (const uint8_t *)values, count, QN_DTYPE_BF16);
        break;
    }
    default:
        qn_ref_widen(out, w, n, at, count);
        break;
    }
}

/* The activations of one block: where they lie if all of it is there, else copied and filled with zeros. */
static void gather_block(const float **xs, float (*copies)[QN_GROUP], const float *const *x, size_t rows, size_t at,
                         size_t count)
{
    for (size_t r = 0; r < rows; r++) {
        xs[r] = x[r] + at;
        if (count % QN_GROUP == 0)
            continue;
        memset(copies[r], 0, sizeof copies[r]);
        memcpy(copies[r], xs[r], count * sizeof(float));
        xs[r] = copies[r];
    }
}

static void tile_rows(const qn_matrix *w, size_t first, size_t count, const float *const *x, size_t rows,
                      float *const *y, size_t at_y)
{
    _Alignas(64) float lanes[QN_MATMUL_MAX_ROWS * TILE_ROWS * QN_LANES];
    _Alignas(64) float panel[TILE_ROWS][BLOCK];
    float copies[QN_MATMUL_MAX_ROWS][QN_GROUP];
    const float *xs[QN_MATMUL_MAX_ROWS];
    const qn_sums sums = {.lanes = lanes, .weight_stride = QN_LANES, .row_stride = TILE_ROWS * QN_LANES};
    const qn_tile_weights weights = {.values = panel[0], .stride = BLOCK};
    memset(lanes, 0, rows * sums.row_stride * sizeof(float));
    memset(panel, 0, sizeof panel);
    const size_t full = w->cols / QN_GROUP * QN_GROUP;
    for (size_t at = 0; at < w->cols;) {
        /* whole groups first, the short one alone */
        size_t block = at < full ? qn_min_size(BLOCK, full - at) : w->cols - at;
        for (size_t r = 0; r < count; r++) {
            if (at >= full)
                memset(panel[r], 0, QN_GROUP * sizeof(float));
            widen(panel[r], w, first + r, at, block);
        }
        gather_block(xs, copies, x, rows, at, block);
        qn_multiply_block(sums, weights, TILE_ROWS, xs, rows, (block + QN_GROUP - 1) / QN_GROUP, 0);
        at += block;
    }
    for (size_t r = 0; r < rows; r++)
        qn_reduce_sums(y[r] + at_y, lanes + r * sums.row_stride, sums.weight_stride, count);
}

void qn_avx2_matmul_f32(const qn_matrix *w, size_t first, size_t last, const float *const *x, size_t rows,
                        float *const *y)
{
    for (size_t n = first; n < last; n += TILE_ROWS)
        tile_rows(w, n, qn_min_size(TILE_ROWS, last - n), x, rows, y, n - first);
}
