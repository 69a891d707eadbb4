/* What a stream of chunks tells, and how a broken one is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "bench/serve_answer.h"

#define TEXT(field, text) \
    "data: {\"choices\":[{\"delta\":{\"" field "\":\"" text "\"},\"finish_reason\":null}],\"usage\":null}\n\n"
#define FINISH \
    "data: "   \
    "{\"choices\":[{\"delta\":{},\"finish_reason\":\"length\"}],\"timings\":{\"drafts\":8,\"drafts_accepted\":6}}\n\n"
#define USAGE                                                                         \
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":6," \
    "\"prompt_tokens_details\":{\"cached_tokens\":64}}}\n\n"
#define DONE "data: [DONE]\n\n"

static qn_status read_text(qn_serve_answer *a, const char *text, uint64_t now_us, qn_error *err)
{
    return qn_serve_answer_read(a, text, strlen(text), now_us, err);
}

static void whole_answer(void **state)
{
    (void)state;
    qn_serve_answer a = {0};
    qn_error err;
    assert_int_equal(read_text(&a, ": working\n\n" TEXT("content", ""), 10, &err), QN_OK); /* the role's chunk */
    assert_int_equal(a.chunks, 0);
    assert_int_equal(read_text(&a, TEXT("reasoning_content", "x"), 20, &err), QN_OK);
    assert_int_equal(read_text(&a, TEXT("content", "y") TEXT("reasoning", "z"), 30, &err), QN_OK);
    assert_int_equal(qn_serve_answer_check(&a, &err), QN_BAD_INPUT);
    assert_non_null(strstr(err.message, "before its finish_reason"));
    assert_int_equal(read_text(&a, FINISH USAGE, 40, &err), QN_OK);
    assert_int_equal(qn_serve_answer_check(&a, &err), QN_BAD_INPUT);
    assert_non_null(strstr(err.message, "before [DONE]"));
    assert_int_equal(read_text(&a, DONE, 41, &err), QN_OK);
    assert_int_equal(qn_serve_answer_check(&a, &err), QN_OK);
    assert_int_equal(a.chunks, 3);
    assert_true(a.chunk_us[0] == 20 && a.chunk_us[1] == 30 && a.chunk_us[2] == 30);
    assert_true(a.has_usage && a.prompt_tokens == 100 && a.completion_tokens == 6);
    assert_true(a.has_cached && a.cached_tokens == 64);
    assert_true(a.has_drafts && a.drafts == 8 && a.drafts_accepted == 6);
    assert_true(qn_serve_answer_tokens_per_chunk(&a) == 2);
    assert_int_equal(read_text(&a, TEXT("content", "late"), 50, &err), QN_BAD_INPUT);
    qn_serve_answer_clear(&a);
    assert_true(a.chunks == 0 && !a.done && !a.has_usage && a.capacity > 0);
    assert_true(qn_serve_answer_tokens_per_chunk(&a) == 1);
    qn_serve_answer_free(&a);
}

static void answer_without_usage_is_told(void **state)
{
    (void)state;
    qn_serve_answer a = {0};
    qn_error err;
    assert_int_equal(read_text(&a, TEXT("content", "x") FINISH DONE, 1, &err), QN_OK);
    assert_int_equal(qn_serve_answer_check(&a, &err), QN_BAD_INPUT);
    assert_non_null(strstr(err.message, "no usage"));
    qn_serve_answer_free(&a);
}

static void llama_cpp_names_are_read(void **state)
{
    (void)state;
    qn_serve_answer a = {0};
    qn_error err;
    assert_int_equal(
        read_text(&a, "data: {\"choices\":[],\"timings\":{\"draft_n\":4,\"draft_n_accepted\":1}}\n\n", 1, &err), QN_OK);
    assert_true(a.has_drafts && a.drafts == 4 && a.drafts_accepted == 1);
    qn_serve_answer_free(&a);
}

static void broken_events_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *told;
        qn_status status;
    } cases[] = {
        {"data: {\n\n", "event", QN_BAD_INPUT},
        {"data: 7\n\n", "no chat.completion.chunk", QN_BAD_INPUT},
        {"data: {}\n\n", "no chat.completion.chunk", QN_BAD_INPUT},
        {"data: {\"choices\":{}}\n\n", "no chat.completion.chunk", QN_BAD_INPUT},
        {"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":-1}}\n\n", "no chat.completion.chunk", QN_BAD_INPUT},
        {"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":\"x\"}}\n\n", "no chat.completion.chunk", QN_BAD_INPUT},
        {"data: {\"choices\":[],\"timings\":{\"drafts\":1e9}}\n\n", "no chat.completion.chunk", QN_BAD_INPUT},
        {"data: {\"error\":{\"message\":\"all is lost\"}}\n\n", "all is lost", QN_FAILED},
        {"data: {\"error\":7}\n\n", "in its stream: an error", QN_FAILED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        qn_serve_answer a = {0};
        qn_error err;
        assert_int_equal(read_text(&a, cases[i].text, 1, &err), cases[i].status);
        assert_non_null(strstr(err.message, cases[i].told));
        qn_serve_answer_free(&a);
    }
}

static void no_memory_is_told(void **state)
{
    (void)state;
    for (long nth = 1;; nth++) {
        qn_serve_answer a = {0};
        qn_error err;
        qn_fault_arm(QN_FAULT_ALLOC, nth);
        qn_status status = read_text(&a, TEXT("content", "x") FINISH USAGE DONE, 1, &err);
        long calls = qn_fault_seen(QN_FAULT_ALLOC);
        qn_fault_disarm();
        qn_serve_answer_free(&a);
        if (calls < nth) {
            assert_int_equal(status, QN_OK);
            assert_true(nth > 2);
            return;
        }
        assert_int_not_equal(status, QN_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_answer),
        cmocka_unit_test(answer_without_usage_is_told),
        cmocka_unit_test(llama_cpp_names_are_read),
        cmocka_unit_test(broken_events_are_refused),
        cmocka_unit_test(no_memory_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
