/* Requests as tokens: what is refused, what a job keeps of its request, every way out, and the queue's bound. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "engine/job.h"
#include "unit/engine/support.h"

static qn_engine *open_tiny(size_t max_num_seqs, size_t max_queue)
{
    const qn_engine_options options = {.model_dir = "tests/data/oracle/tiny-mtp",
                                       .without_text = true,
                                       .threads = 1,
                                       .max_model_len = 4096,
                                       .block_size = 16,
                                       .max_num_seqs = max_num_seqs,
                                       .max_queue = max_queue,
                                       .prefix_caching = true,
                                       .num_speculative_tokens = 1};
    return open_engine(&options, NULL);
}

static const int32_t prompt[] = {5, 17, 200, 3, 77, 5, 17, 200, 3, 77, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18};
enum { PROMPT_COUNT = sizeof prompt / sizeof *prompt };

static qn_request short_request(void)
{
    return (qn_request){.prompt_ids = prompt,
                        .prompt_count = PROMPT_COUNT,
                        .sampling = qn_sampling_greedy(),
                        .max_tokens = 8,
                        .ignore_eos = true};
}

/* One that goes on until it is told otherwise. */
static qn_request long_request(void)
{
    qn_request request = short_request();
    request.max_tokens = 0;
    return request;
}

static qn_job *submit(qn_engine *engine, const qn_request *request)
{
    qn_job *job = NULL;
    qn_error err;
    if (qn_engine_submit(engine, request, &job, &err) != QN_OK) {
        fail_msg("%s", err.message);
    }
    return job;
}

static void await_news(qn_job *job)
{
    struct pollfd news = {.fd = qn_job_fd(job), .events = POLLIN};
    assert_int_equal(poll(&news, 1, -1), 1);
}

/* Until the end; *tokens gets all of them. */
static qn_job_end read_all(qn_job *job, qn_buffer *tokens)
{
    qn_job_news news = {.end = NULL};
    while (news.end == NULL) {
        await_news(job);
        qn_job_take(job, &news);
        if (tokens != NULL) {
            qn_buffer_append(tokens, news.tokens.data, news.tokens.size);
        }
    }
    qn_job_end end = *news.end;
    qn_job_news_free(&news);
    return end;
}

/* Until the first tokens are there. */
static void await_start(qn_job *job)
{
    qn_job_news news = {.end = NULL};
    while (!news.started) {
        await_news(job);
        qn_job_take(job, &news);
    }
    qn_job_news_free(&news);
}

static void refuses(qn_engine *engine, const qn_request *request, const char *field)
{
    qn_job *job = NULL;
    qn_error err;
    assert_int_equal(qn_engine_submit(engine, request, &job, &err), QN_USAGE);
    assert_string_equal(err.field, field);
    assert_null(job);
}

static void names_the_field_at_fault(void **state)
{
    (void)state;
    static const int32_t outside = 512;
    qn_engine *engine = open_tiny(1, 0);
    qn_request request = short_request();
    request.prompt_count = 0;
    refuses(engine, &request, "messages");
    request = short_request();
    request.prompt_ids = &outside;
    request.prompt_count = 1;
    refuses(engine, &request, "messages");
    request = short_request();
    request.max_tokens = 4096;
    refuses(engine, &request, "max_tokens");
    request = short_request();
    request.min_tokens = 9;
    refuses(engine, &request, "min_tokens");
    request = short_request();
    request.stop_token_ids = &outside;
    request.stop_token_count = 1;
    refuses(engine, &request, "stop_token_ids");
    request.stop_token_count = QN_MAX_STOP_TOKENS + 1;
    refuses(engine, &request, "stop_token_ids");
    request = short_request();
    request.has_logprobs = true;
    request.logprobs = QN_MAX_LOGPROBS + 1;
    refuses(engine, &request, "logprobs");
    request = short_request();
    request.has_prompt_logprobs = true;
    request.prompt_logprobs = QN_MAX_LOGPROBS + 1;
    refuses(engine, &request, "prompt_logprobs");
    request = short_request();
    request.sampling.min_p = 2.0F;
    refuses(engine, &request, "min_p");
    request = short_request();
    request.sampling.logit_bias = &(qn_logit_bias){.token = outside};
    request.sampling.logit_bias_count = 1;
    refuses(engine, &request, "logit_bias");
    qn_engine_close(engine);
}

/* The caller's memory may go as soon as the request is submitted. */
static void keeps_a_copy(void **state)
{
    (void)state;
    qn_engine *engine = open_tiny(1, 0);
    qn_buffer want = {0}, got = {0};
    int32_t ids[PROMPT_COUNT], stops[2] = {1, 2};
    qn_logit_bias bias = {.token = 40, .bias = 4.0F};
    char salt[] = "pepper";
    memcpy(ids, prompt, sizeof ids);
    qn_request request = short_request();
    request.max_tokens = 30;
    request.prompt_ids = ids;
    request.stop_token_ids = stops;
    request.stop_token_count = 2;
    request.cache_salt = salt;
    request.sampling.logit_bias = &bias;
    request.sampling.logit_bias_count = 1;
    request.sampling.presence_penalty = 0.5F;
    qn_job *job = submit(engine, &request);
    read_all(job, &want);
    qn_job_release(job);
    qn_job *others = submit(engine, &(qn_request){.prompt_ids = prompt,
                                                  .prompt_count = PROMPT_COUNT,
                                                  .sampling = qn_sampling_greedy(),
                                                  .ignore_eos = true});
    job = submit(engine, &request); /* waits behind the other one */
    memset(ids, 0, sizeof ids);
    memset(stops, 0, sizeof stops);
    memset(salt, 'x', sizeof salt - 1);
    bias = (qn_logit_bias){.token = 41, .bias = 100.0F};
    qn_job_release(others);
    read_all(job, &got);
    assert_int_equal(got.size, want.size);
    assert_memory_equal(got.data, want.data, want.size);
    qn_job_release(job);
    qn_buffer_free(&want);
    qn_buffer_free(&got);
    qn_engine_close(engine);
}

static void news_come_once(void **state)
{
    (void)state;
    qn_engine *engine = open_tiny(1, 0);
    qn_request request = short_request();
    qn_job *job = submit(engine, &request);
    qn_job_news news = {.end = NULL};
    size_t bytes = 0;
    while (news.end == NULL) {
        await_news(job);
        qn_job_take(job, &news);
        bytes += news.tokens.size;
    }
    assert_int_equal(bytes, 8 * sizeof(int32_t));
    assert_true(news.started);
    assert_int_equal(news.prompt_computed, PROMPT_COUNT);
    assert_int_equal(news.timings.completion_tokens, 8);
    assert_int_equal(news.timings.prompt_tokens, PROMPT_COUNT);
    const qn_job_end *end = news.end;
    assert_int_equal(end->status, QN_OK);
    assert_int_equal(end->finish, QN_FINISH_LENGTH);
    assert_int_equal(end->stop_token, -1);
    assert_false(end->by_token);
    qn_job_take(job, &news);
    assert_int_equal(news.tokens.size, 0);
    assert_ptr_equal(news.end, end);
    struct pollfd again = {.fd = qn_job_fd(job), .events = POLLIN};
    assert_int_equal(poll(&again, 1, 0), 0);
    qn_job_news_free(&news);
    qn_job_release(job);
    qn_engine_close(engine);
}

static void cancels_wherever_it_is(void **state)
{
    (void)state;
    qn_engine *engine = open_tiny(1, 0);
    qn_request request = long_request();
    qn_job *running = submit(engine, &request), *waiting = submit(engine, &request);
    await_start(running);
    qn_job_cancel(waiting, false);
    qn_job_cancel(waiting, true); /* the first word counts */
    qn_buffer tokens = {0};
    qn_job_end end = read_all(waiting, &tokens);
    assert_int_equal(end.status, QN_CANCELLED);
    assert_int_equal(tokens.size, 0);
    qn_job_cancel(running, true);
    end = read_all(running, &tokens);
    assert_int_equal(end.status, QN_OK);
    assert_int_equal(end.finish, QN_FINISH_STOP);
    qn_job_cancel(running, false); /* it is over: nothing happens */
    qn_job_release(running);
    qn_job_release(waiting);
    qn_job_release(submit(engine, &request)); /* unread */
    qn_job_release(NULL);
    request = short_request();
    qn_job *last = submit(engine, &request);
    assert_int_equal(read_all(last, NULL).status, QN_OK);
    qn_job_release(last);
    qn_buffer_free(&tokens);
    qn_engine_close(engine);
}

static void time_runs_out(void **state)
{
    (void)state;
    qn_engine *engine = open_tiny(1, 0);
    qn_request request = long_request();
    qn_job *running = submit(engine, &request);
    await_start(running);
    request.timeout_us = 1;
    qn_job *waiting = submit(engine, &request);
    qn_job_end end = read_all(waiting, NULL);
    assert_int_equal(end.status, QN_CANCELLED);
    assert_string_equal(end.err.field, "timeout");
    qn_job_release(waiting);
    qn_job_release(running);
    qn_engine_close(engine);
}

static void the_queue_is_bounded(void **state)
{
    (void)state;
    qn_engine *engine = open_tiny(1, 2);
    qn_request request = long_request();
    qn_error err;
    qn_job *jobs[3], *more = NULL;
    jobs[0] = submit(engine, &request);
    await_start(jobs[0]); /* it has the seat */
    jobs[1] = submit(engine, &request);
    jobs[2] = submit(engine, &request);
    assert_int_equal(qn_engine_submit(engine, &request, &more, &err), QN_RESOURCE);
    assert_string_equal(err.field, "queue");
    assert_null(more);
    qn_job_cancel(jobs[1], false);
    read_all(jobs[1], NULL);
    more = submit(engine, &request); /* there is room again */
    qn_engine_drain(engine);
    qn_job *late = NULL;
    assert_int_equal(qn_engine_submit(engine, &request, &late, &err), QN_RESOURCE);
    assert_string_equal(err.field, "queue");
    qn_engine_stop(engine);
    assert_int_equal(read_all(jobs[0], NULL).status, QN_CANCELLED);
    assert_int_equal(read_all(more, NULL).status, QN_CANCELLED);
    qn_engine_stop(engine); /* again is fine */
    qn_job_release(more);
    for (size_t i = 0; i < 3; i++) {
        qn_job_release(jobs[i]);
    }
    qn_engine_close(engine);
}

/* Each allocation of a request fails in turn, on whichever thread. */
static void every_allocation_may_fail(void **state)
{
    (void)state;
    static const int32_t stop = 1;
    qn_engine *engine = open_tiny(2, 0);
    qn_request request = short_request();
    request.max_tokens = 30;
    request.stop_token_ids = &stop;
    request.stop_token_count = 1;
    request.cache_salt = "salt";
    request.has_logprobs = request.has_prompt_logprobs = true;
    request.sampling.repetition_penalty = 1.2F;
    request.sampling.logit_bias = &(qn_logit_bias){.token = 3, .bias = 1.0F};
    request.sampling.logit_bias_count = 1;
    bool failed = true;
    for (long n = 1; failed; n++) {
        qn_job *job = NULL;
        qn_error err;
        qn_fault_arm(QN_FAULT_ALLOC, n);
        qn_status status = qn_engine_submit(engine, &request, &job, &err);
        if (status == QN_OK) {
            status = read_all(job, NULL).status;
        }
        failed = qn_fault_seen(QN_FAULT_ALLOC) >= n;
        qn_fault_disarm();
        assert_true(status == QN_OK || (failed && status == QN_RESOURCE));
        assert_true(failed || n > 8);
        qn_job_release(job);
    }
    qn_engine_close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_the_field_at_fault),
        cmocka_unit_test(keeps_a_copy),
        cmocka_unit_test(news_come_once),
        cmocka_unit_test(cancels_wherever_it_is),
        cmocka_unit_test(time_runs_out),
        cmocka_unit_test(the_queue_is_bounded),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
