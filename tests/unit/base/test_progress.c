#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/progress.h"

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

static void test_silent_without_a_terminal(void **state)
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
    qn_progress_start(&progress, "prompt", "tokens", 200);
    progress.started_us -= 10000000; /* as if ten seconds had passed */
    qn_progress_update(&progress, 50);
    qn_progress_update(&progress, 60); /* too soon after the last picture */
    progress.drawn_us -= 1000000;
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
    assert_non_null(strstr(text, "[########################] 100 %, 40.0 tokens/s\x1b[K"));
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_silent_without_a_terminal),
        cmocka_unit_test(test_drawn_in_place_and_cleared),
        cmocka_unit_test(test_share_rate_and_time_left),
        cmocka_unit_test(test_total_of_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
