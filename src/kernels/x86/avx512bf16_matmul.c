/* Matrix products of BF16 and MXFP4 weights with packed activations.
 *
 * Few rows (decode): each weight row is read once, in one linear stream, its codes turned into BF16 in registers and
 * met by every row of activations at once. More rows (prompts): blocks of four weight rows are copied, or unpacked, to
 * BF16 in the L1 cache and meet the activations in register tiles. Both do the same operations on the lanes of a sum.
 */
#include "kernels/x86/avx512bf16_lanes.h"

enum {
    FEW_ROWS = 4,           /* up to here weights are unpacked in registers */
    TILE_ROWS = 4,          /* weight rows of a register tile */
    CHUNK_ROWS = 16,        /* weight rows that share a pass over the activations */
    BLOCK_GROUPS = 12,      /* groups of a block: 4 rows of 1,536 BF16 are 12 KiB */
    UNROLL = 4,             /* groups between prefetches */
    PREFETCH_BYTES = 8192,  /* ahead in the codes of MXFP4; the processor itself looks ahead for BF16 */
    PREFETCH_SCALES = 1024, /* ahead in the scales */
    PADDING = 64            /* bytes between rows of a block, so that they fall into different cache sets */
};

QN_INLINE size_t group_bytes(const qn_dtype dtype)
{
    return dtype == QN_DTYPE_MXFP4 ? QN_GROUP / 2 : QN_GROUP_BYTES;
}

/* A group's weights as BF16; MXFP4 values are doubled and not yet scaled. */
QN_INLINE void unpack_group(__m512i out[QN_VECTORS], const uint8_t *data, const qn_dtype dtype)
{
    if (dtype == QN_DTYPE_BF16) {
        for (int j = 0; j < QN_VECTORS; j++)
            out[j] = qn_load32(data + 64 * j);
        return;
    }
    static const uint16_t doubled_e2m1[32] = {0x0000, 0x3F80, 0x4000, 0x4040, 0x4080, 0x40C0, 0x4100, 0x4140,
                                              0x8000, 0xBF80, 0xC000, 0xC040, 0xC080, 0xC0C0, 0xC100, 0xC140,
                                              0x0000, 0x3F80, 0x4000, 0x4040, 0x4080, 0x40C0, 0x4100, 0x4140,
                                              0x8000, 0xBF80, 0xC000, 0xC040, 0xC080, 0xC0C0, 0xC100, 0xC140};
    const __m512i table = qn_load32((const uint8_t *)doubled_e2m1);
    const __m512i codes = qn_load32(data);
    out[0] = _mm512_permutexvar_epi16(codes, table);
    out[1] = _mm512_permutexvar_epi16(_mm512_srli_epi16(codes, 4), table);
    out[2] = _mm512_permutexvar_epi16(_mm512_srli_epi16(codes, 8), table);
    out[3] = _mm512_permutexvar_epi16(_mm512_srli_epi16(codes, 12), table);
}

/* The four scales of a group spread over the 16 lanes, halved to make up for the doubled values. A scale byte in the
 * place of the exponent is the float 2^(s - 127). The saturated s - 1 turns the bytes 0 and 1, whose blocks count as
 * zero, into 0.0 and halves all others. */
QN_INLINE __m512 spread_scales(const uint8_t *p)
{
    int bytes;
    memcpy(&bytes, p, sizeof bytes);
    const __m512i places = _mm512_set_epi32(0x03808080, 0x03808080, 0x03808080, 0x03808080, 0x02808080, 0x02808080,
                                            0x02808080, 0x02808080, 0x01808080, 0x01808080, 0x01808080, 0x01808080,
                                            0x00808080, 0x00808080, 0x00808080, 0x00808080);
    __m512i scales = _mm512_subs_epu8(_mm512_set1_epi32(bytes), _mm512_set1_epi8(1));
    return _mm512_castsi512_ps(_mm512_srli_epi32(_mm512_shuffle_epi8(scales, places), 1));
}

/* The short last group of a row, filled with zeros. */
typedef struct last_group {
    uint8_t data[QN_GROUP_BYTES];
    uint8_t scales[QN_GROUP / QN_MXFP4_BLOCK];
} last_group;

QN_INLINE void copy_last_group(last_group *group, const uint8_t *data, const uint8_t *scales, size_t count,
                               const qn_dtype dtype)
{
    memset(group, 0, sizeof *group);
    memcpy(group->data, data, count * group_bytes(dtype) / QN_GROUP);
    if (dtype == QN_DTYPE_MXFP4)
        memcpy(group->scales, scales, count / QN_MXFP4_BLOCK);
}

/* One group of one weight row times R rows of activations. */
QN_INLINE void add_group(__m512 sums[FEW_ROWS], const uint8_t *data, const uint8_t *scales, const uint8_t *const *x,
                         size_t at, const qn_dtype dtype, const int R)
{
    __m512i w[QN_VECTORS];
    unpack_group(w, data, dtype);
    __m512 scale = _mm512_setzero_ps();
    if (dtype == QN_DTYPE_MXFP4)
        scale = spread_scales(scales);
    for (int r = 0; r < R; r++) {
        __m512 fresh = _mm512_setzero_ps();
        for (int j = 0; j < QN_VECTORS; j++)
            fresh = qn_dot_bf16(fresh, w[j], qn_load32(x[r] + at * 2 + 64 * (size_t)j));
        sums[r] = dtype == QN_DTYPE_MXFP4 ? _mm512_fmadd_ps(fresh, scale, sums[r]) : _mm512_add_ps(sums[r], fresh);
    }
}

/* One weight row times R rows of activations. */
QN_INLINE void dot_row(const qn_matrix *w, size_t n, const uint8_t *const *x, float *const *y, size_t at_y,
                       const qn_dtype dtype, const int R)
{
    const size_t bytes = group_bytes(dtype), blocks = dtype == QN_DTYPE_MXFP4 ? QN_GROUP / QN_MXFP4_BLOCK : 0;
    const size_t full = w->cols / QN_GROUP * QN_GROUP;
    const uint8_t *data = w->data + n * (w->cols * bytes / QN_GROUP);
    const uint8_t *scales = dtype == QN_DTYPE_MXFP4 ? w->scales + n * (w->cols / QN_MXFP4_BLOCK) : w->data;
    __m512 sums[FEW_ROWS];
    for (int r = 0; r < R; r++)
        sums[r] = _mm512_setzero_ps();
    size_t at = 0;
    for (; at + UNROLL * QN_GROUP <= full; at += UNROLL * QN_GROUP) {
        if (dtype == QN_DTYPE_MXFP4)
            _mm_prefetch((const char *)scales + PREFETCH_SCALES, _MM_HINT_T0);
        for (size_t g = 0; g < UNROLL; g++) {
            if (dtype == QN_DTYPE_MXFP4)
                _mm_prefetch((const char *)data + PREFETCH_BYTES, _MM_HINT_T1);
            add_group(sums, data, scales, x, at + g * QN_GROUP, dtype, R);
            data += bytes;
            scales += blocks;
        }
    }
    for (; at < full; at += QN_GROUP) {
        add_group(sums, data, scales, x, at, dtype, R);
        data += bytes;
        scales += blocks;
    }
    if (full < w->cols) {
        last_group last;
        copy_last_group(&last, data, scales, w->cols - full, dtype);
        add_group(sums, last.data, last.scales, x, full, dtype, R);
    }
    for (int r = 0; r < R; r++)
        y[r][at_y] = qn_reduce_lanes(sums[r]);
}

QN_INLINE void few_rows(const qn_matrix *w, size_t first, size_t last, const uint8_t *const *x, size_t rows,
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

enum { PANEL_STRIDE = BLOCK_GROUPS * QN_GROUP_BYTES + PADDING };

/* A block of up to four weight rows as BF16. */
typedef struct panel {
    _Alignas(64) uint8_t values[TILE_ROWS][PANEL_STRIDE];
    _Alignas(64) float scales[TILE_ROWS][BLOCK_GROUPS * QN_LANES]; /* MXFP4 only */
} panel;

/* Groups from element `at` on of row n into row r of the panel; beyond the end of the row they are zero. */
QN_INLINE void unpack_row(panel *p, size_t r, const qn_matrix *w, size_t n, size_t at, size_t groups,
                          const qn_dtype dtype)
{
    const size_t bytes = group_bytes(dtype);
    size_t element = n * w->cols + at;
    for (size_t g = 0; g < groups; g++, element += QN_GROUP) {
        const uint8_t *data = w->data + element * bytes / QN_GROUP;
        const uint8_t *scales = dtype == QN_DTYPE_MXFP4 ? w->scales + element / QN_MXFP4_BLOCK : NULL;
        size_t left = w->cols - at - g * QN_GROUP;
        last_group last;
        if (left < QN_GROUP) {
            copy_last_group(&last, data, scales, left, dtype);
            data = last.data;
            scales = last.scales;
        }
        __m512i values[QN_VECTORS];
        unpack_group(values, data, dtype);
        for (int j = 0; j < QN_VECTORS; j++)
            _mm512_storeu_si512((void *)(p->values[r] + g * QN_GROUP_BYTES + 64 * (size_t)j), values[j]);
        if (dtype == QN_DTYPE_MXFP4)
            _mm512_storeu_ps(p->scales[r] + g * QN_LANES, spread_scales(scales));
    }
}

/* Up to CHUNK_ROWS weight rows; the lanes of all sums stay in memory while the blocks of K go by. */
QN_INLINE void many_rows_chunk(const qn_matrix *w, size_t first, size_t count, const uint8_t *const *x, size_t rows,
                               float *const *y, size_t at_y, const qn_dtype dtype)
{
    _Alignas(64) float sums[CHUNK_ROWS * QN_SUMS_STRIDE];
    panel p;
    const int scaled = dtype == QN_DTYPE_MXFP4;
    const size_t groups = (w->cols + QN_GROUP - 1) / QN_GROUP, scales_stride = BLOCK_GROUPS * QN_LANES;
    memset(sums, 0, count * QN_SUMS_STRIDE * sizeof(float));
    for (size_t g = 0; g < groups; g += BLOCK_GROUPS) {
        size_t block = qn_min_size(BLOCK_GROUPS, groups - g);
        const uint8_t *xs[QN_MATMUL_MAX_ROWS];
        for (size_t r = 0; r < rows; r++)
            xs[r] = x[r] + g * QN_GROUP_BYTES;
        for (size_t n = 0; n < count; n += TILE_ROWS) {
            size_t tile = qn_min_size(TILE_ROWS, count - n);
            float *tile_sums = sums + n * QN_SUMS_STRIDE;
            for (size_t r = 0; r < tile; r++)
                unpack_row(&p, r, w, first + n + r, g * QN_GROUP, block, dtype);
            if (tile == TILE_ROWS)
                qn_tile_rows_bf16(tile_sums, p.values[0], PANEL_STRIDE, p.scales[0], scales_stride, xs, rows, block, 4,
                                  scaled);
            else
                for (size_t r = 0; r < tile; r++)
                    qn_tile_rows_bf16(tile_sums + r * QN_SUMS_STRIDE, p.values[r], PANEL_STRIDE, p.scales[r],
                                      scales_stride, xs, rows, block, 1, scaled);
        }
    }
    for (size_t n = 0; n < count; n++)
        for (size_t r = 0; r < rows; r++)
            y[r][at_y + n] = qn_reduce_lanes(_mm512_loadu_ps(sums + n * QN_SUMS_STRIDE + r * QN_LANES));
}

QN_INLINE void matmul(const qn_matrix *w, size_t first, size_t last, const uint8_t *const *x, size_t rows,
                      float *const *y, const qn_dtype dtype)
{
    if (rows <= FEW_ROWS) {
        few_rows(w, first, last, x, rows, y, dtype);
        return;
    }
    for (size_t n = first; n < last; n += CHUNK_ROWS)
        many_rows_chunk(w, n, qn_min_size(CHUNK_ROWS, last - n), x, rows, y, n - first, dtype);
}

void qn_avx512bf16_matmul(const qn_matrix *w, size_t first, size_t last, const void *const *x, size_t rows,
                          float *const *y)
{
    if (w->dtype == QN_DTYPE_PACKED_BF16) {
        qn_avx512bf16_packed_matmul(w, first, last, x, rows, y);
        return;
    }
    if (w->dtype != QN_DTYPE_BF16 && w->dtype != QN_DTYPE_MXFP4) {
        qn_avx2_matmul(w, first, last, x, rows, y);
        return;
    }
    const uint8_t *xs[QN_MATMUL_MAX_ROWS];
    for (size_t r = 0; r < rows; r++)
        xs[r] = x[r];
    if (w->dtype == QN_DTYPE_BF16)
        matmul(w, first, last, xs, rows, y, QN_DTYPE_BF16);
    else
        matmul(w, first, last, xs, rows, y, QN_DTYPE_MXFP4);
}
