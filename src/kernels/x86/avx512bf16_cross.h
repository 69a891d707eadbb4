/* Products of many queries with many keys, a key to a lane: what attention's scores and the indexer's have in common.
 * Nothing is left to add up across lanes, so that almost every instruction of the inner loop multiplies.
 *
 * Keys are taken in panels of QN_PANEL_KEYS and in 128-groups, turned so that a register holds the same pair of
 * elements (2i, 2i + 1) of 16 keys; queries lie pair by pair in tiles of heads, to be spread over the lanes. A dot
 * product is, for each group, one chain from zero over its pairs, ascending, within a pair the odd product first: the
 * order of vdpbf16ps. Groups are added in ascending order.
 *
 * The chain exists in two forms with the same bits, float32 results and operands below 2^-126 counting as zero in both.
 * QN_FORM_PAIRS multiplies by vdpbf16ps; its words are pairs of BF16. QN_FORM_WIDE multiplies by two float32 FMAs; a
 * pair is two vectors of float32, the odd one first. Some CPUs (AMD's) run vdpbf16ps as fast as an FMA, others (Intel's
 * that have AMX) four times slower: qn_avx512bf16_form finds out which, and that the bits are the same.
 *
 * Include it from avx512bf16*.c only. */
#ifndef QN_KERNELS_X86_AVX512BF16_CROSS_H
#define QN_KERNELS_X86_AVX512BF16_CROSS_H

#include <stdatomic.h>

#include "kernels/x86/avx512bf16_lanes.h"

enum {
    QN_GROUP_PAIRS = QN_GROUP / 2,
    QN_PANEL_KEYS = 32,
    QN_PANEL_VECTORS = QN_PANEL_KEYS / QN_LANES,
    QN_MOST_HEADS = 8 /* of a tile */
};

/* Heads of the next tile where `left` are left: sums of 8 times 2 registers hide the latency of either form. */
QN_INLINE size_t qn_cross_heads(size_t left)
{
    return left >= 8 ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
}

/* Bytes of one key or query of one group, in the wider form. */
enum { QN_CROSS_BYTES = QN_GROUP * sizeof(float) };

QN_INLINE size_t qn_cross_pair_bytes(qn_dot_form form)
{
    return form == QN_FORM_WIDE ? 8 : 4;
}

/* Elements [0, count) of a group, count <= QN_GROUP, of `heads` queries `dim` apart, rounded to BF16: tile by tile
 * [pairs, heads of the tile], heads * QN_CROSS_BYTES long at most; the tile of head h is at
 * h * pairs * qn_cross_pair_bytes. */
void qn_avx512bf16_cross_queries(uint8_t *out, const float *q, size_t heads, size_t dim, size_t count,
                                 qn_dot_form form);

/* Elements of a group of the keys (BF16, at keys[i] + offset), key_count <= QN_PANEL_KEYS, then keys of zeros: [pairs,
 * QN_PANEL_KEYS], QN_PANEL_KEYS * QN_CROSS_BYTES long at most. */
void qn_avx512bf16_cross_keys(uint8_t *panel, const uint8_t *const *keys, size_t offset, size_t key_count, size_t count,
                              qn_dot_form form);

/* Both forms count subnormal numbers as zero in their products: set this around calls of functions that multiply, and
 * the old value behind. */
QN_INLINE unsigned qn_flush_subnormals(void)
{
    unsigned old = _mm_getcsr();
    _mm_setcsr(old | 0x8040);
    return old;
}

/* One group of R queries times a panel. */
QN_INLINE void qn_cross(__m512 sums[][QN_PANEL_VECTORS], const uint8_t *q, const uint8_t *panel, size_t pairs,
                        const int R, const int wide)
{
    const size_t steps = wide ? 2 * pairs : pairs;
    for (int r = 0; r < R; r++)
        for (int v = 0; v < QN_PANEL_VECTORS; v++)
            sums[r][v] = _mm512_setzero_ps();
    for (size_t i = 0; i < steps; i++, q += (size_t)R * 4, panel += QN_PANEL_KEYS * 4) {
        __m512 keys[QN_PANEL_VECTORS];
        for (int v = 0; v < QN_PANEL_VECTORS; v++)
            keys[v] = _mm512_loadu_ps(panel + v * 64);
        for (int r = 0; r < R; r++) {
            float word;
            memcpy(&word, q + r * 4, sizeof word);
            const __m512 query = _mm512_set1_ps(word);
            for (int v = 0; v < QN_PANEL_VECTORS; v++)
                sums[r][v] = wide ? _mm512_fmadd_ps(query, keys[v], sums[r][v])
                                  : qn_dot_bf16(sums[r][v], _mm512_castps_si512(query), _mm512_castps_si512(keys[v]));
        }
    }
}

#endif
