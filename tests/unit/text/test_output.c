/* Reasoning and content apart: by token ids, at any grouping of tokens into steps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/random.h"
#include "text/output.h"
#include "unit/shipped_tokenizer.h"

static qn_tokenizer *tokenizer;

static int open_tokenizer(void **state)
{
    (void)state;
    return shipped_tokenizer_open(&tokenizer, NULL);
}

static int close_tokenizer(void **state)
{
    (void)state;
    qn_tokenizer_free(tokenizer);
    return 0;
}

/* Text with its special tokens to ids. */
static qn_tokens encode(const char *text)
{
    qn_tokens ids = {0};
    qn_error err;
    assert_int_equal(qn_tokenizer_encode(tokenizer, text, strlen(text), NULL, 0, &ids, &err), QN_OK);
    return ids;
}

typedef struct texts {
    qn_buffer reasoning, content;
    int stopped;
    size_t reasoning_tokens;
} texts;

static void take(qn_output_stream *stream, texts *out)
{
    size_t count;
    const qn_output_event *events = qn_output_stream_events(stream, &count);
    for (size_t i = 0; i < count; i++) {
        qn_buffer *text = events[i].kind == QN_OUTPUT_REASONING ? &out->reasoning : &out->content;
        assert_true(events[i].kind == QN_OUTPUT_REASONING || events[i].kind == QN_OUTPUT_CONTENT);
        assert_true(events[i].bytes > 0 && events[i].bytes == strlen(events[i].text));
        assert_true(i == 0 || events[i - 1].kind != events[i].kind);
        qn_buffer_append(text, events[i].text, events[i].bytes);
    }
    qn_output_stream_clear(stream);
}

/* Feeds all ids; step(i) tells after which the text is taken (the pattern's bits). */
static texts run(const qn_output_options *options, const qn_tokens *ids, uint32_t pattern)
{
    qn_error err;
    qn_output_stream *stream;
    texts out = {.stopped = -1};
    assert_int_equal(qn_output_stream_new(tokenizer, options, &stream, &err), QN_OK);
    for (size_t i = 0; i < ids->count && qn_output_stream_stopped(stream) < 0; i++) {
        assert_int_equal(qn_output_stream_feed(stream, ids->ids[i], &err), QN_OK);
        if ((pattern >> (i % 32) & 1) != 0) {
            take(stream, &out);
        }
    }
    assert_int_equal(qn_output_stream_finish(stream, false, &err), QN_OK);
    take(stream, &out);
    out.stopped = qn_output_stream_stopped(stream);
    out.reasoning_tokens = qn_output_stream_reasoning_tokens(stream);
    qn_output_stream_free(stream);
    return out;
}

static void release(texts *t)
{
    qn_buffer_free(&t->reasoning);
    qn_buffer_free(&t->content);
}

typedef struct split_case {
    const char *text;
    bool in_reasoning;
    const char *reasoning, *content;
} split_case;

static void check_case(const split_case *c, uint32_t pattern)
{
    qn_tokens ids = encode(c->text);
    const qn_output_options options = {.split = true, .in_reasoning = c->in_reasoning};
    texts got = run(&options, &ids, pattern);
    assert_string_equal(qn_buffer_string(&got.reasoning), c->reasoning);
    assert_string_equal(qn_buffer_string(&got.content), c->content);
    release(&got);
    qn_tokens_free(&ids);
}

static void splits_and_trims(void **state)
{
    (void)state;
    static const split_case cases[] = {
        {"Easy.</think>Hello!", true, "Easy.", "Hello!"},
        {"</think>Hello!", true, "", "Hello!"},
        {"\n</think>\n\nHello!\n", true, "", "Hello!"},
        {" a  b \n c \n</think> \n d\n\n e \t\n", true, "a  b \n c", "d\n\n e"},
        {"thinking goes on and on", true, "thinking goes on and on", ""},
        {"Hello <think>r</think>x", false, "r", "Hello x"},
        {"Hello", false, "", "Hello"},
        {"<think>a</think>b<think>c</think>d", false, "ac", "bd"},
        {"a <think> b </think> c <think> d </think> e", false, "b  d", "a  c  e"},
        {"a</think>b", false, "", "ab"},
        {"a<think>b", true, "ab", ""},
        {"r</think>x<|user|>", true, "r", "x"},
        {"caf\xc3\xa9 \xf0\x9f\x98\x80</think>\xe4\xb8\xad", true, "caf\xc3\xa9 \xf0\x9f\x98\x80", "\xe4\xb8\xad"},
        {"", true, "", ""},
        {"   ", false, "", ""},
    };
    uint64_t seed = qn_random_seed();
    print_message("seed %llu\n", (unsigned long long)seed);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_case(&cases[i], 0);
        check_case(&cases[i], UINT32_MAX);
        check_case(&cases[i], (uint32_t)seed);
        check_case(&cases[i], (uint32_t)(seed >> 32));
    }
}

/* The markup spelt in ordinary tokens is text. */
static void quoted_markup_is_text(void **state)
{
    (void)state;
    static const char text[] = "no <think> here </think> at all";
    const qn_span all = {0, sizeof text - 1};
    qn_tokens ids = {0};
    qn_error err;
    assert_int_equal(qn_tokenizer_encode(tokenizer, text, sizeof text - 1, &all, 1, &ids, &err), QN_OK);
    const qn_output_options options = {.split = true};
    texts got = run(&options, &ids, UINT32_MAX);
    assert_string_equal(qn_buffer_string(&got.content), text);
    assert_int_equal(got.reasoning.size, 0);
    release(&got);
    qn_tokens_free(&ids);
}

static void raw_text_is_left_alone(void **state)
{
    (void)state;
    static const char text[] = " \n a<think> b</think>\n ";
    qn_tokens ids = encode(text);
    const qn_output_options options = {.split = false, .in_reasoning = true};
    texts got = run(&options, &ids, 0x55555555);
    assert_string_equal(qn_buffer_string(&got.content), text);
    assert_int_equal(got.reasoning_tokens, 0);
    release(&got);
    qn_tokens_free(&ids);
}

static void stop_strings_cut_either_channel(void **state)
{
    (void)state;
    static const char *const stops[] = {"END", "lo w"};
    static const struct {
        const char *text, *reasoning, *content;
        int stopped;
    } cases[] = {
        {"think END more</think>Hi", "think", "", 0},
        {"think</think>Hello world", "think", "Hel", 1},
        {"EN</think>D", "EN", "D", -1}, /* not across channels */
        {"think</think>the EN", "think", "the EN", -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (uint32_t pattern = 0; pattern < 16; pattern++) {
            qn_tokens ids = encode(cases[i].text);
            const qn_output_options options = {.split = true, .in_reasoning = true, .stop = stops, .stop_count = 2};
            texts got = run(&options, &ids, pattern * 0x11111111U);
            assert_string_equal(qn_buffer_string(&got.reasoning), cases[i].reasoning);
            assert_string_equal(qn_buffer_string(&got.content), cases[i].content);
            assert_int_equal(got.stopped, cases[i].stopped);
            release(&got);
            qn_tokens_free(&ids);
        }
    }
}

static void counts_reasoning_tokens(void **state)
{
    (void)state;
    qn_tokens inside = encode("Step 1: 2 + 2 = 4."), all = encode("Step 1: 2 + 2 = 4.</think>The answer");
    const qn_output_options options = {.split = true, .in_reasoning = true};
    texts got = run(&options, &all, 0);
    assert_int_equal(got.reasoning_tokens, inside.count);
    release(&got);
    qn_tokens_free(&inside);
    qn_tokens_free(&all);
}

static void text_that_goes_on_keeps_its_first_white_space(void **state)
{
    (void)state;
    qn_tokens tokens = encode(" and so on ");
    for (int i = 0; i < 2; i++) {
        const qn_output_options options = {.split = true, .mid_text = i == 1};
        texts got = run(&options, &tokens, 0);
        assert_string_equal(qn_buffer_string(&got.content), i == 1 ? " and so on" : "and so on");
        release(&got);
    }
    qn_tokens_free(&tokens);
}

/* A character that never becomes whole, ids that the tokenizer doesn't have. */
static void odd_tokens_do_no_harm(void **state)
{
    (void)state;
    qn_tokens emoji = encode("\xf0\x9f\x98\x80");
    assert_true(emoji.count > 1);
    emoji.count--;
    const qn_output_options options = {.split = true};
    texts got = run(&options, &emoji, UINT32_MAX);
    assert_string_equal(qn_buffer_string(&got.content), "\xef\xbf\xbd");
    release(&got);
    qn_tokens_free(&emoji);

    qn_tokens strangers = encode("a");
    static const int32_t ids[] = {-1, INT32_MIN, INT32_MAX, 1536, 100000};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        assert_true(qn_tokens_add(&strangers, ids[i]));
    }
    got = run(&options, &strangers, 0);
    assert_string_equal(qn_buffer_string(&got.content), "a");
    release(&got);
    qn_tokens_free(&strangers);
}

static void refuses_bad_stop_strings(void **state)
{
    (void)state;
    static const char *const empty[] = {""};
    const qn_output_options options = {.stop = empty, .stop_count = 1};
    qn_output_stream *stream;
    qn_error err;
    assert_int_equal(qn_output_stream_new(tokenizer, &options, &stream, &err), QN_USAGE);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    static const char *const stops[] = {"nowhere"};
    const qn_output_options options = {.split = true, .in_reasoning = true, .stop = stops, .stop_count = 1};
    qn_tokens ids = encode("a b \n c</think> \n and so on");
    qn_error err;
    bool done = false;
    for (long n = 1; !done; n++) {
        qn_output_stream *stream = NULL;
        qn_fault_arm(QN_FAULT_ALLOC, n);
        qn_status status = qn_output_stream_new(tokenizer, &options, &stream, &err);
        for (size_t i = 0; status == QN_OK && i < ids.count; i++) {
            status = qn_output_stream_feed(stream, ids.ids[i], &err);
        }
        if (status == QN_OK) {
            status = qn_output_stream_finish(stream, false, &err);
        }
        qn_fault_disarm();
        assert_true(status == QN_OK || status == QN_RESOURCE);
        done = status == QN_OK;
        qn_output_stream_free(stream);
        assert_true(!done || n > 5);
    }
    qn_tokens_free(&ids);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splits_and_trims),          cmocka_unit_test(quoted_markup_is_text),
        cmocka_unit_test(raw_text_is_left_alone),    cmocka_unit_test(stop_strings_cut_either_channel),
        cmocka_unit_test(counts_reasoning_tokens),   cmocka_unit_test(text_that_goes_on_keeps_its_first_white_space),
        cmocka_unit_test(odd_tokens_do_no_harm),     cmocka_unit_test(refuses_bad_stop_strings),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, open_tokenizer, close_tokenizer);
}
