/* The scalar backend against transformers' float32 run of every reference checkpoint and case: hidden states, choices,
 * logits, the MTP layer and chained drafts within 3e-5, whatever the chunks of the prompt; then the greedy
 * continuation and the speculative trace, step by step.
 *
 * A choice may differ where its margin is below 1e-5, and then only what follows from it may differ: later stages of
 * the same row and later rows. Rows before the kept ones are not in the goldens; there a choice of ours with such a
 * margin counts as one that may have differed. Each case prints its worst differences and its near-ties. No difference
 * had to be excused so far; one that does fails the test all the same, saying so, for somebody to look at. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "golden/continuation.h"
#include "golden/goldens.h"
#include "golden/rig.h"

static const double TOLERANCE = 3e-5, NEAR_TIE = 1e-5;

enum {
    CHAIN = 3,
    GREEDY = 48,
    MAX_RECUT = 1200,
    STAGES_PER_LAYER = 4,
    STAGE_TOPK = 0,
    STAGE_ATTENTION = 1,
    STAGE_ROUTER = 2,
    STAGE_HIDDEN = 3
};
enum { LAST_STAGE = 1 << 20 };

typedef struct comparison {
    const char *checkpoint;
    const golden_case *golden;
    const rig_record *record;
    size_t layers; /* the MTP layer not counted */
    int *flip;     /* [kept rows]: the first stage at which the row's, or an earlier row's, choice differed */
    size_t excused, flips;
    double worst;
} comparison;

static bool is_excused(const comparison *c, size_t kept_row, int stage)
{
    return c->flip[kept_row] <= stage;
}

static void note_flip(comparison *c, size_t kept_row, int stage)
{
    c->flips++;
    for (size_t r = kept_row; r < c->golden->n - c->golden->first; r++)
        if (stage < c->flip[r])
            c->flip[r] = stage;
}

/* Names are "hidden.3" in decoder layers and "mtp_hidden" in the MTP layer. */
static void name_of(const comparison *c, const char *what, size_t layer, char *out, size_t bytes)
{
    if (layer == c->layers)
        snprintf(out, bytes, "mtp_%s", what);
    else
        snprintf(out, bytes, "%s.%zu", what, layer);
}

/* What the goldens leave out: attn.L and chains of tiny-long, attn of every MTP layer. */
static bool may_be_absent(const comparison *c, const char *name)
{
    bool is_long = strcmp(c->checkpoint, "tiny-long") == 0;
    return strcmp(name, "mtp_attn") == 0 ||
           (is_long && (strncmp(name, "attn.", 5) == 0 || strncmp(name, "mtp_chain_", 10) == 0));
}

/* [rows, width] of the golden; NULL where it may be absent, a failure where it may not. */
static float *expect_floats(const comparison *c, const char *name, size_t *rows, size_t *width)
{
    float *golden = golden_floats(c->golden, name, rows, width);
    if (!golden && !may_be_absent(c, name))
        fail_msg("%s, %zu tokens: the golden lacks %s", c->checkpoint, c->golden->n, name);
    return golden;
}

/* ours [n, width] against the golden's kept rows. */
static void compare_floats(comparison *c, const char *name, const float *ours, size_t width, int stage)
{
    size_t rows, golden_width, first = c->golden->first;
    float *golden = expect_floats(c, name, &rows, &golden_width);
    if (!golden)
        return;
    assert_int_equal(golden_width, width);
    assert_int_equal(rows, c->golden->n - first);
    double worst = 0;
    for (size_t r = 0; r < rows; r++) {
        double row_worst = 0;
        for (size_t i = 0; i < width; i++) {
            double d = fabs((double)ours[(first + r) * width + i] - (double)golden[r * width + i]);
            row_worst = d > row_worst || isnan(d) ? d : row_worst;
        }
        if (row_worst <= TOLERANCE) {
            worst = row_worst > worst ? row_worst : worst;
            continue;
        }
        if (!is_excused(c, r, stage))
            fail_msg("%s, %zu tokens: %s of position %zu is off by %g", c->checkpoint, c->golden->n, name, first + r,
                     row_worst);
        c->excused++;
    }
    c->worst = worst > c->worst ? worst : c->worst;
    qn_free(golden);
}

static void compare_layer_floats(comparison *c, const char *what, qn_observed observed, size_t layer, int stage)
{
    char name[64];
    size_t rows, width;
    const float *ours = rig_record_find(c->record, observed, layer, &rows, &width);
    name_of(c, what, layer, name, sizeof name);
    if (ours)
        compare_floats(c, name, ours, width, (int)layer * STAGES_PER_LAYER + stage);
}

/* Positions or expert ids; a row's golden list may be narrower than ours, which then ends in -1. */
static bool same_choice(const int32_t *ours, size_t width, const int32_t *golden, size_t golden_width)
{
    if (memcmp(ours, golden, golden_width * sizeof *golden) != 0)
        return false;
    for (size_t i = golden_width; i < width; i++)
        if (ours[i] != -1)
            return false;
    return true;
}

/* Rows that the golden does not keep: our own near-ties there may have gone the other way. */
static void note_hidden_near_ties(comparison *c, qn_observed margin, size_t layer, int stage)
{
    size_t rows, width;
    const float *ours = rig_record_find(c->record, margin, layer, &rows, &width);
    for (size_t r = 0; ours && r < c->golden->first; r++)
        if ((double)ours[r] < NEAR_TIE)
            note_flip(c, 0, stage);
}

static void compare_choices(comparison *c, const char *what, qn_observed observed, const char *margin_what,
                            qn_observed margin_observed, size_t layer, int stage_in_layer)
{
    char name[64], margin_name[64];
    size_t rows, width, golden_rows, golden_width, margin_width, first = c->golden->first;
    int stage = (int)layer * STAGES_PER_LAYER + stage_in_layer;
    const int32_t *ours = rig_record_find(c->record, observed, layer, &rows, &width);
    name_of(c, what, layer, name, sizeof name);
    name_of(c, margin_what, layer, margin_name, sizeof margin_name);
    int32_t *golden = golden_ints(c->golden, name, &golden_rows, &golden_width);
    float *margins = golden_floats(c->golden, margin_name, &golden_rows, &margin_width);
    assert_true((ours != NULL) == (golden != NULL) && (ours != NULL) == (margins != NULL));
    if (!ours)
        return;
    assert_true(rows == c->golden->n && golden_rows == rows - first && golden_width <= width);
    note_hidden_near_ties(c, margin_observed, layer, stage);
    for (size_t r = 0; r < golden_rows; r++) {
        if (same_choice(ours + (first + r) * width, width, golden + r * golden_width, golden_width))
            continue;
        if ((double)margins[r] < NEAR_TIE)
            note_flip(c, r, stage);
        else if (!is_excused(c, r, stage))
            fail_msg("%s, %zu tokens: %s of position %zu differs at a margin of %g", c->checkpoint, c->golden->n, name,
                     first + r, (double)margins[r]);
    }
    qn_free(golden);
    qn_free(margins);
}

static void compare_layer(comparison *c, size_t layer)
{
    compare_choices(c, "topk", QN_OBSERVE_TOPK, "topk_margin", QN_OBSERVE_TOPK_MARGIN, layer, STAGE_TOPK);
    compare_layer_floats(c, "attn", QN_OBSERVE_ATTENTION, layer, STAGE_ATTENTION);
    compare_choices(c, "router_experts", QN_OBSERVE_ROUTER_EXPERTS, "router_margin", QN_OBSERVE_ROUTER_MARGIN, layer,
                    STAGE_ROUTER);
    compare_layer_floats(c, "router_weights", QN_OBSERVE_ROUTER_WEIGHTS, layer, STAGE_ROUTER);
    compare_layer_floats(c, "hidden", QN_OBSERVE_HIDDEN, layer, STAGE_HIDDEN);
}

static void compare_chain(comparison *c, const char *name, rig *r, qn_kv_sequence *sequence, const float *mtp_out,
                          qn_mtp_selection *selection, bool share)
{
    size_t rows, width, draft_count, n = c->golden->n, hidden_size = r->hidden_size;
    float *golden = expect_floats(c, name, &rows, &width);
    if (!golden)
        return;
    int32_t *drafts = golden_json_ints(c->golden->json, name, &draft_count);
    assert_true(rows == CHAIN && width == r->vocab_size && draft_count == CHAIN);
    float *logits = rig_alloc(r->vocab_size, sizeof *logits), *hidden = rig_alloc(hidden_size, sizeof *hidden);
    memcpy(hidden, mtp_out + (n - 1) * hidden_size, hidden_size * sizeof *hidden);
    bool excused = is_excused(c, n - 1 - c->golden->first, LAST_STAGE);
    for (size_t step = 0; step < CHAIN; step++) {
        rig_mtp_logits(r, hidden, 1, logits);
        double worst = 0;
        for (size_t i = 0; i < width; i++)
            worst = fmax(worst, fabs((double)logits[i] - (double)golden[step * width + i]));
        if (worst > TOLERANCE && !excused)
            fail_msg("%s, %zu tokens: %s: draft %zu is off by %g", c->checkpoint, n, name, step, worst);
        c->excused += worst > TOLERANCE;
        if (!excused)
            assert_int_equal(rig_argmax(logits, width), drafts[step]);
        c->worst = worst > c->worst && worst <= TOLERANCE ? worst : c->worst;
        if (step + 1 == CHAIN)
            break;
        qn_error err;
        assert_int_equal(qn_kv_sequence_reserve(sequence, n + step + 2, &err), QN_OK);
        qn_mtp_segment segment = {.sequence = sequence,
                                  .next_ids = &drafts[step],
                                  .hidden = hidden,
                                  .start = n + step,
                                  .count = 1,
                                  .selection = share ? selection : NULL,
                                  .reuse_selection = share};
        float *next = rig_alloc(hidden_size, sizeof *next);
        if (qn_model_mtp(r->model, &segment, 1, next, NULL, &err) != QN_OK)
            fail_msg("%s", err.message);
        qn_free(hidden);
        hidden = next;
    }
    qn_free(hidden);
    qn_free(logits);
    qn_free(drafts);
    qn_free(golden);
}

/* The MTP layer over the prompt; out [n, hidden_size] receives its output. */
static void compare_mtp(comparison *c, rig *r, qn_kv_sequence *sequence, const float *hidden, float *out,
                        rig_record *record)
{
    const golden_case *g = c->golden;
    if (!g->next_ids) {
        assert_false(qn_model_has_mtp(r->model));
        return;
    }
    float *logits = rig_alloc(g->n * r->vocab_size, sizeof *logits);
    qn_mtp_selection selection = {
        .positions = rig_alloc(qn_model_config(r->model)->index_topk, sizeof *selection.positions)};
    qn_observer observer = rig_record_observer(record);
    rig_mtp(r, sequence, g->next_ids, hidden, 0, g->n, 0, out, &selection, &observer);
    rig_mtp_logits(r, out, g->n, logits);
    compare_layer(c, c->layers);
    compare_floats(c, "mtp_logits", logits, r->vocab_size, LAST_STAGE);
    compare_chain(c, "mtp_chain_own_indices", r, sequence, out, &selection, false);
    compare_chain(c, "mtp_chain_shared_indices", r, sequence, out, &selection, true);
    qn_free(selection.positions);
    qn_free(logits);
}

static expected_step read_step(json_t *json)
{
    size_t count;
    int32_t *emitted = golden_json_ints(json, "emitted", &count);
    assert_true(count == 1 || count == 2);
    expected_step step = {.position = (size_t)json_integer_value(json_object_get(json, "position")),
                          .draft = (int32_t)json_integer_value(json_object_get(json, "draft")),
                          .draft_margin = json_number_value(json_object_get(json, "draft_margin")),
                          .accepted = json_is_true(json_object_get(json, "accepted")),
                          .emitted_count = count};
    memcpy(step.emitted, emitted, count * sizeof *emitted);
    qn_free(emitted);
    return step;
}

/* 48 greedy tokens, one by one and then speculatively; the cache of the prompt serves both. */
static void check_continuation(const comparison *c, rig *r, qn_kv_sequence *sequence, const float *hidden,
                               const float *mtp_out)
{
    const golden_case *g = c->golden;
    size_t margin_count, last = (g->n - 1) * r->hidden_size;
    char what[128];
    snprintf(what, sizeof what, "%s, %zu tokens, greedy", c->checkpoint, g->n);
    expected_tokens expected = {.what = what, .near_tie = TOLERANCE};
    int32_t *tokens = golden_json_ints(g->json, "greedy", &expected.count);
    double *margins = golden_json_numbers(g->json, "greedy_margins", &margin_count);
    assert_true(expected.count == GREEDY && margin_count == GREEDY);
    expected.tokens = tokens;
    expected.margins = margins;
    size_t agreed = continue_greedily(r, sequence, g->n, hidden + last, &expected);
    printf(", %zu greedy tokens", agreed);

    json_t *trace = json_object_get(g->json, "speculative");
    if (trace) {
        size_t count = json_array_size(trace), accepted = 0;
        expected_step *steps = rig_alloc(count, sizeof *steps);
        for (size_t i = 0; i < count; i++) {
            steps[i] = read_step(json_array_get(trace, i));
            accepted += steps[i].accepted;
        }
        size_t done = continue_speculatively(r, sequence, g->n, hidden + last, mtp_out + last, &expected, steps, count);
        printf(", %zu of %zu speculative steps (%zu accepted)", done, count, accepted);
        qn_free(steps);
    }
    printf("\n");
    qn_free(tokens);
    qn_free(margins);
}

/* The prompt's first n tokens once more, cut otherwise: the same bits. */
static void check_chunking(const comparison *c, rig *r, const float *hidden, size_t n, size_t chunk)
{
    qn_kv_sequence sequence = rig_sequence(r);
    float *again = rig_alloc(n * r->hidden_size, sizeof *again);
    rig_forward(r, &sequence, c->golden->ids, 0, n, chunk, again, NULL);
    if (memcmp(hidden, again, n * r->hidden_size * sizeof *again) != 0)
        fail_msg("%s, %zu tokens: chunks of %zu change the result", c->checkpoint, n, chunk);
    qn_free(again);
    qn_kv_sequence_free(&sequence);
}

/* trace.0.*: of what the reference computed within layer 0, the cache shows latent, k_rope and index_k. */
static void compare_trace(comparison *c, const rig *r, const qn_kv_sequence *sequence)
{
    const qn_config *config = qn_model_config(r->model);
    size_t latent = config->kv_lora_rank, rope = config->qk_rope_head_dim, index = config->index_head_dim;
    if (!qn_safetensors_find(c->golden->file, "trace.0.latent"))
        return;
    size_t n = c->golden->n;
    float *rows[3] = {rig_alloc(n * latent, sizeof(float)), rig_alloc(n * rope, sizeof(float)),
                      rig_alloc(n * index, sizeof(float))};
    for (size_t t = 0; t < n; t++) {
        memcpy(rows[0] + t * latent, qn_kv_latent_row(sequence, 0, t), latent * sizeof(float));
        memcpy(rows[1] + t * rope, qn_kv_latent_row(sequence, 0, t) + latent * sizeof(float), rope * sizeof(float));
        memcpy(rows[2] + t * index, qn_kv_index_row(sequence, 0, t), index * sizeof(float));
    }
    compare_floats(c, "trace.0.latent", rows[0], latent, 0);
    compare_floats(c, "trace.0.k_rope", rows[1], rope, 0);
    compare_floats(c, "trace.0.index_k", rows[2], index, 0);
    for (size_t i = 0; i < 3; i++)
        qn_free(rows[i]);
}

static void check_case(rig *r, const char *checkpoint, const golden_case *g)
{
    rig_record *record = rig_record_new(g->n);
    qn_observer observer = rig_record_observer(record);
    size_t kept = g->n - g->first;
    comparison c = {.checkpoint = checkpoint,
                    .golden = g,
                    .record = record,
                    .layers = qn_model_config(r->model)->num_hidden_layers,
                    .flip = rig_alloc(kept, sizeof *c.flip)};
    for (size_t i = 0; i < kept; i++)
        c.flip[i] = LAST_STAGE + 1;
    float *hidden = rig_alloc(g->n * r->hidden_size, sizeof *hidden);
    float *logits = rig_alloc(g->n * r->vocab_size, sizeof *logits);
    float *mtp_out = rig_alloc(g->n * r->hidden_size, sizeof *mtp_out);
    qn_kv_sequence sequence = rig_sequence(r);

    rig_forward(r, &sequence, g->ids, 0, g->n, 0, hidden, &observer);
    rig_logits(r, hidden, g->n, logits);
    compare_trace(&c, r, &sequence);
    for (size_t layer = 0; layer < c.layers; layer++)
        compare_layer(&c, layer);
    compare_floats(&c, "final_norm", hidden, r->hidden_size, LAST_STAGE);
    compare_floats(&c, "logits", logits, r->vocab_size, LAST_STAGE);
    compare_mtp(&c, r, &sequence, hidden, mtp_out, record);
    printf("%-22s %5zu tokens: worst %.1e, near-ties %zu", checkpoint, g->n, c.worst, c.flips);
    if (c.excused > 0)
        fail_msg("%s, %zu tokens: %zu rows differ behind near-ties: look whether these flips are just", checkpoint,
                 g->n, c.excused);

    check_continuation(&c, r, &sequence, hidden, mtp_out);
    if (g->n <= 200 && g->n <= RIG_LONGEST_PROMPT / 8)
        check_chunking(&c, r, hidden, g->n, 1);
    check_chunking(&c, r, hidden, g->n < MAX_RECUT ? g->n : MAX_RECUT, g->n <= 600 ? 17 : 333);
    qn_kv_sequence_free(&sequence);
    qn_free(mtp_out);
    qn_free(logits);
    qn_free(hidden);
    qn_free(c.flip);
    rig_record_free(record);
}

/* Builds that are too slow for the whole: no golden row is reached, so only the cut is checked. */
static void check_beginning(rig *r, const char *checkpoint, const golden_case *g)
{
    comparison c = {.checkpoint = checkpoint, .golden = g};
    float *hidden = rig_alloc(RIG_LONGEST_PROMPT * r->hidden_size, sizeof *hidden);
    qn_kv_sequence sequence = rig_sequence(r);
    rig_forward(r, &sequence, g->ids, 0, RIG_LONGEST_PROMPT, 0, hidden, NULL);
    check_chunking(&c, r, hidden, RIG_LONGEST_PROMPT, 333);
    printf("%-22s %5zu tokens: the first %d only in this build\n", checkpoint, g->n, RIG_LONGEST_PROMPT);
    qn_kv_sequence_free(&sequence);
    qn_free(hidden);
}

static void test_oracle(void **state)
{
    (void)state;
    for (size_t i = 0; i < golden_checkpoint_count; i++) {
        golden_set set = golden_open(golden_checkpoints[i]);
        char dir[128];
        size_t longest = 0;
        snprintf(dir, sizeof dir, ORACLE "%s", set.name);
        for (size_t k = 0; k < set.count; k++)
            longest = set.cases[k].n > longest ? set.cases[k].n : longest;
        rig r = rig_open(dir,
                         (rig_options){.isa = "scalar", .max_context_tokens = longest + GREEDY + 2, .sequences = 2});
        for (size_t k = 0; k < set.count; k++) {
            if (set.cases[k].n > RIG_LONGEST_PROMPT)
                check_beginning(&r, set.name, &set.cases[k]);
            else
                check_case(&r, set.name, &set.cases[k]);
        }
        rig_close(&r);
        golden_close(&set);
    }
}

static float *logits_of_last_case(const golden_set *set, float mla_norm_eps, size_t *count)
{
    const golden_case *g = &set->cases[set->count - 1];
    char dir[128];
    snprintf(dir, sizeof dir, ORACLE "%s", set->name);
    rig r = rig_open(dir, (rig_options){.isa = "scalar", .max_context_tokens = g->n, .mla_norm_eps = mla_norm_eps});
    qn_kv_sequence sequence = rig_sequence(&r);
    float *hidden = rig_alloc(g->n * r.hidden_size, sizeof *hidden);
    *count = g->n * r.vocab_size;
    float *logits = rig_alloc(*count, sizeof *logits);
    rig_forward(&r, &sequence, g->ids, 0, g->n, 0, hidden, NULL);
    rig_logits(&r, hidden, g->n, logits);
    qn_free(hidden);
    qn_kv_sequence_free(&sequence);
    rig_close(&r);
    return logits;
}

/* vLLM's epsilon changes the logits by as much as it changes transformers' (the oracle's findings.json). */
static void test_mla_norm_eps(void **state)
{
    (void)state;
    static const double FINDING = 3.350858688354492;
    golden_set set = golden_open("tiny-grouped");
    size_t count;
    float *ours = logits_of_last_case(&set, 0, &count), *same = logits_of_last_case(&set, 1e-6f, &count);
    float *other = logits_of_last_case(&set, 1e-5f, &count);
    double largest = 0;
    for (size_t i = 0; i < count; i++)
        largest = fmax(largest, fabs((double)ours[i] - (double)other[i]));
    printf("epsilon 1e-5 changes logits by up to %f, transformers' by %f\n", largest, FINDING);
    assert_true(fabs(largest - FINDING) < 2 * TOLERANCE);
    assert_memory_equal(ours, same, count * sizeof *ours);
    qn_free(ours);
    qn_free(same);
    qn_free(other);
    golden_close(&set);
}

static void test_yarn(void **state)
{
    (void)state;
    golden_case g = {0};
    qn_error err;
    size_t width;
    if (qn_safetensors_open("tests/data/yarn/tiny/golden.safetensors", &g.file, &err) != QN_OK)
        fail_msg("%s", err.message);
    g.ids = golden_ints(&g, "ids", &g.n, &width);
    assert_non_null(g.ids);
    int *flip = rig_alloc(g.n, sizeof *flip);
    for (size_t i = 0; i < g.n; i++)
        flip[i] = LAST_STAGE + 1;
    comparison c = {.checkpoint = "yarn", .golden = &g, .flip = flip};
    rig r = rig_open("tests/data/yarn/tiny", (rig_options){.isa = "scalar", .max_context_tokens = g.n});
    qn_kv_sequence sequence = rig_sequence(&r);
    float *hidden = rig_alloc(g.n * r.hidden_size, sizeof *hidden);
    float *logits = rig_alloc(g.n * r.vocab_size, sizeof *logits);
    rig_forward(&r, &sequence, g.ids, 0, g.n, 0, hidden, NULL);
    rig_logits(&r, hidden, g.n, logits);
    compare_floats(&c, "final_norm", hidden, r.hidden_size, 0);
    compare_floats(&c, "logits", logits, r.vocab_size, 0);
    printf("%-22s %5zu tokens: worst %.1e\n", "yarn", g.n, c.worst);
    qn_free(logits);
    qn_free(hidden);
    qn_free(flip);
    qn_kv_sequence_free(&sequence);
    rig_close(&r);
    qn_free(g.ids);
    qn_safetensors_close(g.file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_oracle),
        cmocka_unit_test(test_mla_norm_eps),
        cmocka_unit_test(test_yarn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
