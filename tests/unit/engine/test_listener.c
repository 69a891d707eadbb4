/* What a listener is told of an answer, and every way in which an answer ends before its limit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "unit/engine/support.h"

enum { TINY_VOCABULARY = 1536 };

/* What a listener saw, and when it calls a request off. */
typedef struct witness {
    qn_buffer reasoning, content;
    size_t starts, outputs, steps, step_tokens;
    size_t idles;                                                     /* under idle_mutex */
    size_t stop_at_output, stop_at_step, stop_at_idle, stop_at_start; /* 0: never; n: the n-th call says no */
} witness;

static bool on_start(void *context)
{
    witness *w = context;
    return ++w->starts != w->stop_at_start;
}

static bool on_output(void *context, const qn_output_event *output)
{
    witness *w = context;
    assert_true(output->bytes > 0);
    assert_int_equal(output->text[output->bytes], '\0');
    qn_buffer_append(output->kind == QN_OUTPUT_CONTENT ? &w->content : &w->reasoning, output->text, output->bytes);
    return ++w->outputs != w->stop_at_output;
}

static bool on_step(void *context, const qn_step *step)
{
    witness *w = context;
    w->step_tokens += step->token_count;
    assert_true(step->token_count <= step->accepted + 1);
    return ++w->steps != w->stop_at_step;
}

static pthread_mutex_t idle_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t idle_came = PTHREAD_COND_INITIALIZER;

static bool on_idle(void *context)
{
    witness *w = context;
    pthread_mutex_lock(&idle_mutex);
    bool goes_on = ++w->idles != w->stop_at_idle;
    pthread_cond_broadcast(&idle_came);
    pthread_mutex_unlock(&idle_mutex);
    return goes_on;
}

static qn_listener listen(witness *w)
{
    return (qn_listener){
        .context = w, .on_start = on_start, .on_output = on_output, .on_step = on_step, .on_idle = on_idle};
}

static void forget(witness *w)
{
    qn_buffer_free(&w->reasoning);
    qn_buffer_free(&w->content);
    *w = (witness){0};
}

static void text_arrives_split_and_trimmed(void **state)
{
    (void)state;
    question q = read_question();
    for (int drafts = 0; drafts <= 3; drafts++) {
        qn_engine_options options = shipped_model();
        options.num_speculative_tokens = drafts;
        qn_engine *engine = open_engine(&options, NULL);
        assert_true(qn_engine_opens_reasoning(engine, q.ids, q.count));
        assert_false(qn_engine_opens_reasoning(engine, q.ids, q.count - 1));
        qn_request request = {.prompt_ids = q.ids,
                              .prompt_count = q.count,
                              .sampling = qn_engine_default_sampling(engine),
                              .in_reasoning = true};
        witness w = {0};
        qn_listener listener = listen(&w);
        qn_result result = run_engine(engine, &request, &listener);
        assert_string_equal(qn_buffer_string(&w.reasoning), "Step 1: 2 + 2 = 4. The result is 4.");
        assert_string_equal(qn_buffer_string(&w.content), "The answer is 4.");
        assert_int_equal(result.finish, QN_FINISH_STOP);
        assert_null(result.stop_matched);
        assert_int_equal(result.completion_tokens, 27);
        assert_int_equal(result.reasoning_tokens, 19);
        assert_int_equal(result.prompt_tokens, q.count);
        assert_int_equal(w.starts, 1);
        assert_int_equal(w.steps, result.timings.steps);
        assert_int_equal(w.step_tokens, result.completion_tokens - 1);
        assert_true(drafts > 0 ? result.timings.drafts_accepted > 0 : result.timings.drafts_proposed == 0);
        qn_result_free(&result);
        forget(&w);

        request.raw_text = true;
        result = run_engine(engine, &request, &listener);
        assert_string_equal(qn_buffer_string(&w.content),
                            "Step 1: 2 + 2 = 4. The result is 4.</think>The answer is 4.");
        assert_int_equal(w.reasoning.size, 0);
        qn_result_free(&result);
        forget(&w);
        qn_engine_close(engine);
    }
    free(q.ids);
}

static void stop_strings_end_the_answer(void **state)
{
    (void)state;
    question q = read_question();
    static const char *const stops[] = {"nowhere", "result is", "swer"};
    for (int drafts = 0; drafts <= 3; drafts += 3) {
        qn_engine_options options = shipped_model();
        options.num_speculative_tokens = drafts;
        qn_engine *engine = open_engine(&options, NULL);
        qn_request request = {.prompt_ids = q.ids,
                              .prompt_count = q.count,
                              .sampling = qn_sampling_greedy(),
                              .stop = stops,
                              .stop_count = 3,
                              .in_reasoning = true};
        witness w = {0};
        qn_listener listener = listen(&w);
        qn_result result = run_engine(engine, &request, &listener);
        assert_string_equal(qn_buffer_string(&w.reasoning), "Step 1: 2 + 2 = 4. The");
        assert_int_equal(w.content.size, 0);
        assert_int_equal(result.finish, QN_FINISH_STOP);
        assert_ptr_equal(result.stop_matched, stops[1]);
        assert_int_equal(result.completion_tokens, 16);
        qn_result_free(&result);
        forget(&w);

        request.stop = stops + 2;
        request.stop_count = 1;
        result = run_engine(engine, &request, &listener);
        assert_string_equal(qn_buffer_string(&w.content), "The an");
        assert_ptr_equal(result.stop_matched, stops[2]);
        qn_result_free(&result);
        forget(&w);
        qn_engine_close(engine);
    }
    free(q.ids);
}

/* All tokens may come, but none before the listener was asked as often as it will be. */
static qn_status wait_for_idles(void *context, const int32_t *answer, size_t count, uint64_t *allowed)
{
    const witness *w = context;
    (void)answer;
    (void)count;
    pthread_mutex_lock(&idle_mutex);
    while (w->idles < w->stop_at_idle) {
        pthread_cond_wait(&idle_came, &idle_mutex);
    }
    pthread_mutex_unlock(&idle_mutex);
    memset(allowed, 0xff, TINY_VOCABULARY / 8);
    return QN_OK;
}

static qn_status fail_to_tell(void *context, const int32_t *answer, size_t count, uint64_t *allowed)
{
    (void)context;
    (void)answer;
    (void)count;
    (void)allowed;
    return QN_USAGE;
}

static qn_status run_out_of_memory(void *context, const int32_t *answer, size_t count, uint64_t *allowed)
{
    (void)context;
    (void)answer;
    (void)count;
    (void)allowed;
    return QN_RESOURCE;
}

static qn_status leave_nothing(void *context, const int32_t *answer, size_t count, uint64_t *allowed)
{
    (void)context;
    (void)answer;
    (void)count;
    (void)allowed;
    return QN_OK;
}

static void a_mask_that_lets_nothing_come_fails_its_request(void **state)
{
    (void)state;
    question q = read_question();
    qn_engine_options options = shipped_model();
    qn_engine *engine = open_engine(&options, NULL);
    const struct {
        qn_token_mask mask;
        const char *reason;
        qn_status status;
    } cases[] = {{{.fill = leave_nothing}, "no token may follow", QN_USAGE},
                 {{.fill = fail_to_tell}, "is not known", QN_USAGE},
                 {{.fill = run_out_of_memory}, "out of memory", QN_RESOURCE}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        qn_request request = {
            .prompt_ids = q.ids, .prompt_count = q.count, .sampling = qn_sampling_greedy(), .mask = cases[i].mask};
        qn_result result;
        qn_error err;
        assert_int_equal(qn_engine_generate(engine, &request, NULL, &result, &err), cases[i].status);
        assert_non_null(strstr(err.message, cases[i].reason));
    }
    qn_engine_close(engine);
    free(q.ids);
}

static void any_listener_may_call_it_off(void **state)
{
    (void)state;
    question q = read_question();
    qn_engine_options options = shipped_model();
    options.num_speculative_tokens = 1;
    options.max_num_batched_tokens = 4;
    qn_engine *engine = open_engine(&options, NULL);
    qn_request request = {
        .prompt_ids = q.ids, .prompt_count = q.count, .sampling = qn_sampling_greedy(), .in_reasoning = true};
    /* two outputs there are for sure, however late the answer is read */
    witness cases[] = {{.stop_at_start = 1}, {.stop_at_output = 1}, {.stop_at_output = 2}, {.stop_at_step = 1},
                       {.stop_at_step = 5},  {.stop_at_idle = 1},   {.stop_at_idle = 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        qn_listener listener = listen(&cases[i]);
        request.mask = (qn_token_mask){.context = &cases[i], .fill = wait_for_idles};
        qn_result result = run_engine(engine, &request, &listener);
        assert_int_equal(result.finish, QN_FINISH_CANCELLED);
        assert_true(result.completion_tokens <= 27);
        assert_true(result.completion_tokens > 0 || cases[i].stop_at_idle > 0 || cases[i].stop_at_start > 0);
        qn_result_free(&result);
        forget(&cases[i]);
    }
    /* And the engine answers on. */
    request.mask = (qn_token_mask){.fill = NULL};
    qn_result result = run_engine(engine, &request, NULL);
    assert_int_equal(result.completion_tokens, 27);
    qn_result_free(&result);
    qn_engine_close(engine);
    free(q.ids);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_arrives_split_and_trimmed),
        cmocka_unit_test(stop_strings_end_the_answer),
        cmocka_unit_test(a_mask_that_lets_nothing_come_fails_its_request),
        cmocka_unit_test(any_listener_may_call_it_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
