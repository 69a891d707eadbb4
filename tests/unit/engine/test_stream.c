/* A job read as text: the same whenever it is read, cut at stop strings, and whole when memory fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "engine/engine_internal.h"
#include "unit/engine/support.h"

static const char thought[] = "Step 1: 2 + 2 = 4. The result is 4.", said[] = "The answer is 4.";
enum { ANSWER_TOKENS = 27 };

/* The shipped model, and a question it answers with the texts above. */
typedef struct fixture {
    qn_engine *engine;
    int32_t *ids;
    qn_request request;
} fixture;

static fixture open_fixture(int drafts)
{
    json_t *cases = read_json_lines("models/quern-tiny/eval/greedy_hf.jsonl");
    const qn_engine_options options = {.model_dir = "models/quern-tiny",
                                       .threads = 2,
                                       .max_model_len = 256,
                                       .max_num_seqs = 2,
                                       .num_speculative_tokens = drafts};
    fixture f = {.engine = open_engine(&options, NULL)};
    size_t count;
    f.ids = read_ids(json_object_get(json_array_get(cases, 0), "prompt_ids"), &count);
    f.request = (qn_request){
        .prompt_ids = f.ids, .prompt_count = count, .sampling = qn_sampling_greedy(), .in_reasoning = true};
    json_decref(cases);
    return f;
}

static void close_fixture(fixture *f)
{
    qn_engine_close(f->engine);
    free(f->ids);
}

static qn_stream *open_stream(const fixture *f)
{
    qn_stream *stream = NULL;
    qn_error err;
    if (qn_stream_open(f->engine, &f->request, &stream, &err) != QN_OK) {
        fail_msg("%s", err.message);
    }
    return stream;
}

/* What was read of a stream. */
typedef struct reading {
    qn_buffer text[2], ids, logprobs, order; /* order: 'r' and 'c' for each piece */
    size_t takes;
} reading;

static void take(qn_stream *stream, reading *r)
{
    qn_error err;
    qn_output_event output;
    assert_int_equal(qn_stream_take(stream, &err), QN_OK);
    r->takes++;
    qn_stream_tokens taken = qn_stream_taken(stream);
    qn_buffer_append(&r->ids, taken.ids, taken.count * sizeof *taken.ids);
    if (taken.logprobs != NULL) {
        qn_buffer_append(&r->logprobs, taken.logprobs, taken.count * sizeof *taken.logprobs);
    }
    while (qn_stream_next(stream, &output)) {
        assert_true(output.bytes > 0);
        assert_int_equal(output.text[output.bytes], '\0');
        qn_buffer_append(&r->text[output.kind], output.text, output.bytes);
        qn_buffer_char(&r->order, output.kind == QN_OUTPUT_CONTENT ? 'c' : 'r');
    }
    assert_false(qn_stream_next(stream, &output));
}

static void read_all(qn_stream *stream, reading *r)
{
    while (qn_stream_end(stream) == NULL) {
        struct pollfd news = {.fd = qn_stream_fd(stream), .events = POLLIN};
        poll(&news, 1, -1);
        take(stream, r);
    }
}

/* Is there anything that was not published? */
static bool is_active(qn_engine *engine)
{
    pthread_mutex_lock(&engine->mutex);
    bool active = engine->active_count > 0;
    pthread_mutex_unlock(&engine->mutex);
    return active;
}

/* Reads once, when all is there. */
static void read_late(qn_engine *engine, qn_stream *stream, reading *r)
{
    while (is_active(engine)) {
        sched_yield();
    }
    read_all(stream, r);
    assert_int_equal(r->takes, 1);
}

static void forget(reading *r)
{
    qn_buffer *const buffers[] = {&r->text[0], &r->text[1], &r->ids, &r->logprobs, &r->order};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) {
        qn_buffer_free(buffers[i]);
    }
    *r = (reading){.takes = 0};
}

static void the_same_however_late_it_is_read(void **state)
{
    (void)state;
    fixture f = open_fixture(2);
    f.request.has_logprobs = true;
    for (int late = 0; late <= 1; late++) {
        reading r = {.takes = 0};
        qn_stream *stream = open_stream(&f);
        assert_null(qn_stream_end(stream));
        if (late) {
            read_late(f.engine, stream, &r);
            assert_string_equal(qn_buffer_string(&r.order), "rc"); /* in one take, in the order of the tokens */
        } else {
            read_all(stream, &r);
        }
        assert_true(qn_stream_started(stream));
        assert_int_equal(qn_stream_prompt_computed(stream), f.request.prompt_count);
        assert_string_equal(qn_buffer_string(&r.text[QN_OUTPUT_REASONING]), thought);
        assert_string_equal(qn_buffer_string(&r.text[QN_OUTPUT_CONTENT]), said);
        assert_int_equal(r.ids.size, ANSWER_TOKENS * sizeof(int32_t));
        assert_int_equal(r.logprobs.size, ANSWER_TOKENS * sizeof(qn_logprob));
        qn_result result = qn_stream_result(stream);
        assert_int_equal(result.completion_tokens, ANSWER_TOKENS);
        assert_memory_equal(result.tokens, r.ids.data, r.ids.size);
        assert_int_equal(result.finish, QN_FINISH_STOP);
        assert_int_equal(result.reasoning_tokens, 19);
        /* nothing follows the end */
        size_t bytes = r.ids.size;
        take(stream, &r);
        assert_int_equal(r.ids.size, bytes);
        qn_stream_close(stream);
        forget(&r);
    }
    close_fixture(&f);
}

/* "result is" comes in several tokens; what the engine computed beyond it is dropped, with its logprobs. */
static void tokens_beyond_a_stop_string_are_dropped(void **state)
{
    (void)state;
    static const char *const stops[] = {"nowhere", "result is"};
    fixture f = open_fixture(3);
    f.request.stop = stops;
    f.request.stop_count = 2;
    f.request.has_logprobs = true;
    for (int late = 0; late <= 1; late++) {
        reading r = {.takes = 0};
        qn_stream *stream = open_stream(&f);
        if (late) {
            read_late(f.engine, stream, &r);
        } else {
            read_all(stream, &r);
        }
        qn_result result = qn_stream_result(stream);
        assert_string_equal(qn_buffer_string(&r.text[QN_OUTPUT_REASONING]), "Step 1: 2 + 2 = 4. The");
        assert_int_equal(r.text[QN_OUTPUT_CONTENT].size, 0);
        assert_ptr_equal(result.stop_matched, stops[1]);
        assert_int_equal(result.completion_tokens, 16);
        assert_int_equal(r.ids.size, 16 * sizeof(int32_t));
        assert_int_equal(r.logprobs.size, 16 * sizeof(qn_logprob));
        assert_int_equal(qn_stream_end(stream)->status, QN_OK);
        assert_int_equal(result.finish, QN_FINISH_STOP);
        qn_stream_close(stream);
        forget(&r);
    }
    close_fixture(&f);
}

static void no_stop_string_before_min_tokens(void **state)
{
    (void)state;
    static const char *const stops[] = {"4"};
    fixture f = open_fixture(1);
    f.request.stop = stops;
    f.request.stop_count = 1;
    size_t last = 0;
    for (size_t least = 0; least <= ANSWER_TOKENS; least += 3) {
        reading r = {.takes = 0};
        f.request.min_tokens = least;
        qn_stream *stream = open_stream(&f);
        read_all(stream, &r);
        qn_result result = qn_stream_result(stream);
        assert_true(result.completion_tokens >= least && result.completion_tokens >= last);
        assert_int_equal(result.finish, QN_FINISH_STOP);
        last = result.completion_tokens;
        qn_stream_close(stream);
        forget(&r);
    }
    assert_true(last >= ANSWER_TOKENS);
    close_fixture(&f);
}

/* From some length on only end tokens may come. */
typedef struct ending {
    const qn_engine *engine;
    size_t length;
} ending;

static qn_status leave_only_ends(void *context, const int32_t *answer, size_t count, uint64_t *allowed)
{
    (void)answer;
    const ending *e = context;
    size_t end_count, vocab = qn_engine_config(e->engine)->vocab_size;
    const int32_t *ends = qn_engine_eos(e->engine, &end_count);
    memset(allowed, count < e->length ? 0xff : 0, (vocab + 63) / 64 * sizeof *allowed);
    for (size_t i = 0; i < end_count; i++) {
        allowed[ends[i] / 64] |= (uint64_t)1 << ends[i] % 64;
    }
    return QN_OK;
}

/* An answer that ends though its last token is no end token keeps that one's text, also when its end is read with it.
 */
static void an_end_without_a_token_costs_no_text(void **state)
{
    (void)state;
    fixture f = open_fixture(3);
    for (size_t length = 3; length < 12; length++) {
        ending e = {.engine = f.engine, .length = length};
        f.request.mask = (qn_token_mask){.context = &e, .fill = leave_only_ends};
        f.request.min_tokens = 20;
        reading early = {.takes = 0}, late = {.takes = 0};
        qn_stream *first = open_stream(&f);
        read_all(first, &early);
        qn_stream *second = open_stream(&f);
        read_late(f.engine, second, &late);
        assert_int_equal(qn_stream_end(second)->status, QN_OK);
        assert_int_equal(qn_stream_end(second)->finish, QN_FINISH_STOP);
        assert_false(qn_stream_end(second)->by_token);
        assert_int_equal(late.ids.size, length * sizeof(int32_t));
        const char *text = qn_buffer_string(&late.text[QN_OUTPUT_REASONING]);
        assert_string_equal(text, qn_buffer_string(&early.text[QN_OUTPUT_REASONING]));
        assert_memory_equal(text, thought, strlen(text));
        assert_true(strlen(text) + 1 >= length); /* but for white space at its end, a character a token at least */
        qn_stream_close(first);
        qn_stream_close(second);
        forget(&early);
        forget(&late);
    }
    close_fixture(&f);
}

static qn_status leave_nothing(void *context, const int32_t *answer, size_t count, uint64_t *allowed)
{
    const ending *e = context;
    return count >= e->length ? QN_OK : leave_only_ends(context, answer, count, allowed);
}

/* Nothing may follow: where end tokens count for nothing, that is the answer's end. */
static void an_answer_that_ignores_ends_stops_where_nothing_may_follow(void **state)
{
    (void)state;
    fixture f = open_fixture(3);
    for (size_t length = 0; length < 9; length += 4) {
        ending e = {.engine = f.engine, .length = length};
        f.request.mask = (qn_token_mask){.context = &e, .fill = leave_nothing};
        for (int ignore = 0; ignore < 2; ignore++) {
            f.request.ignore_eos = ignore;
            reading r = {.takes = 0};
            qn_stream *stream = open_stream(&f);
            read_all(stream, &r);
            assert_int_equal(qn_stream_end(stream)->status, ignore ? QN_OK : QN_USAGE);
            assert_int_equal(r.ids.size, length * sizeof(int32_t));
            assert_true(!ignore || qn_stream_end(stream)->finish == QN_FINISH_STOP);
            qn_stream_close(stream);
            forget(&r);
        }
    }
    close_fixture(&f);
}

static void prompt_logprobs_come_whole(void **state)
{
    (void)state;
    fixture f = open_fixture(1);
    f.request.has_prompt_logprobs = true;
    f.request.prompt_logprobs = 2;
    f.request.max_tokens = 3;
    reading r = {.takes = 0};
    qn_stream *stream = open_stream(&f);
    read_all(stream, &r);
    qn_stream_tokens prompt = qn_stream_prompt(stream);
    assert_int_equal(prompt.count, f.request.prompt_count - 1);
    for (size_t i = 0; i < prompt.count; i++) {
        const qn_logprob *own = prompt.logprobs + i * 3;
        assert_int_equal(prompt.ids[i], f.ids[i + 1]);
        assert_int_equal(own->token, f.ids[i + 1]);
        assert_true(own->logprob <= own[1].logprob && own[1].logprob >= own[2].logprob && own->logprob <= 0.0F);
        assert_true(prompt.ranks[i] >= 1);
    }
    qn_stream_close(stream);
    forget(&r);
    close_fixture(&f);
}

/* Closed at any time, read or not; and the engine answers on. */
static void readers_may_leave(void **state)
{
    (void)state;
    fixture f = open_fixture(2);
    for (size_t takes = 0; takes < 12; takes++) {
        reading r = {.takes = 0};
        qn_stream *stream = open_stream(&f);
        while (r.takes < takes && qn_stream_end(stream) == NULL) {
            struct pollfd news = {.fd = qn_stream_fd(stream), .events = POLLIN};
            poll(&news, 1, -1);
            take(stream, &r);
        }
        qn_stream_close(stream);
        forget(&r);
    }
    qn_stream_close(NULL);
    qn_result result = run_engine(f.engine, &f.request, NULL);
    assert_int_equal(result.completion_tokens, ANSWER_TOKENS);
    qn_result_free(&result);
    close_fixture(&f);
}

static void refuses_stop_strings(void **state)
{
    (void)state;
    static const char *const empty[] = {"a", ""};
    fixture f = open_fixture(0);
    qn_stream *stream = NULL;
    qn_error err;
    f.request.stop = empty;
    f.request.stop_count = 2;
    assert_int_equal(qn_stream_open(f.engine, &f.request, &stream, &err), QN_USAGE);
    assert_string_equal(err.field, "stop");
    close_fixture(&f);
}

/* Each allocation fails in turn, on whichever thread: an error or the whole answer, nothing leaks, nothing hangs. */
static void every_allocation_may_fail(void **state)
{
    (void)state;
    static const char *const stops[] = {"answer"};
    static const qn_logit_bias bias = {.token = 7, .bias = -1.0F};
    fixture f = open_fixture(1);
    f.request.stop = stops;
    f.request.stop_count = 1;
    f.request.cache_salt = "salt";
    f.request.has_logprobs = f.request.has_prompt_logprobs = true;
    f.request.sampling.frequency_penalty = 0.01F;
    f.request.sampling.logit_bias = &bias;
    f.request.sampling.logit_bias_count = 1;
    bool failed = true;
    for (long n = 1; failed; n++) {
        qn_stream *stream = NULL;
        qn_error err;
        qn_fault_arm(QN_FAULT_ALLOC, n);
        qn_status status = qn_stream_open(f.engine, &f.request, &stream, &err);
        while (status == QN_OK && qn_stream_end(stream) == NULL) {
            struct pollfd news = {.fd = qn_stream_fd(stream), .events = POLLIN};
            poll(&news, 1, -1);
            status = qn_stream_take(stream, &err);
        }
        failed = qn_fault_seen(QN_FAULT_ALLOC) >= n;
        qn_fault_disarm();
        if (status == QN_OK) {
            status = qn_stream_end(stream)->status;
        }
        assert_true(status == QN_OK || (failed && status == QN_RESOURCE));
        assert_true(failed || n > 10);
        qn_stream_close(stream);
    }
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_however_late_it_is_read),
        cmocka_unit_test(tokens_beyond_a_stop_string_are_dropped),
        cmocka_unit_test(no_stop_string_before_min_tokens),
        cmocka_unit_test(an_end_without_a_token_costs_no_text),
        cmocka_unit_test(an_answer_that_ignores_ends_stops_where_nothing_may_follow),
        cmocka_unit_test(prompt_logprobs_come_whole),
        cmocka_unit_test(readers_may_leave),
        cmocka_unit_test(refuses_stop_strings),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
