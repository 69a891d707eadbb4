/* What bodies may take, each and all together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "unit/server/http_fixture.h"

static void test_body_limits(void **state)
{
    http_fixture *f = *state;
    static char answer[ANSWER_BYTES], request[ANSWER_BYTES];
    char body[MAX_BODY + 2];
    memset(body, 'x', sizeof body);
    body[MAX_BODY] = '\0';
    snprintf(request, sizeof request, "POST /echo HTTP/1.1\r\n" CLOSE "Content-Length: %d\r\n\r\n%s", MAX_BODY, body);
    ask(f, request, answer);
    assert_says(answer, "HTTP/1.1 200", "xxx");

    int fd = dial(f);
    snprintf(request, sizeof request, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", MAX_BODY + 1);
    say(fd, request);
    assert_true(recv(fd, answer, ANSWER_BYTES - 1, 0) > 0); /* before a byte of it is sent */
    assert_says(answer, "HTTP/1.1 413", "Connection: close");
    close(fd);

    fd = dial(f);
    body[MAX_BODY] = 'x';
    body[MAX_BODY + 1] = '\0';
    snprintf(request, sizeof request,
             "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", MAX_BODY + 1, body);
    say(fd, request);
    assert_true(recv(fd, answer, ANSWER_BYTES - 1, 0) > 0);
    assert_says(answer, "HTTP/1.1 413", "");
    close(fd);
}

/* Bodies that are still coming count together: of four that fill a third each, one finds no room; which one depends on
 * the order of threads. */
static void test_bodies_are_bounded_together(void **state)
{
    http_fixture *f = *state;
    static char answer[ANSWER_BYTES], request[ANSWER_BYTES];
    char part[2 * MAX_BODY / 3 + 1];
    memset(part, 'x', sizeof part - 1);
    part[sizeof part - 1] = '\0';
    snprintf(request, sizeof request, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", MAX_BODY, part);
    struct pollfd fds[4];
    for (size_t i = 0; i < 4; i++) {
        fds[i] = (struct pollfd){.fd = dial(f), .events = POLLIN};
        say(fds[i].fd, request);
    }
    assert_int_equal(poll(fds, 4, 60000), 1);
    for (size_t i = 0; i < 4; i++) {
        if (fds[i].revents != 0) {
            assert_true(recv(fds[i].fd, answer, ANSWER_BYTES - 1, 0) > 0);
            assert_says(answer, "HTTP/1.1 503", "Retry-After: 1");
        }
        close(fds[i].fd);
    }
}

/* Three waiting requests of which only two bodies fit at once: each has let go of its own. */
static void test_released_bodies_count_no_more(void **state)
{
    http_fixture *f = *state;
    static char request[ANSWER_BYTES];
    char body[MAX_BODY + 1];
    memset(body, 'x', MAX_BODY);
    body[MAX_BODY] = '\0';
    snprintf(request, sizeof request, "POST /release HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", MAX_BODY,
             body);
    int fds[3];
    for (size_t i = 0; i < 3; i++) {
        fds[i] = dial(f);
        say(fds[i], request);
        eventfd_t count;
        struct pollfd entered = {.fd = f->entered_fd, .events = POLLIN};
        assert_int_equal(poll(&entered, 1, 60000), 1);
        assert_int_equal(eventfd_read(f->entered_fd, &count), 0);
    }
    for (size_t i = 0; i < 3; i++) {
        close(fds[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_body_limits, http_setup, http_teardown),
        cmocka_unit_test_setup_teardown(test_bodies_are_bounded_together, http_setup, http_teardown),
        cmocka_unit_test_setup_teardown(test_released_bodies_count_no_more, http_setup, http_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
