/* The engine thread with the shipped model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <poll.h>

#include "server/worker.h"

enum { WAIT_MS = 120000, ENDLESS_TOKENS = 3000 };

static qn_engine *engine;
static qn_tokens prompt;

static int open_engine(void **state)
{
    (void)state;
    qn_error err;
    const qn_engine_options options = {.model_dir = "models/quern-tiny", .threads = 1, .max_model_len = 4096};
    if (qn_engine_open(&options, &engine, &err) != QN_OK) {
        fail_msg("%s", err.message);
    }
    json_t *messages = json_pack("[{s:s, s:s}]", "role", "user", "content", "What is 12 plus 30?");
    json_t *kwargs = json_object();
    assert_int_equal(qn_engine_chat_prompt(engine, messages, NULL, kwargs, &prompt, &err), QN_OK);
    json_decref(kwargs);
    json_decref(messages);
    return 0;
}

static int close_engine(void **state)
{
    (void)state;
    qn_tokens_free(&prompt);
    qn_engine_close(engine);
    return 0;
}

static qn_worker *new_worker(size_t max_waiting)
{
    qn_worker *worker = NULL;
    qn_error err;
    assert_int_equal(qn_worker_new(engine, max_waiting, &worker, &err), QN_OK);
    return worker;
}

static qn_request request_of(size_t max_tokens)
{
    return (qn_request){.prompt_ids = prompt.ids,
                        .prompt_count = prompt.count,
                        .sampling = qn_sampling_greedy(),
                        .max_tokens = max_tokens,
                        .ignore_eos = true,
                        .in_reasoning = true};
}

static qn_job *submit(qn_worker *worker, size_t max_tokens)
{
    qn_request request = request_of(max_tokens);
    qn_job *job = NULL;
    qn_error err;
    if (qn_worker_submit(worker, &request, &job, &err) != QN_OK) {
        fail_msg("%s", err.message);
    }
    return job;
}

static void wait_news(const qn_job *job)
{
    struct pollfd fd = {.fd = qn_job_fd(job), .events = POLLIN};
    assert_int_equal(poll(&fd, 1, WAIT_MS), 1);
}

/* Reads on until text has come: the job runs. */
static void wait_text(qn_job *job)
{
    qn_job_news news = {0};
    do {
        wait_news(job);
        qn_job_take(job, &news);
        assert_null(news.end);
    } while (news.text.size == 0);
    qn_job_news_free(&news);
}

/* All the text, both channels in order, and the end. */
static const qn_job_end *read_all(qn_job *job, qn_buffer *text)
{
    qn_job_news news = {0};
    while (news.end == NULL) {
        wait_news(job);
        qn_job_take(job, &news);
        qn_output output;
        while (qn_job_news_next(&news, &output)) {
            assert_true(output.bytes > 0);
            qn_buffer_append(text, output.text, output.bytes);
        }
    }
    const qn_job_end *end = news.end;
    qn_job_news_free(&news);
    return end;
}

static bool keep_text(void *context, const qn_output *output)
{
    qn_buffer_append(context, output->text, output->bytes);
    return true;
}

static void test_job_gives_what_the_engine_gives(void **state)
{
    (void)state;
    qn_buffer direct = {0}, text = {0};
    const qn_listener listener = {.context = &direct, .on_output = keep_text};
    qn_request request = request_of(40);
    qn_result result;
    qn_error err;
    assert_int_equal(qn_engine_generate(engine, &request, &listener, &result, &err), QN_OK);
    qn_worker *worker = new_worker(4);
    qn_job *job = submit(worker, 40);
    const qn_job_end *end = read_all(job, &text);
    assert_int_equal(end->status, QN_OK);
    assert_int_equal(end->finish, QN_FINISH_LENGTH);
    assert_int_equal(end->completion_tokens, 40);
    assert_int_equal(end->prompt_tokens, prompt.count);
    assert_int_equal(end->reasoning_tokens, result.reasoning_tokens);
    assert_string_equal(qn_buffer_string(&text), qn_buffer_string(&direct));
    qn_job_release(job);
    qn_worker_free(worker);
    qn_result_free(&result);
    qn_buffer_free(&direct);
    qn_buffer_free(&text);
}

static void test_stop_strings_outlive_the_request(void **state)
{
    (void)state;
    qn_buffer text = {0};
    qn_worker *worker = new_worker(4);
    char stop_text[] = "e";
    const char *stop[] = {"\x01", stop_text};
    qn_request request = request_of(200);
    request.stop = stop;
    request.stop_count = 2;
    qn_job *job = NULL;
    qn_error err;
    assert_int_equal(qn_worker_submit(worker, &request, &job, &err), QN_OK);
    stop_text[0] = '?';
    const qn_job_end *end = read_all(job, &text);
    assert_int_equal(end->finish, QN_FINISH_STOP);
    assert_string_equal(end->stop_matched, "e");
    qn_job_release(job);
    qn_worker_free(worker);
    qn_buffer_free(&text);
}

static void test_queue_is_bounded_and_releasing_makes_room(void **state)
{
    (void)state;
    qn_worker *worker = new_worker(1);
    qn_job *running = submit(worker, ENDLESS_TOKENS);
    wait_text(running);
    qn_job *waiting = submit(worker, 4);
    qn_request request = request_of(4);
    qn_job *refused = NULL;
    qn_error err;
    assert_int_equal(qn_worker_submit(worker, &request, &refused, &err), QN_RESOURCE);
    qn_job_release(waiting); /* never ran */
    waiting = submit(worker, 4);
    qn_job_release(running); /* cancelled */
    qn_buffer text = {0};
    assert_int_equal(read_all(waiting, &text)->completion_tokens, 4);
    qn_job_release(waiting);
    qn_buffer_free(&text);
    qn_worker_free(worker);
}

static void test_no_queue_still_runs_one(void **state)
{
    (void)state;
    qn_worker *worker = new_worker(0);
    qn_job *running = submit(worker, ENDLESS_TOKENS);
    qn_request request = request_of(4);
    qn_job *refused = NULL;
    qn_error err;
    assert_int_equal(qn_worker_submit(worker, &request, &refused, &err), QN_RESOURCE);
    qn_job_release(running);
    qn_worker_free(worker);
}

static void test_jobs_run_in_order_of_arrival(void **state)
{
    (void)state;
    enum { JOBS = 5 };
    qn_worker *worker = new_worker(JOBS);
    qn_job *jobs[JOBS];
    for (size_t i = 0; i < JOBS; i++) {
        jobs[i] = submit(worker, 3);
    }
    qn_job_release(jobs[2]);
    uint64_t queued = 0;
    for (size_t i = 0; i < JOBS; i++) {
        if (i != 2) {
            qn_buffer text = {0};
            const qn_job_end *end = read_all(jobs[i], &text);
            assert_int_equal(end->completion_tokens, 3);
            assert_true(end->queue_us >= queued);
            queued = end->queue_us;
            qn_job_release(jobs[i]);
            qn_buffer_free(&text);
        }
    }
    qn_worker_free(worker);
}

static void test_closed_worker_finishes_what_it_has(void **state)
{
    (void)state;
    qn_worker *worker = new_worker(4);
    qn_job *first = submit(worker, 4), *second = submit(worker, 4);
    qn_worker_close(worker);
    qn_request request = request_of(4);
    qn_job *refused = NULL;
    qn_error err;
    assert_int_equal(qn_worker_submit(worker, &request, &refused, &err), QN_RESOURCE);
    qn_buffer text = {0};
    assert_int_equal(read_all(first, &text)->status, QN_OK);
    assert_int_equal(read_all(second, &text)->status, QN_OK);
    qn_job_release(first);
    qn_job_release(second);
    qn_buffer_free(&text);
    qn_worker_free(worker);
}

static void test_stop_ends_running_and_waiting_jobs(void **state)
{
    (void)state;
    qn_worker *worker = new_worker(4);
    qn_job *running = submit(worker, ENDLESS_TOKENS);
    wait_text(running);
    qn_job *waiting = submit(worker, 4);
    qn_worker_stop(worker);
    qn_buffer text = {0};
    assert_int_equal(read_all(running, &text)->status, QN_CANCELLED);
    qn_buffer_clear(&text);
    const qn_job_end *end = read_all(waiting, &text);
    assert_int_equal(end->status, QN_CANCELLED);
    assert_non_null(strstr(end->err.message, "stopping"));
    assert_int_equal(text.size, 0);
    qn_job_release(running);
    qn_job_release(waiting);
    qn_buffer_free(&text);
    qn_worker_free(worker);
}

static void test_engine_failure_is_the_jobs_end(void **state)
{
    (void)state;
    qn_worker *worker = new_worker(4);
    qn_job *job = submit(worker, 1 << 30); /* does not fit the context */
    qn_buffer text = {0};
    const qn_job_end *end = read_all(job, &text);
    assert_int_equal(end->status, QN_USAGE);
    assert_string_equal(end->err.field, "max_tokens");
    qn_job_release(job);
    qn_buffer_free(&text);
    qn_worker_free(worker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_job_gives_what_the_engine_gives),
        cmocka_unit_test(test_stop_strings_outlive_the_request),
        cmocka_unit_test(test_queue_is_bounded_and_releasing_makes_room),
        cmocka_unit_test(test_no_queue_still_runs_one),
        cmocka_unit_test(test_jobs_run_in_order_of_arrival),
        cmocka_unit_test(test_closed_worker_finishes_what_it_has),
        cmocka_unit_test(test_stop_ends_running_and_waiting_jobs),
        cmocka_unit_test(test_engine_failure_is_the_jobs_end),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
