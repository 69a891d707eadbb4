/* The indexer's scores over BF16 keys: a panel of keys is turned once for all queries (avx512bf16_cross.h), tiles of
 * eight heads stream past it. */
#include <math.h>

#include "kernels/x86/avx512bf16_cross.h"

size_t qn_avx512bf16_index_packed_bytes(size_t heads, size_t dim)
{
    return heads * qn_round_up(dim) * sizeof(float);
}

size_t qn_avx512bf16_index_scratch_bytes(size_t dim)
{
    return QN_PANEL_KEYS * qn_round_up(dim) * sizeof(float);
}

void qn_avx512bf16_index_pack(void *packed, const float *q, size_t heads, size_t dim)
{
    uint8_t *out = packed;
    for (size_t at = 0; at < dim; at += QN_GROUP, out += heads * QN_CROSS_BYTES)
        qn_avx512bf16_cross_queries(out, q + at, heads, dim, qn_min_size(QN_GROUP, dim - at), qn_avx512bf16_form());
}

/* One query against one panel. */
typedef struct panel {
    const uint8_t *keys; /* [groups] panels */
    size_t heads, dim;
    float scale;
    _Alignas(64) float scores[QN_PANEL_KEYS];
} panel;

/* Adds R heads to the scores of the panel's keys. With one group there are no sums to carry along. */
QN_INLINE void add_heads(panel *p, const uint8_t *q, size_t h, const float *weights, const int R, const int wide,
                         const int one_group)
{
    const size_t pair_bytes = wide ? 8 : 4;
    __m512 sums[QN_MOST_HEADS][QN_PANEL_VECTORS];
    float totals[QN_MOST_HEADS][QN_PANEL_KEYS];
    const uint8_t *keys = p->keys;
    size_t at = 0;
    do {
        const size_t pairs = qn_ceil_div(qn_min_size(QN_GROUP, p->dim - at), 2);
        qn_cross(sums, q + h * pairs * pair_bytes, keys, pairs, R, wide);
        for (int r = 0; !one_group && r < R; r++)
            for (int v = 0; v < QN_PANEL_VECTORS; v++) {
                float *total = &totals[r][v * QN_LANES];
                if (at > 0)
                    sums[r][v] = _mm512_add_ps(_mm512_loadu_ps(total), sums[r][v]);
                _mm512_storeu_ps(total, sums[r][v]);
            }
        at += QN_GROUP;
        q += p->heads * QN_CROSS_BYTES;
        keys += QN_PANEL_KEYS * QN_CROSS_BYTES;
    } while (!one_group && at < p->dim);
    for (int v = 0; v < QN_PANEL_VECTORS; v++) {
        __m512 scores = _mm512_load_ps(p->scores + v * QN_LANES);
        for (int r = 0; r < R; r++) {
            /* NaN, as the first operand, becomes 0 */
            __m512 positive = _mm512_max_ps(_mm512_mul_ps(_mm512_set1_ps(p->scale), sums[r][v]), _mm512_setzero_ps());
            scores = _mm512_add_ps(scores, _mm512_mul_ps(_mm512_set1_ps(weights[r]), positive));
        }
        _mm512_store_ps(p->scores + v * QN_LANES, scores);
    }
}

QN_INLINE void score_heads(panel *p, const uint8_t *q, const float *weights, const int wide, const int one_group)
{
    memset(p->scores, 0, sizeof p->scores);
    for (size_t h = 0, tile; h < p->heads; h += tile) {
        tile = qn_cross_heads(p->heads - h);
        if (tile == 8)
            add_heads(p, q, h, weights + h, 8, wide, one_group);
        else if (tile == 4)
            add_heads(p, q, h, weights + h, 4, wide, one_group);
        else if (tile == 2)
            add_heads(p, q, h, weights + h, 2, wide, one_group);
        else
            add_heads(p, q, h, weights + h, 1, wide, one_group);
    }
}

typedef void score_function(panel *p, const uint8_t *q, const float *weights);

static __attribute__((noinline)) void score_pairs(panel *p, const uint8_t *q, const float *weights)
{
    score_heads(p, q, weights, 0, 1);
}

static __attribute__((noinline)) void score_pairs_of_groups(panel *p, const uint8_t *q, const float *weights)
{
    score_heads(p, q, weights, 0, 0);
}

static __attribute__((noinline)) void score_wide(panel *p, const uint8_t *q, const float *weights)
{
    score_heads(p, q, weights, 1, 1);
}

static __attribute__((noinline)) void score_wide_groups(panel *p, const uint8_t *q, const float *weights)
{
    score_heads(p, q, weights, 1, 0);
}

static void turn_panel(uint8_t *out, const uint8_t *keys, size_t count, size_t dim, qn_dot_form form)
{
    const uint8_t *rows[QN_PANEL_KEYS];
    for (size_t i = 0; i < QN_PANEL_KEYS; i++)
        rows[i] = i < count ? keys + i * dim * 2 : NULL;
    for (size_t at = 0; at < dim; at += QN_GROUP, out += QN_PANEL_KEYS * QN_CROSS_BYTES)
        qn_avx512bf16_cross_keys(out, rows, at * 2, count, qn_min_size(QN_GROUP, dim - at), form);
}

void qn_avx512bf16_index_scores(float *const *scores, const void *const *q, const float *const *weights, size_t queries,
                                size_t heads, size_t dim, const void *keys, size_t key_count, void *scratch)
{
    static score_function *const functions[2][2] = {{score_pairs, score_pairs_of_groups},
                                                    {score_wide, score_wide_groups}};
    const qn_dot_form form = qn_avx512bf16_form();
    score_function *score = functions[form == QN_FORM_WIDE][dim > QN_GROUP];
    panel p = {.keys = scratch, .heads = heads, .dim = dim, .scale = 1.0f / sqrtf((float)dim)};
    const unsigned old = qn_flush_subnormals();
    for (size_t at = 0; at < key_count; at += QN_PANEL_KEYS) {
        const size_t count = qn_min_size(QN_PANEL_KEYS, key_count - at);
        turn_panel(scratch, (const uint8_t *)keys + at * dim * 2, count, dim, form);
        for (size_t t = 0; t < queries; t++) {
            score(&p, q[t], weights[t]);
            memcpy(scores[t] + at, p.scores, count * sizeof(float));
        }
    }
    _mm_setcsr(old);
}
