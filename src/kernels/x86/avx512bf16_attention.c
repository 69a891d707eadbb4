/* Attention over BF16 keys.
 *
 * The heads of absorbed MLA share their keys, so attention is two small matrix products per block of keys, with the
 * online softmax between them. For the scores a block's keys are turned group by group (avx512bf16_cross.h). For the
 * weighted sum, whose probabilities are float32, they are widened, one panel of columns after another, each of which
 * stays in the L1 cache while the heads go over it. */
#include "kernels/x86/avx2_softmax.h"
#include "kernels/x86/avx512bf16_cross.h"

enum {
    PANELS = QN_ATTENTION_BLOCK / QN_PANEL_KEYS,
    COLUMN_VECTORS = 4,
    COLUMNS = COLUMN_VECTORS * QN_LANES, /* of a panel: 16 KiB of a block's keys */
    LINE = 64                            /* bytes of a cache line */
};

/* Keys are scattered over the cache, out of the hardware's foresight: while a block is at work the next one's are asked
 * for, some lines at a time. */
typedef struct foresight {
    const void *const *keys;
    size_t count, lines; /* of a key */
    size_t key, line;    /* what comes next */
} foresight;

QN_INLINE void look_ahead(foresight *f, size_t lines)
{
    for (; lines > 0 && f->key < f->count; lines--) {
        _mm_prefetch((const char *)f->keys[f->key] + f->line * LINE, _MM_HINT_T0);
        if (++f->line == f->lines) {
            f->line = 0;
            f->key++;
        }
    }
}

/* The scratch memory: queries by groups, a group of a block's keys turned, a panel of its columns widened
 * ([QN_ATTENTION_BLOCK, COLUMNS]), scores, and each head's state. */
typedef struct attend_scratch {
    uint8_t *queries, *turned;
    float *wide, *scores;
    qn_softmax *heads;
} attend_scratch;

static size_t lay_out(attend_scratch *s, uint8_t *base, size_t heads, size_t dim)
{
    size_t queries = qn_ceil_div(dim, QN_GROUP) * heads * QN_CROSS_BYTES;
    size_t turned = (size_t)QN_ATTENTION_BLOCK * QN_CROSS_BYTES;
    size_t wide = (size_t)QN_ATTENTION_BLOCK * COLUMNS * sizeof(float);
    size_t scores = heads * QN_ATTENTION_BLOCK * sizeof(float);
    if (s != NULL) {
        s->queries = base;
        s->turned = base + queries;
        s->wide = (float *)(void *)(s->turned + turned);
        s->scores = (float *)(void *)(s->turned + turned + wide);
        s->heads = (qn_softmax *)(void *)(s->turned + turned + wide + scores);
    }
    return queries + turned + wide + scores + heads * sizeof(qn_softmax);
}

size_t qn_avx512bf16_attend_scratch_bytes(size_t heads, size_t latent, size_t rope)
{
    return lay_out(NULL, NULL, heads, latent + rope);
}

/* scores[r * QN_ATTENTION_BLOCK ..] = or += one group of R heads times a panel. */
QN_INLINE void score_tile(float *scores, const uint8_t *q, const uint8_t *keys, size_t pairs, int first, const int R,
                          const int wide)
{
    __m512 sums[QN_MOST_HEADS][QN_PANEL_VECTORS];
    qn_cross(sums, q, keys, pairs, R, wide);
    for (int r = 0; r < R; r++)
        for (int v = 0; v < QN_PANEL_VECTORS; v++) {
            float *score = scores + r * QN_ATTENTION_BLOCK + v * QN_LANES;
            if (!first)
                sums[r][v] = _mm512_add_ps(_mm512_loadu_ps(score), sums[r][v]);
            _mm512_storeu_ps(score, sums[r][v]);
        }
}

/* One group of all heads times a panel. */
QN_INLINE void score_panel(float *scores, const uint8_t *q, size_t heads, const uint8_t *keys, size_t pairs, int first,
                           foresight *next, size_t lines, const int wide)
{
    const size_t bytes = pairs * (wide ? 8 : 4);
    for (size_t h = 0, tile; h < heads; h += tile) {
        const uint8_t *query = q + h * bytes;
        float *at = scores + h * QN_ATTENTION_BLOCK;
        tile = qn_cross_heads(heads - h);
        look_ahead(next, lines);
        if (tile == 8)
            score_tile(at, query, keys, pairs, first, 8, wide);
        else if (tile == 4)
            score_tile(at, query, keys, pairs, first, 4, wide);
        else if (tile == 2)
            score_tile(at, query, keys, pairs, first, 2, wide);
        else
            score_tile(at, query, keys, pairs, first, 1, wide);
    }
}

static __attribute__((noinline)) void score_panel_by_pairs(float *scores, const uint8_t *q, size_t heads,
                                                           const uint8_t *keys, size_t pairs, int first,
                                                           foresight *next, size_t lines)
{
    score_panel(scores, q, heads, keys, pairs, first, next, lines, 0);
}

static __attribute__((noinline)) void score_panel_wide(float *scores, const uint8_t *q, size_t heads,
                                                       const uint8_t *keys, size_t pairs, int first, foresight *next,
                                                       size_t lines)
{
    score_panel(scores, q, heads, keys, pairs, first, next, lines, 1);
}

/* Scores of all heads against a block of `count` keys: s->scores[h * QN_ATTENTION_BLOCK + i], zeros behind the last. */
static void score_block(const attend_scratch *s, size_t heads, size_t dim, const uint8_t *const *keys, size_t count,
                        qn_dot_form form, foresight *next)
{
    const size_t groups = qn_ceil_div(dim, QN_GROUP), tiles = groups * PANELS * qn_ceil_div(heads, QN_MOST_HEADS);
    const size_t lines = qn_ceil_div(next->count * next->lines, tiles);
    const unsigned old = qn_flush_subnormals();
    for (size_t g = 0; g < groups; g++) {
        const size_t elements = qn_min_size(QN_GROUP, dim - g * QN_GROUP), pairs = qn_ceil_div(elements, 2);
        const uint8_t *q = s->queries + g * heads * QN_CROSS_BYTES;
        for (size_t i = 0; i < QN_ATTENTION_BLOCK; i += QN_PANEL_KEYS) {
            const size_t left = count > i ? count - i : 0;
            uint8_t *panel = s->turned + i * QN_CROSS_BYTES;
            qn_avx512bf16_cross_keys(panel, keys + i, g * QN_GROUP_BYTES, qn_min_size(left, QN_PANEL_KEYS), elements,
                                     form);
            if (form == QN_FORM_WIDE)
                score_panel_wide(s->scores + i, q, heads, panel, pairs, g == 0, next, lines);
            else
                score_panel_by_pairs(s->scores + i, q, heads, panel, pairs, g == 0, next, lines);
        }
    }
    _mm_setcsr(old);
}

QN_INLINE __m512 widen(__m256i words)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(words), 16));
}

/* Columns [c, c + COLUMNS) of the keys' latent part; those behind it are zeros. */
static void widen_columns(float *out, const uint8_t *const *keys, size_t count, size_t latent, size_t c)
{
    for (size_t i = 0; i < count; i++)
#pragma GCC unroll 4
        for (size_t v = 0; v < COLUMNS; v += QN_LANES, out += QN_LANES) {
            __m256i words = _mm256_setzero_si256();
            if (latent >= c + v + QN_LANES)
                words = _mm256_loadu_si256((const __m256i *)(const void *)(keys[i] + 2 * (c + v)));
            else if (latent > c + v)
                memcpy(&words, keys[i] + 2 * (c + v), 2 * (latent - c - v));
            _mm512_storeu_ps(out, widen(words));
        }
}

/* What the weighted sum works on: `count` keys and, per head, QN_ATTENTION_BLOCK probabilities. */
typedef struct weighing {
    float *out; /* [heads, latent] */
    const qn_softmax *heads;
    const float *p;
    size_t latent, count;
} weighing;

QN_INLINE __mmask16 column_mask(size_t latent, size_t c)
{
    if (c >= latent)
        return 0;
    return (__mmask16)(latent - c >= QN_LANES ? 0xffffu : (1u << (latent - c)) - 1u);
}

/* out = out * correction + sum of p_i keys_i, keys in order, for R heads from h on and V times 16 columns from c on,
 * the keys' columns being COLUMNS apart; columns beyond the latent ones are left alone. */
QN_INLINE void weigh(const weighing *w, size_t h, size_t c, const float *keys, const int R, const int V)
{
    const float *p = w->p + h * QN_ATTENTION_BLOCK;
    float *out = w->out + h * w->latent + c;
    const size_t latent = w->latent;
    __mmask16 masks[COLUMN_VECTORS];
    __m512 sums[QN_MOST_HEADS][COLUMN_VECTORS];
    for (int v = 0; v < V; v++)
        masks[v] = column_mask(latent, c + QN_LANES * (size_t)v);
#pragma GCC unroll 8
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int v = 0; v < V; v++)
            sums[r][v] = _mm512_mul_ps(_mm512_maskz_loadu_ps(masks[v], out + (size_t)r * latent + v * QN_LANES),
                                       _mm512_set1_ps(w->heads[h + (size_t)r].correction));
    for (size_t i = 0; i < w->count; i++, keys += COLUMNS) {
        __m512 key[COLUMN_VECTORS];
        for (int v = 0; v < V; v++)
            key[v] = _mm512_loadu_ps(keys + v * QN_LANES);
#pragma GCC unroll 8
        for (int r = 0; r < R; r++) {
            const __m512 factor = _mm512_set1_ps(p[(size_t)r * QN_ATTENTION_BLOCK + i]);
            for (int v = 0; v < V; v++)
                sums[r][v] = _mm512_fmadd_ps(factor, key[v], sums[r][v]);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int v = 0; v < V; v++)
            _mm512_mask_storeu_ps(out + (size_t)r * latent + v * QN_LANES, masks[v], sums[r][v]);
}

/* A panel of columns. */
static void weigh_panel(const weighing *w, size_t heads, size_t c, const float *keys)
{
    for (size_t h = 0, tile; h < heads; h += tile) {
        tile = qn_cross_heads(heads - h);
        if (tile == 8)
            for (size_t v = 0; v < COLUMNS; v += 2 * QN_LANES)
                weigh(w, h, c + v, keys + v, 8, 2);
        else if (tile == 4)
            weigh(w, h, c, keys, 4, 4);
        else if (tile == 2)
            weigh(w, h, c, keys, 2, 4);
        else
            weigh(w, h, c, keys, 1, 4);
    }
}

void qn_avx512bf16_attend(float *out, const float *q, size_t heads, size_t latent, size_t rope, float scale,
                          const void *const *keys, size_t key_count, void *scratch)
{
    const size_t dim = latent + rope;
    const qn_dot_form form = qn_avx512bf16_form();
    attend_scratch s;
    lay_out(&s, scratch, heads, dim);
    memset(out, 0, heads * latent * sizeof(float));
    for (size_t at = 0; at < dim; at += QN_GROUP)
        qn_avx512bf16_cross_queries(s.queries + at / QN_GROUP * heads * QN_CROSS_BYTES, q + at, heads, dim,
                                    qn_min_size(QN_GROUP, dim - at), form);
    for (size_t h = 0; h < heads; h++)
        qn_softmax_start(&s.heads[h]);
    for (size_t at = 0; at < key_count; at += QN_ATTENTION_BLOCK) {
        const size_t count = qn_min_size(QN_ATTENTION_BLOCK, key_count - at), left = key_count - at - count;
        const uint8_t *rows[QN_ATTENTION_BLOCK] = {0};
        for (size_t i = 0; i < count; i++)
            rows[i] = keys[at + i];
        foresight next = {.keys = keys + at + count,
                          .count = qn_min_size(left, QN_ATTENTION_BLOCK),
                          .lines = dim * 2 / LINE};
        if (next.lines == 0)
            next.count = 0;
        score_block(&s, heads, dim, rows, count, form, &next);
        for (size_t h = 0; h < heads; h++)
            qn_softmax_block(&s.heads[h], s.scores + h * QN_ATTENTION_BLOCK, count, scale);
        const weighing w = {.out = out, .heads = s.heads, .p = s.scores, .latent = latent, .count = count};
        for (size_t c = 0; c < latent; c += COLUMNS) {
            widen_columns(s.wide, rows, count, latent, c);
            weigh_panel(&w, heads, c, s.wide);
        }
    }
    for (size_t h = 0; h < heads; h++)
        qn_softmax_finish(&s.heads[h], out + h * latent, latent);
}
