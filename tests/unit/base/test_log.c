#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

static char last_line[2 * QN_LOG_LINE_BYTES];

static void keep_line(void *context, const char *line)
{
    assert_ptr_equal(context, last_line);
    snprintf(last_line, sizeof last_line, "%s", line);
}

static void test_sink_gets_the_line(void **state)
{
    (void)state;
    qn_log_set_sink(keep_line, last_line);
    qn_log("loaded %d tensors", 7);
    assert_string_equal(last_line, "quern: loaded 7 tensors");
    qn_error err;
    qn_fail(&err, QN_BAD_INPUT, "config.json: 100%% wrong: fix it");
    qn_log_error(&err);
    assert_string_equal(last_line, "quern: config.json: 100% wrong: fix it");
    qn_log_set_sink(NULL, NULL);
}

static void test_input_cannot_forge_a_line(void **state)
{
    (void)state;
    qn_log_set_sink(keep_line, last_line);
    qn_log("name %s", "x\nquern: ready\x1b[2J\xff");
    assert_string_equal(last_line, "quern: name x\\x0aquern: ready\\x1b[2J\\xff");
    qn_log_set_sink(NULL, NULL);
}

static void test_long_lines_are_cut(void **state)
{
    (void)state;
    qn_log_set_sink(keep_line, last_line);
    char *text = malloc(2 * QN_LOG_LINE_BYTES);
    for (size_t length = QN_LOG_LINE_BYTES - 2; length <= QN_LOG_LINE_BYTES + 2; length++) {
        memset(text, 'x', length);
        text[length] = '\0';
        qn_log("%s", text);
        if (length <= QN_LOG_LINE_BYTES) {
            assert_string_equal(last_line + 7, text);
        } else {
            assert_int_equal(strlen(last_line), 7 + QN_LOG_LINE_BYTES + 3);
            assert_string_equal(last_line + 7 + QN_LOG_LINE_BYTES, "...");
        }
    }
    memset(text, '\n', QN_LOG_LINE_BYTES);
    text[QN_LOG_LINE_BYTES] = '\0';
    qn_log("%s", text);
    assert_int_equal(strlen(last_line), 7 + QN_LOG_LINE_BYTES + 3);
    free(text);
    qn_log_set_sink(NULL, NULL);
}

/* Stderr sent to a file while body runs; returns what was written, to be freed. */
static char *captured(void (*body)(void))
{
    char path[] = "/tmp/quern-log-XXXXXX";
    int file = mkstemp(path), saved = dup(STDERR_FILENO);
    unlink(path);
    dup2(file, STDERR_FILENO);
    body();
    dup2(saved, STDERR_FILENO);
    close(saved);
    off_t bytes = lseek(file, 0, SEEK_END);
    char *text = calloc((size_t)bytes + 1, 1);
    assert_int_equal(pread(file, text, (size_t)bytes, 0), bytes);
    close(file);
    return text;
}

static void log_once(void)
{
    qn_log("to stderr");
}

static void test_stderr_by_default(void **state)
{
    (void)state;
    char *text = captured(log_once);
    assert_string_equal(text, "quern: to stderr\n");
    free(text);
}

enum { WRITERS = 4, LINES = 500 };

static void *write_lines(void *argument)
{
    for (int i = 0; i < LINES; i++)
        qn_log("writer %d says the same words every time", *(int *)argument);
    return NULL;
}

static void log_from_threads(void)
{
    pthread_t threads[WRITERS];
    static int numbers[WRITERS];
    for (int i = 0; i < WRITERS; i++) {
        numbers[i] = i;
        pthread_create(&threads[i], NULL, write_lines, &numbers[i]);
    }
    for (int i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
}

static void test_lines_of_threads_do_not_mix(void **state)
{
    (void)state;
    char *text = captured(log_from_threads);
    int counts[WRITERS] = {0};
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        int writer = -1;
        assert_int_equal(sscanf(line, "quern: writer %d", &writer), 1);
        assert_in_range(writer, 0, WRITERS - 1);
        char expected[64];
        snprintf(expected, sizeof expected, "quern: writer %d says the same words every time", writer);
        assert_string_equal(line, expected);
        counts[writer]++;
    }
    for (int i = 0; i < WRITERS; i++)
        assert_int_equal(counts[i], LINES);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sink_gets_the_line),          cmocka_unit_test(test_input_cannot_forge_a_line),
        cmocka_unit_test(test_long_lines_are_cut),          cmocka_unit_test(test_stderr_by_default),
        cmocka_unit_test(test_lines_of_threads_do_not_mix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
