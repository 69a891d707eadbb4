/* Speculation against the reference's own trace: which drafts, accepted or not, how many tokens each step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "unit/engine/support.h"

/* A choice whose margin lies below may flip in another order of float32 sums. */
static const double LOGIT_ERROR = 1e-4;

enum { PATH_BYTES = 256, GREEDY_TOKENS = 48 };

typedef struct tracer {
    const json_t *trace; /* the golden steps */
    size_t next, accepted;
    bool excused; /* a near-tie has flipped: the rest is not comparable */
    const char *name;
} tracer;

static double number_of(const json_t *step, const char *key)
{
    return json_number_value(json_object_get(step, key));
}

static bool check_step(void *context, const qn_step *step)
{
    tracer *t = context;
    if (t->excused || t->next >= json_array_size(t->trace)) {
        return true;
    }
    const json_t *want = json_array_get(t->trace, t->next++);
    const json_t *emitted = json_object_get(want, "emitted");
    if (step->draft_count ==
        0) { /* no room for a draft before the limit of tokens: the reference's last step goes on */
        assert_int_equal(t->next, json_array_size(t->trace));
        return true;
    }
    assert_int_equal(step->position, (size_t)number_of(want, "position"));
    assert_int_equal(step->draft_count, 1);
    if (step->drafts[0] != (int32_t)number_of(want, "draft")) {
        print_message("%s: the draft for %zu differs at a margin of %g\n", t->name, step->position,
                      number_of(want, "draft_margin"));
        assert_true(number_of(want, "draft_margin") < LOGIT_ERROR);
        t->excused = true;
        return true;
    }
    assert_int_equal(step->accepted, json_is_true(json_object_get(want, "accepted")) ? 1 : 0);
    assert_int_equal(step->accepted + 1, json_array_size(emitted));
    t->accepted += step->accepted;
    for (size_t i = 0; i < step->token_count; i++) {
        assert_int_equal(step->tokens[i], json_integer_value(json_array_get(emitted, i)));
    }
    return true;
}

static void check_tokens(const json_t *golden, const qn_result *result, const char *name)
{
    const json_t *greedy = json_object_get(golden, "greedy"), *margins = json_object_get(golden, "greedy_margins");
    assert_int_equal(result->completion_tokens, json_array_size(greedy));
    for (size_t i = 0; i < result->completion_tokens; i++) {
        if (result->tokens[i] != json_integer_value(json_array_get(greedy, i))) {
            double margin = json_number_value(json_array_get(margins, i));
            print_message("%s: token %zu differs at a margin of %g\n", name, i, margin);
            assert_true(margin < LOGIT_ERROR);
            return;
        }
    }
}

static void check_checkpoint(const char *name, int fewest_drafts, int most_drafts)
{
    char path[PATH_BYTES], dir[PATH_BYTES / 2];
    snprintf(dir, sizeof dir, "tests/data/oracle/%s", name);
    snprintf(path, sizeof path, "%s/goldens.json", dir);
    json_t *goldens = read_json(path);
    for (int drafts = fewest_drafts; drafts <= most_drafts; drafts++) {
        qn_engine_options options = {.model_dir = dir,
                                     .threads = 2,
                                     .max_model_len = 1024,
                                     .max_num_batched_tokens = 100,
                                     .num_speculative_tokens = drafts,
                                     .trace_drafts = true,
                                     .without_text = true};
        qn_engine *engine = open_engine(&options, "scalar");
        size_t i;
        json_t *golden;
        json_array_foreach(json_object_get(goldens, "cases"), i, golden)
        {
            size_t count;
            int32_t *ids = read_ids(json_object_get(golden, "ids"), &count);
            if (SANITIZED && count > 40) {
                free(ids);
                continue;
            }
            const qn_request request = {.prompt_ids = ids,
                                        .prompt_count = count,
                                        .sampling = qn_sampling_greedy(),
                                        .max_tokens = GREEDY_TOKENS,
                                        .ignore_eos = true};
            tracer t = {.trace = json_object_get(golden, "speculative"), .name = name};
            const qn_listener listener = {.context = &t, .on_step = drafts == 1 ? check_step : NULL};
            qn_result result = run_engine(engine, &request, &listener);
            check_tokens(golden, &result, name);
            if (drafts == 1) {
                print_message("%s, %zu tokens: %zu of %zu drafts accepted as in the reference%s\n", name, count,
                              t.accepted, t.next, t.excused ? ", up to a near-tie" : "");
                assert_true(t.next == json_array_size(t.trace) || t.excused);
            }
            qn_result_free(&result);
            free(ids);
        }
        qn_engine_close(engine);
    }
    json_decref(goldens);
}

static void traces_equal_the_reference(void **state)
{
    (void)state;
    check_checkpoint("tiny-mtp", SANITIZED ? 1 : 0, SANITIZED ? 1 : 3);
    if (SANITIZED) {
        return;
    }
    check_checkpoint("tiny-dense", 0, 0);
    check_checkpoint("tiny-sparse", 1, 2);
    check_checkpoint("tiny-grouped", 1, 1);
    check_checkpoint("tiny-sharded", 1, 1);
    check_checkpoint("tiny-sparse-mxfp4-ct", 1, 1);
}

/* Drafts and their logits, of all steps of a request. */
typedef struct drafted {
    qn_buffer drafts, logits, counts;
    size_t vocab;
} drafted;

static bool keep_drafts(void *context, const qn_step *step)
{
    drafted *d = context;
    qn_buffer_append(&d->counts, &step->draft_count, sizeof step->draft_count);
    qn_buffer_append(&d->drafts, step->drafts, step->draft_count * sizeof *step->drafts);
    for (size_t i = 0; i < step->draft_count; i++) {
        qn_buffer_append(&d->logits, step->draft_logits[i], d->vocab * sizeof *step->draft_logits[i]);
    }
    return true;
}

static void forget_drafts(drafted *d)
{
    qn_buffer_free(&d->drafts);
    qn_buffer_free(&d->logits);
    qn_buffer_free(&d->counts);
}

static qn_result run_drafted(qn_engine *engine, const int32_t *ids, size_t count, drafted *out)
{
    *out = (drafted){.vocab = qn_engine_config(engine)->vocab_size};
    qn_request request = {.prompt_ids = ids,
                          .prompt_count = count,
                          .sampling = qn_sampling_greedy(),
                          .max_tokens = 20,
                          .ignore_eos = true};
    request.sampling.temperature = 1.3F; /* noise that the drafts share: many are right */
    request.sampling.seed = count;
    const qn_listener listener = {.context = out, .on_step = keep_drafts};
    return run_engine(engine, &request, &listener);
}

static void same_bytes(const qn_buffer *want, const qn_buffer *got)
{
    assert_int_equal(want->size, got->size);
    assert_memory_equal(want->data, got->data, want->size);
}

/* Tokens are right whatever is drafted; so that the layer's entries are what they should be behind a prefix that was
 * found, computed by prompts or by answers, shows in the drafts alone. */
static void found_prefixes_draft_the_same(void **state)
{
    (void)state;
    enum { BLOCK = 16, LONGEST = 150 };
    const size_t rows[] = {4, 17, 512};
    random_stream r = {.seed = 1};
    int32_t ids[LONGEST + 1];
    for (size_t i = 0; i < LONGEST; i++) {
        ids[i] = (int32_t)(random_word(&r) % 500);
    }
    for (size_t c = 0; c < (SANITIZED ? 1 : 3); c++) {
        qn_engine_options options = {.model_dir = "tests/data/oracle/tiny-mtp",
                                     .threads = 2,
                                     .max_model_len = 256,
                                     .block_size = BLOCK,
                                     .max_num_batched_tokens = rows[c],
                                     .num_speculative_tokens = 3,
                                     .trace_drafts = true,
                                     .without_text = true};
        qn_engine *plain = open_engine(&options, NULL);
        options.prefix_caching = true;
        qn_engine *caching = open_engine(&options, NULL);
        size_t count = BLOCK + 1;
        for (int turn = 0; turn < 6; turn++) {
            drafted want, got;
            qn_result expected = run_drafted(plain, ids, count, &want);
            for (int again = 0; again < 2; again++) { /* behind what the turn before left, and behind its own prompt */
                qn_result result = run_drafted(caching, ids, count, &got);
                assert_int_equal(result.timings.cached_tokens > 0, turn + again > 0);
                assert_memory_equal(result.tokens, expected.tokens,
                                    expected.completion_tokens * sizeof *expected.tokens);
                same_bytes(&want.counts, &got.counts);
                same_bytes(&want.drafts, &got.drafts);
                same_bytes(&want.logits, &got.logits);
                qn_result_free(&result);
                forget_drafts(&got);
            }
            assert_true(expected.timings.drafts_accepted > 0);
            /* the next turn: the answer, and something new */
            size_t kept = expected.completion_tokens;
            memcpy(ids + count, expected.tokens, kept * sizeof *ids);
            count += kept + (size_t)turn % 3;
            qn_result_free(&expected);
            forget_drafts(&want);
        }
        qn_engine_close(caching);
        qn_engine_close(plain);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(traces_equal_the_reference),
        cmocka_unit_test(found_prefixes_draft_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
