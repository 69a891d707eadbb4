/* Matrix products of packed BF16 weights: the sums of BF16 ones (avx512bf16_matmul.c), lane by lane.
 *
 * Few rows (decode): a row is one linear stream, unpacked in registers. A code, whatever stands above its four bits, is
 * an index of a table of 32 words that holds the row's window twice in the place of the exponent; what is left of the
 * word is one ternary operation. A group that has exceptions is written to memory, where they are put in, and read
 * back. More rows (prompts): avx512bf16_block.h. */
#include "kernels/x86/avx512bf16_block.h"
#include "kernels/x86/avx512bf16_unpack.h"
#include "kernels/x86/packed_row.h"

enum {
    FAR_BYTES = 8192, /* prefetched ahead into the L2 cache, */
    NEAR_BYTES = 1024 /* and into the L1 cache */
};

QN_INLINE void put_exceptions(__m512i w[QN_VECTORS], qn_exception_walk *exceptions)
{
    _Alignas(64) uint16_t group[QN_GROUP];
    for (int j = 0; j < QN_VECTORS; j++)
        _mm512_storeu_si512((void *)(group + 32 * j), w[j]);
    qn_exceptions_put(exceptions, group);
    for (int j = 0; j < QN_VECTORS; j++)
        w[j] = qn_load32((const uint8_t *)(group + 32 * j));
}

/* One weight row times R rows of activations. */
QN_INLINE void dot_row(const qn_matrix *w, size_t n, const uint8_t *const *x, float *const *y, size_t at_y, const int R)
{
    const size_t groups = qn_round_up(w->cols) / QN_GROUP;
    const uint8_t *data = w->data + n * groups * QN_PACKED_GROUP_BYTES;
    const __m512i table = qn_exponent_table(w->sides[n].window);
    qn_exception_walk exceptions = qn_exceptions_of(&w->sides[n]);
    __m512 sums[QN_FEW_ROWS];
    for (int r = 0; r < R; r++)
        sums[r] = _mm512_setzero_ps();
    for (size_t g = 0; g < groups; g++, data += QN_PACKED_GROUP_BYTES) {
        __m512i values[QN_VECTORS];
        for (size_t line = 0; line < QN_PACKED_GROUP_BYTES; line += 64) {
            _mm_prefetch((const char *)data + FAR_BYTES + line, _MM_HINT_T1);
            _mm_prefetch((const char *)data + NEAR_BYTES + line, _MM_HINT_T0);
        }
        qn_unpack_vectors(values, data, table);
        if (g * QN_GROUP == exceptions.at)
            put_exceptions(values, &exceptions);
        for (int r = 0; r < R; r++) {
            __m512 fresh = _mm512_setzero_ps();
            for (size_t j = 0; j < QN_VECTORS; j++)
                fresh = qn_dot_bf16(fresh, values[j], qn_load32(x[r] + g * QN_GROUP_BYTES + 64 * j));
            sums[r] = _mm512_add_ps(sums[r], fresh);
        }
    }
    for (int r = 0; r < R; r++)
        y[r][at_y] = qn_reduce_lanes(sums[r]);
}

static void few_rows(const qn_matrix *w, size_t first, size_t last, const uint8_t *const *x, size_t rows,
                     float *const *y)
{
    for (size_t n = first; n < last; n++)
        switch (rows) {
        case 1:
            dot_row(w, n, x, y, n - first, 1);
            break;
        case 2:
            dot_row(w, n, x, y, n - first, 2);
            break;
        case 3:
            dot_row(w, n, x, y, n - first, 3);
            break;
        default:
            dot_row(w, n, x, y, n - first, 4);
            break;
        }
}

/* Exceptions are put into the pairs of BF16, before those are widened. */
QN_INLINE void unpack_row(uint8_t *out, float *scales, const qn_matrix *w, size_t n, size_t group, size_t groups,
                          const int wide)
{
    (void)scales;
    _Alignas(64) uint8_t block[QN_BLOCK_BYTES];
    uint8_t *pairs = wide ? block : out;
    const qn_packed_side *side = &w->sides[n];
    const uint8_t *data = w->data + (n * (qn_round_up(w->cols) / QN_GROUP) + group) * QN_PACKED_GROUP_BYTES;
    const __m512i table = qn_exponent_table(side->window);
    for (size_t line = 0; line < groups * QN_PACKED_GROUP_BYTES; line += 64)
        _mm_prefetch((const char *)data + groups * QN_PACKED_GROUP_BYTES + line, _MM_HINT_T1);
    for (size_t g = 0; g < groups; g++) {
        __m512i values[QN_VECTORS];
        qn_unpack_vectors(values, data + g * QN_PACKED_GROUP_BYTES, table);
        qn_store_group(pairs + g * QN_GROUP_BYTES, values, 0);
    }
    qn_packed_put_exceptions(side, group * QN_GROUP, groups * QN_GROUP, (uint16_t *)(void *)pairs);
    if (wide)
        for (size_t j = 0; j < groups * QN_VECTORS; j++)
            qn_store_vector(out + 128 * j, qn_load32(block + 64 * j), 1);
}

void qn_avx512bf16_packed_matmul(const qn_matrix *w, size_t first, size_t last, const uint8_t *const *x, size_t rows,
                                 float *const *y)
{
    if (qn_rows_are_few(rows))
        few_rows(w, first, last, x, rows, y);
    else
        qn_multiply_many(w, first, last, x, rows, y, unpack_row, 0);
}
