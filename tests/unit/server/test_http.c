/* The HTTP layer alone, with small handlers, over loopback. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/http.h"

enum { MAX_BODY = 1000, ANSWER_BYTES = 1 << 16, CLIENTS = 8, MAX_CONNECTIONS = 64 };

/* What handlers share with the tests. */
typedef struct fixture {
    qn_http *http;
    uint16_t port;
    int never_fd;           /* never readable */
    int event_fd;           /* a handler tells that it saw its client go */
    int entered_fd;         /* a handler tells that it waits */
    atomic_int closed;      /* streams closed */
    atomic_int stream_goal; /* pieces of a stream */
} fixture;

static void echo(void *context, const qn_http_request *request, qn_http_reply *reply)
{
    (void)context;
    reply->status = 200;
    reply->content_type = "text/plain";
    qn_buffer_format(&reply->body, "%s %s [%s] ", request->method, request->path, request->rest);
    qn_buffer_append(&reply->body, request->body, request->body_bytes);
}

static void tell_query(void *context, const qn_http_request *request, qn_http_reply *reply)
{
    (void)context;
    static const char *const names[] = {"a", "b[]", "c"};
    reply->status = 200;
    reply->content_type = "text/plain";
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = qn_http_query(request->exchange, names[i]);
        qn_buffer_format(&reply->body, "%s=(%s)", names[i], value != NULL ? value : "none");
    }
}

static void wait_for_ever(void *context, const qn_http_request *request, qn_http_reply *reply)
{
    fixture *f = context;
    eventfd_write(f->entered_fd, 1);
    qn_http_event event = qn_http_wait(request->exchange, (const int[]){-1, f->never_fd}, 2, -1);
    if (event == QN_HTTP_GONE) {
        eventfd_write(f->event_fd, 1);
    }
    reply->status = 204;
}

static void release_and_wait(void *context, const qn_http_request *request, qn_http_reply *reply)
{
    qn_http_release_body(request->exchange);
    wait_for_ever(context, request, reply);
}

static void time_out(void *context, const qn_http_request *request, qn_http_reply *reply)
{
    fixture *f = context;
    qn_http_event event = qn_http_wait(request->exchange, &f->never_fd, 1, 1);
    reply->status = event == QN_HTTP_TIMEOUT ? 200 : 500;
}

typedef struct counter {
    fixture *owner;
    int at;
} counter;

static bool count_up(void *state, qn_http_exchange *exchange, qn_buffer *out)
{
    (void)exchange;
    counter *c = state;
    qn_buffer_format(out, "%d,", c->at++);
    return c->at < atomic_load(&c->owner->stream_goal);
}

static void close_counter(void *state)
{
    counter *c = state;
    atomic_fetch_add(&c->owner->closed, 1);
    free(c);
}

static void stream(void *context, const qn_http_request *request, qn_http_reply *reply)
{
    (void)request;
    counter *c = calloc(1, sizeof *c);
    assert_non_null(c);
    c->owner = context;
    reply->status = 200;
    reply->content_type = "text/plain";
    reply->stream = (qn_http_stream){.state = c, .pull = count_up, .close = close_counter};
}

static void write_error(unsigned status, const char *path, const char *message, qn_buffer *out)
{
    qn_buffer_format(out, "error %u %s %s", status, path, message);
}

/* Refuses whoever says so. */
static bool admit(void *context, const qn_http_request *head, qn_http_reply *reply)
{
    (void)context;
    assert_int_equal(head->body_bytes, 0);
    const char *name = qn_http_header(head->exchange, "x-refuse");
    if (name == NULL) {
        return true;
    }
    reply->status = 401;
    reply->content_type = "text/plain";
    reply->asks_for_key = true;
    qn_buffer_format(&reply->body, "%s may not %s %s from %llx", name, head->method, head->path,
                     (unsigned long long)qn_http_client(head->exchange));
    return false;
}

static const qn_http_route routes[] = {
    {.method = "POST", .path = "/open", .open = true, .handle = echo},
    {.method = "GET", .path = "/echo", .handle = echo},
    {.method = "POST", .path = "/echo", .handle = echo},
    {.method = "GET", .path = "/below/", .prefix = true, .handle = echo},
    {.method = "GET", .path = "/item/", .prefix = true, .below = "", .handle = echo},
    {.method = "POST", .path = "/item/", .prefix = true, .below = "/use", .handle = echo},
    {.method = "GET", .path = "/query", .handle = tell_query},
    {.method = "GET", .path = "/wait", .handle = wait_for_ever},
    {.method = "POST", .path = "/release", .handle = release_and_wait},
    {.method = "GET", .path = "/timeout", .handle = time_out},
    {.method = "GET", .path = "/stream", .handle = stream},
};

static int setup(void **state)
{
    static fixture f;
    f = (fixture){.never_fd = eventfd(0, 0), .event_fd = eventfd(0, 0), .entered_fd = eventfd(0, 0), .stream_goal = 3};
    const qn_http_options options = {
        .routes = routes,
        .route_count = sizeof routes / sizeof routes[0],
        .context = &f,
        .admit = admit,
        .write_error = write_error,
        .max_connections = MAX_CONNECTIONS,
        .max_body_bytes = MAX_BODY,
        .max_all_body_bytes = 2 * MAX_BODY,
        .patience_s = 60,
    };
    qn_http_socket socket;
    qn_error err;
    assert_int_equal(qn_http_bind("127.0.0.1", 0, &socket, &err), QN_OK);
    assert_string_equal(socket.host, "127.0.0.1");
    assert_true(socket.loopback);
    f.port = socket.port;
    assert_int_equal(qn_http_start(&options, &socket, &f.http, &err), QN_OK);
    assert_int_equal(socket.fd, -1);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    qn_http_stop(f->http);
    close(f->never_fd);
    close(f->event_fd);
    close(f->entered_fd);
    return 0;
}

static int dial(const fixture *f)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(f->port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (int)strlen(text));
}

/* Up to the end of the connection. */
static void read_all(int fd, char answer[ANSWER_BYTES])
{
    size_t used = 0;
    ssize_t got;
    while (used < ANSWER_BYTES - 1 && (got = recv(fd, answer + used, ANSWER_BYTES - 1 - used, 0)) > 0) {
        used += (size_t)got;
    }
    answer[used] = '\0';
    close(fd);
}

static void ask(const fixture *f, const char *request, char answer[ANSWER_BYTES])
{
    int fd = dial(f);
    say(fd, request);
    read_all(fd, answer);
}

static void assert_says(const char *answer, const char *start, const char *part)
{
    if (strncmp(answer, start, strlen(start)) != 0 || strstr(answer, part) == NULL) {
        fail_msg("'%s' is not '%s ... %s'", answer, start, part);
    }
}

#define CLOSE "Host: x\r\nConnection: close\r\n"

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
    fixture *f = *state;
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
    fixture *f = *state;
    eventfd_t value;
    int fd = dial(f);
    say(fd, "GET /wait HTTP/1.1\r\n" CLOSE "\r\n");
    assert_int_equal(eventfd_read(f->entered_fd, &value), 0);
    close(fd);
    assert_int_equal(eventfd_read(f->event_fd, &value), 0);
}

static void test_stop_ends_waits(void **state)
{
    fixture *f = *state;
    eventfd_t value;
    int fd = dial(f);
    say(fd, "GET /wait HTTP/1.1\r\n" CLOSE "\r\n");
    assert_int_equal(eventfd_read(f->entered_fd, &value), 0);
    qn_http_stop(f->http);
    f->http = NULL;
    assert_int_equal(eventfd_read(f->event_fd, &value), 0);
    close(fd);
}

static void test_body_limits(void **state)
{
    fixture *f = *state;
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
    fixture *f = *state;
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
    fixture *f = *state;
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

static void *client_main(void *context)
{
    const fixture *f = context;
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
    fixture *f = *state;
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
static int dial_and_stay(const fixture *f)
{
    char piece[1024];
    int fd = dial(f);
    say(fd, "HEAD /echo HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_true(recv(fd, piece, sizeof piece, 0) > 0);
    return fd;
}

static void test_a_crowd_is_told(void **state)
{
    const fixture *f = *state;
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
    fixture *f = *state;
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

static void test_who_reaches_an_address(void **state)
{
    (void)state;
    static const struct {
        const char *host;
        bool loopback;
    } cases[] = {{"0.0.0.0", false}, {"127.5.0.1", true}, {"localhost", true}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        qn_http_socket socket;
        qn_error err;
        assert_int_equal(qn_http_bind(cases[i].host, 0, &socket, &err), QN_OK);
        assert_int_equal(socket.loopback, cases[i].loopback);
        qn_http_socket_close(&socket);
    }
}

static void test_bind_tells_what_is_wrong(void **state)
{
    fixture *f = *state;
    qn_http_socket socket;
    qn_error err;
    assert_int_equal(qn_http_bind("127.0.0.1", f->port, &socket, &err), QN_RESOURCE);
    assert_string_equal(err.field, "port");
    assert_int_equal(socket.fd, -1);
    assert_int_equal(qn_http_bind("no.such.host.invalid", 0, &socket, &err), QN_USAGE);
    assert_string_equal(err.field, "host");
    char lengthy[QN_HTTP_HOST_BYTES + 1];
    memset(lengthy, 'a', sizeof lengthy - 1);
    lengthy[sizeof lengthy - 1] = '\0';
    assert_int_equal(qn_http_bind(lengthy, 0, &socket, &err), QN_USAGE);
    qn_http_socket_close(&socket);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_routes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_who_is_not_admitted, setup, teardown),
        cmocka_unit_test_setup_teardown(test_streams_are_closed_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_client_that_goes_ends_the_wait, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stop_ends_waits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_body_limits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bodies_are_bounded_together, setup, teardown),
        cmocka_unit_test_setup_teardown(test_released_bodies_count_no_more, setup, teardown),
        cmocka_unit_test_setup_teardown(test_many_clients, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_crowd_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(test_drain, setup, teardown),
        cmocka_unit_test(test_who_reaches_an_address),
        cmocka_unit_test_setup_teardown(test_bind_tells_what_is_wrong, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
