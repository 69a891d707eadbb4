#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/log.h"
#include "base/progress.h"

enum { SECOND_US = 1000000 };

/* A clock that the test moves. */
static uint64_t hand_us;

static uint64_t read_hand(void *context)
{
    return *(const uint64_t *)context;
}

static void begin(qn_progress *progress, qn_progress_setup setup)
{
    hand_us = 5 * SECOND_US;
    setup.now_us = read_hand;
    setup.clock = &hand_us;
    qn_progress_begin(progress, &setup);
}

/* Runs body with stderr on `fd`, then puts the real one back. */
static void with_stderr_on(int fd, void (*body)(void))
{
    int saved = dup(STDERR_FILENO);
    dup2(fd, STDERR_FILENO);
    body();
    dup2(saved, STDERR_FILENO);
    close(saved);
}

static void thousand_updates(void)
{
    qn_progress progress;
    qn_progress_start(&progress, "loading", "MB", 1000);
    for (uint64_t done = 0; done <= 1000; done++)
        qn_progress_update(&progress, done);
    qn_progress_finish(&progress);
    qn_progress_finish(&progress);
}

static void test_short_work_is_silent_without_a_terminal(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    with_stderr_on(ends[1], thousand_updates);
    close(ends[1]);
    char byte;
    assert_int_equal(read(ends[0], &byte, 1), 0);
    close(ends[0]);
}

/* What body wrote to a terminal. */
static void on_terminal(void (*body)(void), char *text, size_t capacity)
{
    int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(terminal >= 0);
    assert_int_equal(grantpt(terminal) | unlockpt(terminal), 0);
    int other = open(ptsname(terminal), O_RDWR | O_NOCTTY);
    assert_true(other >= 0);
    with_stderr_on(other, body);
    close(other);
    size_t size = 0;
    ssize_t got;
    while ((got = read(terminal, text + size, capacity - 1 - size)) > 0)
        size += (size_t)got; /* ends with EIO, once all was read that the closed end wrote */
    text[size] = '\0';
    close(terminal);
}

static void test_drawn_in_place_and_cleared(void **state)
{
    (void)state;
    char text[16384];
    on_terminal(thousand_updates, text, sizeof text);
    assert_non_null(strstr(text, "\rloading [........................]   0 %, 0.0 MB/s"));
    assert_null(strchr(text, '\n'));
    size_t length = strlen(text);
    assert_string_equal(text + length - 4, "\r\x1b[K");
    /* finishing twice clears once */
    assert_string_not_equal(text + length - 8, "\r\x1b[K\r\x1b[K");
}

static void update_far_apart(void)
{
    qn_progress progress;
    begin(&progress, (qn_progress_setup){.label = "prompt", .unit = "tokens", .total = 200});
    hand_us += 10 * SECOND_US;
    qn_progress_update(&progress, 50);
    qn_progress_update(&progress, 60); /* too soon after the last picture */
    hand_us += SECOND_US;
    qn_progress_update(&progress, 400); /* beyond the total: still a whole bar */
    qn_progress_finish(&progress);
}

static void test_share_rate_and_time_left(void **state)
{
    (void)state;
    char text[16384];
    on_terminal(update_far_apart, text, sizeof text);
    assert_non_null(strstr(text, "prompt [######..................]  25 %, 5.0 tokens/s, 0:30 left"));
    assert_null(strstr(text, " 30 %"));
    assert_non_null(strstr(text, "[########################] 100 %, "));
    assert_null(strstr(strstr(text, "100 %"), "left"));
}

static void on_forty_columns(void)
{
    struct winsize size = {.ws_row = 10, .ws_col = 40};
    assert_int_equal(ioctl(STDERR_FILENO, TIOCSWINSZ, &size), 0);
    update_far_apart();
}

static void on_twelve_columns(void)
{
    struct winsize size = {.ws_row = 10, .ws_col = 12};
    assert_int_equal(ioctl(STDERR_FILENO, TIOCSWINSZ, &size), 0);
    update_far_apart();
}

static void test_narrow_terminal_never_wraps(void **state)
{
    (void)state;
    char text[1024];
    on_terminal(on_forty_columns, text, sizeof text);
    assert_non_null(strstr(text, "\rprompt  25 %, 5.0 tokens/s, 0:30 left\x1b[K"));
    assert_non_null(strstr(text, "\rprompt [######"));
    on_terminal(on_twelve_columns, text, sizeof text);
    assert_non_null(strstr(text, "\rprompt  25 \x1b[K"));
}

static void empty_work(void)
{
    qn_progress progress;
    qn_progress_start(&progress, "nothing", "MB", 0);
    qn_progress_update(&progress, 0);
    qn_progress_finish(&progress);
}

static void test_total_of_zero(void **state)
{
    (void)state;
    char text[1024];
    on_terminal(empty_work, text, sizeof text);
    assert_non_null(strstr(text, "100 %"));
}

/* Lines of the log, one after another. */
static void keep_line(void *context, const char *line)
{
    char *text = context;
    strcat(text, line);
    strcat(text, "\n");
}

static void test_lines_of_long_work_without_a_terminal(void **state)
{
    (void)state;
    char text[4096] = "";
    qn_log_set_sink(keep_line, text);
    qn_progress progress;
    begin(&progress, (qn_progress_setup){
                         .label = "converting", .unit = "bytes", .total = 36000000000, .style = QN_PROGRESS_LINES});
    for (uint64_t s = 1; s <= 9; s++) {
        hand_us += SECOND_US;
        qn_progress_update(&progress, s * 100000000);
    }
    assert_string_equal(text, "");
    for (uint64_t s = 10; s <= 60; s++) {
        hand_us += SECOND_US;
        qn_progress_update(&progress, s * 100000000);
    }
    assert_string_equal(text, "quern: converting: 2 %, 100.0 MB/s, 5:50 left\n"
                              "quern: converting: 11 %, 100.0 MB/s, 5:20 left\n");
    text[0] = '\0';
    hand_us += 4 * (uint64_t)SECOND_US;
    qn_progress_update(&progress, 36000000000);
    qn_progress_finish(&progress);
    qn_progress_finish(&progress);
    qn_log_set_sink(NULL, NULL);
    assert_string_equal(text, "quern: converting: 100 % after 1:04, 562.5 MB/s on average\n");
}

static void test_hours_left(void **state)
{
    (void)state;
    char text[4096] = "";
    qn_log_set_sink(keep_line, text);
    qn_progress progress;
    begin(&progress, (qn_progress_setup){.label = "slow", .unit = "files", .total = 1000, .style = QN_PROGRESS_LINES});
    hand_us += 10 * SECOND_US;
    qn_progress_update(&progress, 1);
    qn_progress_begin(&progress, &(qn_progress_setup){.label = "stuck",
                                                      .unit = "files",
                                                      .total = UINT64_MAX,
                                                      .style = QN_PROGRESS_LINES,
                                                      .now_us = read_hand,
                                                      .clock = &hand_us});
    hand_us += 10 * SECOND_US;
    qn_progress_update(&progress, 1); /* longer than anybody could wait: no time is told */
    qn_log_set_sink(NULL, NULL);
    assert_string_equal(text, "quern: slow: 0 %, 0.1 files/s, 2:46:30 left\nquern: stuck: 0 %, 0.1 files/s\n");
}

/* What progress wrote as JSON lines; the stream stays open. */
static const char *written(FILE *stream, char *text, size_t capacity)
{
    rewind(stream);
    size_t size = fread(text, 1, capacity - 1, stream);
    text[size] = '\0';
    return text;
}

static void test_json_lines(void **state)
{
    (void)state;
    char text[4096];
    FILE *stream = tmpfile();
    assert_non_null(stream);
    qn_progress progress;
    begin(&progress, (qn_progress_setup){.label = "a \"b\"", .unit = "bytes", .total = 200, .json = stream});
    qn_progress_update(&progress, 0);
    hand_us += 10 * SECOND_US;
    qn_progress_update(&progress, 50);
    qn_progress_update(&progress, 60);
    hand_us += 400000;
    qn_progress_update(&progress, 70); /* less than half a second since the last */
    assert_string_equal(
        written(stream, text, sizeof text),
        "{\"progress\":{\"label\":\"a \\\"b\\\"\",\"unit\":\"bytes\",\"done\":0,\"total\":200,\"rate\":0.0,"
        "\"eta_s\":null}}\n"
        "{\"progress\":{\"label\":\"a \\\"b\\\"\",\"unit\":\"bytes\",\"done\":50,\"total\":200,\"rate\":5.0,"
        "\"eta_s\":30}}\n");
    size_t before = strlen(text);
    qn_progress_finish(&progress); /* the last state is always told, once */
    qn_progress_finish(&progress);
    const char *last = written(stream, text, sizeof text) + before;
    assert_non_null(strstr(last, "\"done\":70,"));
    assert_ptr_equal(strchr(last, '\n'), last + strlen(last) - 1);
    fclose(stream);
}

static void test_json_tells_a_last_state_once(void **state)
{
    (void)state;
    char text[4096];
    FILE *stream = tmpfile();
    assert_non_null(stream);
    qn_progress progress;
    begin(&progress, (qn_progress_setup){.label = "l", .unit = "files", .total = 2, .json = stream});
    hand_us += SECOND_US;
    qn_progress_update(&progress, 2);
    qn_progress_finish(&progress);
    begin(&progress, (qn_progress_setup){.label = "m", .unit = "files", .total = 0, .json = stream});
    qn_progress_finish(&progress);
    assert_string_equal(
        written(stream, text, sizeof text),
        "{\"progress\":{\"label\":\"l\",\"unit\":\"files\",\"done\":2,\"total\":2,\"rate\":2.0,\"eta_s\":0}}\n"
        "{\"progress\":{\"label\":\"m\",\"unit\":\"files\",\"done\":0,\"total\":0,\"rate\":0.0,\"eta_s\":0}}\n");
    fclose(stream);
}

static void test_off_is_silent(void **state)
{
    (void)state;
    char text[64];
    FILE *stream = tmpfile();
    assert_non_null(stream);
    qn_progress progress;
    begin(&progress,
          (qn_progress_setup){.label = "l", .unit = "files", .total = 2, .json = stream, .style = QN_PROGRESS_OFF});
    hand_us += 100 * (uint64_t)SECOND_US;
    qn_progress_update(&progress, 2);
    qn_progress_finish(&progress);
    assert_string_equal(written(stream, text, sizeof text), "");
    fclose(stream);
}

static void test_an_earlier_run_counts_for_the_share_only(void **state)
{
    (void)state;
    char text[4096];
    FILE *stream = tmpfile();
    assert_non_null(stream);
    qn_progress progress;
    begin(&progress, (qn_progress_setup){.label = "l", .unit = "MB", .total = 200, .done = 100, .json = stream});
    hand_us += 10 * SECOND_US;
    qn_progress_add(&progress, 20);
    assert_non_null(strstr(written(stream, text, sizeof text), "\"done\":120,\"total\":200,\"rate\":2.0,\"eta_s\":40"));
    fclose(stream);
}

static double last_rate(FILE *stream)
{
    static char text[1 << 18];
    written(stream, text, sizeof text);
    const char *at = text, *last = NULL;
    while ((at = strstr(at, "\"rate\":")) != NULL)
        last = at += strlen("\"rate\":");
    assert_non_null(last);
    return strtod(last, NULL);
}

/* A fast start, as of what the page cache holds, must not promise an early end for long. */
static void test_rate_is_of_late(void **state)
{
    (void)state;
    FILE *stream = tmpfile();
    assert_non_null(stream);
    qn_progress progress;
    begin(&progress, (qn_progress_setup){.label = "l", .unit = "MB", .total = 10000000, .json = stream});
    for (int s = 0; s < 100; s++) {
        hand_us += SECOND_US;
        qn_progress_add(&progress, 1000);
    }
    assert_true(last_rate(stream) > 999 && last_rate(stream) < 1001);
    for (int s = 0; s < 100; s++) {
        hand_us += SECOND_US;
        qn_progress_add(&progress, 100);
    }
    assert_true(last_rate(stream) > 100 && last_rate(stream) < 150); /* the plain average: 550 */
    fclose(stream);
}

static void test_less_than_before_changes_nothing(void **state)
{
    (void)state;
    char text[4096];
    FILE *stream = tmpfile();
    assert_non_null(stream);
    qn_progress progress;
    begin(&progress, (qn_progress_setup){.label = "l", .unit = "MB", .total = 100, .json = stream});
    hand_us += SECOND_US;
    qn_progress_update(&progress, 50);
    hand_us += SECOND_US;
    qn_progress_update(&progress, 40);
    qn_progress_finish(&progress);
    assert_null(strstr(written(stream, text, sizeof text), "\"done\":40"));
    fclose(stream);
}

enum { THREADS = 4, ADDS = 20000 };

static void *add_many(void *context)
{
    for (int i = 0; i < ADDS; i++)
        qn_progress_add(context, 1);
    return NULL;
}

static uint64_t faster_clock(void *context)
{
    _Atomic uint64_t *us = context;
    return atomic_fetch_add(us, 500);
}

static void test_threads_lose_no_count_and_tear_no_line(void **state)
{
    (void)state;
    static char text[1 << 18];
    _Atomic uint64_t us = 0;
    FILE *stream = tmpfile();
    assert_non_null(stream);
    qn_progress progress;
    qn_progress_begin(&progress, &(qn_progress_setup){.label = "l",
                                                      .unit = "MB",
                                                      .total = (uint64_t)THREADS * ADDS,
                                                      .json = stream,
                                                      .now_us = faster_clock,
                                                      .clock = &us});
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, add_many, &progress), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    qn_progress_finish(&progress);
    written(stream, text, sizeof text);
    unsigned long long done = 0, before;
    size_t lines = 0;
    for (const char *at = text; *at; at = strchr(at, '\n') + 1, lines++) {
        before = done;
        assert_int_equal(
            sscanf(at, "{\"progress\":{\"label\":\"l\",\"unit\":\"MB\",\"done\":%llu,\"total\":80000,", &done), 1);
        assert_true(done >= before);
        assert_non_null(strchr(at, '\n'));
    }
    assert_int_equal(done, THREADS * ADDS);
    assert_true(lines > 1);
    fclose(stream);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_short_work_is_silent_without_a_terminal),
        cmocka_unit_test(test_drawn_in_place_and_cleared),
        cmocka_unit_test(test_share_rate_and_time_left),
        cmocka_unit_test(test_narrow_terminal_never_wraps),
        cmocka_unit_test(test_total_of_zero),
        cmocka_unit_test(test_lines_of_long_work_without_a_terminal),
        cmocka_unit_test(test_hours_left),
        cmocka_unit_test(test_json_lines),
        cmocka_unit_test(test_json_tells_a_last_state_once),
        cmocka_unit_test(test_off_is_silent),
        cmocka_unit_test(test_an_earlier_run_counts_for_the_share_only),
        cmocka_unit_test(test_rate_is_of_late),
        cmocka_unit_test(test_less_than_before_changes_nothing),
        cmocka_unit_test(test_threads_lose_no_count_and_tear_no_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
