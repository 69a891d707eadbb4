/* The public header, used as a program of somebody else's would: nothing of quern's own sources is included. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include <quern/quern.h>

typedef struct heard {
    char reasoning[4096], content[4096];
    size_t calls, hang_up_at; /* 0: never */
} heard;

static bool on_text(void *context, qn_quern_channel channel, const char *text, size_t bytes)
{
    heard *h = context;
    assert_int_equal(strlen(text), bytes);
    strcat(channel == QN_QUERN_CONTENT ? h->content : h->reasoning, text);
    return ++h->calls != h->hang_up_at;
}

static qn_quern *open_tiny(int drafts)
{
    const qn_quern_options options = {.max_model_len = 1024, .num_speculative_tokens = drafts, .max_num_seqs = 2};
    qn_quern_error error;
    qn_quern *quern = qn_quern_open("models/quern-tiny", &options, &error);
    if (quern == NULL) {
        fail_msg("%s", error.message);
    }
    assert_int_equal(error.status, 0);
    return quern;
}

static void answers_a_prompt(void **state)
{
    (void)state;
    for (int drafts = 0; drafts < 2; drafts++) {
        qn_quern *quern = open_tiny(drafts);
        qn_quern_request request = QN_QUERN_REQUEST_INIT;
        qn_quern_result result;
        qn_quern_error error;
        heard h = {.calls = 0};
        request.prompt = "What is 2 + 2?";
        assert_int_equal(qn_quern_generate(quern, &request, on_text, &h, &result, &error), 0);
        assert_string_equal(h.content, "The answer is 4.");
        assert_string_equal(h.reasoning, "Step 1: 2 + 2 = 4. The result is 4.");
        assert_int_equal(result.finish, QN_QUERN_STOP);
        assert_int_equal(result.completion_tokens, 27);
        assert_int_equal(result.reasoning_tokens, 19);
        assert_true((result.drafts_proposed > 0) == (drafts > 0));
        assert_int_equal(qn_quern_generate(quern, &request, NULL, NULL, NULL, &error), 0);
        qn_quern_close(quern);
    }
}

static void takes_messages(void **state)
{
    (void)state;
    qn_quern *quern = open_tiny(0);
    qn_quern_request request = QN_QUERN_REQUEST_INIT;
    qn_quern_error error;
    heard h = {.calls = 0};
    request.messages = "[{\"role\": \"user\", \"content\": \"What is 2 + 2?\"}]";
    assert_int_equal(qn_quern_generate(quern, &request, on_text, &h, NULL, &error), 0);
    assert_string_equal(h.content, "The answer is 4.");
    qn_quern_close(quern);
}

static void goes_on_with_raw_text(void **state)
{
    (void)state;
    qn_quern *quern = open_tiny(0);
    qn_quern_request request = QN_QUERN_REQUEST_INIT;
    qn_quern_result result;
    qn_quern_error error;
    heard h = {.calls = 0};
    static const char *const stop[] = {"nswer"};
    request.prompt = "[gMASK]<sop><|system|>Reasoning Effort: Max<|user|>What is 2 + 2?<|assistant|><think>";
    request.raw = true;
    request.stop = stop;
    request.stop_count = 1;
    assert_int_equal(qn_quern_generate(quern, &request, on_text, &h, &result, &error), 0);
    assert_string_equal(h.content, "Step 1: 2 + 2 = 4. The result is 4.</think>The a");
    assert_int_equal(result.finish, QN_QUERN_STOP);
    qn_quern_close(quern);
}

static void samples_by_seed(void **state)
{
    (void)state;
    qn_quern *quern = open_tiny(1);
    qn_quern_request request = QN_QUERN_REQUEST_INIT;
    qn_quern_result result;
    qn_quern_error error;
    heard first = {.calls = 0}, again = {.calls = 0};
    request.prompt = "Tell me a story.";
    request.temperature = 1.2;
    request.top_p = 0.95;
    request.min_p = 0.01;
    request.top_k = 100;
    request.max_tokens = 40;
    assert_int_equal(qn_quern_generate(quern, &request, on_text, &first, &result, &error), 0);
    request.has_seed = true;
    request.seed = result.seed;
    assert_int_equal(qn_quern_generate(quern, &request, on_text, &again, &result, &error), 0);
    assert_string_equal(first.content, again.content);
    assert_string_equal(first.reasoning, again.reasoning);
    assert_true(result.seed == request.seed);
    qn_quern_close(quern);
}

static void ends_at_the_listeners_wish(void **state)
{
    (void)state;
    qn_quern *quern = open_tiny(0);
    qn_quern_request request = QN_QUERN_REQUEST_INIT;
    qn_quern_result result;
    qn_quern_error error;
    heard h = {.hang_up_at = 3};
    request.prompt = "What is 2 + 2?";
    assert_int_equal(qn_quern_generate(quern, &request, on_text, &h, &result, &error), 0);
    assert_int_equal(result.finish, QN_QUERN_CANCELLED);
    assert_int_equal(h.calls, 3);
    request.max_tokens = 2;
    assert_int_equal(qn_quern_generate(quern, &request, NULL, NULL, &result, &error), 0);
    assert_int_equal(result.finish, QN_QUERN_LENGTH);
    qn_quern_close(quern);
}

static void says_what_is_wrong(void **state)
{
    (void)state;
    qn_quern_error error;
    assert_null(qn_quern_open("/nonexistent", NULL, &error));
    assert_int_equal(error.status, 3);
    assert_non_null(strstr(error.message, "/nonexistent"));

    qn_quern *quern = open_tiny(0);
    const qn_quern_request nothing = QN_QUERN_REQUEST_INIT;
    qn_quern_request bad[8];
    for (size_t i = 0; i < 8; i++) {
        bad[i] = nothing;
        bad[i].prompt = "x";
    }
    bad[0].prompt = NULL;
    bad[1].messages = "[]";
    bad[2].top_p = 3.0;
    bad[3].prompt = "\xff\xfe";
    bad[4].raw = true;
    bad[4].system = "y";
    bad[5].prompt = NULL;
    bad[5].messages = "[{";
    bad[6].prompt = NULL;
    bad[6].messages = "7";
    bad[7].max_tokens = 5000;
    for (size_t i = 0; i < 8; i++) {
        error.status = 0;
        assert_int_equal(qn_quern_generate(quern, &bad[i], NULL, NULL, NULL, &error), 2);
        assert_int_equal(error.status, 2);
        assert_true(strlen(error.message) > 10);
    }
    qn_quern_close(quern);
    qn_quern_close(NULL);
    assert_true(strlen(qn_quern_version()) >= 5);
}

static void hear_log(void *context, const char *line)
{
    heard *h = context;
    strcat(h->content, line);
    strcat(h->content, "\n");
}

static void sends_its_log_elsewhere(void **state)
{
    (void)state;
    heard h = {.calls = 0};
    qn_quern_set_log(hear_log, &h);
    qn_quern_close(open_tiny(0));
    assert_non_null(strstr(h.content, "memory: KV cache"));
    qn_quern_set_log(NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_a_prompt),           cmocka_unit_test(takes_messages),
        cmocka_unit_test(goes_on_with_raw_text),      cmocka_unit_test(samples_by_seed),
        cmocka_unit_test(ends_at_the_listeners_wish), cmocka_unit_test(says_what_is_wrong),
        cmocka_unit_test(sends_its_log_elsewhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
