/* Requests from prompt to end: the tokens of the reference, the same tokens however they are computed, and what is
 * refused or fails. What a listener is told: test_listener.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/random.h"
#include "unit/engine/support.h"

/* transformers' own greedy answers, token by token; with BF16 up to a step whose recorded margin is small. */
static void check_greedy(const char *isa, size_t longest_prompt, double excused_margin)
{
    qn_engine_options options = shipped_model();
    options.num_speculative_tokens = 1;
    qn_engine *engine = open_engine(&options, isa);
    json_t *cases = read_json_lines("models/quern-tiny/eval/greedy_hf.jsonl");
    size_t i;
    json_t *one;
    json_array_foreach(cases, i, one)
    {
        size_t prompt_count, count;
        int32_t *prompt = read_ids(json_object_get(one, "prompt_ids"), &prompt_count);
        if (prompt_count > longest_prompt) {
            free(prompt);
            continue;
        }
        int32_t *want = read_ids(json_object_get(one, "output_ids"), &count);
        const qn_request request = {
            .prompt_ids = prompt, .prompt_count = prompt_count, .sampling = qn_sampling_greedy(), .max_tokens = 120};
        qn_result result = run_engine(engine, &request, NULL);
        size_t same = 0;
        while (same < count && same < result.completion_tokens && result.tokens[same] == want[same]) {
            same++;
        }
        if (same < count || result.completion_tokens != count) {
            double margin = json_number_value(json_array_get(json_object_get(one, "margins"), same));
            print_message("%s: differs at step %zu, margin %g\n", json_string_value(json_object_get(one, "id")), same,
                          margin);
            assert_true(same < count && margin < excused_margin);
        } else {
            assert_int_equal(result.finish, result.completion_tokens == 120 ? QN_FINISH_LENGTH : QN_FINISH_STOP);
        }
        qn_result_free(&result);
        free(prompt);
        free(want);
    }
    json_decref(cases);
    qn_engine_close(engine);
}

static void greedy_equals_the_reference(void **state)
{
    (void)state;
    check_greedy("scalar", SANITIZED ? 18 : 300, 1e-4); /* the long ones: tests/golden/test_shipped_model.c */
    check_greedy(NULL, SANITIZED ? 40 : SIZE_MAX, 0.2);
}

/* A prompt of real text (so that drafts are often right) of random length, cut from the needle prompts. */
static int32_t *random_prompt(random_stream *r, const json_t *cases, size_t *count)
{
    const json_t *one = json_array_get(cases, random_word(r) % json_array_size(cases));
    int32_t *ids = read_ids(json_object_get(one, "prompt_ids"), count);
    size_t longest = SANITIZED ? 20 : random_word(r) % 4 == 0 ? 600 : 50;
    size_t keep = 1 + random_word(r) % (*count < longest ? *count : longest);
    memmove(ids, ids + (*count - keep), keep * sizeof *ids); /* the end, where the question stands */
    *count = keep;
    return ids;
}

/* The contract: the same tokens, bit for bit, whatever the chunks, the threads and the drafts. */
static void the_same_however_computed(void **state)
{
    (void)state;
    static const float temperatures[] = {0.0F, 0.0F, 0.7F, 1.0F, 1.5F};
    random_stream r = {.seed = qn_random_seed(), .next = 0};
    print_message("seed %llu\n", (unsigned long long)r.seed);
    json_t *cases = read_json_lines("models/quern-tiny/eval/greedy_hf.jsonl");
    const char *isas[] = {"scalar", NULL};
    for (int round = 0; round < (SANITIZED ? 3 : 8); round++) {
        const char *isa = isas[round % 2];
        qn_engine_options plain = shipped_model();
        plain.threads = 1;
        qn_engine *reference = open_engine(&plain, isa);
        qn_engine_options varied = shipped_model();
        varied.threads = 1 + random_word(&r) % 4;
        varied.max_num_batched_tokens = 1 + random_word(&r) % (round % 3 == 0 ? 8 : 200);
        varied.block_size = (size_t)16 << (random_word(&r) % 5);
        varied.num_speculative_tokens = round / 2 % 4;
        qn_engine *engine = open_engine(&varied, isa);
        for (int run = 0; run < (SANITIZED ? 2 : 5); run++) {
            size_t count;
            int32_t *prompt = random_prompt(&r, cases, &count);
            qn_sampling sampling = qn_sampling_greedy();
            sampling.temperature = temperatures[random_word(&r) % 5];
            sampling.top_p = random_word(&r) % 2 == 0 ? 1.0F : 0.9F;
            sampling.top_k = random_word(&r) % 3 == 0 ? 20 : 0;
            sampling.seed = random_word(&r);
            const qn_request request = {.prompt_ids = prompt,
                                        .prompt_count = count,
                                        .sampling = sampling,
                                        .max_tokens = 1 + random_word(&r) % (SANITIZED ? 12 : 30),
                                        .ignore_eos = random_word(&r) % 2 == 0};
            qn_result want = run_engine(reference, &request, NULL), got = run_engine(engine, &request, NULL);
            bool same = want.completion_tokens == got.completion_tokens && want.finish == got.finish &&
                        memcmp(want.tokens, got.tokens, want.completion_tokens * sizeof *want.tokens) == 0;
            if (!same) {
                fail_msg("round %d run %d: %zu prompt tokens, T %g, %zu threads, chunks of %zu, blocks of %zu, %d "
                         "drafts: the tokens differ",
                         round, run, count, (double)sampling.temperature, varied.threads, varied.max_num_batched_tokens,
                         varied.block_size, varied.num_speculative_tokens);
            }
            qn_result_free(&want);
            qn_result_free(&got);
            free(prompt);
        }
        qn_engine_close(engine);
        qn_engine_close(reference);
    }
    json_decref(cases);
}

/* Every length up to the end of the answer and beyond: never a token too many, the text cut where the tokens are. */
static void lengths_are_kept(void **state)
{
    (void)state;
    question q = read_question();
    for (int drafts = 0; drafts <= 3; drafts++) {
        qn_engine_options options = shipped_model();
        options.num_speculative_tokens = drafts;
        options.max_model_len = q.count + 40;
        qn_engine *engine = open_engine(&options, NULL);
        for (size_t most = 1; most <= 40; most += SANITIZED ? 9 : 1) {
            qn_request request = {.prompt_ids = q.ids,
                                  .prompt_count = q.count,
                                  .sampling = qn_sampling_greedy(),
                                  .max_tokens = most,
                                  .in_reasoning = true};
            qn_result result = run_engine(engine, &request, NULL);
            assert_int_equal(result.completion_tokens, most < 27 ? most : 27);
            assert_int_equal(result.finish, most < 27 ? QN_FINISH_LENGTH : QN_FINISH_STOP);
            qn_result_free(&result);
            request.ignore_eos = true;
            result = run_engine(engine, &request, NULL);
            assert_int_equal(result.completion_tokens, most);
            assert_int_equal(result.finish, QN_FINISH_LENGTH);
            qn_result_free(&result);
        }
        /* No limit given: up to the context's end. */
        qn_request request = {
            .prompt_ids = q.ids, .prompt_count = q.count, .sampling = qn_sampling_greedy(), .ignore_eos = true};
        qn_result result = run_engine(engine, &request, NULL);
        assert_int_equal(result.completion_tokens, 40);
        qn_result_free(&result);
        qn_engine_close(engine);
    }
    free(q.ids);
}

static void refuses_what_does_not_fit(void **state)
{
    (void)state;
    qn_engine_options options = shipped_model();
    options.max_model_len = 16;
    qn_engine *engine = open_engine(&options, NULL);
    int32_t ids[20] = {0};
    qn_error err;
    qn_result result;
    qn_request request = {.prompt_ids = ids, .prompt_count = 16, .sampling = qn_sampling_greedy()};
    assert_int_equal(qn_engine_generate(engine, &request, NULL, &result, &err), QN_USAGE);
    assert_string_equal(err.field, "messages");
    request.prompt_count = 0;
    assert_int_equal(qn_engine_generate(engine, &request, NULL, &result, &err), QN_USAGE);
    assert_string_equal(err.field, "messages");
    request.prompt_count = 10;
    request.max_tokens = 7;
    assert_int_equal(qn_engine_generate(engine, &request, NULL, &result, &err), QN_USAGE);
    assert_string_equal(err.field, "max_tokens");
    assert_int_equal(qn_engine_check_length(engine, 10, 7, "max_completion_tokens", &err), QN_USAGE);
    assert_string_equal(err.field, "max_completion_tokens");
    assert_non_null(strstr(err.message, "max_completion_tokens: 7 after a prompt of 10 tokens"));
    assert_int_equal(qn_engine_check_length(engine, 15, 0, NULL, &err), QN_OK);
    assert_int_equal(qn_engine_check_length(engine, 10, 6, "max_tokens", &err), QN_OK);
    request.max_tokens = SIZE_MAX;
    assert_int_equal(qn_engine_generate(engine, &request, NULL, &result, &err), QN_USAGE);
    request.max_tokens = 6;
    request.sampling.top_p = 2.0F;
    assert_int_equal(qn_engine_generate(engine, &request, NULL, &result, &err), QN_USAGE);
    assert_string_equal(err.field, "top_p");
    request.sampling.top_p = 1.0F;
    static const char *const empty[] = {""};
    request.stop = empty;
    request.stop_count = 1;
    assert_int_equal(qn_engine_generate(engine, &request, NULL, &result, &err), QN_USAGE);
    assert_string_equal(err.field, "stop");
    request.stop_count = 0;
    static const int32_t strangers[] = {-1, 1536, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < 4; i++) {
        ids[3] = strangers[i];
        assert_int_equal(qn_engine_generate(engine, &request, NULL, &result, &err), QN_USAGE);
    }
    ids[3] = 1535;
    request.ignore_eos = true;
    result = run_engine(engine, &request, NULL);
    assert_int_equal(result.completion_tokens, 6);
    qn_result_free(&result);
    qn_engine_close(engine);
}

typedef struct caller {
    qn_engine *engine;
    const qn_request *request;
    qn_result result;
    pthread_t thread;
} caller;

static void *call(void *context)
{
    caller *c = context;
    c->result = run_engine(c->engine, c->request, NULL);
    return NULL;
}

static void several_threads_take_turns(void **state)
{
    (void)state;
    enum { CALLERS = 6 };
    question q = read_question();
    qn_engine_options options = shipped_model();
    options.num_speculative_tokens = 2;
    qn_engine *engine = open_engine(&options, NULL);
    const qn_request request = {
        .prompt_ids = q.ids, .prompt_count = q.count, .sampling = qn_sampling_greedy(), .in_reasoning = true};
    caller callers[CALLERS];
    for (size_t i = 0; i < CALLERS; i++) {
        callers[i] = (caller){.engine = engine, .request = &request};
        assert_int_equal(pthread_create(&callers[i].thread, NULL, call, &callers[i]), 0);
    }
    for (size_t i = 0; i < CALLERS; i++) {
        pthread_join(callers[i].thread, NULL);
        assert_int_equal(callers[i].result.completion_tokens, 27);
        qn_result_free(&callers[i].result);
    }
    qn_engine_close(engine);
    free(q.ids);
}

/* Each allocation of a request fails in turn: an error, never a crash or a leak, and the engine lives. */
static void every_allocation_may_fail(void **state)
{
    (void)state;
    question q = read_question();
    qn_engine_options options = shipped_model();
    options.num_speculative_tokens = 1;
    qn_engine *engine = open_engine(&options, NULL);
    const qn_request request = {.prompt_ids = q.ids,
                                .prompt_count = q.count,
                                .sampling = qn_sampling_greedy(),
                                .max_tokens = 20,
                                .in_reasoning = true};
    for (long n = 1;; n++) {
        qn_result result;
        qn_error err;
        qn_fault_arm(QN_FAULT_ALLOC, n);
        qn_status status = qn_engine_generate(engine, &request, NULL, &result, &err);
        qn_fault_disarm();
        if (status == QN_OK) {
            assert_int_equal(result.completion_tokens, 20);
            qn_result_free(&result);
            assert_true(n > 3);
            break;
        }
        assert_int_equal(status, QN_RESOURCE);
    }
    qn_engine_close(engine);
    free(q.ids);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_equals_the_reference),
        cmocka_unit_test(the_same_however_computed),
        cmocka_unit_test(lengths_are_kept),
        cmocka_unit_test(refuses_what_does_not_fit),
        cmocka_unit_test(several_threads_take_turns),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
