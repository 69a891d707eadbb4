/* Attention over BF16 keys.
 *
 * As avx2_attention.c, with scores as BF16 dot products: the selected keys of a block are gathered into one panel,
 * padded with zeros to whole groups, and met by tiles of four heads, first for the scores, then for the weighted sum,
 * whose probabilities and widened keys are float32. */
#include "kernels/x86/avx2_softmax.h"
#include "kernels/x86/avx512bf16_lanes.h"

enum { TILE_HEADS = 4, WIDTH = 16 };

/* Dot products of up to four rows with up to 64 keys: results[r * QN_ATTENTION_BLOCK + i]. */
static void score_tile(float *results, const uint8_t *rows, size_t tile, size_t stride, const uint8_t *const *keys,
                       size_t count, size_t groups)
{
    _Alignas(64) float sums[TILE_HEADS * QN_SUMS_STRIDE];
    for (size_t r = 0; r < tile; r++)
        memset(sums + r * QN_SUMS_STRIDE, 0, count * QN_LANES * sizeof(float));
    if (tile == TILE_HEADS)
        qn_tile_rows_bf16(sums, rows, stride, NULL, 0, keys, count, groups, TILE_HEADS, 0);
    else
        for (size_t r = 0; r < tile; r++)
            qn_tile_rows_bf16(sums + r * QN_SUMS_STRIDE, rows + r * stride, stride, NULL, 0, keys, count, groups, 1, 0);
    for (size_t r = 0; r < tile; r++)
        for (size_t i = 0; i < count; i++)
            results[r * QN_ATTENTION_BLOCK + i] = qn_reduce_lanes(
                _mm512_loadu_ps(sums + r * QN_SUMS_STRIDE + i * QN_LANES));
}

QN_INLINE __m512 widen(const uint8_t *p)
{
    __m256i words = _mm256_loadu_si256((const __m256i *)(const void *)p);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(words), 16));
}

QN_INLINE __mmask16 column_mask(size_t latent, size_t c)
{
    return (__mmask16)(latent - c >= WIDTH ? 0xffffu : (1u << (latent - c)) - 1u);
}

/* out = out * correction + sum of p_i keys_i, keys in order, for R heads and V times 16 columns from c on; columns
 * beyond the latent ones are left alone. */
QN_INLINE void weigh(float *out, size_t latent, const qn_softmax *heads, const float *p, const uint8_t *keys,
                     size_t stride, size_t count, size_t c, const int R, const int V)
{
    __m512 sums[TILE_HEADS][2];
    for (int r = 0; r < R; r++)
        for (int v = 0; v < V; v++) {
            const size_t at = c + WIDTH * (size_t)v;
            __m512 old = _mm512_maskz_loadu_ps(column_mask(latent, at), out + (size_t)r * latent + at);
            sums[r][v] = _mm512_mul_ps(old, _mm512_set1_ps(heads[r].correction));
        }
    for (size_t i = 0; i < count; i++)
        for (int v = 0; v < V; v++) {
            __m512 key = widen(keys + i * stride + 2 * (c + WIDTH * (size_t)v));
            for (int r = 0; r < R; r++)
                sums[r][v] = _mm512_fmadd_ps(_mm512_set1_ps(p[r * QN_ATTENTION_BLOCK + (int)i]), key, sums[r][v]);
        }
    for (int r = 0; r < R; r++)
        for (int v = 0; v < V; v++) {
            const size_t at = c + WIDTH * (size_t)v;
            _mm512_mask_storeu_ps(out + (size_t)r * latent + at, column_mask(latent, at), sums[r][v]);
        }
}

static void weigh_tile(float *out, size_t latent, const qn_softmax *heads, size_t tile, const float *p,
                       const uint8_t *keys, size_t stride, size_t count)
{
    size_t c = 0;
    if (tile == TILE_HEADS)
        for (; c + WIDTH < latent; c += 2 * WIDTH)
            weigh(out, latent, heads, p, keys, stride, count, c, TILE_HEADS, 2);
    for (; c < latent; c += WIDTH)
        for (size_t r = 0; r < tile; r++)
            weigh(out + r * latent, latent, heads + r, p + r * QN_ATTENTION_BLOCK, keys, stride, count, c, 1, 1);
}

/* The scratch memory: scores of a tile, queries, one block of keys (both BF16, `stride` bytes a row), each head's
 * state.
 */
typedef struct attend_scratch {
    float *scores;
    uint8_t *queries, *keys;
    qn_softmax *heads;
} attend_scratch;

static size_t lay_out(attend_scratch *s, uint8_t *base, size_t heads, size_t stride)
{
    size_t scores = TILE_HEADS * QN_ATTENTION_BLOCK * sizeof(float);
    size_t queries = heads * stride, keys = QN_ATTENTION_BLOCK * stride;
    if (s != NULL) {
        s->scores = (float *)(void *)base;
        s->queries = base + scores;
        s->keys = s->queries + queries;
        s->heads = (qn_softmax *)(void *)(s->keys + keys);
    }
    return scores + queries + keys + heads * sizeof(qn_softmax);
}

size_t qn_avx512bf16_attend_scratch_bytes(size_t heads, size_t latent, size_t rope)
{
    return lay_out(NULL, NULL, heads, 2 * qn_round_up(latent + rope));
}

void qn_avx512bf16_attend(float *out, const float *q, size_t heads, size_t latent, size_t rope, float scale,
                          const void *const *keys, size_t key_count, void *scratch)
{
    const size_t dim = latent + rope, groups = qn_round_up(dim) / QN_GROUP, stride = groups * QN_GROUP_BYTES;
    attend_scratch s;
    lay_out(&s, scratch, heads, stride);
    memset(out, 0, heads * latent * sizeof(float));
    for (size_t i = 0; i < QN_ATTENTION_BLOCK; i++)
        memset(s.keys + i * stride + dim * 2, 0, stride - dim * 2);
    for (size_t h = 0; h < heads; h++) {
        qn_softmax_start(&s.heads[h]);
        qn_round_row_bf16(s.queries + h * stride, q + h * dim, dim, groups * QN_GROUP);
    }
    for (size_t at = 0; at < key_count; at += QN_ATTENTION_BLOCK) {
        size_t count = qn_min_size(QN_ATTENTION_BLOCK, key_count - at);
        const uint8_t *gathered[QN_ATTENTION_BLOCK];
        for (size_t i = 0; i < count; i++) {
            gathered[i] = s.keys + i * stride;
            memcpy(s.keys + i * stride, keys[at + i], dim * 2);
        }
        for (size_t h = 0; h < heads; h += TILE_HEADS) {
            size_t tile = qn_min_size(TILE_HEADS, heads - h);
            score_tile(s.scores, s.queries + h * stride, tile, stride, gathered, count, groups);
            for (size_t r = 0; r < tile; r++)
                qn_softmax_block(&s.heads[h + r], s.scores + r * QN_ATTENTION_BLOCK, count, scale);
            weigh_tile(out + h * latent, latent, s.heads + h, tile, s.scores, s.keys, stride, count);
        }
    }
    for (size_t h = 0; h < heads; h++)
        qn_softmax_finish(&s.heads[h], out + h * latent, latent);
}
