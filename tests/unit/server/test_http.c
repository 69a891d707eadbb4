/* Requests, waits, streams and connections; bodies: test_http_body.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "unit/server/http_fixture.h"

enum { CLIENTS = 8 };

static void test_routes(void **state)
{
    static char answer[ANSWER_BYTES];
    static const struct {
        const char *request, *start, *part;
    } cases[] = {
        {"GET /echo?a=b HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 200", "GET /echo [] "},
        {"POST /echo HTTP/1.1\r\n" CLOSE "Content-Length: 3\r\n\r\nabc", "HTTP/1.1 200", "POST /echo [] abc"},
        {"GET /below/a%2Fb HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 200", "[a/b]"},
        {"GET /below/ HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 404", "error 404"},
        {"GET /none HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 404", "error 404"},
        {"GET /item/a%20b HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 200", "[a b]"},
        {"GET /item/a/b HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 404", "error 404"},
        {"POST /item/a/use HTTP/1.1\r\n" CLOSE "Content-Length: 0\r\n\r\n", "HTTP/1.1 200", "[a/use]"},
        {"GET /item/a/use HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 405", "Allow: POST, OPTIONS"},
        {"GET /item//use HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 404", "error 404"},
        {"DELETE /item/a HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 405", "Allow: GET, HEAD, OPTIONS"},
        {"GET /query?a=1%202&b[]=&a=3 HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 200", "a=(1 2)b[]=()c=(none)"},
        {"GET /query?c HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 200", "a=(none)b[]=(none)c=()"},
        {"PUT /echo HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 405", "Allow: GET, HEAD, POST, OPTIONS"},
        {"OPTIONS /stream HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 204", "Allow: GET, HEAD, OPTIONS"},
        {"HEAD /echo HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 200", "Content-Length: 13"},
        {"GET /timeout HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 200", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ask(*state, cases[i].request, answer);
        assert_says(answer, cases[i].start, cases[i].part);
    }
}

static void test_who_is_not_admitted(void **state)
{
    static char answer[ANSWER_BYTES];
    static const struct {
        const char *request, *start, *part;
    } cases[] = {
        {"GET /echo HTTP/1.1\r\nX-Refuse: me\r\n" CLOSE "\r\n", "HTTP/1.1 401", "me may not GET /echo from 100007f"},
        {"GET /none HTTP/1.1\r\nX-Refuse: me\r\n" CLOSE "\r\n", "HTTP/1.1 401", "WWW-Authenticate: Bearer\r\n"},
        {"POST /open HTTP/1.1\r\nX-Refuse: me\r\n" CLOSE "Content-Length: 1\r\n\r\na", "HTTP/1.1 200", "[] a"},
        {"OPTIONS /echo HTTP/1.1\r\nX-Refuse: me\r\n" CLOSE "\r\n", "HTTP/1.1 204", "Allow: GET"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ask(*state, cases[i].request, answer);
        assert_says(answer, cases[i].start, cases[i].part);
    }
    int fd = dial(*state); /* a refused body is read, so that the next request is found behind it */
    say(fd, "POST /echo HTTP/1.1\r\nHost: x\r\nX-Refuse: me\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
            "GET /below/next HTTP/1.1\r\n" CLOSE "\r\n");
    read_all(fd, answer);
    assert_says(answer, "HTTP/1.1 401", "GET /below/next [next]");
    char body[MAX_BODY + 2];
    static char request[ANSWER_BYTES];
    memset(body, 'x', sizeof body);
    body[MAX_BODY + 1] = '\0';
    snprintf(request, sizeof request,
             "POST /echo HTTP/1.1\r\nHost: x\r\nX-Refuse: me\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n",
             MAX_BODY + 1, body);
    fd = dial(*state); /* but no more of it than of any other */
    say(fd, request);
    assert_true(recv(fd, answer, ANSWER_BYTES - 1, 0) > 0);
    assert_says(answer, "HTTP/1.1 413", "Connection: close");
    close(fd);
}

static void test_streams_are_closed_once(void **state)
{
    http_fixture *f = *state;
    static char answer[ANSWER_BYTES];
    ask(f, "GET /stream HTTP/1.1\r\n" CLOSE "\r\n", answer);
    assert_says(answer, "HTTP/1.1 200", "0,\r\n");
    assert_says(answer, "HTTP/1.1 200", "2,\r\n0\r\n\r\n");
    ask(f, "HEAD /stream HTTP/1.1\r\n" CLOSE "\r\n", answer);
    assert_says(answer, "HTTP/1.1 200", "\r\n\r\n");
    atomic_store(&f->stream_goal, 1 << 30);
    int fd = dial(f); /* one that goes away in the middle */
    say(fd, "GET /stream HTTP/1.1\r\n" CLOSE "\r\n");
    assert_true(recv(fd, answer, 1000, 0) > 0);
    close(fd);
    qn_http_drain(f->http);
    struct pollfd idle = {.fd = qn_http_idle_fd(f->http), .events = POLLIN};
    assert_int_equal(poll(&idle, 1, 60000), 1);
    assert_int_equal(atomic_load(&f->closed), 3);
}

static void test_client_that_goes_ends_the_wait(void **state)
{
    http_fixture *f = *state;
    eventfd_t value;
    int fd = dial(f);
    say(fd, "GET /wait HTTP/1.1\r\n" CLOSE "\r\n");
    assert_int_equal(eventfd_read(f->entered_fd, &value), 0);
    close(fd);
    assert_int_equal(eventfd_read(f->event_fd, &value), 0);
}

static void test_stop_ends_waits(void **state)
{
    http_fixture *f = *state;
    eventfd_t value;
    int fd = dial(f);
    say(fd, "GET /wait HTTP/1.1\r\n" CLOSE "\r\n");
    assert_int_equal(eventfd_read(f->entered_fd, &value), 0);
    qn_http_stop(f->http);
    f->http = NULL;
    assert_int_equal(eventfd_read(f->event_fd, &value), 0);
    close(fd);
}

static void *client_main(void *context)
{
    const http_fixture *f = context;
    char answer[ANSWER_BYTES];
    for (int i = 0; i < 50; i++) {
        ask(f,
            i % 2 == 0 ? "GET /stream HTTP/1.1\r\n" CLOSE "\r\n"
                       : "POST /echo HTTP/1.1\r\n" CLOSE "Content-Length: 2\r\n\r\nhi",
            answer);
        if (strncmp(answer, "HTTP/1.1 200", 12) != 0) {
            return (void *)1;
        }
    }
    return NULL;
}

static void test_many_clients(void **state)
{
    http_fixture *f = *state;
    pthread_t threads[CLIENTS];
    for (size_t i = 0; i < CLIENTS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, client_main, f), 0);
    }
    for (size_t i = 0; i < CLIENTS; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_int_equal(atomic_load(&f->closed), CLIENTS * 25);
}

/* A connection that was served and is kept. */
static int dial_and_stay(const http_fixture *f)
{
    char piece[1024];
    int fd = dial(f);
    say(fd, "HEAD /echo HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_true(recv(fd, piece, sizeof piece, 0) > 0);
    return fd;
}

static void test_a_crowd_is_told(void **state)
{
    const http_fixture *f = *state;
    static const char post[] = "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\na";
    static char answer[ANSWER_BYTES];
    int idle[MAX_CONNECTIONS];
    for (int i = 0; i < MAX_CONNECTIONS; i++) {
        idle[i] = dial_and_stay(f);
    }
    ask(f, post, answer); /* its connection is closed by the server */
    assert_says(answer, "HTTP/1.1 503", "Retry-After: 1\r\n");
    ask(f, "GET /echo HTTP/1.1\r\nHost: x\r\n\r\n", answer);
    assert_says(answer, "HTTP/1.1 200", "Connection: close");
    for (int i = 0; i < MAX_CONNECTIONS; i++) {
        close(idle[i]);
    }
    do { /* until the server has seen them go */
        ask(f, "POST /echo HTTP/1.1\r\n" CLOSE "Content-Length: 1\r\n\r\na", answer);
    } while (strncmp(answer, "HTTP/1.1 503", strlen("HTTP/1.1 503")) == 0);
    assert_says(answer, "HTTP/1.1 200", "[] a");
}

static void test_drain(void **state)
{
    http_fixture *f = *state;
    static char answer[ANSWER_BYTES];
    struct pollfd idle = {.fd = qn_http_idle_fd(f->http), .events = POLLIN};
    eventfd_t value;
    int kept = dial(f);
    say(kept, "GET /echo HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_true(recv(kept, answer, ANSWER_BYTES - 1, 0) > 0);
    int waiting = dial(f);
    say(waiting, "GET /wait HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_int_equal(eventfd_read(f->entered_fd, &value), 0);
    assert_int_equal(poll(&idle, 1, 0), 0);
    qn_http_drain(f->http);
    assert_int_equal(poll(&idle, 1, 0), 0);
    say(kept, "GET /echo HTTP/1.1\r\nHost: x\r\n\r\n");
    read_all(kept, answer); /* the answer ends its connection */
    assert_says(answer, "HTTP/1.1 200", "Connection: close");
    close(waiting);
    assert_int_equal(poll(&idle, 1, 60000), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_routes, http_setup, http_teardown),
        cmocka_unit_test_setup_teardown(test_who_is_not_admitted, http_setup, http_teardown),
        cmocka_unit_test_setup_teardown(test_streams_are_closed_once, http_setup, http_teardown),
        cmocka_unit_test_setup_teardown(test_client_that_goes_ends_the_wait, http_setup, http_teardown),
        cmocka_unit_test_setup_teardown(test_stop_ends_waits, http_setup, http_teardown),
        cmocka_unit_test_setup_teardown(test_many_clients, http_setup, http_teardown),
        cmocka_unit_test_setup_teardown(test_a_crowd_is_told, http_setup, http_teardown),
        cmocka_unit_test_setup_teardown(test_drain, http_setup, http_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
