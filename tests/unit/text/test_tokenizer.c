/* Encoding and decoding against Hugging Face tokenizers' own results: cases for the shipped model's tokenizer, made by
 * tools/make_tokenizer_cases.py, and cases for two large tokenizers that are not in the repository. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "unit/shared_files.h"
#include "small_tokenizer.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

/* ---- case files ---- */

static void assert_ids(const json_t *expected, const qn_tokens *ids, const char *text)
{
    if (json_array_size(expected) != ids->count)
        fail_msg("%zu ids instead of %zu for \"%s\"", ids->count, json_array_size(expected), text);
    for (size_t i = 0; i < ids->count; i++) {
        if (ids->ids[i] != json_integer_value(json_array_get(expected, i)))
            fail_msg("id %zu is %d instead of %lld for \"%s\"", i, (int)ids->ids[i],
                     (long long)json_integer_value(json_array_get(expected, i)), text);
    }
}

static void assert_text(const json_t *expected, const qn_buffer *text)
{
    if (json_string_length(expected) != text->size ||
        memcmp(json_string_value(expected), qn_buffer_string(text), text->size) != 0)
        fail_msg("\"%s\" instead of \"%s\"", qn_buffer_string(text), json_string_value(expected));
}

static void check_text_case(const qn_tokenizer *t, const json_t *row)
{
    qn_error err;
    qn_tokens ids = {0};
    qn_buffer text = {0};
    const json_t *input = json_object_get(row, "text");
    assert_int_equal(qn_tokenizer_encode(t, json_string_value(input), json_string_length(input), NULL, 0, &ids, &err),
                     QN_OK);
    assert_ids(json_object_get(row, "ids"), &ids, json_string_value(input));
    assert_int_equal(qn_tokenizer_decode(t, ids.ids, ids.count, false, &text, &err), QN_OK);
    assert_text(json_object_get(row, "decoded"), &text);
    qn_buffer_clear(&text);
    assert_int_equal(qn_tokenizer_decode(t, ids.ids, ids.count, true, &text, &err), QN_OK);
    assert_text(json_object_get(row, "decoded_skip_special"), &text);
    qn_buffer_free(&text);
    qn_tokens_free(&ids);
}

static void check_stream_case(const qn_tokenizer *t, const json_t *row)
{
    qn_error err;
    qn_detokenizer d;
    qn_buffer piece = {0};
    const json_t *ids = json_object_get(row, "stream_ids"), *pieces = json_object_get(row, "pieces");
    assert_int_equal(json_array_size(ids), json_array_size(pieces));
    qn_detokenizer_start(&d, t, false);
    for (size_t i = 0; i < json_array_size(ids); i++) {
        int32_t id = (int32_t)json_integer_value(json_array_get(ids, i));
        qn_buffer_clear(&piece);
        assert_int_equal(qn_detokenizer_feed(&d, &id, 1, &piece, &err), QN_OK);
        assert_text(json_array_get(pieces, i), &piece);
    }
    const json_t *last = json_object_get(row, "flushed");
    qn_buffer_clear(&piece);
    assert_int_equal(qn_detokenizer_flush(&d, &piece, &err), QN_OK);
    if (last)
        assert_text(last, &piece);
    else
        assert_int_equal(piece.size, 0);
    qn_buffer_free(&piece);
}

/* The rules are Python expressions of one form: 'text' * count, with the escapes \n and \'. */
static void evaluate_rule(const char *rule, qn_buffer *out)
{
    qn_buffer unit = {0};
    assert_int_equal(rule[0], '\'');
    const char *at = rule + 1;
    for (; *at && *at != '\''; at++) {
        if (*at != '\\') {
            qn_buffer_char(&unit, *at);
            continue;
        }
        at++;
        assert_true(*at == 'n' || *at == '\'');
        qn_buffer_char(&unit, *at == 'n' ? '\n' : *at);
    }
    unsigned long count;
    if (sscanf(at, "' * %lu", &count) != 1)
        fail_msg("the rule %s has a form that this test does not know", rule);
    for (unsigned long i = 0; i < count; i++)
        qn_buffer_append(out, unit.data, unit.size);
    qn_buffer_free(&unit);
}

/* SHA-256, in hex, of the ids as little-endian uint32, by coreutils. */
static void hash_ids(const qn_tokens *ids, char hex[65])
{
    char path[] = "/tmp/quern-test-ids-XXXXXX", command[128];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    size_t bytes = ids->count * sizeof *ids->ids;
    assert_int_equal(write(fd, ids->ids, bytes), (ssize_t)bytes);
    close(fd);
    snprintf(command, sizeof command, "sha256sum %s", path);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    assert_int_equal(fscanf(pipe, "%64[0-9a-f]", hex), 1);
    pclose(pipe);
    unlink(path);
}

static void check_rule_case(const qn_tokenizer *t, const json_t *row)
{
    qn_error err;
    qn_tokens ids = {0};
    qn_buffer text = {0};
    char hex[65];
    evaluate_rule(json_string_value(json_object_get(row, "rule")), &text);
    assert_int_equal(qn_tokenizer_encode(t, text.data, text.size, NULL, 0, &ids, &err), QN_OK);
    assert_int_equal(ids.count, json_integer_value(json_object_get(row, "count")));
    hash_ids(&ids, hex);
    assert_string_equal(hex, json_string_value(json_object_get(row, "sha256")));
    qn_buffer_free(&text);
    qn_tokens_free(&ids);
}

static void check_cases(const qn_tokenizer *t, const qn_buffer *lines)
{
    size_t checked = 0;
    for (size_t at = 0; at < lines->size;) {
        const char *end = memchr(lines->data + at, '\n', lines->size - at);
        size_t length = end ? (size_t)(end - (lines->data + at)) : lines->size - at;
        qn_error err;
        json_t *row = NULL;
        if (qn_json_parse(lines->data + at, length, "case", &row, &err) != QN_OK)
            fail_msg("%s", err.message);
        if (json_object_get(row, "text"))
            check_text_case(t, row);
        else if (json_object_get(row, "stream_ids"))
            check_stream_case(t, row);
        else
            check_rule_case(t, row);
        json_decref(row);
        checked++;
        at += length + 1;
    }
    print_message("%zu cases\n", checked);
    assert_true(checked > 100);
}

static void check_large_tokenizer(const char *name)
{
    char path[128];
    qn_buffer json = {0}, lines = {0};
    qn_error err;
    qn_tokenizer *t = NULL;
    snprintf(path, sizeof path, "data/tokenizers/%s.tokenizer.json.gz", name);
    if (!shared_file_read(path, &json))
        return;
    if (qn_tokenizer_parse(json.data, json.size, name, &t, &err) != QN_OK)
        fail_msg("%s", err.message);
    qn_buffer_free(&json);
    snprintf(path, sizeof path, "cases/tokenizer/%s.jsonl", name);
    if (shared_file_read(path, &lines))
        check_cases(t, &lines);
    qn_buffer_free(&lines);
    qn_tokenizer_free(t);
}

static void test_qwen3_cases(void **state)
{
    (void)state;
    check_large_tokenizer("qwen3");
}

static void test_gptoss_cases(void **state)
{
    (void)state;
    check_large_tokenizer("gptoss");
}

static qn_tokenizer *open_shipped(void)
{
    qn_error err;
    qn_tokenizer *t = NULL;
    if (qn_tokenizer_open("models/quern-tiny", &t, &err) != QN_OK)
        fail_msg("%s", err.message);
    return t;
}

static void test_shipped_tokenizer_cases(void **state)
{
    (void)state;
    qn_error err;
    qn_buffer lines = {0};
    size_t bytes;
    assert_int_equal(qn_file_read("tests/data/tokenizer/quern-tiny.jsonl", 1 << 22, &lines.data, &bytes, &err), QN_OK);
    lines.size = bytes;
    qn_tokenizer *t = open_shipped();
    check_cases(t, &lines);
    qn_tokenizer_free(t);
    qn_buffer_free(&lines);
}

/* ---- opening and looking up ---- */

static void test_opens_a_folder_or_a_file(void **state)
{
    (void)state;
    qn_error err;
    qn_tokenizer *from_file = NULL, *t = open_shipped();
    assert_int_equal(qn_tokenizer_open("models/quern-tiny/tokenizer.json", &from_file, &err), QN_OK);
    assert_int_equal(qn_tokenizer_size(t), 1536);
    assert_int_equal(qn_tokenizer_size(from_file), 1536);
    qn_tokenizer_free(from_file);
    assert_int_equal(qn_tokenizer_open("models", &from_file, &err), QN_BAD_INPUT);
    assert_non_null(strstr(err.message, "models: has no tokenizer.json: copy it from"));
    assert_int_equal(qn_tokenizer_open("no/such/place", &from_file, &err), QN_BAD_INPUT);
    qn_tokenizer_free(t);
    qn_tokenizer_free(NULL);
}

static void test_tells_about_tokens(void **state)
{
    (void)state;
    size_t bytes;
    qn_tokenizer *t = open_shipped();
    int32_t user = qn_tokenizer_find_added(t, "<|user|>"), think = qn_tokenizer_find_added(t, "<think>");
    assert_int_equal(user, 1522);
    assert_int_equal(think, 1525);
    assert_int_equal(qn_tokenizer_find_added(t, "<|user|"), -1);
    assert_int_equal(qn_tokenizer_find_added(t, "<|user|>>"), -1);
    assert_int_equal(qn_tokenizer_find_added(t, "the"), -1);
    assert_int_equal(qn_tokenizer_find_added(t, ""), -1);
    assert_true(qn_tokenizer_is_special(t, user) && qn_tokenizer_is_added(t, user));
    assert_true(!qn_tokenizer_is_special(t, think) && qn_tokenizer_is_added(t, think));
    assert_true(!qn_tokenizer_is_special(t, 5) && !qn_tokenizer_is_added(t, 5));
    assert_true(!qn_tokenizer_is_special(t, -1) && !qn_tokenizer_is_added(t, 1536));
    const char *text = qn_tokenizer_token_bytes(t, user, &bytes);
    assert_int_equal(bytes, 8);
    assert_memory_equal(text, "<|user|>", 8);
    assert_null(qn_tokenizer_token_bytes(t, 1536, &bytes));
    assert_null(qn_tokenizer_token_bytes(t, -1, &bytes));
    qn_tokenizer_free(t);
}

/* ---- request spans ---- */

static void assert_spans(const qn_tokenizer *t, const char *text, const qn_span *spans, size_t count,
                         const char *expected)
{
    qn_error err;
    qn_tokens ids = {0};
    char written[1024] = "";
    if (qn_tokenizer_encode(t, text, strlen(text), spans, count, &ids, &err) != QN_OK)
        fail_msg("%s", err.message);
    for (size_t i = 0; i < ids.count; i++) {
        size_t at = strlen(written);
        snprintf(written + at, sizeof written - at, i ? " %d" : "%d", (int)ids.ids[i]);
    }
    assert_string_equal(written, expected);
    qn_tokens_free(&ids);
}

static void test_request_text_forges_no_token(void **state)
{
    (void)state;
    qn_buffer added = {0};
    qn_buffer_char(&added, '[');
    small_added(&added, 259, "<u>", "s");
    small_added(&added, 260, "<u>>", "");
    small_added(&added, 261, "<n>", "n");
    qn_buffer_char(&added, ']');
    qn_tokenizer *t = small_open(&(small_spec){
        .tokens = "\"<u\":256,\"u>\":257,\"xy\":258", .merges = "[\"< u\",\"u >\",\"x y\"]", .added = added.data});
    const qn_span whole = {0, 3}, first = {0, 1}, middle = {1, 2}, last = {2, 3}, empty = {1, 1}, behind = {3, 4};
    assert_spans(t, "<u>", NULL, 0, "259");
    assert_spans(t, "<u>", &whole, 1, "256 62");
    assert_spans(t, "<u>", &first, 1, "256 62"); /* one byte of the request is enough */
    assert_spans(t, "<u>", &middle, 1, "256 62");
    assert_spans(t, "<u>", &last, 1, "256 62");
    assert_spans(t, "<u>", &empty, 1, "259");
    assert_spans(t, "<u>>", NULL, 0, "260");
    assert_spans(t, "<u>>", &behind, 1, "259 62"); /* a shorter token in the template's own text stays one */
    assert_spans(t, "<u><u>", &whole, 1, "256 62 259");
    assert_spans(t, "<n>", NULL, 0, "261");
    assert_spans(t, "<n>", &middle, 1, "60 110 62"); /* normalized ones are kept out too */
    assert_spans(t, "xy", &first, 1, "258");         /* words run across the border */
    const qn_span two[] = {{0, 1}, {2, 3}};
    assert_spans(t, "<u>", two, 2, "256 62");
    qn_tokenizer_free(t);
    qn_buffer_free(&added);
}

static void test_spans_follow_the_text_through_normalization(void **state)
{
    (void)state;
    qn_buffer added = {0};
    qn_buffer_char(&added, '[');
    small_added(&added, 256, "<n>", "n");
    small_added(&added, 257, "\xC3\xA9>", "n"); /* é> */
    qn_buffer_char(&added, ']');
    qn_tokenizer *t = small_open(&(small_spec){.normalizer = "{\"type\":\"NFC\"}", .added = added.data});
    const char *text = "e\xCC\x81<n>e\xCC\x81<n>"; /* e + acute: three bytes that become two */
    const qn_span first = {3, 6}, second = {9, 12}, accent = {1, 3};
    assert_spans(t, text, NULL, 0, "195 169 256 195 169 256");
    assert_spans(t, text, &first, 1, "195 169 60 110 62 195 169 256");
    assert_spans(t, text, &second, 1, "195 169 256 195 169 60 110 62");
    assert_spans(t, "e\xCC\x81>", NULL, 0, "257");
    assert_spans(t, "e\xCC\x81>", &accent, 1, "195 169 62"); /* half of the composed letter was the request's */
    qn_tokenizer_free(t);
    qn_buffer_free(&added);
}

static void test_refuses_spans_out_of_order(void **state)
{
    (void)state;
    qn_error err;
    qn_tokens ids = {0};
    qn_tokenizer *t = small_open(&(small_spec){0});
    const qn_span backwards[] = {{2, 1}}, beyond[] = {{0, 4}}, overlapping[] = {{0, 2}, {1, 3}};
    assert_int_equal(qn_tokenizer_encode(t, "abc", 3, backwards, 1, &ids, &err), QN_INTERNAL);
    assert_int_equal(qn_tokenizer_encode(t, "abc", 3, beyond, 1, &ids, &err), QN_INTERNAL);
    assert_int_equal(qn_tokenizer_encode(t, "abc", 3, overlapping, 2, &ids, &err), QN_INTERNAL);
    assert_int_equal(ids.count, 0);
    qn_tokenizer_free(t);
}

/* ---- errors ---- */

static void test_bad_text_and_ids(void **state)
{
    (void)state;
    qn_error err;
    qn_tokens ids = {0};
    qn_buffer text = {0};
    qn_tokenizer *t = small_open(&(small_spec){0});
    assert_true(qn_tokens_add(&ids, 7));
    assert_int_equal(qn_tokenizer_encode(t, "ab\xC3\xA9\xFFz", 6, NULL, 0, &ids, &err), QN_USAGE);
    assert_non_null(strstr(err.message, "byte 4 "));
    assert_int_equal(qn_tokenizer_encode(t, "ab\xED\xA0\x80", 5, NULL, 0, &ids, &err), QN_USAGE); /* a surrogate */
    assert_int_equal(ids.count, 1);
    const int32_t bad[] = {65, 256}, negative[] = {65, -1};
    assert_int_equal(qn_tokenizer_decode(t, bad, 2, false, &text, &err), QN_USAGE);
    assert_non_null(strstr(err.message, "256"));
    assert_int_equal(qn_tokenizer_decode(t, negative, 2, false, &text, &err), QN_USAGE);
    assert_int_equal(text.size, 0);
    assert_int_equal(qn_tokenizer_encode(t, NULL, 0, NULL, 0, &ids, &err), QN_OK);
    assert_int_equal(qn_tokenizer_encode(t, "a\0b", 3, NULL, 0, &ids, &err), QN_OK); /* NUL is a character */
    assert_int_equal(ids.count, 4);
    assert_int_equal(ids.ids[2], 0);
    qn_tokens_free(&ids);
    qn_buffer_free(&text);
    qn_tokenizer_free(t);
}

static void test_a_hungry_pattern_is_an_error(void **state)
{
    (void)state;
    enum { BYTES = 1 << 18 };
    qn_error err;
    qn_tokens ids = {0};
    char *text = qn_alloc(BYTES, 1);
    assert_non_null(text);
    memset(text, 'a', BYTES);
    qn_tokenizer *t = small_open(&(small_spec){
        .pre_tokenizer = "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":"
                         "\"a*b\"},\"behavior\":\"Isolated\",\"invert\":false}," SMALL_BYTE_LEVEL "]}"});
    assert_int_equal(qn_tokenizer_encode(t, text, BYTES, NULL, 0, &ids, &err), QN_BAD_INPUT);
    assert_non_null(strstr(err.message, "linear work"));
    assert_int_equal(ids.count, 0);
    qn_tokens_free(&ids);
    qn_tokenizer_free(t);
    qn_free(text);
}

static void drop_line(void *context, const char *line)
{
    (void)context;
    (void)line;
}

static void test_every_failed_allocation_is_an_error(void **state)
{
    (void)state;
    qn_log_set_sink(drop_line, NULL); /* a line tells whenever the JIT could not be had */
    qn_buffer added = {0}, json = {0};
    qn_buffer_char(&added, '[');
    small_added(&added, 257, "<n>", "n");
    small_added(&added, 258, "<u>", "s");
    qn_buffer_char(&added, ']');
    small_json(
        &(small_spec){.tokens = "\"ab\":256",
                      .merges = "[\"a b\"]",
                      .normalizer = "{\"type\":\"NFC\"}",
                      .pre_tokenizer = "{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":true}",
                      .added = added.data},
        &json);
    const char *text = "ab e\xCC\x81<n><u>";
    const qn_span span = {0, 2};
    for (long nth = 1;; nth++) {
        qn_error err;
        qn_tokenizer *t = NULL;
        qn_tokens ids = {0};
        qn_buffer decoded = {0};
        qn_fault_arm(QN_FAULT_ALLOC, nth);
        qn_status status = qn_tokenizer_parse(json.data, json.size, "small.json", &t, &err);
        if (status == QN_OK)
            status = qn_tokenizer_encode(t, text, strlen(text), &span, 1, &ids, &err);
        if (status == QN_OK)
            status = qn_tokenizer_decode(t, ids.ids, ids.count, false, &decoded, &err);
        bool reached = qn_fault_seen(QN_FAULT_ALLOC) >= nth;
        qn_fault_disarm();
        if (status == QN_OK)
            assert_string_equal(decoded.data, " ab \xC3\xA9<n><u>"); /* the JIT may fall back and go on */
        else
            assert_int_equal(status, QN_RESOURCE);
        qn_tokens_free(&ids);
        qn_buffer_free(&decoded);
        qn_tokenizer_free(t);
        if (!reached) {
            assert_int_equal(status, QN_OK);
            break;
        }
    }
    qn_log_set_sink(NULL, NULL);
    qn_buffer_free(&json);
    qn_buffer_free(&added);
}

/* ---- long texts: a slow path would make these tests hang ---- */

static uint32_t next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

static void fill(qn_buffer *text, size_t bytes, const char *const *units, size_t count, uint64_t seed)
{
    while (text->size < bytes)
        qn_buffer_text(text, units[next_random(&seed) % count]);
    assert_false(text->failed);
}

static void test_a_megabyte_of_anything(void **state)
{
    (void)state;
    static const char *const units[][6] = {
        {"a"},
        {" "},
        {"\n"},
        {"<"},
        {"<|user|>"},
        {"1", "2", "3"},
        {"\xE4\xBD\xA0", "\xE5\xA5\xBD", "\xE7\x95\x8C"},
        {"\xF0\x9F\x98\x80", "\xF0\x9F\x91\xA8", "\xE2\x80\x8D"},
        {"\xCC\x81", "\xCC\x96", "\xCC\xB4"},
        {" ", "\n", "\t", "\r", "\xC2\xA0", "x"},
        {"a", "B", "'s", " ", "."},
    };
    qn_tokenizer *t = open_shipped();
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        size_t count = 0;
        while (count < 6 && units[i][count])
            count++;
        qn_buffer text = {0}, back = {0};
        qn_tokens ids = {0};
        qn_error err;
        fill(&text, 1 << 20, units[i], count, i);
        assert_int_equal(qn_tokenizer_encode(t, text.data, text.size, NULL, 0, &ids, &err), QN_OK);
        assert_int_equal(qn_tokenizer_decode(t, ids.ids, ids.count, false, &back, &err), QN_OK);
        assert_int_equal(back.size, text.size);
        assert_memory_equal(back.data, text.data, text.size);
        qn_buffer_free(&text);
        qn_buffer_free(&back);
        qn_tokens_free(&ids);
    }
    qn_tokenizer_free(t);
}

static void test_lists_of_ids(void **state)
{
    (void)state;
    qn_tokens list = {0};
    for (int32_t i = 0; i < 1000; i++)
        assert_true(qn_tokens_add(&list, i));
    assert_true(qn_tokens_append(&list, list.ids, 0));
    const int32_t more[] = {7, 8, 9};
    assert_true(qn_tokens_append(&list, more, 3));
    assert_int_equal(list.count, 1003);
    assert_int_equal(list.ids[999], 999);
    assert_int_equal(list.ids[1002], 9);
    assert_false(qn_tokens_append(&list, more, SIZE_MAX));
    assert_int_equal(list.count, 1003);
    qn_tokens_clear(&list);
    assert_int_equal(list.count, 0);
    qn_tokens_free(&list);
    assert_null(list.ids);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shipped_tokenizer_cases),
        cmocka_unit_test(test_qwen3_cases),
        cmocka_unit_test(test_gptoss_cases),
        cmocka_unit_test(test_opens_a_folder_or_a_file),
        cmocka_unit_test(test_tells_about_tokens),
        cmocka_unit_test(test_request_text_forges_no_token),
        cmocka_unit_test(test_spans_follow_the_text_through_normalization),
        cmocka_unit_test(test_refuses_spans_out_of_order),
        cmocka_unit_test(test_bad_text_and_ids),
        cmocka_unit_test(test_a_hungry_pattern_is_an_error),
        cmocka_unit_test(test_every_failed_allocation_is_an_error),
        cmocka_unit_test(test_a_megabyte_of_anything),
        cmocka_unit_test(test_lists_of_ids),
    };
    qn_json_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
