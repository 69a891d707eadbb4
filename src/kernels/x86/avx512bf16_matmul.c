/* Matrix products of BF16 and MXFP4 weights with packed activations.
 *
 * Few rows (decode): each weight row is read once, in one linear stream, its codes turned into BF16 in registers and
 * met by every row of activations at once; a single row and MXFP4 weights, where arithmetic is as slow as memory, by
 * FMAs where these are faster. More rows (prompts): avx512bf16_block.h. All do the same operations on the lanes of a
 * sum. */
#include "kernels/x86/avx512bf16_block.h"

enum {
    UNROLL = 8,             /* groups between prefetches of scales */
    PREFETCH_BYTES = 4096,  /* ahead in the weights */
    PREFETCH_SCALES = 1024, /* ahead in the scales */
    PREFETCH_X = 1024,      /* ahead in a single row of activations of more than */
    SHORT_COLS = 8192,      /* columns */
    ABREAST = 4,            /* groups whose chains of FMAs run side by side */
    PREFETCH_FAR = 8192,    /* ahead in the weights of these, into the L2 cache, */
    PREFETCH_NEAR = 1024,   /* and into the L1 cache */
    WIDE_COLS = 8192        /* a row of activations in float32, 32 KiB, stays in the L1 cache */
};

QN_INLINE size_t group_bytes(const qn_dtype dtype)
{
    return dtype == QN_DTYPE_MXFP4 ? QN_GROUP / 2 : QN_GROUP_BYTES;
}

/* Vector j of a group of E2M1 codes as BF16, twice the values. */
QN_INLINE __m512i doubled_values(__m512i codes, const int j)
{
    static const uint16_t doubled_e2m1[32] = {0x0000, 0x3F80, 0x4000, 0x4040, 0x4080, 0x40C0, 0x4100, 0x4140,
                                              0x8000, 0xBF80, 0xC000, 0xC040, 0xC080, 0xC0C0, 0xC100, 0xC140,
                                              0x0000, 0x3F80, 0x4000, 0x4040, 0x4080, 0x40C0, 0x4100, 0x4140,
                                              0x8000, 0xBF80, 0xC000, 0xC040, 0xC080, 0xC0C0, 0xC100, 0xC140};
    const __m512i table = qn_load32((const uint8_t *)doubled_e2m1);
    switch (j) {
    case 0:
        return _mm512_permutexvar_epi16(codes, table);
    case 1:
        return _mm512_permutexvar_epi16(_mm512_srli_epi16(codes, 4), table);
    case 2:
        return _mm512_permutexvar_epi16(_mm512_srli_epi16(codes, 8), table);
    default:
        return _mm512_permutexvar_epi16(_mm512_srli_epi16(codes, 12), table);
    }
}

/* A group's weights as BF16; MXFP4 values are doubled and not yet scaled. */
QN_INLINE void unpack_group(__m512i out[QN_VECTORS], const uint8_t *data, const qn_dtype dtype)
{
    if (dtype == QN_DTYPE_BF16) {
        for (int j = 0; j < QN_VECTORS; j++)
            out[j] = qn_load32(data + 64 * j);
        return;
    }
    const __m512i codes = qn_load32(data);
    for (int j = 0; j < QN_VECTORS; j++)
        out[j] = doubled_values(codes, j);
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
QN_INLINE void add_group(__m512 sums[QN_FEW_ROWS], const uint8_t *data, const uint8_t *scales, const uint8_t *const *x,
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

/* The group that comes PREFETCH_BYTES later. BF16 streams best through the L2 cache: into the L1 cache, which holds few
 * requests at a time, it is a tenth slower on Sapphire Rapids, and a fourth without. */
QN_INLINE void prefetch_group(const uint8_t *data, const qn_dtype dtype)
{
    const char *ahead = (const char *)data + PREFETCH_BYTES;
    if (dtype == QN_DTYPE_MXFP4)
        _mm_prefetch(ahead, _MM_HINT_T0);
    else
        for (size_t line = 0; line < QN_GROUP_BYTES; line += 64)
            _mm_prefetch(ahead + line, _MM_HINT_T1);
}

/* A row of activations of more columns than SHORT_COLS and the weights that come by meanwhile push each other out of
 * the L1 cache: it is fetched again. */
QN_INLINE void prefetch_x(const uint8_t *group)
{
    for (size_t line = 0; line < QN_GROUP_BYTES; line += 64)
        _mm_prefetch((const char *)group + PREFETCH_X + line, _MM_HINT_T0);
}

/* One weight row times R rows of activations. */
QN_INLINE void dot_row(const qn_matrix *w, size_t n, const uint8_t *const *x, float *const *y, size_t at_y,
                       const qn_dtype dtype, const int R)
{
    const size_t bytes = group_bytes(dtype), blocks = dtype == QN_DTYPE_MXFP4 ? QN_GROUP / QN_MXFP4_BLOCK : 0;
    const size_t full = w->cols / QN_GROUP * QN_GROUP;
    const uint8_t *data = w->data + n * (w->cols * bytes / QN_GROUP);
    const uint8_t *scales = dtype == QN_DTYPE_MXFP4 ? w->scales + n * (w->cols / QN_MXFP4_BLOCK) : w->data;
    __m512 sums[QN_FEW_ROWS];
    for (int r = 0; r < R; r++)
        sums[r] = _mm512_setzero_ps();
    size_t at = 0;
    for (; at + UNROLL * QN_GROUP <= full; at += UNROLL * QN_GROUP) {
        if (dtype == QN_DTYPE_MXFP4)
            _mm_prefetch((const char *)scales + PREFETCH_SCALES, _MM_HINT_T0);
        for (size_t g = 0; g < UNROLL; g++) {
            prefetch_group(data, dtype);
            if (R == 1 && dtype == QN_DTYPE_BF16 && w->cols > SHORT_COLS)
                prefetch_x(x[0] + (at + g * QN_GROUP) * 2);
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

/* An index, whatever stands above its four bits, to twice the E2M1 value. */
QN_INLINE __m512 look_up(__m512i codes)
{
    return _mm512_permutexvar_ps(codes, _mm512_setr_ps(0, 1, 2, 3, 4, 6, 8, 12, -0.0f, -1, -2, -3, -4, -6, -8, -12));
}

/* The scales of ABREAST groups, spread and halved as spread_scales does it. */
QN_INLINE void spread_scales_abreast(__m512 out[ABREAST], const uint8_t *p)
{
    const __m512i lanes = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    const __m128i bytes = _mm_subs_epu8(_mm_loadu_si128((const __m128i *)(const void *)p), _mm_set1_epi8(1));
    const __m512 scales = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu8_epi32(bytes), 23));
    for (int g = 0; g < ABREAST; g++)
        out[g] = _mm512_permutexvar_ps(_mm512_add_epi32(lanes, _mm512_set1_epi32(4 * g)), scales);
}

/* count <= ABREAST groups of MXFP4 times widened activations, step by step in all of them: a chain of FMAs waits for
 * its last one, the others meanwhile go on. */
QN_INLINE void dot_groups_wide(__m512 fresh[ABREAST], const uint8_t *data, const float *x, const int count)
{
    __m512i codes[ABREAST];
    for (int g = 0; g < count; g++)
        codes[g] = _mm512_castps_si512(qn_load16_once(data + (size_t)g * QN_GROUP / 2));
    for (unsigned j = 0; j < QN_VECTORS; j++) {
        for (int g = 0; g < count; g++) {
            const __m512 w = look_up(_mm512_srli_epi32(codes[g], 16 + 4 * j));
            const __m512 odd = _mm512_load_ps(x + g * QN_GROUP + j * 2 * QN_LANES);
            fresh[g] = j == 0 ? _mm512_mul_ps(w, odd) : _mm512_fmadd_ps(w, odd, fresh[g]);
        }
        for (int g = 0; g < count; g++) {
            const __m512 w = look_up(_mm512_srli_epi32(codes[g], 4 * j));
            fresh[g] = _mm512_fmadd_ps(w, _mm512_load_ps(x + g * QN_GROUP + j * 2 * QN_LANES + QN_LANES), fresh[g]);
        }
    }
}

/* The same by vdpbf16ps. */
QN_INLINE void dot_groups_paired(__m512 fresh[ABREAST], const uint8_t *data, const uint8_t *x, const int count)
{
    __m512i codes[ABREAST];
    for (int g = 0; g < count; g++) {
        codes[g] = _mm512_castps_si512(qn_load16_once(data + (size_t)g * QN_GROUP / 2));
        fresh[g] = _mm512_setzero_ps();
    }
    for (int j = 0; j < QN_VECTORS; j++)
        for (int g = 0; g < count; g++)
            fresh[g] = qn_dot_bf16(fresh[g], doubled_values(codes[g], j), qn_load32(x + g * QN_GROUP_BYTES + 64 * j));
}

QN_INLINE void dot_groups(__m512 fresh[ABREAST], const uint8_t *data, const uint8_t *x, const int count, const int wide)
{
    if (wide)
        dot_groups_wide(fresh, data, (const float *)(const void *)x, count);
    else
        dot_groups_paired(fresh, data, x, count);
}

QN_INLINE __m512 add_one_group(__m512 sums, const uint8_t *data, const uint8_t *scales, const uint8_t *x,
                               const int wide)
{
    __m512 fresh[ABREAST];
    dot_groups(fresh, data, x, 1, wide);
    return _mm512_fmadd_ps(fresh[0], spread_scales(scales), sums);
}

QN_INLINE float dot_row_abreast(const qn_matrix *w, size_t n, const uint8_t *x, const int wide)
{
    const size_t bytes = QN_GROUP / 2, blocks = QN_GROUP / QN_MXFP4_BLOCK, full = w->cols / QN_GROUP;
    const size_t stride = qn_group_stride(wide);
    const uint8_t *data = w->data + n * (w->cols / 2), *scales = w->scales + n * (w->cols / QN_MXFP4_BLOCK);
    __m512 sums = _mm512_setzero_ps();
    size_t g = 0;
    for (; g + ABREAST <= full; g += ABREAST) {
        __m512 fresh[ABREAST], spread[ABREAST];
        _mm_prefetch((const char *)scales + PREFETCH_SCALES, _MM_HINT_T0);
        for (size_t line = 0; line < ABREAST * bytes; line += 64) {
            _mm_prefetch((const char *)data + PREFETCH_FAR + line, _MM_HINT_T1);
            _mm_prefetch((const char *)data + PREFETCH_NEAR + line, _MM_HINT_T0);
        }
        spread_scales_abreast(spread, scales);
        dot_groups(fresh, data, x + g * stride, ABREAST, wide);
        for (int i = 0; i < ABREAST; i++)
            sums = _mm512_fmadd_ps(fresh[i], spread[i], sums);
        data += ABREAST * bytes;
        scales += ABREAST * blocks;
    }
    for (; g < full; g++, data += bytes, scales += blocks)
        sums = add_one_group(sums, data, scales, x + g * stride, wide);
    if (full * QN_GROUP < w->cols) {
        last_group last;
        copy_last_group(&last, data, scales, w->cols - full * QN_GROUP, QN_DTYPE_MXFP4);
        sums = add_one_group(sums, last.data, last.scales, x + full * stride, wide);
    }
    return qn_reduce_lanes(sums);
}

/* MXFP4 rows times one row of activations, cols <= WIDE_COLS, by FMAs: codes are looked up as float32 at once. */
static __attribute__((noinline)) void one_row_wide(const qn_matrix *w, size_t first, size_t last, const uint8_t *x,
                                                   float *y)
{
    _Alignas(64) uint8_t widened[WIDE_COLS * sizeof(float)];
    for (size_t j = 0; j < qn_round_up(w->cols) / (2 * QN_LANES); j++)
        qn_store_vector(widened + 128 * j, qn_load32(x + 64 * j), 1);
    for (size_t n = first; n < last; n++)
        y[n - first] = dot_row_abreast(w, n, widened, 1);
}

/* The same by vdpbf16ps, of any cols. */
static __attribute__((noinline)) void one_row_paired(const qn_matrix *w, size_t first, size_t last, const uint8_t *x,
                                                     float *y)
{
    for (size_t n = first; n < last; n++)
        y[n - first] = dot_row_abreast(w, n, x, 0);
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

typedef void (*product)(const qn_matrix *w, size_t first, size_t last, const uint8_t *const *x, size_t rows,
                        float *const *y);

/* A block of a row that is wanted soon: many short streams are more than the processor sees coming. */
QN_INLINE void prefetch_block(const uint8_t *data, const uint8_t *scales, size_t groups, const qn_dtype dtype)
{
    for (size_t line = 0; line < groups * group_bytes(dtype); line += 64)
        _mm_prefetch((const char *)data + line, _MM_HINT_T1);
    if (dtype == QN_DTYPE_MXFP4)
        _mm_prefetch((const char *)scales, _MM_HINT_T1);
}

QN_INLINE void unpack_row(uint8_t *out, float *spread, const qn_matrix *w, size_t n, size_t group, size_t groups,
                          const int wide, const qn_dtype dtype)
{
    const size_t bytes = group_bytes(dtype), blocks = dtype == QN_DTYPE_MXFP4 ? QN_GROUP / QN_MXFP4_BLOCK : 0;
    const size_t element = n * w->cols + group * QN_GROUP;
    size_t left = w->cols - group * QN_GROUP;
    const uint8_t *data = w->data + element * bytes / QN_GROUP;
    const uint8_t *scales = dtype == QN_DTYPE_MXFP4 ? w->scales + element / QN_MXFP4_BLOCK : data;
    prefetch_block(data + groups * bytes, scales + groups * blocks, groups, dtype);
    for (size_t g = 0; g < groups; g++, data += bytes, scales += blocks, left -= QN_GROUP) {
        __m512i values[QN_VECTORS];
        __m512 scale = _mm512_setzero_ps();
        if (left >= QN_GROUP) {
            unpack_group(values, data, dtype);
            if (dtype == QN_DTYPE_MXFP4)
                scale = spread_scales(scales);
        } else {
            last_group last;
            copy_last_group(&last, data, scales, left, dtype);
            unpack_group(values, last.data, dtype);
            if (dtype == QN_DTYPE_MXFP4)
                scale = spread_scales(last.scales);
        }
        qn_store_group(out + g * qn_group_stride(wide), values, wide);
        if (dtype == QN_DTYPE_MXFP4)
            _mm512_store_ps(spread + g * QN_LANES, scale);
    }
}

QN_INLINE void unpack_bf16(uint8_t *out, float *scales, const qn_matrix *w, size_t n, size_t group, size_t groups,
                           const int wide)
{
    unpack_row(out, scales, w, n, group, groups, wide, QN_DTYPE_BF16);
}

QN_INLINE void unpack_mxfp4(uint8_t *out, float *scales, const qn_matrix *w, size_t n, size_t group, size_t groups,
                            const int wide)
{
    unpack_row(out, scales, w, n, group, groups, wide, QN_DTYPE_MXFP4);
}

static __attribute__((noinline)) void matmul_bf16(const qn_matrix *w, size_t first, size_t last,
                                                  const uint8_t *const *x, size_t rows, float *const *y)
{
    if (qn_rows_are_few(rows))
        few_rows(w, first, last, x, rows, y, QN_DTYPE_BF16);
    else
        qn_multiply_many(w, first, last, x, rows, y, unpack_bf16, 0);
}

static __attribute__((noinline)) void matmul_mxfp4(const qn_matrix *w, size_t first, size_t last,
                                                   const uint8_t *const *x, size_t rows, float *const *y)
{
    if (rows == 1 && w->cols <= WIDE_COLS && qn_avx512bf16_form() == QN_FORM_WIDE)
        one_row_wide(w, first, last, x[0], y[0]);
    else if (rows == 1)
        one_row_paired(w, first, last, x[0], y[0]);
    else if (qn_rows_are_few(rows))
        few_rows(w, first, last, x, rows, y, QN_DTYPE_MXFP4);
    else
        qn_multiply_many(w, first, last, x, rows, y, unpack_mxfp4, 1);
}

void qn_avx512bf16_matmul(const qn_matrix *w, size_t first, size_t last, const void *const *x, size_t rows,
                          float *const *y)
{
    const uint8_t *xs[QN_MATMUL_MAX_ROWS];
    for (size_t r = 0; r < rows; r++)
        xs[r] = x[r];
    product run;
    switch (w->dtype) {
    case QN_DTYPE_BF16:
        run = matmul_bf16;
        break;
    case QN_DTYPE_MXFP4:
        run = matmul_mxfp4;
        break;
    case QN_DTYPE_PACKED_BF16:
        run = qn_avx512bf16_packed_matmul;
        break;
    default:
        qn_avx2_matmul(w, first, last, x, rows, y);
        return;
    }
    const unsigned old = qn_flush_subnormals();
    run(w, first, last, xs, rows, y);
    _mm_setcsr(old);
}
