/* A matrix product's time per weight is known at a few numbers of rows and taken as linear between them. */
#include "plan/speed.h"

#include <math.h>

#include "base/size.h"

enum {
    ROW_BLOCK = 8,   /* rows that share a head's W_k and W_v (model/attention.c) */
    FEW_ROWS = 4,    /* up to these, row work stays on one thread (model/parallel.c) */
    LOOPS_DENSE = 6, /* of a layer, beside those over rows */
    LOOPS_SPARSE = 7,
    LOOPS_CHOICE = 3,   /* of an indexer that chooses */
    LOOPS_OVER_ROWS = 8 /* when there are more than FEW_ROWS */
};

static const double BF16_BYTES = 2, MXFP4_BYTES = 17.0 / 32;

bool qn_speed_possible(const qn_hardware *h, qn_figure *missing)
{
    for (qn_figure i = QN_FIGURE_MXFP4_ROWS; i <= QN_FIGURE_LOOP; i++) {
        if (h->figure[i].samples == 0) {
            *missing = i;
            return false;
        }
    }
    return true;
}

static double median(const qn_speed *s, qn_figure figure)
{
    return s->hardware->figure[figure].median;
}

/* Seconds for one weight with the rows of a point. */
static double time_at(const qn_speed *s, bool mxfp4, size_t point)
{
    double rate = median(s, (mxfp4 ? QN_FIGURE_MXFP4_ROWS : QN_FIGURE_BF16_ROWS) + (qn_figure)point) * 1e9;
    return point == 0 ? (mxfp4 ? MXFP4_BYTES : BF16_BYTES) / rate : 2 * (double)qn_row_points[point] / rate;
}

/* Seconds for `weights` weights that meet `rows` rows. */
static double product_time(const qn_speed *s, bool mxfp4, double weights, double rows)
{
    enum { LAST = QN_ROW_POINTS - 1 };
    double most = (double)qn_row_points[LAST];
    if (rows >= most)
        return weights * time_at(s, mxfp4, LAST) * rows / most;
    if (rows <= 1)
        return weights * time_at(s, mxfp4, 0);
    size_t i = 0;
    while (rows > (double)qn_row_points[i + 1])
        i++;
    double low = (double)qn_row_points[i], high = (double)qn_row_points[i + 1], share = (rows - low) / (high - low);
    return weights * ((1 - share) * time_at(s, mxfp4, i) + share * time_at(s, mxfp4, i + 1));
}

/* W_k's products, transposed, in blocks of rows; between 1 row and 8 linear. */
static double transposed_time(const qn_speed *s, double weights, double rows)
{
    double one = BF16_BYTES / (median(s, QN_FIGURE_TRANSPOSED_1) * 1e9);
    double eight = 2.0 * ROW_BLOCK / (median(s, QN_FIGURE_TRANSPOSED_8) * 1e9);
    double block = rows < ROW_BLOCK ? rows : ROW_BLOCK, share = (block - 1) / (ROW_BLOCK - 1);
    return weights * rows / block * ((1 - share) * one + share * eight);
}

/* The attention core of one query with so many keys: linear through the two measured numbers, scaled to the model's
 * heads and widths. */
static double core_time(const qn_speed *s, double keys)
{
    static const double FEW = 64, MANY = 2048, MEASURED = 64 * 2 * (512 + 64 + 512);
    const qn_config *c = s->config;
    double per_key = (double)c->num_attention_heads * 2 * (double)(2 * c->kv_lora_rank + c->qk_rope_head_dim);
    double few = MEASURED * FEW / (median(s, QN_FIGURE_ATTENTION_FEW) * 1e9);
    double many = MEASURED * MANY / (median(s, QN_FIGURE_ATTENTION) * 1e9);
    double time = few + (many - few) * (keys - FEW) / (MANY - FEW), least = many * keys / MANY;
    return (time > least ? time : least) * per_key / MEASURED;
}

/* Rows of a step: how many, what they attend to, how many choose. */
typedef struct row_set {
    double count;
    double keys;       /* that a row attends to, on average */
    double choosing;   /* rows with more keys than index_topk */
    double scored;     /* keys that a choosing row scores, on average */
    double cold_bytes; /* of cached latents and of index keys, read once each per layer */
    double cold_index_bytes;
    double logits; /* rows that meet the head */
} row_set;

static double plain_read_rate(const qn_speed *s)
{
    const qn_hardware *h = s->hardware;
    return h->read[h->read_count - 1].small_pages.median * 1e9;
}

static void add_attention(const qn_speed *s, const row_set *r, bool indexer, qn_step_time *t)
{
    const qn_config *c = s->config;
    double hidden = (double)c->hidden_size, heads = (double)c->num_attention_heads, q_rank = (double)c->q_lora_rank;
    double latent = (double)c->kv_lora_rank, rope = (double)c->qk_rope_head_dim, nope = (double)c->qk_nope_head_dim;
    double value = (double)c->v_head_dim, index_width = (double)c->index_head_dim;
    double index_heads = (double)c->index_n_heads;
    double weights = hidden * (q_rank + latent + rope) + heads * (nope + rope) * q_rank + heads * value * hidden;
    if (indexer)
        weights += index_heads * index_width * q_rank + (index_width + index_heads) * hidden;
    t->projections += product_time(s, false, weights, r->count);
    double block = r->count < ROW_BLOCK ? r->count : ROW_BLOCK;
    t->absorbed += transposed_time(s, heads * nope * latent, r->count) +
                   product_time(s, false, heads * value * latent, block) * r->count / block;
    t->attention += r->count * core_time(s, r->keys) + r->cold_bytes / plain_read_rate(s);
    if (indexer && r->choosing > 0) {
        double threads = (double)s->hardware->threads, side_by_side = r->choosing < threads ? r->choosing : threads;
        double scores = r->choosing * r->scored;
        t->indexer += scores * index_heads * index_width * 2 / (median(s, QN_FIGURE_INDEXER) * 1e9) +
                      scores / (median(s, QN_FIGURE_TOPK) * 1e6 * side_by_side) +
                      r->cold_index_bytes / plain_read_rate(s);
    }
}

double qn_distinct_experts(const qn_config *c, double rows)
{
    double experts = (double)c->n_routed_experts;
    return experts * (1 - pow(1 - (double)c->num_experts_per_tok / experts, rows));
}

static void add_mlp(const qn_speed *s, const row_set *r, bool sparse, qn_step_time *t)
{
    const qn_config *c = s->config;
    double hidden = (double)c->hidden_size, inner = (double)c->moe_intermediate_size;
    double dense = sparse ? inner * (double)c->n_shared_experts : (double)c->intermediate_size;
    t->shared += product_time(s, false, 3 * dense * hidden, r->count);
    if (!sparse)
        return;
    double distinct = qn_distinct_experts(c, r->count), taken = r->count * (double)c->num_experts_per_tok;
    t->routed += product_time(s, s->form == QN_PLAN_MXFP4, 3 * distinct * inner * hidden, taken / distinct);
    t->projections += product_time(s, false, (double)c->n_routed_experts * hidden, r->count);
}

/* Values that are normed, packed, added or multiplied for one row of a layer. */
static double row_values(const qn_config *c, bool sparse)
{
    double hidden = (double)c->hidden_size, taken = sparse ? (double)c->num_experts_per_tok : 0;
    double inner = taken * (double)c->moe_intermediate_size;
    inner += sparse ? (double)(c->n_shared_experts * c->moe_intermediate_size) : (double)c->intermediate_size;
    double attention = 3 * hidden + 2 * (double)c->q_lora_rank + (double)(c->num_attention_heads * c->v_head_dim);
    return attention + (5 + taken) * hidden + 2 * inner;
}

static void add_layer(const qn_speed *s, const row_set *r, bool sparse, bool indexer, qn_step_time *t)
{
    add_attention(s, r, indexer, t);
    add_mlp(s, r, sparse, t);
    bool many = r->count > FEW_ROWS;
    double side_by_side = many ? (double)s->hardware->threads : 1;
    t->row_work += r->count * row_values(s->config, sparse) / (median(s, QN_FIGURE_ROW_WORK) * 1e6 * side_by_side);
    double loops = (sparse ? LOOPS_SPARSE : LOOPS_DENSE) + (many ? LOOPS_OVER_ROWS : 0) +
                   (indexer && r->choosing > 0 ? LOOPS_CHOICE : 0);
    t->loops += loops * median(s, QN_FIGURE_LOOP) / 1e6;
}

static void add_head(const qn_speed *s, double count, qn_step_time *t)
{
    t->head += product_time(s, false, (double)s->config->vocab_size * (double)s->config->hidden_size, count);
}

static void add_model(const qn_speed *s, const row_set *r, qn_step_time *t)
{
    const qn_config *c = s->config;
    for (size_t layer = 0; layer < c->num_hidden_layers; layer++)
        add_layer(s, r, c->layer_is_sparse[layer], c->layer_has_indexer[layer], t);
    add_head(s, r->logits, t);
}

static void add_mtp(const qn_speed *s, const row_set *r, qn_step_time *t)
{
    double hidden = (double)s->config->hidden_size;
    add_layer(s, r, true, true, t);
    t->projections += product_time(s, false, 2 * hidden * hidden, r->count);
    add_head(s, r->logits, t);
}

static qn_step_time summed(qn_step_time t)
{
    t.total = t.projections + t.routed + t.shared + t.absorbed + t.attention + t.indexer + t.head + t.row_work +
              t.loops;
    return t;
}

static row_set decode_rows(const qn_config *c, double sequences, double each, double context)
{
    double keys = context + 1, most = (double)c->index_topk, taken = keys < most ? keys : most;
    double width = (double)(c->kv_lora_rank + c->qk_rope_head_dim);
    return (row_set){.count = sequences * each,
                     .keys = taken,
                     .choosing = keys > most ? sequences * each : 0,
                     .scored = keys,
                     .cold_bytes = sequences * taken * width * BF16_BYTES,
                     .cold_index_bytes = keys > most ? sequences * keys * (double)c->index_head_dim * BF16_BYTES : 0,
                     .logits = sequences * each};
}

qn_step_time qn_speed_decode(const qn_speed *s, size_t sequences, size_t context, size_t drafts)
{
    qn_step_time t = {0};
    row_set main_rows = decode_rows(s->config, (double)sequences, (double)(1 + drafts), (double)context);
    add_model(s, &main_rows, &t);
    if (drafts > 0) {
        /* the first draft's call also enters the rows that the last step gave; each further one is a row of its own */
        row_set first = decode_rows(s->config, (double)sequences, (double)(1 + drafts), (double)context);
        first.logits = (double)sequences;
        add_mtp(s, &first, &t);
        row_set further = decode_rows(s->config, (double)sequences, 1, (double)context);
        for (size_t i = 1; i < drafts; i++)
            add_mtp(s, &further, &t);
    }
    return summed(t);
}

double qn_tokens_per_step(double acceptance, size_t drafts)
{
    double tokens = 1, all_accepted = 1;
    for (size_t i = 0; i < drafts; i++) {
        all_accepted *= acceptance;
        tokens += all_accepted;
    }
    return tokens;
}

/* The sum of min(p + 1, most) over positions p in [first, last). */
static double sum_of_keys(double first, double last, double most)
{
    double below = last < most ? last : first > most ? first : most; /* positions from here on have `most` keys */
    double growing = below > first ? (below - first) * (first + below + 1) / 2 : 0;
    return growing + (last > below ? (last - below) * most : 0);
}

static row_set chunk_rows(const qn_config *c, double first, double last)
{
    double most = (double)c->index_topk, count = last - first, chooser = first > most ? first : most;
    double choosing = last > chooser ? last - chooser : 0;
    return (row_set){.count = count,
                     .keys = sum_of_keys(first, last, most) / count,
                     .choosing = choosing,
                     .scored = choosing > 0 ? (chooser + last + 1) / 2 : 0};
}

/* Of rows that leave a layer once they are cached: their projections, of those that need them. */
static void add_cached_rows(const qn_speed *s, double count, bool indexer, qn_step_time *t)
{
    const qn_config *c = s->config;
    double width = (double)(c->q_lora_rank + c->kv_lora_rank + c->qk_rope_head_dim);
    if (indexer)
        width += (double)(c->index_head_dim + c->index_n_heads);
    t->projections += product_time(s, false, width * (double)c->hidden_size, count);
}

qn_step_time qn_speed_prefill(const qn_speed *s, size_t tokens, size_t chunk)
{
    const qn_config *c = s->config;
    const size_t last_layer = c->num_hidden_layers - 1;
    qn_step_time t = {0};
    for (size_t first = 0; first < tokens; first += chunk) {
        size_t last = qn_min_size(first + chunk, tokens);
        row_set r = chunk_rows(c, (double)first, (double)last);
        for (size_t layer = 0; layer < last_layer; layer++)
            add_layer(s, &r, c->layer_is_sparse[layer], c->layer_has_indexer[layer], &t);
        add_cached_rows(s, r.count, c->layer_has_indexer[last_layer], &t);
    }
    const row_set answered = chunk_rows(c, (double)(tokens - 1), (double)tokens);
    add_layer(s, &answered, c->layer_is_sparse[last_layer], c->layer_has_indexer[last_layer], &t);
    add_head(s, 1, &t);
    return summed(t);
}
