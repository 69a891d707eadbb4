#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include <time.h>

#include "base/fault.h"
#include "base/utf8.h"
#include "small_tokenizer.h"
#include "text/detokenizer.h"

static const char replacement[] = "\xEF\xBF\xBD";

/* The ids of the small tokenizer's first 256 tokens are bytes. */
static void feed_bytes(qn_detokenizer *d, const char *bytes, size_t count, qn_buffer *out)
{
    qn_error err;
    for (size_t i = 0; i < count; i++) {
        int32_t id = (uint8_t)bytes[i];
        assert_int_equal(qn_detokenizer_feed(d, &id, 1, out, &err), QN_OK);
    }
}

static void check(const qn_tokenizer *t, const char *bytes, const char *before_flush, const char *flushed)
{
    qn_detokenizer d;
    qn_error err;
    qn_buffer out = {0};
    qn_detokenizer_start(&d, t, false);
    feed_bytes(&d, bytes, strlen(bytes), &out);
    assert_string_equal(qn_buffer_string(&out), before_flush);
    qn_buffer_clear(&out);
    assert_int_equal(qn_detokenizer_flush(&d, &out, &err), QN_OK);
    assert_string_equal(qn_buffer_string(&out), flushed);
    qn_buffer_free(&out);
}

static void test_holds_back_half_characters(void **state)
{
    (void)state;
    qn_tokenizer *t = small_open(&(small_spec){0});
    check(t, "abc", "abc", "");
    check(t, "a\xC3", "a", replacement);
    check(t, "a\xC3\xA9", "a\xC3\xA9", "");
    check(t, "\xE4\xBD", "", replacement);
    check(t, "\xF0\x9F\x98", "", replacement);
    check(t, "x\xF0\x9F\x98\x80y", "x\xF0\x9F\x98\x80y", "");
    qn_tokenizer_free(t);
}

static void test_replaces_maximal_parts_as_soon_as_decided(void **state)
{
    (void)state;
    qn_tokenizer *t = small_open(&(small_spec){0});
    check(t, "\x80", "\xEF\xBF\xBD", "");
    check(t, "\xC0\xAF", "\xEF\xBF\xBD\xEF\xBF\xBD", "");
    check(t, "\xE4\xBDz", "\xEF\xBF\xBDz", ""); /* the beginning of a character is one */
    check(t, "\xE0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD", "");
    check(t, "\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD", "");
    check(t, "\xF0\x9F\x98\xC3\xA9", "\xEF\xBF\xBD\xC3\xA9", "");
    check(t, "\xF0\x9F\xF0\x9F\x98\x80", "\xEF\xBF\xBD\xF0\x9F\x98\x80", "");
    check(t, "\xF4\x90\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD", "");
    check(t, "\xF5\xFF", "\xEF\xBF\xBD\xEF\xBF\xBD", "");
    qn_tokenizer_free(t);
}

static void test_special_tokens_are_left_out_on_request(void **state)
{
    (void)state;
    qn_error err;
    qn_buffer added = {0}, out = {0};
    qn_buffer_char(&added, '[');
    small_added(&added, 256, "<u>", "s");
    small_added(&added, 257, "<t>", "");
    qn_buffer_char(&added, ']');
    qn_tokenizer *t = small_open(&(small_spec){.added = added.data});
    /* half a character, a special token, the other half: left out, they are one character */
    const int32_t ids[] = {'a', 257, 0xC3, 256, 0xA9};
    qn_detokenizer d;
    qn_detokenizer_start(&d, t, true);
    assert_int_equal(qn_detokenizer_feed(&d, ids, 5, &out, &err), QN_OK);
    assert_string_equal(out.data, "a<t>\xC3\xA9");
    qn_buffer_clear(&out);
    qn_detokenizer_start(&d, t, false);
    assert_int_equal(qn_detokenizer_feed(&d, ids, 5, &out, &err), QN_OK);
    assert_string_equal(out.data, "a<t>\xEF\xBF\xBD<u>\xEF\xBF\xBD");
    qn_buffer_free(&out);
    qn_buffer_free(&added);
    qn_tokenizer_free(t);
}

static void test_unknown_ids_and_full_memory_are_errors(void **state)
{
    (void)state;
    qn_error err;
    qn_buffer out = {0};
    qn_detokenizer d;
    qn_tokenizer *t = small_open(&(small_spec){0});
    const int32_t beyond = 256, letter = 'a';
    qn_detokenizer_start(&d, t, false);
    assert_int_equal(qn_detokenizer_feed(&d, &beyond, 1, &out, &err), QN_USAGE);
    assert_non_null(strstr(err.message, "256"));
    qn_fault_arm(QN_FAULT_ALLOC, 1);
    assert_int_equal(qn_detokenizer_feed(&d, &letter, 1, &out, &err), QN_RESOURCE);
    qn_fault_disarm();
    qn_buffer_free(&out);
    qn_tokenizer_free(t);
}

/* Any bytes in any grouping: pieces are whole characters and concatenate to the decode of all. */
static void test_random_bytes_in_random_groups(void **state)
{
    (void)state;
    static const uint8_t likely[] = {0x61, 0xC3, 0xA9, 0xE0, 0xA0, 0x80, 0xED,
                                     0x9F, 0xF0, 0x90, 0xF4, 0x8F, 0xBF, 0xFF};
    uint64_t seed = (uint64_t)time(NULL);
    print_message("seed %llu\n", (unsigned long long)seed);
    qn_tokenizer *t = small_open(&(small_spec){0});
    for (int round = 0; round < 5000; round++) {
        int32_t ids[24];
        qn_error err;
        qn_buffer whole = {0}, pieces = {0};
        qn_detokenizer d;
        for (size_t i = 0; i < 24; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            ids[i] = likely[(seed >> 33) % sizeof likely];
        }
        assert_int_equal(qn_tokenizer_decode(t, ids, 24, false, &whole, &err), QN_OK);
        qn_detokenizer_start(&d, t, false);
        for (size_t at = 0; at < 24;) {
            size_t group = 1 + (size_t)(seed >> 40) % 5;
            group = group < 24 - at ? group : 24 - at;
            assert_int_equal(qn_detokenizer_feed(&d, ids + at, group, &pieces, &err), QN_OK);
            assert_true(qn_utf8_valid(pieces.data ? pieces.data : "", pieces.size));
            at += group;
        }
        assert_int_equal(qn_detokenizer_flush(&d, &pieces, &err), QN_OK);
        assert_int_equal(pieces.size, whole.size);
        assert_memory_equal(pieces.data, whole.data, whole.size);
        qn_buffer_free(&whole);
        qn_buffer_free(&pieces);
    }
    qn_tokenizer_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_holds_back_half_characters),
        cmocka_unit_test(test_replaces_maximal_parts_as_soon_as_decided),
        cmocka_unit_test(test_special_tokens_are_left_out_on_request),
        cmocka_unit_test(test_unknown_ids_and_full_memory_are_errors),
        cmocka_unit_test(test_random_bytes_in_random_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
