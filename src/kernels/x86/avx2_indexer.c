/* The indexer's scores over BF16 keys, as matrix products of a panel of keys with one query's heads after another's.
 *
 * The keys of a panel are widened to float32 once for all queries and stay in the L1 cache; heads stream past them,
 * three at a time. A tile is three heads times two keys with both halves of their lanes, so that sums are halved twice
 * before they leave the registers: what a tile stores gets in the way of what the next one loads. */
#include <math.h>

#include "kernels/x86/avx2_lanes.h"

enum { PANEL_KEYS = 32, STEP_KEYS = 8, TILE_HEADS = 3, TILE_KEYS = 2, PAIRS = STEP_KEYS / TILE_KEYS };

/* One query against one panel. */
typedef struct panel {
    const float *keys; /* [groups, PANEL_KEYS, QN_GROUP], zeros behind the last key */
    size_t heads, groups, count;
    float scale;
    _Alignas(32) float scores[PANEL_KEYS];
} panel;

size_t qn_avx2_index_packed_bytes(size_t heads, size_t dim)
{
    return heads * qn_round_up(dim) * sizeof(float);
}

/* [groups, heads, QN_GROUP]: what a tile reads lies at constant distances. */
void qn_avx2_index_pack(void *packed, const float *q, size_t heads, size_t dim)
{
    float *out = packed;
    for (size_t at = 0; at < dim; at += QN_GROUP)
        for (size_t h = 0; h < heads; h++, out += QN_GROUP)
            qn_round_row(out, q + h * dim + at, qn_min_size(QN_GROUP, dim - at), QN_GROUP);
}

size_t qn_avx2_index_scratch_bytes(size_t dim)
{
    return PANEL_KEYS * qn_round_up(dim) * sizeof(float);
}

/* One group of R heads times the keys k and k + PAIRS: products begin the sums, which needs no zeros to add to: what
 * that changes is the sign of zeros, which does not reach a score. */
QN_INLINE void multiply(__m256 sums[][TILE_KEYS][2], const float *q, const float *keys, const int R)
{
#pragma GCC unroll 8
    for (size_t at = 0; at < QN_HALF; at += 8)
#pragma GCC unroll 2
        for (size_t half = 0; half < 2; half++) {
            __m256 head[TILE_HEADS];
            for (int r = 0; r < R; r++) {
                head[r] = _mm256_load_ps(q + (size_t)r * QN_GROUP + half * QN_HALF + at);
                __asm__("" : "+x"(head[r])); /* in a register, not an operand of each FMA */
            }
            for (int k = 0; k < TILE_KEYS; k++) {
                __m256 key = _mm256_load_ps(keys + (size_t)k * PAIRS * QN_GROUP + half * QN_HALF + at);
                for (int r = 0; r < R; r++) {
                    __m256 *sum = &sums[r][k][half];
                    *sum = at == 0 ? _mm256_mul_ps(head[r], key) : _mm256_fmadd_ps(head[r], key, *sum);
                }
            }
        }
}

/* Four sums each of two keys for R heads: folded[r * PAIRS]. With one group there are no sums to carry along. */
QN_INLINE void tile(const panel *p, __m256 *folded, const float *q, const float *keys, const int R, const int one_group)
{
    __m256 sums[TILE_HEADS][TILE_KEYS][2];
    __asm__("" : "+r"(q)); /* else GCC loads the heads before the loop over keys and spills them */
    multiply(sums, q, keys, R);
    for (size_t g = 1; !one_group && g < p->groups; g++) {
        __m256 next[TILE_HEADS][TILE_KEYS][2];
        multiply(next, q + g * p->heads * QN_GROUP, keys + g * PANEL_KEYS * QN_GROUP, R);
        for (int r = 0; r < R; r++)
            for (int k = 0; k < TILE_KEYS; k++)
                for (int half = 0; half < 2; half++)
                    sums[r][k][half] = _mm256_add_ps(sums[r][k][half], next[r][k][half]);
    }
    for (int r = 0; r < R; r++)
        folded[r * PAIRS] = qn_fold8(_mm256_add_ps(sums[r][0][0], sums[r][0][1]),
                                     _mm256_add_ps(sums[r][1][0], sums[r][1][1]));
}

/* Adds R heads to the scores of the panel's keys, eight at a time. */
QN_INLINE void add_heads(panel *p, const float *q, const float *weights, const int R, const int one_group)
{
    for (size_t at = 0; at < p->count; at += STEP_KEYS) {
        __m256 folded[TILE_HEADS][PAIRS];
        for (size_t k = 0; k < PAIRS; k++)
            tile(p, &folded[0][k], q, p->keys + (at + k) * QN_GROUP, R, one_group);
        __m256 scores = _mm256_load_ps(p->scores + at);
        for (int r = 0; r < R; r++)
            scores = qn_add_head(scores, qn_reduce4x8(folded[r]), p->scale, weights[r]);
        _mm256_store_ps(p->scores + at, scores);
    }
}

QN_INLINE void score_heads(panel *p, const float *q, const float *weights, const int one_group)
{
    size_t h = 0;
    memset(p->scores, 0, sizeof p->scores);
    for (; h + TILE_HEADS <= p->heads; h += TILE_HEADS)
        add_heads(p, q + h * QN_GROUP, weights + h, TILE_HEADS, one_group);
    if (p->heads - h == 2)
        add_heads(p, q + h * QN_GROUP, weights + h, 2, one_group);
    else if (p->heads - h == 1)
        add_heads(p, q + h * QN_GROUP, weights + h, 1, one_group);
}

static __attribute__((noinline)) void score_one_group(panel *p, const float *q, const float *weights)
{
    score_heads(p, q, weights, 1);
}

static __attribute__((noinline)) void score_groups(panel *p, const float *q, const float *weights)
{
    score_heads(p, q, weights, 0);
}

static void widen_panel(float *out, const uint8_t *keys, size_t count, size_t dim)
{
    const size_t whole = (count + STEP_KEYS - 1) / STEP_KEYS * STEP_KEYS;
    for (size_t at = 0; at < dim; at += QN_GROUP, out += PANEL_KEYS * QN_GROUP) {
        for (size_t i = 0; i < count; i++)
            qn_widen_row(out + i * QN_GROUP, keys + (i * dim + at) * 2, qn_min_size(QN_GROUP, dim - at), QN_GROUP);
        memset(out + count * QN_GROUP, 0, (whole - count) * QN_GROUP * sizeof *out);
    }
}

void qn_avx2_index_scores(float *const *scores, const void *const *q, const float *const *weights, size_t queries,
                          size_t heads, size_t dim, const void *keys, size_t key_count, void *scratch)
{
    panel p = {
        .keys = scratch, .heads = heads, .groups = qn_ceil_div(dim, QN_GROUP), .scale = 1.0f / sqrtf((float)dim)};
    for (size_t at = 0; at < key_count; at += PANEL_KEYS) {
        p.count = qn_min_size(PANEL_KEYS, key_count - at);
        widen_panel(scratch, (const uint8_t *)keys + at * dim * 2, p.count, dim);
        for (size_t t = 0; t < queries; t++) {
            if (p.groups == 1)
                score_one_group(&p, q[t], weights[t]);
            else
                score_groups(&p, q[t], weights[t]);
            memcpy(scores[t] + at, p.scores, p.count * sizeof(float));
        }
    }
}
