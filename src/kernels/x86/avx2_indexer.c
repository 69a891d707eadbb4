/* The indexer's scores over BF16 keys. */
#include <math.h>

#include "kernels/x86/avx2_lanes.h"

enum { TILE_HEADS = 4, INDEX_BLOCK = 48 };

/* One block of keys against up to four heads, group by group, so that any dim fits the stack. */
static void index_tile(float *results, const float *q, size_t tile, size_t dim, const uint8_t *keys, size_t count)
{
    _Alignas(64) float sums[TILE_HEADS * QN_SUMS_STRIDE];
    float panel[INDEX_BLOCK][QN_GROUP], queries[TILE_HEADS][QN_GROUP];
    const float *wide[INDEX_BLOCK];
    memset(sums, 0, sizeof sums);
    memset(queries, 0, sizeof queries);
    for (size_t at = 0; at < dim; at += QN_GROUP) {
        size_t width = qn_min_size(QN_GROUP, dim - at);
        for (size_t i = 0; i < count; i++) {
            wide[i] = panel[i];
            qn_widen_row(panel[i], keys + (i * dim + at) * 2, width, QN_GROUP);
        }
        for (size_t r = 0; r < tile; r++)
            qn_round_row(queries[r], q + r * dim + at, width, QN_GROUP);
        qn_tile_rows(sums, queries[0], NULL, QN_GROUP, wide, count, 1, TILE_HEADS, 0);
    }
    for (size_t r = 0; r < tile; r++)
        for (size_t i = 0; i < count; i++) {
            const float *lanes = sums + r * QN_SUMS_STRIDE + i * QN_LANES;
            results[r * INDEX_BLOCK + i] = qn_reduce16(_mm256_load_ps(lanes), _mm256_load_ps(lanes + 8));
        }
}

void qn_avx2_index_scores(float *scores, const float *q, const float *weights, size_t heads, size_t dim,
                          const void *keys, size_t key_count)
{
    const float scale = 1.0f / sqrtf((float)dim);
    const uint8_t *rows = keys;
    float results[TILE_HEADS * INDEX_BLOCK];
    for (size_t at = 0; at < key_count; at += INDEX_BLOCK) {
        size_t count = qn_min_size(INDEX_BLOCK, key_count - at);
        memset(scores + at, 0, count * sizeof(float));
        for (size_t h = 0; h < heads; h += TILE_HEADS) {
            size_t tile = qn_min_size(TILE_HEADS, heads - h);
            index_tile(results, q + h * dim, tile, dim, rows + at * dim * 2, count);
            for (size_t r = 0; r < tile; r++)
                for (size_t i = 0; i < count; i++) {
                    float score = scale * results[r * INDEX_BLOCK + i];
                    scores[at + i] += weights[h + r] * (score > 0.0f ? score : 0.0f);
                }
        }
    }
}
