/* Several requests whose experts come from a disk that fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <string.h>

#include "base/fault.h"
#include "engine/job.h"
#include "model/expert_cache.h"
#include "unit/engine/support.h"

enum { JOBS = 3, PROMPT = 20, TOKENS = 12, ROOM = 18 };

static const char MODEL[] = "tests/data/oracle/tiny-mtp";

typedef struct answer {
    qn_status status;
    char message[QN_ERROR_MESSAGE_BYTES];
    int32_t tokens[TOKENS];
    size_t count;
} answer;

/* Memory for so few experts that every step of several requests has to read some. */
static size_t cache_bytes(void)
{
    qn_checkpoint *checkpoint = NULL;
    qn_weights weights;
    qn_error err;
    assert_int_equal(qn_checkpoint_open(MODEL, &checkpoint, &err), QN_OK);
    assert_int_equal(qn_weights_take(checkpoint, &weights, &err), QN_OK);
    size_t bytes = qn_expert_cache_bytes(&weights, ROOM);
    qn_weights_free(&weights);
    qn_checkpoint_close(checkpoint);
    return bytes;
}

static qn_engine *open_cached(int drafts)
{
    const qn_engine_options options = {.model_dir = MODEL,
                                       .without_text = true,
                                       .threads = 1,
                                       .max_model_len = 256,
                                       .block_size = 16,
                                       .max_num_seqs = JOBS,
                                       .num_speculative_tokens = drafts,
                                       .trace_drafts = drafts > 0,
                                       .expert_cache_bytes = cache_bytes()};
    return open_engine(&options, NULL);
}

static void read_answer(qn_job *job, answer *out)
{
    qn_job_news news = {.end = NULL};
    out->count = 0;
    while (news.end == NULL) {
        struct pollfd fd = {.fd = qn_job_fd(job), .events = POLLIN};
        assert_int_equal(poll(&fd, 1, -1), 1);
        qn_job_take(job, &news);
        size_t count = news.tokens.size / sizeof(int32_t);
        assert_in_range(out->count + count, 0, TOKENS);
        if (count > 0) {
            memcpy(out->tokens + out->count, news.tokens.data, news.tokens.size);
        }
        out->count += count;
    }
    out->status = news.end->status;
    memcpy(out->message, news.end->err.message, sizeof out->message);
    qn_job_news_free(&news);
}

static void ask_all(qn_engine *engine, answer answers[JOBS])
{
    qn_job *jobs[JOBS];
    for (size_t j = 0; j < JOBS; j++) {
        int32_t prompt[PROMPT];
        qn_error err;
        for (size_t i = 0; i < PROMPT; i++) {
            prompt[i] = (int32_t)((i * 37 + j * 91 + 5) % 500);
        }
        const qn_request request = {.prompt_ids = prompt,
                                    .prompt_count = PROMPT,
                                    .sampling = qn_sampling_greedy(),
                                    .max_tokens = TOKENS,
                                    .ignore_eos = true};
        assert_int_equal(qn_engine_submit(engine, &request, &jobs[j], &err), QN_OK);
    }
    for (size_t j = 0; j < JOBS; j++) {
        read_answer(jobs[j], &answers[j]);
        qn_job_release(jobs[j]);
    }
}

static void expect_same(const answer got[JOBS], const answer want[JOBS])
{
    for (size_t j = 0; j < JOBS; j++) {
        if (got[j].status != QN_OK) {
            fail_msg("%s", got[j].message);
        }
        assert_int_equal(got[j].count, TOKENS);
        assert_memory_equal(got[j].tokens, want[j].tokens, sizeof want[j].tokens);
    }
}

/* A read that fails once is done again, whichever it is: nobody's answer ends or changes, and nobody loses his drafts.
 */
static void a_read_that_fails_once_is_not_noticed(int drafts)
{
    qn_engine *engine = open_cached(drafts);
    answer want[JOBS], got[JOBS];
    ask_all(engine, want);
    expect_same(want, want);
    clear_log();
    for (long nth = 1; nth < 400; nth += nth / 4 + 1) {
        qn_fault_arm(QN_FAULT_READ, nth);
        ask_all(engine, got);
        qn_fault_disarm();
        expect_same(got, want);
    }
    assert_null(strstr(logged_lines(), "without drafts"));
    qn_engine_close(engine);
}

static void one_failing_read_is_done_again(void **state)
{
    (void)state;
    a_read_that_fails_once_is_not_noticed(0);
    a_read_that_fails_once_is_not_noticed(1);
}

/* All of the step's requests end, by one error, which names the file; and once the disk is well again, so are they. */
static void a_disk_that_is_broken_ends_the_requests(void **state)
{
    (void)state;
    qn_engine *engine = open_cached(1);
    answer want[JOBS], got[JOBS];
    ask_all(engine, want);
    qn_fault_arm_from(QN_FAULT_READ, 1);
    ask_all(engine, got);
    qn_fault_disarm();
    for (size_t j = 0; j < JOBS; j++) {
        assert_int_equal(got[j].status, QN_RESOURCE);
        assert_non_null(strstr(got[j].message, "model.safetensors: cannot read"));
    }
    ask_all(engine, got);
    expect_same(got, want);
    qn_engine_close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_failing_read_is_done_again),
        cmocka_unit_test(a_disk_that_is_broken_ends_the_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
