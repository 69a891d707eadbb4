/* Attention over BF16 keys.
 *
 * The heads of absorbed MLA share their keys, so attention is two small matrix products per block of keys, with the
 * online softmax between them. Eight keys at a time are widened to float32, in their natural order, and meet the
 * queries of all heads while they are in the L1 cache; the weighted sum then walks the block in panels of columns, each
 * small enough to stay there while the heads go over it. */
#include "kernels/x86/avx2_softmax.h"

enum {
    KEYS_AT_ONCE = 8, /* what one vector of scores holds */
    TILE_KEYS = 4,
    TILE_QUERIES = 3,
    PANEL = 64, /* columns: 16 KiB of a block's keys */
    LINE = 64   /* bytes of a cache line */
};

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

/* The scratch memory: queries, one block of keys, its scores, and each head's state. Rows of queries and keys are
 * `stride` floats apart: an odd number of cache lines, so that a panel's lines spread over all sets. */
typedef struct attend_scratch {
    float *queries, *keys, *scores;
    qn_softmax *heads;
} attend_scratch;

static size_t row_halves(size_t dim)
{
    return qn_ceil_div(dim, QN_HALF);
}

static size_t row_stride(size_t dim)
{
    return row_halves(dim) * QN_HALF + LINE / sizeof(float);
}

static size_t lay_out(attend_scratch *s, float *base, size_t heads, size_t stride)
{
    size_t queries = heads * stride, keys = QN_ATTENTION_BLOCK * stride, scores = heads * QN_ATTENTION_BLOCK;
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
    return lay_out(NULL, NULL, heads, row_stride(latent + rope));
}

/* The lanes of a tile's dot products: [2, TILE_QUERIES, KEYS_AT_ONCE, 8], the registers of a pair far apart. */
enum { SIDE = TILE_QUERIES * KEYS_AT_ONCE * 8 };

/* Adds half a group to one register of the lanes of R queries times TILE_KEYS keys. */
QN_INLINE void dot_half(float *lanes, const float *queries, const float *keys, size_t stride, const int R)
{
    __m256 fresh[TILE_KEYS][TILE_QUERIES];
    for (int k = 0; k < TILE_KEYS; k++)
        for (int r = 0; r < R; r++)
            fresh[k][r] = _mm256_setzero_ps();
    for (size_t i = 0; i < QN_HALF; i += 8) {
        __m256 qs[TILE_QUERIES];
        for (int r = 0; r < R; r++)
            qs[r] = _mm256_load_ps(queries + (size_t)r * stride + i);
        for (int k = 0; k < TILE_KEYS; k++) {
            __m256 key = _mm256_load_ps(keys + (size_t)k * stride + i);
            for (int r = 0; r < R; r++)
                fresh[k][r] = _mm256_fmadd_ps(key, qs[r], fresh[k][r]);
        }
    }
    for (int k = 0; k < TILE_KEYS; k++)
        for (int r = 0; r < R; r++) {
            float *sum = lanes + (r * KEYS_AT_ONCE + k) * 8;
            _mm256_store_ps(sum, _mm256_add_ps(_mm256_load_ps(sum), fresh[k][r]));
        }
}

/* Halves beyond the last element would add zeros and are left out. */
QN_INLINE void dot_tile(float *sums, const float *queries, const float *keys, size_t stride, size_t halves, const int R)
{
    for (; halves >= 2; halves -= 2, queries += QN_GROUP, keys += QN_GROUP) {
        dot_half(sums, queries, keys, stride, R);
        dot_half(sums + SIDE, queries + QN_HALF, keys + QN_HALF, stride, R);
    }
    if (halves == 1)
        dot_half(sums, queries, keys, stride, R);
}

/* Dot products of R queries with KEYS_AT_ONCE keys: scores[r * QN_ATTENTION_BLOCK + k]. */
QN_INLINE void score_tile(float *scores, const float *queries, const float *keys, size_t stride, size_t halves,
                          const int R)
{
    _Alignas(64) float sums[2 * SIDE];
#pragma GCC unroll 48
    for (int i = 0; i < 2 * SIDE; i += 8)
        _mm256_store_ps(sums + i, _mm256_setzero_ps());
    for (size_t k = 0; k < KEYS_AT_ONCE; k += TILE_KEYS)
        dot_tile(sums + k * 8, queries, keys + k * stride, stride, halves, R);
    for (int r = 0; r < R; r++) {
        const float *low = sums + r * KEYS_AT_ONCE * 8, *high = low + SIDE;
        __m256 dots[KEYS_AT_ONCE];
        for (int k = 0; k < KEYS_AT_ONCE; k++)
            dots[k] = _mm256_add_ps(_mm256_load_ps(low + 8 * k), _mm256_load_ps(high + 8 * k));
        _mm256_store_ps(scores + r * QN_ATTENTION_BLOCK, qn_reduce8x8(dots));
    }
}

/* Keys are scattered over the cache, out of the hardware's foresight: the eight that come next are asked for while
 * these are at work, here lines [line, end) of each. */
QN_INLINE void prefetch_keys(const void *const *next, size_t count, size_t line, size_t end)
{
    for (; line < end; line++)
        for (size_t k = 0; k < count; k++)
            _mm_prefetch((const char *)next[k] + line * LINE, _MM_HINT_T0);
}

/* Scores of all heads against KEYS_AT_ONCE keys: scores[h * QN_ATTENTION_BLOCK + k]. */
static void score_keys(const attend_scratch *s, float *scores, size_t heads, const float *keys, size_t dim,
                       const void *const *next, size_t next_count)
{
    const size_t stride = row_stride(dim), halves = row_halves(dim), lines = dim * 2 / LINE;
    const size_t share = qn_ceil_div(lines, qn_ceil_div(heads, TILE_QUERIES));
    for (size_t h = 0, line = 0; h < heads; h += TILE_QUERIES, line += share) {
        const float *queries = s->queries + h * stride;
        float *at = scores + h * QN_ATTENTION_BLOCK;
        prefetch_keys(next, next_count, line, qn_min_size(line + share, lines));
        if (heads - h >= TILE_QUERIES)
            score_tile(at, queries, keys, stride, halves, TILE_QUERIES);
        else if (heads - h == 2)
            score_tile(at, queries, keys, stride, halves, 2);
        else
            score_tile(at, queries, keys, stride, halves, 1);
    }
}

/* What the weighted sum works on: `count` keys and, per head, QN_ATTENTION_BLOCK probabilities. */
typedef struct weighing {
    float *out; /* [heads, latent] */
    const qn_softmax *heads;
    const float *p, *keys;
    size_t latent, stride, count;
} weighing;

/* out = out * correction + sum of p_i keys_i, keys in order, for R heads from h on and V times eight columns from c on;
 * `masked`: the last columns, fewer than eight. */
QN_INLINE void weigh(const weighing *w, size_t h, size_t c, const int R, const int V, const int masked)
{
    const __m256i mask = masked ? qn_tail_mask(w->latent - c) : _mm256_setzero_si256();
    const float *p = w->p + h * QN_ATTENTION_BLOCK, *key = w->keys + c;
    float *out = w->out + h * w->latent + c;
    __m256 sums[6][8];
    for (int r = 0; r < R; r++)
        for (int v = 0; v < V; v++) {
            const float *at = out + (size_t)r * w->latent + 8 * v;
            __m256 old = masked ? _mm256_maskload_ps(at, mask) : _mm256_loadu_ps(at);
            sums[r][v] = _mm256_mul_ps(old, _mm256_set1_ps(w->heads[h + (size_t)r].correction));
        }
    for (size_t i = 0; i < w->count; i++, key += w->stride) {
        __m256 keys[8];
        for (int v = 0; v < V; v++)
            keys[v] = _mm256_load_ps(key + 8 * v);
        for (int r = 0; r < R; r++) {
            __m256 factor = _mm256_broadcast_ss(p + r * QN_ATTENTION_BLOCK + i);
            for (int v = 0; v < V; v++)
                sums[r][v] = _mm256_fmadd_ps(factor, keys[v], sums[r][v]);
        }
    }
    for (int r = 0; r < R; r++)
        for (int v = 0; v < V; v++) {
            float *at = out + (size_t)r * w->latent + 8 * v;
            if (masked)
                _mm256_maskstore_ps(at, mask, sums[r][v]);
            else
                _mm256_storeu_ps(at, sums[r][v]);
        }
}

/* Columns [c, end) of R heads, V vectors at once. */
QN_INLINE void weigh_heads(const weighing *w, size_t h, size_t c, size_t end, const int R, const int V)
{
    for (; c + 8 * (size_t)V <= end; c += 8 * (size_t)V)
        weigh(w, h, c, R, V, 0);
    for (; c + 8 <= end; c += 8)
        weigh(w, h, c, R, 1, 0);
    if (c < end)
        weigh(w, h, c, R, 1, 1);
}

/* Tiles of at least eight chains of FMAs, which is what hides their latency. */
static void weigh_panel(const weighing *w, size_t heads, size_t c, size_t end)
{
    size_t h = 0;
    for (; h + 6 <= heads && heads - h != 8; h += 6)
        weigh_heads(w, h, c, end, 6, 2);
    for (; h + 4 <= heads; h += 4)
        weigh_heads(w, h, c, end, 4, 2);
    for (; h + 2 <= heads; h += 2)
        weigh_heads(w, h, c, end, 2, 4);
    if (h < heads)
        weigh_heads(w, h, c, end, 1, 8);
}

/* Widens and scores the next `count` of `left` keys: a block, its last keys followed by zeros up to a multiple of
 * KEYS_AT_ONCE. */
static void score_block(const attend_scratch *s, size_t heads, size_t dim, const void *const *keys, size_t count,
                        size_t left)
{
    const size_t stride = row_stride(dim), padded = row_halves(dim) * QN_HALF;
    for (size_t i = 0; i < count; i += KEYS_AT_ONCE) {
        float *wide = s->keys + i * stride;
        for (size_t k = 0; k < KEYS_AT_ONCE; k++)
            if (i + k < count)
                qn_widen_row(wide + k * stride, keys[i + k], dim, padded);
            else
                memset(wide + k * stride, 0, padded * sizeof(float));
        size_t next = qn_min_size(i + KEYS_AT_ONCE, left);
        score_keys(s, s->scores + i, heads, wide, dim, keys + next, qn_min_size(KEYS_AT_ONCE, left - next));
    }
}

void qn_avx2_attend(float *out, const float *q, size_t heads, size_t latent, size_t rope, float scale,
                    const void *const *keys, size_t key_count, void *scratch)
{
    const size_t dim = latent + rope, stride = row_stride(dim);
    attend_scratch s;
    lay_out(&s, scratch, heads, stride);
    memset(out, 0, heads * latent * sizeof(float));
    for (size_t h = 0; h < heads; h++) {
        qn_softmax_start(&s.heads[h]);
        qn_round_row(s.queries + h * stride, q + h * dim, dim, row_halves(dim) * QN_HALF);
    }
    for (size_t at = 0; at < key_count; at += QN_ATTENTION_BLOCK) {
        size_t count = qn_min_size(QN_ATTENTION_BLOCK, key_count - at);
        score_block(&s, heads, dim, keys + at, count, key_count - at);
        for (size_t h = 0; h < heads; h++)
            qn_softmax_block(&s.heads[h], s.scores + h * QN_ATTENTION_BLOCK, count, scale);
        weighing w = {.out = out,
                      .heads = s.heads,
                      .p = s.scores,
                      .keys = s.keys,
                      .latent = latent,
                      .stride = stride,
                      .count = count};
        for (size_t c = 0; c < latent; c += PANEL)
            weigh_panel(&w, heads, c, qn_min_size(c + PANEL, latent));
    }
    for (size_t h = 0; h < heads; h++)
        qn_softmax_finish(&s.heads[h], out + h * latent, latent);
}
