#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "unit/server/http_fixture.h"

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
    http_fixture *f = context;
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
    http_fixture *f = context;
    qn_http_event event = qn_http_wait(request->exchange, &f->never_fd, 1, 1);
    reply->status = event == QN_HTTP_TIMEOUT ? 200 : 500;
}

typedef struct counter {
    http_fixture *owner;
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

int http_setup(void **state)
{
    static http_fixture f;
    f = (http_fixture){
        .never_fd = eventfd(0, 0), .event_fd = eventfd(0, 0), .entered_fd = eventfd(0, 0), .stream_goal = 3};
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

int http_teardown(void **state)
{
    http_fixture *f = *state;
    qn_http_stop(f->http);
    close(f->never_fd);
    close(f->event_fd);
    close(f->entered_fd);
    return 0;
}

int dial(const http_fixture *f)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(f->port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (int)strlen(text));
}

void read_all(int fd, char answer[ANSWER_BYTES])
{
    size_t used = 0;
    ssize_t got;
    while (used < ANSWER_BYTES - 1 && (got = recv(fd, answer + used, ANSWER_BYTES - 1 - used, 0)) > 0) {
        used += (size_t)got;
    }
    answer[used] = '\0';
    close(fd);
}

void ask(const http_fixture *f, const char *request, char answer[ANSWER_BYTES])
{
    int fd = dial(f);
    say(fd, request);
    read_all(fd, answer);
}

void assert_says(const char *answer, const char *start, const char *part)
{
    if (strncmp(answer, start, strlen(start)) != 0 || strstr(answer, part) == NULL) {
        fail_msg("'%s' is not '%s ... %s'", answer, start, part);
    }
}
