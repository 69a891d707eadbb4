/* One order of summation: a row's result is the same to the bit whatever else is in the call, however the prompt is
 * cut, whatever was computed and dropped before (rejected drafts), wherever the cache's blocks lie and however many
 * threads there are, and whether its experts are in memory or come from the disk. Held by playing random schedules
 * against a plain run, for every backend of this CPU: on random models of random shapes and weight formats, on a
 * reference checkpoint, and on a model with the released index_topk of 2,048 and prompts beyond it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "golden/draw.h"
#include "golden/goldens.h"
#include "golden/random_checkpoint.h"
#include "golden/rig.h"

/* Builds for sanitizers do the same with less. */
#ifdef NDEBUG
enum { RANDOM_MODELS = 6, ORACLE_TOKENS = 300, SMALL_TOKENS = 140, LONG_MODELS = 2 };
#else
enum { RANDOM_MODELS = 2, ORACLE_TOKENS = 90, SMALL_TOKENS = 60, LONG_MODELS = 1 };
#endif

enum { MAX_SEQUENCES = 3, MAX_WRONG = 3, MAX_THREADS = 4, LONG_TOPK = 2048, LONG_TOKENS = 2300 };

/* What a plain run gives: each sequence alone, one thread, as few chunks as possible. */
typedef struct sequence_truth {
    size_t n;
    int32_t *ids, *next_ids;
    float *hidden, *logits, *mtp; /* [n, hidden_size], [n, vocab_size], [n, hidden_size] */
} sequence_truth;

typedef struct playing {
    const char *what; /* for messages */
    drawer *draws;
    rig *r;
    sequence_truth *truth;
    size_t count;
    qn_kv_sequence sequence[MAX_SEQUENCES];
    size_t done[MAX_SEQUENCES], mtp_done[MAX_SEQUENCES];
    size_t most_rows; /* a sequence adds to a call */
} playing;

static int32_t *draw_ids(drawer *d, size_t n, size_t vocab)
{
    int32_t *ids = rig_alloc(n, sizeof *ids);
    for (size_t i = 0; i < n; i++)
        ids[i] = (int32_t)draw_between(d, 0, vocab - 1);
    return ids;
}

static sequence_truth plain_run(rig *r, drawer *d, size_t n)
{
    bool has_mtp = qn_model_has_mtp(r->model);
    sequence_truth t = {.n = n,
                        .ids = draw_ids(d, n, r->vocab_size),
                        .next_ids = draw_ids(d, n, r->vocab_size),
                        .hidden = rig_alloc(n * r->hidden_size, sizeof *t.hidden),
                        .logits = rig_alloc(n * r->vocab_size, sizeof *t.logits),
                        .mtp = rig_alloc(n * r->hidden_size, sizeof *t.mtp)};
    for (size_t i = 1; i < n; i++)
        t.next_ids[i - 1] = t.ids[i];
    qn_kv_sequence sequence = rig_sequence(r);
    rig_forward(r, &sequence, t.ids, 0, n, 0, t.hidden, NULL);
    for (size_t i = 0; i < n; i++)
        rig_logits(r, t.hidden + i * r->hidden_size, 1, t.logits + i * r->vocab_size);
    if (has_mtp)
        rig_mtp(r, &sequence, t.next_ids, t.hidden, 0, n, 0, t.mtp, NULL, NULL);
    qn_kv_sequence_free(&sequence);
    return t;
}

static void free_truth(sequence_truth *t)
{
    qn_free(t->ids);
    qn_free(t->next_ids);
    qn_free(t->hidden);
    qn_free(t->logits);
    qn_free(t->mtp);
}

static void must_equal(const playing *p, const char *what, const float *ours, const float *truth, size_t width,
                       size_t sequence, size_t position)
{
    if (memcmp(ours, truth, width * sizeof *ours) != 0)
        fail_msg("%s (seed %llu): %s of position %zu of sequence %zu differs from the plain run", p->what,
                 (unsigned long long)p->draws->seed, what, position, sequence);
}

static void must_work(qn_status status, const qn_error *err)
{
    if (status != QN_OK)
        fail_msg("%s", err->message);
}

/* A part of one call: `count` right rows of a sequence, then `wrong` ones that are dropped afterwards. The first
 * `unwanted` rows are there for the caches. */
typedef struct part {
    size_t sequence, count, wrong, unwanted;
    int32_t *ids; /* [count + wrong] */
} part;

static void swap_parts(part *a, part *b)
{
    part c = *a;
    *a = *b;
    *b = c;
}

/* Some of the unfinished sequences in random order, at least one; 0 when all are finished. `done` and `limit` say how
 * far each is and may go. */
static size_t draw_parts(playing *p, const size_t *done, const size_t *limit, size_t wrong_percent, part *parts)
{
    size_t count = 0, rows_left = p->r->max_rows;
    for (size_t s = 0; s < p->count; s++) {
        if (done[s] == limit[s] || rows_left == 0)
            continue;
        size_t left = limit[s] - done[s], most = left < p->most_rows ? left : p->most_rows;
        most = most < rows_left ? most : rows_left;
        part drawn = {.sequence = s, .count = draw_percent(p->draws, 40) ? 1 : draw_between(p->draws, 1, most)};
        rows_left -= drawn.count;
        size_t room = p->r->max_context_tokens - (done[s] + drawn.count);
        if (draw_percent(p->draws, (unsigned)wrong_percent) && room >= MAX_WRONG && rows_left >= MAX_WRONG) {
            drawn.wrong = draw_between(p->draws, 1, MAX_WRONG);
            rows_left -= drawn.wrong;
        }
        drawn.unwanted = draw_percent(p->draws, 40) ? draw_between(p->draws, 0, drawn.count + drawn.wrong) : 0;
        parts[count++] = drawn;
    }
    for (size_t i = count; i > 1; i--)
        swap_parts(&parts[i - 1], &parts[draw_between(p->draws, 0, i - 1)]);
    if (count > 1 && draw_percent(p->draws, 30))
        count--;
    return count;
}

/* Rows that a call is to leave as they are hold this. */
static const float UNTOUCHED = 12345.0f;

static float *untouched_rows(size_t count, size_t width)
{
    float *rows = rig_alloc(count * width, sizeof *rows);
    for (size_t i = 0; i < count * width; i++)
        rows[i] = UNTOUCHED;
    return rows;
}

static void must_be_untouched(const playing *p, const float *row, size_t width, size_t sequence, size_t position)
{
    for (size_t i = 0; i < width; i++)
        if (row[i] != UNTOUCHED)
            fail_msg("%s (seed %llu): position %zu of sequence %zu was not wanted and has an output", p->what,
                     (unsigned long long)p->draws->seed, position, sequence);
}

static void check_logits(playing *p, const float *const *rows, const float *const *truth, size_t count)
{
    float **out = rig_alloc(count, sizeof *out);
    for (size_t i = 0; i < count; i++)
        out[i] = rig_alloc(p->r->vocab_size, sizeof **out);
    qn_model_logits(p->r->model, rows, count, out);
    for (size_t i = 0; i < count; i++) {
        must_equal(p, "logits", out[i], truth[i], p->r->vocab_size, 0, i);
        qn_free(out[i]);
    }
    qn_free(out);
}

/* One call of the target; false when all is done. */
static bool play_forward(playing *p)
{
    part parts[MAX_SEQUENCES];
    qn_segment segments[MAX_SEQUENCES];
    size_t limit[MAX_SEQUENCES], width = p->r->hidden_size, rows = 0, picked = 0;
    for (size_t s = 0; s < p->count; s++)
        limit[s] = p->truth[s].n;
    size_t count = draw_parts(p, p->done, limit, 40, parts);
    if (count == 0)
        return false;
    qn_error err;
    for (size_t i = 0; i < count; i++) {
        part *t = &parts[i];
        size_t start = p->done[t->sequence];
        t->ids = draw_ids(p->draws, t->count + t->wrong, p->r->vocab_size);
        memcpy(t->ids, p->truth[t->sequence].ids + start, t->count * sizeof *t->ids);
        must_work(qn_kv_sequence_reserve(&p->sequence[t->sequence], start + t->count + t->wrong, &err), &err);
        segments[i] = (qn_segment){.sequence = &p->sequence[t->sequence],
                                   .ids = t->ids,
                                   .start = start,
                                   .count = t->count + t->wrong,
                                   .unwanted = t->unwanted};
        rows += t->count + t->wrong;
    }
    float *hidden = untouched_rows(rows, width);
    const float **chosen = rig_alloc(rows, sizeof *chosen), **expected = rig_alloc(rows, sizeof *expected);
    must_work(qn_model_forward(p->r->model, segments, count, hidden, NULL, &err), &err);
    const float *row = hidden;
    for (size_t i = 0; i < count; i++) {
        const part *t = &parts[i];
        const sequence_truth *truth = &p->truth[t->sequence];
        for (size_t k = 0; k < t->count; k++, row += width) {
            size_t position = p->done[t->sequence] + k;
            if (k < t->unwanted) {
                must_be_untouched(p, row, width, t->sequence, position);
                continue;
            }
            must_equal(p, "hidden state", row, truth->hidden + position * width, width, t->sequence, position);
            if (draw_percent(p->draws, 30)) {
                chosen[picked] = row;
                expected[picked++] = truth->logits + position * p->r->vocab_size;
            }
        }
        row += t->wrong * width;
        p->done[t->sequence] += t->count;
        if (draw_percent(p->draws, 50))
            qn_kv_sequence_truncate(&p->sequence[t->sequence], p->done[t->sequence] + 1);
        qn_free(t->ids);
    }
    check_logits(p, chosen, expected, picked);
    qn_free(chosen);
    qn_free(expected);
    qn_free(hidden);
    return true;
}

/* Drafts after the last entry of a sequence: what they leave in the cache is written over later. */
static void play_chain(playing *p, size_t s, const float *last, qn_mtp_selection *selection)
{
    size_t width = p->r->hidden_size, steps = draw_between(p->draws, 1, MAX_WRONG);
    float *hidden = rig_alloc(width, sizeof *hidden), *out = rig_alloc(width, sizeof *out);
    memcpy(hidden, last, width * sizeof *hidden);
    for (size_t i = 0; i < steps && p->mtp_done[s] + i < p->r->max_context_tokens; i++) {
        int32_t id = (int32_t)draw_between(p->draws, 0, p->r->vocab_size - 1);
        bool reuse = draw_percent(p->draws, 50);
        qn_mtp_segment segment = {.sequence = &p->sequence[s],
                                  .next_ids = &id,
                                  .hidden = hidden,
                                  .start = p->mtp_done[s] + i,
                                  .count = 1,
                                  .selection = reuse ? selection : NULL,
                                  .reuse_selection = reuse};
        qn_error err;
        must_work(qn_kv_sequence_reserve(&p->sequence[s], p->mtp_done[s] + i + 2, &err), &err);
        must_work(qn_model_mtp(p->r->model, &segment, 1, out, NULL, &err), &err);
        memcpy(hidden, out, width * sizeof *hidden);
    }
    qn_free(hidden);
    qn_free(out);
}

/* One call of the MTP layer over positions that the target has computed; false when there are none. */
static bool play_mtp(playing *p)
{
    part parts[MAX_SEQUENCES];
    qn_mtp_segment segments[MAX_SEQUENCES];
    qn_mtp_selection selections[MAX_SEQUENCES];
    size_t width = p->r->hidden_size, topk = qn_model_config(p->r->model)->index_topk, rows = 0;
    size_t count = draw_parts(p, p->mtp_done, p->done, 0, parts);
    qn_error err;
    for (size_t i = 0; i < count; i++) {
        part *t = &parts[i];
        const sequence_truth *truth = &p->truth[t->sequence];
        size_t start = p->mtp_done[t->sequence];
        if (t->unwanted == t->count)
            t->unwanted--; /* the selection is the last row's */
        selections[i] = (qn_mtp_selection){.positions = rig_alloc(topk, sizeof(int32_t))};
        must_work(qn_kv_sequence_reserve(&p->sequence[t->sequence], start + t->count + 1, &err), &err);
        segments[i] = (qn_mtp_segment){.sequence = &p->sequence[t->sequence],
                                       .next_ids = truth->next_ids + start,
                                       .hidden = truth->hidden + start * width,
                                       .start = start,
                                       .count = t->count,
                                       .unwanted = t->unwanted,
                                       .selection = &selections[i]};
        rows += t->count;
    }
    if (count == 0)
        return false;
    float *out = untouched_rows(rows, width);
    must_work(qn_model_mtp(p->r->model, segments, count, out, NULL, &err), &err);
    const float *row = out;
    for (size_t i = 0; i < count; i++) {
        size_t s = parts[i].sequence;
        for (size_t k = 0; k < parts[i].count; k++, row += width) {
            size_t position = p->mtp_done[s] + k;
            if (k < parts[i].unwanted)
                must_be_untouched(p, row, width, s, position);
            else
                must_equal(p, "MTP output", row, p->truth[s].mtp + position * width, width, s, position);
        }
        p->mtp_done[s] += parts[i].count;
        if (draw_percent(p->draws, 30))
            play_chain(p, s, row - width, &selections[i]);
        qn_free(selections[i].positions);
    }
    qn_free(out);
    return true;
}

static void play(playing *p)
{
    bool has_mtp = qn_model_has_mtp(p->r->model);
    for (size_t s = 0; s < p->count; s++)
        p->sequence[s] = rig_sequence(p->r);
    for (bool more = true; more;) {
        more = play_forward(p);
        if (has_mtp && (!more || draw_percent(p->draws, 60)))
            more = play_mtp(p) || more;
    }
    for (size_t s = 0; s < p->count; s++)
        qn_kv_sequence_free(&p->sequence[s]);
}

typedef struct trial {
    const char *dir, *what;
    size_t tokens[MAX_SEQUENCES], count; /* lengths of the sequences */
    size_t most_rows, max_rows, rounds, dsa_dense_below;
    size_t expert_bytes; /* of one in an expert cache, at most; 0: play without one */
} trial;

static void run_trial(const trial *t, const char *isa, drawer *d)
{
    size_t longest = 0;
    sequence_truth truth[MAX_SEQUENCES];
    char what[128];
    snprintf(what, sizeof what, "%s, %s", t->what, isa);
    for (size_t s = 0; s < t->count; s++)
        longest = t->tokens[s] > longest ? t->tokens[s] : longest;
    rig_options options = {.isa = isa,
                           .threads = 1,
                           .max_context_tokens = longest,
                           .sequences = t->count,
                           .dsa_dense_below = t->dsa_dense_below};
    rig plain = rig_open(t->dir, options);
    for (size_t s = 0; s < t->count; s++)
        truth[s] = plain_run(&plain, d, t->tokens[s]);
    rig_close(&plain);
    for (size_t i = 0; i < t->rounds; i++) {
        options.threads = draw_between(d, 1, MAX_THREADS);
        options.max_rows = t->max_rows;
        options.block_tokens = DRAW_OF(d, 16, 32, 64, 128, 256);
        options.expert_cache_bytes = draw_percent(d, 60) ? draw_between(d, 16, 40) * t->expert_bytes : 0;
        rig r = rig_open(t->dir, options);
        playing p = {.what = what, .draws = d, .r = &r, .truth = truth, .count = t->count, .most_rows = t->most_rows};
        play(&p);
        rig_close(&r);
    }
    for (size_t s = 0; s < t->count; s++)
        free_truth(&truth[s]);
}

static void run_on_every_backend(const trial *t, drawer *d)
{
    size_t count;
    const qn_kernels *const *kernels = qn_kernels_all(&count);
    for (size_t i = 0; i < count; i++)
        if (qn_kernels_supported(kernels[i]))
            run_trial(t, kernels[i]->name, d);
}

static random_shape draw_shape(drawer *d)
{
    random_shape s = random_shape_small();
    s.mxfp4_experts = draw_percent(d, 50);
    s.hidden_size = DRAW_OF(d, 32, 96, 128, 160, 288);
    s.moe_intermediate_size = DRAW_OF(d, 32, 96, 160);
    s.intermediate_size = DRAW_OF(d, 40, 130, 256);
    s.num_attention_heads = draw_between(d, 1, 9);
    s.q_lora_rank = DRAW_OF(d, 24, 64, 136);
    s.kv_lora_rank = DRAW_OF(d, 16, 64, 140);
    s.qk_nope_head_dim = DRAW_OF(d, 8, 20, 64);
    s.v_head_dim = DRAW_OF(d, 8, 28, 64);
    s.index_topk = DRAW_OF(d, 1, 7, 24, 48);
    s.index_n_heads = DRAW_OF(d, 1, 3, 8);
    s.n_group = DRAW_OF(d, 1, 2);
    s.n_routed_experts = s.n_group * draw_between(d, 4, 9);
    s.num_experts_per_tok = draw_between(d, 1, 4);
    s.n_shared_experts = draw_between(d, 1, 2);
    s.layers = (const char *[]){"Ffs", "fsF", "FSfs", "f"}[draw_between(d, 0, 3)];
    s.has_mtp = draw_percent(d, 75);
    s.mtp_has_own_head = s.has_mtp && draw_percent(d, 50);
    s.tie_word_embeddings = draw_percent(d, 25);
    s.dtype = (qn_dtype)DRAW_OF(d, QN_DTYPE_BF16, QN_DTYPE_BF16, QN_DTYPE_F16, QN_DTYPE_F32);
    return s;
}

/* Three matrices of at most 4 bytes a value and their scales, each in whole blocks of the disk. */
static size_t bytes_of_expert(const random_shape *shape)
{
    enum { BLOCKS = 2 * 4096 };
    if (!strpbrk(shape->layers, "fs"))
        return 0;
    size_t values = shape->hidden_size * shape->moe_intermediate_size;
    return 3 * (4 * values + BLOCKS) + 3 * (values / 32 + BLOCKS);
}

static void test_random_models(void **state)
{
    drawer *d = *state;
    for (size_t i = 0; i < RANDOM_MODELS; i++) {
        random_shape shape = draw_shape(d);
        char dir[RANDOM_DIR_BYTES];
        random_checkpoint_make(&shape, d->seed + i, dir);
        trial t = {.dir = dir,
                   .what = "a random model",
                   .tokens = {draw_between(d, 1, SMALL_TOKENS), draw_between(d, 1, SMALL_TOKENS), SMALL_TOKENS},
                   .count = MAX_SEQUENCES,
                   .most_rows = DRAW_OF(d, 5, 90),
                   .max_rows = 200,
                   .rounds = 3,
                   .dsa_dense_below = DRAW_OF(d, 0, 0, 40),
                   .expert_bytes = bytes_of_expert(&shape)};
        run_on_every_backend(&t, d);
        random_checkpoint_remove(dir);
    }
}

static void test_reference_checkpoint(void **state)
{
    trial t = {.dir = ORACLE "tiny-sparse",
               .what = "tiny-sparse",
               .tokens = {ORACLE_TOKENS, 40, ORACLE_TOKENS / 2},
               .count = MAX_SEQUENCES,
               .most_rows = 30,
               .max_rows = 64,
               .rounds = 2};
    run_on_every_backend(&t, *state);
}

/* Where the released model's cut begins. */
static void test_beyond_two_thousand_keys(void **state)
{
    drawer *d = *state;
    random_shape shape = random_shape_small();
    shape.hidden_size = shape.q_lora_rank = 64;
    shape.num_attention_heads = 1;
    shape.kv_lora_rank = 32;
    shape.qk_rope_head_dim = 8;
    shape.index_head_dim = 16;
    shape.index_n_heads = 2;
    shape.index_topk = LONG_TOPK;
    shape.layers = "Fs";
    for (size_t i = 0; i < LONG_MODELS; i++) {
        char dir[RANDOM_DIR_BYTES];
        shape.has_mtp = i == 1; /* once more with the MTP layer */
        random_checkpoint_make(&shape, d->seed + 1000 + i, dir);
        trial t = {.dir = dir,
                   .what = "2,300 tokens",
                   .tokens = {LONG_TOKENS, 100},
                   .count = 2,
                   .most_rows = 400,
                   .max_rows = 512,
                   .rounds = 1};
        run_on_every_backend(&t, d);
        random_checkpoint_remove(dir);
    }
}

static int start(void **state)
{
    static drawer draws;
    draws = draw_start();
    *state = &draws;
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_models),
        cmocka_unit_test(test_reference_checkpoint),
        cmocka_unit_test(test_beyond_two_thousand_keys),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
