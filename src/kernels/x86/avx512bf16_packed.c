/* Matrix products of packed BF16 weights: the sums of BF16 ones (avx512bf16_matmul.c), lane by lane.
 *
 * Few rows (decode): a row is one linear stream, unpacked in registers. A code, whatever stands above its four bits, is
 * an index of a table of 32 words that holds the row's window twice in the place of the exponent; what is left of the
 * word is one ternary operation. A group that has exceptions is written to memory, where they are put in, and read
 * back. More rows (prompts): avx512bf16_block.h. */
#include "kernels/x86/avx512bf16_block.h"
#include "kernels/x86/packed_row.h"

enum {
    FAR_BYTES = 8192, /* prefetched ahead into the L2 cache, */
    NEAR_BYTES = 1024 /* and into the L1 cache */
};

/* The exponents of codes 0..14 in their place, 0 for code 15; the same again. */
QN_INLINE __m512i exponent_table(unsigned window)
{
    static const uint16_t codes[32] = {0 << 7, 1 << 7, 2 << 7,  3 << 7,  4 << 7,  5 << 7,  6 << 7,  7 << 7,
                                       8 << 7, 9 << 7, 10 << 7, 11 << 7, 12 << 7, 13 << 7, 14 << 7, 0,
                                       0 << 7, 1 << 7, 2 << 7,  3 << 7,  4 << 7,  5 << 7,  6 << 7,  7 << 7,
                                       8 << 7, 9 << 7, 10 << 7, 11 << 7, 12 << 7, 13 << 7, 14 << 7, 0};
    return _mm512_maskz_add_epi16(0x7FFF7FFF, qn_load32((const uint8_t *)codes),
                                  _mm512_set1_epi16((short)(window << 7)));
}

/* Sign and mantissa out of a word, the exponent as looked up: (rest & 0x807F) | exponents. */
QN_INLINE __m512i join(__m512i rest, __m512i exponents)
{
    return _mm512_ternarylogic_epi32(rest, _mm512_set1_epi16((short)0x807F), exponents, 0xEA);
}

QN_INLINE __m512i swap_bytes(__m512i words)
{
    const __m512i places = _mm512_set4_epi32(0x0E0F0C0D, 0x0A0B0809, 0x06070405, 0x02030001);
    return _mm512_shuffle_epi8(words, places);
}

QN_INLINE void unpack_group(__m512i out[QN_VECTORS], const uint8_t *data, __m512i table)
{
    const __m512i codes = qn_load32(data), low = qn_load32(data + 64), high = qn_load32(data + 128);
    out[0] = join(low, _mm512_permutexvar_epi16(codes, table));
    out[1] = join(swap_bytes(low), _mm512_permutexvar_epi16(_mm512_srli_epi16(codes, 4), table));
    out[2] = join(high, _mm512_permutexvar_epi16(_mm512_srli_epi16(codes, 8), table));
    out[3] = join(swap_bytes(high), _mm512_permutexvar_epi16(_mm512_srli_epi16(codes, 12), table));
}

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
    const __m512i table = exponent_table(w->sides[n].window);
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
        unpack_group(values, data, table);
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
    const __m512i table = exponent_table(side->window);
    for (size_t line = 0; line < groups * QN_PACKED_GROUP_BYTES; line += 64)
        _mm_prefetch((const char *)data + groups * QN_PACKED_GROUP_BYTES + line, _MM_HINT_T1);
    for (size_t g = 0; g < groups; g++) {
        __m512i values[QN_VECTORS];
        unpack_group(values, data + g * QN_PACKED_GROUP_BYTES, table);
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
