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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(traces_equal_the_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
