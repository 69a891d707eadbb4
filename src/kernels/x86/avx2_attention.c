/* Attention over BF16 keys.
 *
 * The heads of absorbed MLA share their keys, so attention is two small matrix products per block of keys: the keys are
 * widened to float32 once, in their natural order, and stay in the L2 cache while tiles of four heads go over them,
 * first for the scores, then for the weighted sum. The online softmax lies between. */
#include "kernels/x86/avx2_softmax.h"

enum { TILE_HEADS = 4 };

void qn_avx2_store_row(void *row, const float *x, size_t count)
{
    uint8_t *out = row;
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m256i bits = _mm256_srli_epi32(_mm256_castps_si256(qn_round_bf16(_mm256_loadu_ps(x + i))), 16);
        __m256i words = _mm256_permute4x64_epi64(_mm256_packus_epi32(bits, bits), 0x08);
        _mm_storeu_si128((__m128i *)(void *)(out + 2 * i), _mm256_castsi256_si128(words));
    }
    for (; i < count; i++) {
        uint16_t word = qn_f32_to_bf16(x[i]);
        memcpy(out + 2 * i, &word, 2);
    }
}

/* Dot products of up to four rows with up to `count` keys: results[r * QN_ATTENTION_BLOCK + i]. */
static void score_tile(float *results, const float *rows, size_t tile, size_t stride, const float *const *keys,
                       size_t count)
{
    _Alignas(64) float sums[TILE_HEADS * QN_SUMS_STRIDE];
    for (size_t r = 0; r < tile; r++)
        memset(sums + r * QN_SUMS_STRIDE, 0, count * QN_LANES * sizeof(float));
    if (tile == TILE_HEADS)
        qn_tile_rows(sums, rows, NULL, stride, keys, count, stride / QN_GROUP, TILE_HEADS, 0);
    else
        for (size_t r = 0; r < tile; r++)
            qn_tile_rows(sums + r * QN_SUMS_STRIDE, rows + r * stride, NULL, stride, keys, count, stride / QN_GROUP, 1,
                         0);
    for (size_t r = 0; r < tile; r++)
        for (size_t i = 0; i < count; i++) {
            const float *lanes = sums + r * QN_SUMS_STRIDE + i * QN_LANES;
            results[r * QN_ATTENTION_BLOCK + i] = qn_reduce16(_mm256_load_ps(lanes), _mm256_load_ps(lanes + 8));
        }
}

/* out = out * correction + sum of p_i keys_i, keys in order, for R heads and V times eight columns from c on; columns
 * beyond the latent ones are left alone. */
QN_INLINE void weigh(float *out, size_t latent, const qn_softmax *heads, const float *p, const float *keys,
                     size_t stride, size_t count, size_t c, const int R, const int V)
{
    __m256 sums[TILE_HEADS][2];
    __m256i masks[2];
    for (int v = 0; v < V; v++)
        masks[v] = qn_tail_mask(qn_min_size(latent - c - 8 * (size_t)v, 8));
    for (int r = 0; r < R; r++)
        for (int v = 0; v < V; v++) {
            __m256 old = _mm256_maskload_ps(out + (size_t)r * latent + c + 8 * (size_t)v, masks[v]);
            sums[r][v] = _mm256_mul_ps(old, _mm256_set1_ps(heads[r].correction));
        }
    for (size_t i = 0; i < count; i++)
        for (int v = 0; v < V; v++) {
            __m256 key = _mm256_loadu_ps(keys + i * stride + c + 8 * (size_t)v);
            for (int r = 0; r < R; r++)
                sums[r][v] = _mm256_fmadd_ps(_mm256_broadcast_ss(p + r * QN_ATTENTION_BLOCK + i), key, sums[r][v]);
        }
    for (int r = 0; r < R; r++)
        for (int v = 0; v < V; v++)
            _mm256_maskstore_ps(out + (size_t)r * latent + c + 8 * (size_t)v, masks[v], sums[r][v]);
}

static void weigh_tile(float *out, size_t latent, const qn_softmax *heads, size_t tile, const float *p,
                       const float *keys, size_t stride, size_t count)
{
    size_t c = 0;
    if (tile == TILE_HEADS)
        for (; c + 8 < latent; c += 16)
            weigh(out, latent, heads, p, keys, stride, count, c, TILE_HEADS, 2);
    for (; c < latent; c += 8)
        for (size_t r = 0; r < tile; r++)
            weigh(out + r * latent, latent, heads + r, p + r * QN_ATTENTION_BLOCK, keys, stride, count, c, 1, 1);
}

/* The scratch memory: queries, one block of keys, scores of a tile, and each head's state. */
typedef struct attend_scratch {
    float *queries, *keys, *scores;
    qn_softmax *heads;
} attend_scratch;

static size_t lay_out(attend_scratch *s, float *base, size_t heads, size_t stride)
{
    size_t queries = heads * stride, keys = QN_ATTENTION_BLOCK * stride, scores = TILE_HEADS * QN_ATTENTION_BLOCK;
    if (s != NULL) {
        s->queries = base;
        s->keys = base + queries;
        s->scores = s->keys + keys;
        s->heads = (qn_softmax *)(void *)(s->scores + scores);
    }
    return (queries + keys + scores) * sizeof(float) + heads * sizeof(qn_softmax);
}

size_t qn_avx2_attend_scratch_bytes(size_t heads, size_t latent, size_t rope)
{
    return lay_out(NULL, NULL, heads, qn_round_up(latent + rope));
}

void qn_avx2_attend(float *out, const float *q, size_t heads, size_t latent, size_t rope, float scale,
                    const void *const *keys, size_t key_count, void *scratch)
{
    const size_t dim = latent + rope, stride = qn_round_up(dim);
    attend_scratch s;
    lay_out(&s, scratch, heads, stride);
    memset(out, 0, heads * latent * sizeof(float));
    for (size_t h = 0; h < heads; h++) {
        qn_softmax_start(&s.heads[h]);
        qn_round_row(s.queries + h * stride, q + h * dim, dim, stride);
    }
    for (size_t at = 0; at < key_count; at += QN_ATTENTION_BLOCK) {
        size_t count = qn_min_size(QN_ATTENTION_BLOCK, key_count - at);
        const float *wide[QN_ATTENTION_BLOCK];
        for (size_t i = 0; i < count; i++) {
            wide[i] = s.keys + i * stride;
            qn_widen_row(s.keys + i * stride, keys[at + i], dim, stride);
        }
        for (size_t h = 0; h < heads; h += TILE_HEADS) {
            size_t tile = qn_min_size(TILE_HEADS, heads - h);
            score_tile(s.scores, s.queries + h * stride, tile, stride, wide, count);
            for (size_t r = 0; r < tile; r++)
                qn_softmax_block(&s.heads[h + r], s.scores + r * QN_ATTENTION_BLOCK, count, scale);
            weigh_tile(out + h * latent, latent, s.heads + h, tile, s.scores, s.keys, stride, count);
        }
    }
    for (size_t h = 0; h < heads; h++)
        qn_softmax_finish(&s.heads[h], out + h * latent, latent);
}
