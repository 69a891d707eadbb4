/* Speculation that pays: over the shipped model's evaluation prompts nearly every greedy draft is right, and each saves
 * a step; sampled drafts are accepted as often as the coupling promises. The answers' scores are looked at on the way:
 * a model that is computed wrongly would still agree with itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/json.h"
#include "unit/engine/support.h"

enum { EVERY = SANITIZED ? 16 : 1 }; /* one prompt of so many */
enum { LONGEST_PROMPT = SANITIZED ? 200 : 1 << 20 };

enum { MAX_ANSWER_TOKENS = 100, MAX_SAMPLED_TOKENS = SANITIZED ? 25 : 100, PATH_BYTES = 128 };

static const char *const sets[] = {"needles", "arithmetic", "tools", "json"};
enum { SETS = sizeof sets / sizeof *sets };

typedef struct tally {
    size_t prompts, correct, tokens, steps, drafts, accepted;
    double lowest, highest; /* what the coupling promises for the drafts so far, summed */
} tally;

static json_t *read_set(const char *name)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "models/quern-tiny/eval/%s.jsonl", name);
    return read_json_lines(path);
}

static void make_prompt(const qn_engine *engine, const json_t *prompt, qn_tokens *out)
{
    qn_error err;
    if (qn_engine_chat_prompt(engine, json_object_get(prompt, "messages"), json_object_get(prompt, "tools"), NULL, out,
                              &err) != QN_OK) {
        fail_msg("%s", err.message);
    }
}

/* ---- scores, as models/quern-tiny/README.md counts them */

/* Is there this number in the text, not as a part of a longer one? */
static bool has_number(const char *text, const char *number)
{
    size_t length = strlen(number);
    for (const char *at = strstr(text, number); at != NULL; at = strstr(at + 1, number)) {
        if ((at == text || !isdigit((unsigned char)at[-1])) && !isdigit((unsigned char)at[length])) {
            return true;
        }
    }
    return false;
}

static bool last_number_is(const char *text, const char *number)
{
    const char *end = text + strlen(text);
    while (end > text && !isdigit((unsigned char)end[-1])) {
        end--;
    }
    const char *start = end;
    while (start > text && isdigit((unsigned char)start[-1])) {
        start--;
    }
    start -= start > text && start[-1] == '-';
    return strlen(number) == (size_t)(end - start) && strncmp(number, start, strlen(number)) == 0;
}

static json_t *parse_or_null(const char *text, size_t bytes)
{
    json_t *value;
    qn_error err;
    return qn_json_parse(text, bytes, "answer", &value, &err) == QN_OK ? value : NULL;
}

static bool is_string_argument(const json_t *tools, const char *name, const char *key)
{
    size_t i;
    json_t *tool;
    json_array_foreach((json_t *)tools, i, tool)
    {
        const json_t *function = json_object_get(tool, "function");
        if (strcmp(json_string_value(json_object_get(function, "name")), name) == 0) {
            const json_t *properties = json_object_get(json_object_get(function, "parameters"), "properties");
            const char *type = json_string_value(json_object_get(json_object_get(properties, key), "type"));
            return type != NULL && strcmp(type, "string") == 0;
        }
    }
    return false;
}

/* The text between two marks, or NULL; *rest is set behind the second. Released with free. */
static char *between(const char *text, const char *begin, const char *end, const char **rest)
{
    const char *from = strstr(text, begin);
    const char *to = from != NULL ? strstr(from + strlen(begin), end) : NULL;
    if (to == NULL) {
        return NULL;
    }
    *rest = to + strlen(end);
    return strndup(from + strlen(begin), (size_t)(to - from) - strlen(begin));
}

/* <tool_call>NAME<arg_key>..</arg_key><arg_value>..</arg_value>...</tool_call>, again and again. */
static json_t *parse_calls(const char *text, const json_t *tools)
{
    json_t *calls = json_array();
    char *call;
    while ((call = between(text, "<tool_call>", "</tool_call>", &text)) != NULL) {
        const char *at = call;
        char *name = strndup(call, strcspn(call, "<"));
        json_t *arguments = json_object();
        char *key;
        while ((key = between(at, "<arg_key>", "</arg_key>", &at)) != NULL) {
            char *value = between(at, "<arg_value>", "</arg_value>", &at);
            json_t *typed = value != NULL && !is_string_argument(tools, name, key) ? parse_or_null(value, strlen(value))
                                                                                   : NULL;
            json_object_set_new(arguments, key, typed != NULL ? typed : json_string(value != NULL ? value : ""));
            free(key);
            free(value);
        }
        json_array_append_new(calls, json_pack("{s:s, s:o}", "name", name, "arguments", arguments));
        free(name);
        free(call);
    }
    return calls;
}

static bool is_correct(const char *set, const json_t *prompt, const char *content)
{
    const json_t *expected = json_object_get(prompt, "expected");
    if (strcmp(set, "needles") == 0) {
        return has_number(content, json_string_value(expected));
    }
    if (strcmp(set, "arithmetic") == 0) {
        return last_number_is(content, json_string_value(expected));
    }
    json_t *got = strcmp(set, "json") == 0 ? parse_or_null(content, strlen(content))
                                           : parse_calls(content, json_object_get(prompt, "tools"));
    expected = expected != NULL ? expected : json_object_get(prompt, "expected_tool_calls");
    bool equal = got != NULL && json_equal(got, expected) == 1;
    json_decref(got);
    return equal;
}

/* ---- runs */

static bool collect(void *context, const qn_output_event *output)
{
    qn_buffer *content = context;
    if (output->kind == QN_OUTPUT_CONTENT) {
        qn_buffer_append(content, output->text, output->bytes);
    }
    return true;
}

static void run_prompt(qn_engine *engine, const char *set, const json_t *prompt, tally *t)
{
    qn_tokens ids = {0};
    qn_buffer content = {0};
    make_prompt(engine, prompt, &ids);
    if (ids.count > LONGEST_PROMPT) {
        qn_tokens_free(&ids);
        return;
    }
    const qn_request request = {.prompt_ids = ids.ids,
                                .prompt_count = ids.count,
                                .sampling = qn_sampling_greedy(),
                                .max_tokens = MAX_ANSWER_TOKENS,
                                .in_reasoning = qn_engine_opens_reasoning(engine, ids.ids, ids.count)};
    const qn_listener listener = {.context = &content, .on_output = collect};
    qn_result result = run_engine(engine, &request, &listener);
    t->prompts++;
    t->correct += is_correct(set, prompt, qn_buffer_string(&content));
    t->tokens += result.completion_tokens;
    t->steps += result.timings.steps;
    t->drafts += result.timings.drafts_proposed;
    t->accepted += result.timings.drafts_accepted;
    /* Each step gives its own token and the accepted ones; tokens behind the answer's end are not counted. */
    assert_true(result.timings.steps + result.timings.drafts_accepted >= result.completion_tokens - 1);
    assert_true(result.timings.steps + result.timings.drafts_accepted <= result.completion_tokens);
    qn_result_free(&result);
    qn_buffer_free(&content);
    qn_tokens_free(&ids);
}

static double share(size_t part, size_t whole)
{
    return whole > 0 ? (double)part / (double)whole : 0.0;
}

static void greedy_drafts_are_nearly_always_right(void **state)
{
    (void)state;
    static const size_t least_correct[SETS] = {61, 44, 30, 28}; /* of 64, 50, 32, 32; the README has one more of each */
    qn_engine_options options = {
        .model_dir = "models/quern-tiny", .max_model_len = 4096, .num_speculative_tokens = 1, .trace_drafts = true};
    qn_engine *engine = open_engine(&options, NULL);
    tally all = {0};
    print_message("%-11s %-9s %-7s %-7s %-9s %-11s steps saved\n", "", "correct", "tokens", "steps", "accepted",
                  "share");
    for (size_t i = 0; i < SETS; i++) {
        json_t *prompts = read_set(sets[i]);
        tally t = {0};
        for (size_t k = 0; k < json_array_size(prompts); k += EVERY) {
            run_prompt(engine, sets[i], json_array_get(prompts, k), &t);
        }
        print_message("%-11s %3zu of %-3zu %-7zu %-7zu %-9zu %-11.4f %.4f\n", sets[i], t.correct, t.prompts, t.tokens,
                      t.steps, t.accepted, share(t.accepted, t.drafts), 1.0 - share(t.steps, t.tokens - t.prompts));
        if (EVERY == 1) {
            assert_true(t.correct >= least_correct[i]);
        }
        all.tokens += t.tokens, all.steps += t.steps, all.prompts += t.prompts;
        all.drafts += t.drafts, all.accepted += t.accepted;
        json_decref(prompts);
    }
    double acceptance = share(all.accepted, all.drafts);
    print_message("all: %zu of %zu drafts accepted: %.4f; %zu steps for %zu tokens\n", all.accepted, all.drafts,
                  acceptance, all.steps, all.tokens);
    assert_true(acceptance >= (SANITIZED ? 0.9 : 0.98)); /* of so few prompts a miss weighs more */
    /* Each accepted draft is a step saved, but for the few behind an answer's end. */
    size_t saved = all.tokens - all.prompts - all.steps;
    assert_true(saved <= all.accepted && saved + all.prompts >= all.accepted);
    assert_null(strstr(logged_lines(), "speculation:"));
    qn_engine_close(engine);
}

/* ---- the coupling's band */

typedef struct coupling {
    qn_sampler *sampler;
    const qn_sampling *sampling;
    size_t vocab;
    double *target, *draft;
    tally *tally;
} coupling;

/* d = total variation distance of the two distributions: acceptance lies between (1 - d) / (1 + d) and 1 - d. */
static bool measure_step(void *context, const qn_step *step)
{
    coupling *c = context;
    if (step->draft_count == 0) {
        return true;
    }
    double distance = 0.0;
    qn_sampling_distribution(c->sampler, c->sampling, step->logits[0], c->target);
    qn_sampling_distribution(c->sampler, c->sampling, step->draft_logits[0], c->draft);
    for (size_t i = 0; i < c->vocab; i++) {
        distance += fabs(c->target[i] - c->draft[i]) / 2.0;
    }
    c->tally->drafts++;
    c->tally->accepted += step->accepted;
    c->tally->lowest += (1.0 - distance) / (1.0 + distance);
    c->tally->highest += 1.0 - distance;
    return true;
}

static void check_band(qn_engine *engine, qn_engine *without, qn_sampling sampling)
{
    size_t vocab = qn_engine_config(engine)->vocab_size;
    tally t = {0};
    coupling c = {.sampling = &sampling,
                  .vocab = vocab,
                  .target = malloc(vocab * sizeof(double)),
                  .draft = malloc(vocab * sizeof(double)),
                  .tally = &t};
    qn_error err;
    assert_true(c.target != NULL && c.draft != NULL);
    assert_int_equal(qn_sampler_new(vocab, &c.sampler, &err), QN_OK);
    for (size_t i = 1; i < SETS; i++) { /* the needles are long and their answers short */
        json_t *prompts = read_set(sets[i]);
        for (size_t k = 0; k < json_array_size(prompts); k += 4 * (size_t)EVERY) {
            qn_tokens ids = {0};
            make_prompt(engine, json_array_get(prompts, k), &ids);
            if (ids.count > LONGEST_PROMPT) {
                qn_tokens_free(&ids);
                continue;
            }
            sampling.seed = 1000 * i + k;
            const qn_request request = {.prompt_ids = ids.ids,
                                        .prompt_count = ids.count,
                                        .sampling = sampling,
                                        .max_tokens = MAX_SAMPLED_TOKENS,
                                        .ignore_eos = true};
            const qn_listener listener = {.context = &c, .on_step = measure_step};
            qn_result with = run_engine(engine, &request, &listener);
            if (k % (16 * (size_t)EVERY) == 0) {
                qn_result plain = run_engine(without, &request, NULL);
                assert_int_equal(with.completion_tokens, plain.completion_tokens);
                assert_memory_equal(with.tokens, plain.tokens, plain.completion_tokens * sizeof *plain.tokens);
                qn_result_free(&plain);
            }
            qn_result_free(&with);
            qn_tokens_free(&ids);
        }
        json_decref(prompts);
    }
    double n = (double)t.drafts, slack = 4.0 * 0.5 * sqrt(n); /* four deviations of n coin flips */
    print_message("T %.1f top_p %.2f: %zu of %zu drafts accepted: %.4f; promised %.4f to %.4f\n",
                  (double)sampling.temperature, (double)sampling.top_p, t.accepted, t.drafts,
                  share(t.accepted, t.drafts), t.lowest / n, t.highest / n);
    assert_true((double)t.accepted >= t.lowest - slack);
    assert_true((double)t.accepted <= t.highest + slack);
    qn_sampler_free(c.sampler);
    free(c.target);
    free(c.draft);
}

static void sampled_drafts_are_accepted_as_promised(void **state)
{
    (void)state;
    qn_engine_options options = {.model_dir = "models/quern-tiny", .max_model_len = 2048};
    qn_engine *without = open_engine(&options, NULL);
    options.num_speculative_tokens = 1;
    options.trace_drafts = true;
    qn_engine *engine = open_engine(&options, NULL);
    qn_sampling sampling = qn_sampling_greedy();
    sampling.temperature = 0.7F;
    check_band(engine, without, sampling);
    if (!SANITIZED) {
        sampling.temperature = 1.0F;
        check_band(engine, without, sampling);
        sampling.top_p = 0.95F;
        check_band(engine, without, sampling);
    }
    qn_engine_close(engine);
    qn_engine_close(without);
}

/* An MTP layer that never guesses right is told, once. */
static void hopeless_drafts_are_told(void **state)
{
    (void)state;
    if (SANITIZED) {
        skip();
    }
    qn_engine_options options = {.model_dir = "tests/data/oracle/tiny-grouped",
                                 .max_model_len = 1024,
                                 .num_speculative_tokens = 1,
                                 .trace_drafts = true,
                                 .without_text = true};
    qn_engine *engine = open_engine(&options, NULL);
    const int32_t ids[] = {1, 2, 3};
    const qn_request request = {.prompt_ids = ids,
                                .prompt_count = 3,
                                .sampling = qn_sampling_greedy(),
                                .max_tokens = 420,
                                /* a little more than the warning waits for */ .ignore_eos = true};
    qn_result result = run_engine(engine, &request, NULL);
    print_message("tiny-grouped: %zu of %zu drafts accepted\n", result.timings.drafts_accepted,
                  result.timings.drafts_proposed);
    const char *told = strstr(logged_lines(), "speculation: only");
    assert_true(result.timings.drafts_proposed > 100 &&
                result.timings.drafts_accepted * 50 < result.timings.drafts_proposed);
    assert_non_null(told);
    assert_null(strstr(told + 1, "speculation: only"));
    qn_result_free(&result);
    qn_engine_close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_drafts_are_nearly_always_right),
        cmocka_unit_test(sampled_drafts_are_accepted_as_promised),
        cmocka_unit_test(hopeless_drafts_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
