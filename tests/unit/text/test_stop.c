#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/fault.h"
#include "base/memory.h"
#include "text/stop.h"

typedef struct run {
    qn_buffer out;
    int matched;
} run;

/* Feeds `text` in pieces of `piece` bytes and flushes. */
static run feed_in_pieces(const char *const *strings, size_t count, const char *text, size_t bytes, size_t piece)
{
    qn_error err;
    qn_stop *stop = NULL;
    run r = {.matched = -1};
    assert_int_equal(qn_stop_new(strings, count, &stop, &err), QN_OK);
    for (size_t at = 0; at < bytes; at += piece) {
        size_t part = bytes - at < piece ? bytes - at : piece;
        assert_int_equal(qn_stop_feed(stop, text + at, part, &r.out, &err), QN_OK);
    }
    assert_int_equal(qn_stop_flush(stop, &r.out, &err), QN_OK);
    r.matched = qn_stop_matched(stop);
    qn_stop_free(stop);
    return r;
}

static void check(const char *const *strings, size_t count, const char *text, const char *expected, int matched)
{
    for (size_t piece = 1; piece <= strlen(text) + 1; piece++) {
        run r = feed_in_pieces(strings, count, text, strlen(text), piece);
        assert_string_equal(qn_buffer_string(&r.out), expected);
        assert_int_equal(r.matched, matched);
        qn_buffer_free(&r.out);
    }
}

static void test_cuts_before_the_stop_string(void **state)
{
    (void)state;
    const char *one[] = {"STOP"};
    check(one, 1, "hello STOP world", "hello ", 0);
    check(one, 1, "STOP", "", 0);
    check(one, 1, "SSTSTOSTOP!", "SSTSTO", 0);
    check(one, 1, "no such thing: STO", "no such thing: STO", -1);
    check(one, 1, "", "", -1);
    check(NULL, 0, "anything passes", "anything passes", -1);
}

static void test_first_complete_wins(void **state)
{
    (void)state;
    const char *nested[] = {"abcd", "bc"};
    check(nested, 2, "xabcd", "xa", 1); /* bc is complete one byte earlier */
    const char *same_end[] = {"bc", "abc"};
    check(same_end, 2, "xabc", "x", 1); /* both end here: the one that began first */
    check(same_end, 2, "xbc", "x", 0);
    const char *twice[] = {"end", "end"};
    check(twice, 2, "the end", "the ", 0);
    const char *crossing[] = {"\n\n", "\nUser:"};
    check(crossing, 2, "a\nUser\nUser: b\n\n", "a\nUser", 1);
}

static void test_characters_stay_whole(void **state)
{
    (void)state;
    qn_error err;
    qn_stop *stop = NULL;
    const char *strings[] = {"\xE4\xBD\xA0\xE5\xA5\xBD"}; /* two three-byte characters */
    assert_int_equal(qn_stop_new(strings, 1, &stop, &err), QN_OK);
    qn_buffer out = {0};
    /* the text's last character shares its first byte with the stop string: nothing may be held from within it */
    assert_int_equal(qn_stop_feed(stop, "a\xE4\xBD\xA1", 4, &out, &err), QN_OK);
    assert_string_equal(qn_buffer_string(&out), "a\xE4\xBD\xA1");
    qn_buffer_clear(&out);
    assert_int_equal(qn_stop_feed(stop, "b\xE4\xBD\xA0", 4, &out, &err), QN_OK);
    assert_string_equal(qn_buffer_string(&out), "b");
    qn_buffer_free(&out);
    qn_stop_free(stop);
}

static void test_holds_no_more_than_it_must(void **state)
{
    (void)state;
    qn_error err;
    qn_stop *stop = NULL;
    const char *strings[] = {"</end>", "<x"};
    assert_int_equal(qn_stop_new(strings, 2, &stop, &err), QN_OK);
    qn_buffer out = {0};
    assert_int_equal(qn_stop_feed(stop, "a<", 2, &out, &err), QN_OK);
    assert_string_equal(qn_buffer_string(&out), "a");
    assert_int_equal(qn_stop_feed(stop, "b</en", 5, &out, &err), QN_OK);
    assert_string_equal(qn_buffer_string(&out), "a<b");
    assert_int_equal(qn_stop_feed(stop, "<", 1, &out, &err), QN_OK);
    assert_string_equal(qn_buffer_string(&out), "a<b</en");
    assert_int_equal(qn_stop_feed(stop, "xyz", 3, &out, &err), QN_OK);
    assert_string_equal(qn_buffer_string(&out), "a<b</en");
    assert_int_equal(qn_stop_matched(stop), 1);
    assert_int_equal(qn_stop_feed(stop, "more", 4, &out, &err), QN_OK);
    assert_int_equal(qn_stop_flush(stop, &out, &err), QN_OK);
    assert_string_equal(qn_buffer_string(&out), "a<b</en");
    qn_stop_reset(stop);
    qn_buffer_clear(&out);
    assert_int_equal(qn_stop_matched(stop), -1);
    assert_int_equal(qn_stop_feed(stop, "fresh<", 6, &out, &err), QN_OK);
    assert_int_equal(qn_stop_flush(stop, &out, &err), QN_OK);
    assert_string_equal(qn_buffer_string(&out), "fresh<");
    qn_buffer_free(&out);
    qn_stop_free(stop);
}

/* What the contract says, by trying every end and every string. */
static int reference(const char *const *strings, size_t count, const char *text, size_t bytes, size_t *cut)
{
    for (size_t end = 1; end <= bytes; end++) {
        int best = -1;
        for (size_t i = 0; i < count; i++) {
            size_t length = strlen(strings[i]);
            if (length <= end && memcmp(text + end - length, strings[i], length) == 0 &&
                (best < 0 || length > strlen(strings[best])))
                best = (int)i;
        }
        if (best >= 0) {
            *cut = end - strlen(strings[best]);
            return best;
        }
    }
    *cut = bytes;
    return -1;
}

static uint32_t next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

static void test_random_texts_match_the_reference(void **state)
{
    (void)state;
    uint64_t seed = (uint64_t)time(NULL);
    print_message("seed %llu\n", (unsigned long long)seed);
    for (int round = 0; round < 3000; round++) {
        char storage[4][8], text[40];
        const char *strings[4];
        size_t count = next_random(&seed) % 5, bytes = next_random(&seed) % sizeof text, cut;
        for (size_t i = 0; i < count; i++) {
            size_t length = 1 + next_random(&seed) % 6;
            for (size_t k = 0; k < length; k++)
                storage[i][k] = (char)('a' + next_random(&seed) % 2);
            storage[i][length] = '\0';
            strings[i] = storage[i];
        }
        for (size_t k = 0; k < bytes; k++)
            text[k] = (char)('a' + (next_random(&seed) % 5 == 0 ? 2 : next_random(&seed) % 2));
        int matched = reference(strings, count, text, bytes, &cut);
        run r = feed_in_pieces(strings, count, text, bytes, 1 + next_random(&seed) % 8);
        assert_int_equal(r.matched, matched);
        assert_int_equal(r.out.size, cut);
        assert_memory_equal(qn_buffer_string(&r.out), text, cut);
        qn_buffer_free(&r.out);
    }
}

static void test_refuses_what_cannot_be(void **state)
{
    (void)state;
    qn_error err;
    qn_stop *stop = NULL;
    const char *empty[] = {"a", ""};
    assert_int_equal(qn_stop_new(empty, 2, &stop, &err), QN_USAGE);
    assert_string_equal(err.field, "stop");
    static char huge[QN_STOP_MAX_BYTES + 2];
    memset(huge, 'a', QN_STOP_MAX_BYTES + 1);
    const char *too_long[] = {huge};
    assert_int_equal(qn_stop_new(too_long, 1, &stop, &err), QN_USAGE);
    const char *many[QN_STOP_MAX_STRINGS + 1];
    for (size_t i = 0; i <= QN_STOP_MAX_STRINGS; i++)
        many[i] = "x";
    assert_int_equal(qn_stop_new(many, QN_STOP_MAX_STRINGS + 1, &stop, &err), QN_USAGE);
    assert_int_equal(qn_stop_new(many, QN_STOP_MAX_STRINGS, &stop, &err), QN_OK);
    qn_stop_free(stop);
    qn_stop_free(NULL);
}

static void test_every_failed_allocation_is_an_error(void **state)
{
    (void)state;
    const char *strings[] = {"ab", "cd"};
    for (long nth = 1;; nth++) {
        qn_error err;
        qn_stop *stop = NULL;
        qn_buffer out = {0};
        qn_fault_arm(QN_FAULT_ALLOC, nth);
        qn_status status = qn_stop_new(strings, 2, &stop, &err);
        if (status == QN_OK)
            status = qn_stop_feed(stop, "xyza", 4, &out, &err);
        if (status == QN_OK)
            status = qn_stop_flush(stop, &out, &err);
        bool reached = qn_fault_seen(QN_FAULT_ALLOC) >= nth;
        qn_fault_disarm();
        qn_stop_free(stop);
        qn_buffer_free(&out);
        if (!reached) {
            assert_int_equal(status, QN_OK);
            break;
        }
        assert_int_equal(status, QN_RESOURCE);
    }
}

/* A pattern that makes a naive search quadratic: a megabyte must be no effort. */
static void test_long_text_with_a_stubborn_pattern(void **state)
{
    (void)state;
    enum { BYTES = 1 << 20 };
    char *text = qn_alloc(BYTES, 1);
    static char pattern[2048];
    assert_non_null(text);
    memset(text, 'a', BYTES);
    memset(pattern, 'a', sizeof pattern - 2);
    pattern[sizeof pattern - 2] = 'b';
    const char *strings[] = {pattern};
    run r = feed_in_pieces(strings, 1, text, BYTES, 7);
    assert_int_equal(r.matched, -1);
    assert_int_equal(r.out.size, BYTES);
    qn_buffer_free(&r.out);
    qn_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuts_before_the_stop_string),
        cmocka_unit_test(test_first_complete_wins),
        cmocka_unit_test(test_characters_stay_whole),
        cmocka_unit_test(test_holds_no_more_than_it_must),
        cmocka_unit_test(test_random_texts_match_the_reference),
        cmocka_unit_test(test_refuses_what_cannot_be),
        cmocka_unit_test(test_every_failed_allocation_is_an_error),
        cmocka_unit_test(test_long_text_with_a_stubborn_pattern),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
