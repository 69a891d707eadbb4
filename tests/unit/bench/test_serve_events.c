/* Event streams, cut anywhere, with any line ends, bounded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "base/memory.h"
#include "bench/serve_events.h"

typedef struct seen {
    char text[256]; /* each event in brackets */
    qn_status answer;
} seen;

static qn_status keep(void *context, const char *data, size_t bytes, qn_error *err)
{
    seen *s = context;
    size_t used = strlen(s->text);
    snprintf(s->text + used, sizeof s->text - used, "[%.*s]", (int)bytes, data);
    return s->answer == QN_OK ? QN_OK : qn_fail(err, s->answer, "handler: no: stop");
}

/* In pieces of `step` bytes. */
static void assert_events(const char *stream, const char *wanted, size_t step)
{
    qn_event_reader reader = {0};
    seen s = {0};
    qn_error err;
    size_t bytes = strlen(stream);
    for (size_t at = 0; at < bytes; at += step) {
        size_t count = bytes - at < step ? bytes - at : step;
        assert_int_equal(qn_event_read(&reader, stream + at, count, keep, &s, &err), QN_OK);
    }
    qn_event_reader_free(&reader);
    assert_string_equal(s.text, wanted);
}

static void any_cut_gives_the_same_events(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"data: a\n\ndata: b\n\n", "[a][b]"},
        {"data: a\r\n\r\ndata: b\r\n\r\n", "[a][b]"},
        {"data: a\r\rdata: b\r\r", "[a][b]"},
        {"data:a\n\n", "[a]"},
        {"data:  a\n\n", "[ a]"},
        {"data\n\n", "[]"},
        {"data: a\ndata: b\n\n", "[a\nb]"},
        {": working\n\ndata: a\n\n", "[a]"},
        {"event: x\nid: 7\ndatum: y\ndata: a\nretry: 1\n\n", "[a]"},
        {"\n\n\n", ""},
        {"data: cut off\n", ""},
        {"data: cut off", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t step = 1; step <= strlen(cases[i][0]); step++)
            assert_events(cases[i][0], cases[i][1], step);
    }
}

/* Feeds `piece` until it is refused, or more than enough times. */
static qn_status feed(const char *piece, size_t bytes, qn_error *err)
{
    qn_event_reader reader = {0};
    seen s = {0};
    qn_status status = QN_OK;
    for (size_t fed = 0; status == QN_OK && fed <= 2 * (size_t)QN_EVENT_MAX_BYTES; fed += bytes)
        status = qn_event_read(&reader, piece, bytes, keep, &s, err);
    qn_event_reader_free(&reader);
    return status;
}

static void endless_line_is_refused(void **state)
{
    (void)state;
    static char piece[4096];
    qn_error err;
    memset(piece, 'x', sizeof piece);
    assert_int_equal(feed(piece, sizeof piece, &err), QN_BAD_INPUT);
    assert_non_null(strstr(err.message, "a line is longer than 1048576 bytes"));
}

static void endless_event_is_refused(void **state)
{
    (void)state;
    static char piece[4096];
    qn_error err;
    memset(piece, 'x', sizeof piece);
    memcpy(piece, "data:", 5);
    piece[sizeof piece - 1] = '\n';
    assert_int_equal(feed(piece, sizeof piece, &err), QN_BAD_INPUT);
    assert_non_null(strstr(err.message, "an event is longer than 1048576 bytes"));
}

static void handler_ends_the_reading(void **state)
{
    (void)state;
    static const char stream[] = "data: a\n\ndata: b\n\n";
    qn_event_reader reader = {0};
    seen s = {.answer = QN_FAILED};
    qn_error err;
    assert_int_equal(qn_event_read(&reader, stream, strlen(stream), keep, &s, &err), QN_FAILED);
    assert_string_equal(s.text, "[a]");
    qn_event_reader_free(&reader);
}

static void no_memory_is_told(void **state)
{
    (void)state;
    static const char stream[] = "data: a\ndata: b\n\n";
    size_t failures = 0;
    for (long nth = 1;; nth++) {
        qn_event_reader reader = {0};
        seen s = {0};
        qn_error err;
        qn_fault_arm(QN_FAULT_ALLOC, nth);
        qn_status status = qn_event_read(&reader, stream, strlen(stream), keep, &s, &err);
        long calls = qn_fault_seen(QN_FAULT_ALLOC);
        qn_fault_disarm();
        qn_event_reader_free(&reader);
        if (calls < nth) {
            assert_int_equal(status, QN_OK);
            assert_string_equal(s.text, "[a\nb]");
            break;
        }
        assert_int_equal(status, QN_RESOURCE);
        failures++;
    }
    assert_true(failures >= 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_cut_gives_the_same_events),
        cmocka_unit_test(endless_line_is_refused),
        cmocka_unit_test(endless_event_is_refused),
        cmocka_unit_test(handler_ends_the_reading),
        cmocka_unit_test(no_memory_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
