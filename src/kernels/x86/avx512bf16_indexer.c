/* The indexer's scores over BF16 keys: tiles of four heads go over a panel of keys, which is padded with zeros to whole
 * groups once for all queries if need be; their lanes are reduced for eight keys at once. */
#include "kernels/x86/avx512bf16_lanes.h"

#include <math.h>

enum { TILE_HEADS = 4, PANEL_KEYS = 48, STEP_KEYS = 8 };

static size_t row_bytes(size_t dim)
{
    return 2 * qn_round_up(dim);
}

size_t qn_avx512bf16_index_packed_bytes(size_t heads, size_t dim)
{
    return heads * row_bytes(dim);
}

size_t qn_avx512bf16_index_scratch_bytes(size_t dim)
{
    return PANEL_KEYS * row_bytes(dim);
}

void qn_avx512bf16_index_pack(void *packed, const float *q, size_t heads, size_t dim)
{
    for (size_t h = 0; h < heads; h++)
        qn_round_row_bf16((uint8_t *)packed + h * row_bytes(dim), q + h * dim, dim, qn_round_up(dim));
}

/* One query against one panel. */
typedef struct panel {
    const uint8_t *rows[PANEL_KEYS];
    size_t heads, dim, count;
    float scale;
    _Alignas(32) float scores[PANEL_KEYS];
    _Alignas(64) float sums[TILE_HEADS * QN_SUMS_STRIDE];
} panel;

static void point_at_keys(panel *p, const uint8_t *keys, uint8_t *padded)
{
    const size_t bytes = 2 * p->dim, stride = row_bytes(p->dim);
    for (size_t i = 0; i < p->count; i++) {
        p->rows[i] = keys + i * bytes;
        if (bytes == stride)
            continue;
        memcpy(padded + i * stride, p->rows[i], bytes);
        memset(padded + i * stride + bytes, 0, stride - bytes);
        p->rows[i] = padded + i * stride;
    }
}

/* Adds R heads to the scores of the panel's keys, eight at a time. */
QN_INLINE void add_heads(panel *p, const uint8_t *q, const float *weights, const int R)
{
    const size_t stride = row_bytes(p->dim);
    for (int r = 0; r < R; r++)
        memset(p->sums + r * QN_SUMS_STRIDE, 0, PANEL_KEYS * QN_LANES * sizeof(float));
    qn_tile_rows_bf16(p->sums, q, stride, NULL, 0, p->rows, p->count, stride / QN_GROUP_BYTES, R, 0);
    for (size_t at = 0; at < p->count; at += STEP_KEYS) {
        __m256 scores = _mm256_load_ps(p->scores + at);
        for (int r = 0; r < R; r++) {
            __m256 dots = qn_reduce16x8(p->sums + (size_t)r * QN_SUMS_STRIDE + at * QN_LANES, QN_LANES);
            scores = qn_add_head(scores, dots, p->scale, weights[r]);
        }
        _mm256_store_ps(p->scores + at, scores);
    }
}

static void score_panel(panel *p, const uint8_t *q, const float *weights)
{
    const size_t stride = row_bytes(p->dim);
    size_t h = 0;
    memset(p->scores, 0, sizeof p->scores);
    for (; h + TILE_HEADS <= p->heads; h += TILE_HEADS)
        add_heads(p, q + h * stride, weights + h, TILE_HEADS);
    for (; h < p->heads; h++)
        add_heads(p, q + h * stride, weights + h, 1);
}

void qn_avx512bf16_index_scores(float *const *scores, const void *const *q, const float *const *weights, size_t queries,
                                size_t heads, size_t dim, const void *keys, size_t key_count, void *scratch)
{
    panel p = {.heads = heads, .dim = dim, .scale = 1.0f / sqrtf((float)dim)};
    for (size_t at = 0; at < key_count; at += PANEL_KEYS) {
        p.count = qn_min_size(PANEL_KEYS, key_count - at);
        point_at_keys(&p, (const uint8_t *)keys + at * 2 * dim, scratch);
        for (size_t t = 0; t < queries; t++) {
            score_panel(&p, q[t], weights[t]);
            memcpy(scores[t] + at, p.scores, p.count * sizeof(float));
        }
    }
}
