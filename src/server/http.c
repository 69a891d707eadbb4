/* libmicrohttpd with a thread a connection, because a handler's work is to wait: for its turn, for a prompt, for the
 * next token. A request is an exchange from its head to NOTIFY_COMPLETED, which libmicrohttpd calls exactly once for
 * each, whatever ends it.
 *
 * libmicrohttpd can't answer in the middle of a body; a body that is too large gets its answer written to the socket
 * here, and the connection is closed once the client had its time to read it (refuse_body). */
#include "server/http.h"

#include <assert.h>
#include <errno.h>
#include <microhttpd.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "server/http_watch.h"

enum {
    HEAD_BYTES = 64 << 10,
    PIECE_BYTES = 16 << 10,
    SEND_WAIT_MS = 5000,
    CROWD = 1024 /* connections beyond the limit that are told so; more are closed without a word */
};

struct qn_http {
    qn_http_options options;
    struct MHD_Daemon *daemon;
    qn_watch *watch;
    pthread_mutex_t mutex; /* of those below up to draining */
    size_t connections, active, body_bytes;
    bool draining;
    int idle_fd;
};

struct qn_http_exchange {
    qn_http *http;
    struct MHD_Connection *connection;
    qn_watched *watched;
    int client_fd;
    const char *method;
    uint64_t started_us;
    qn_buffer body;
    size_t counted_bytes; /* of the body, in http->body_bytes */
    qn_http_stream stream;
    qn_buffer piece; /* of the stream, sent up to piece_at */
    size_t piece_at;
    bool stream_over;
};

/* ---- counting ---- */

static bool is_draining(qn_http *http)
{
    pthread_mutex_lock(&http->mutex);
    bool draining = http->draining;
    pthread_mutex_unlock(&http->mutex);
    return draining;
}

static void count_connection(qn_http *http, int change)
{
    pthread_mutex_lock(&http->mutex);
    http->connections += (size_t)change;
    pthread_mutex_unlock(&http->mutex);
}

static bool is_crowded(qn_http *http)
{
    pthread_mutex_lock(&http->mutex);
    bool crowded = http->connections > http->options.max_connections;
    pthread_mutex_unlock(&http->mutex);
    return crowded;
}

static bool count_body(qn_http_exchange *exchange, size_t bytes)
{
    qn_http *http = exchange->http;
    pthread_mutex_lock(&http->mutex);
    bool fits = http->body_bytes + bytes <= http->options.max_all_body_bytes;
    http->body_bytes += fits ? bytes : 0;
    pthread_mutex_unlock(&http->mutex);
    exchange->counted_bytes += fits ? bytes : 0;
    return fits;
}

void qn_http_release_body(qn_http_exchange *exchange)
{
    qn_buffer_free(&exchange->body);
    pthread_mutex_lock(&exchange->http->mutex);
    exchange->http->body_bytes -= exchange->counted_bytes;
    pthread_mutex_unlock(&exchange->http->mutex);
    exchange->counted_bytes = 0;
}

static void count_exchange(qn_http *http, int change)
{
    pthread_mutex_lock(&http->mutex);
    http->active += (size_t)change;
    bool idle = http->draining && http->active == 0;
    pthread_mutex_unlock(&http->mutex);
    if (idle) {
        eventfd_write(http->idle_fd, 1);
    }
}

/* ---- an exchange ---- */

static qn_http_exchange *new_exchange(qn_http *http, struct MHD_Connection *connection, const char *method)
{
    const union MHD_ConnectionInfo *socket = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    const union MHD_ConnectionInfo *fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (socket == NULL || socket->socket_context == NULL || fd == NULL) {
        return NULL;
    }
    qn_http_exchange *exchange = qn_alloc_zero(1, sizeof *exchange);
    if (exchange == NULL) {
        return NULL;
    }
    exchange->http = http;
    exchange->connection = connection;
    exchange->watched = socket->socket_context;
    exchange->client_fd = fd->connect_fd;
    exchange->method = strcmp(method, "HEAD") == 0 ? "GET" : method;
    exchange->started_us = qn_now_us();
    qn_watch_deadline(exchange->watched, exchange->started_us, 0);
    count_exchange(http, 1);
    return exchange;
}

static void on_completed(void *context, struct MHD_Connection *connection, void **request,
                         enum MHD_RequestTerminationCode code)
{
    (void)connection;
    (void)code;
    qn_http *http = context;
    qn_http_exchange *exchange = *request;
    if (exchange == NULL) {
        return;
    }
    *request = NULL;
    if (exchange->stream.close != NULL) {
        exchange->stream.close(exchange->stream.state);
    }
    qn_buffer_free(&exchange->piece);
    qn_http_release_body(exchange);
    qn_watch_deadline(exchange->watched, qn_now_us(), 0); /* for the next request */
    qn_free(exchange);
    count_exchange(http, -1);
}

/* Called on the listening thread, before the connection's own starts and after it has ended. */
static void on_connection(void *context, struct MHD_Connection *connection, void **watched,
                          enum MHD_ConnectionNotificationCode code)
{
    qn_http *http = context;
    count_connection(http, code == MHD_CONNECTION_NOTIFY_CLOSED ? -1 : 1);
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        qn_watch_remove(http->watch, *watched);
        *watched = NULL;
        return;
    }
    const union MHD_ConnectionInfo *fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    *watched = fd != NULL ? qn_watch_add(http->watch, fd->connect_fd) : NULL;
}

qn_http_event qn_http_wait(qn_http_exchange *exchange, const int *fds, size_t count, int timeout_ms)
{
    struct pollfd polled[1 + QN_HTTP_WAIT_MAX] = {{.fd = exchange->client_fd, .events = POLLRDHUP}};
    assert(count <= QN_HTTP_WAIT_MAX);
    for (size_t i = 0; i < count; i++) {
        polled[1 + i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
    }
    int ready = poll(polled, 1 + count, timeout_ms);
    if (ready <= 0) {
        return QN_HTTP_TIMEOUT; /* an interrupted wait looks again like any other */
    }
    return polled[0].revents != 0 ? QN_HTTP_GONE : QN_HTTP_NEWS;
}

/* ---- answers ---- */

static ssize_t read_stream(void *context, uint64_t position, char *out, size_t max)
{
    (void)position;
    qn_http_exchange *exchange = context;
    if (exchange->piece_at == exchange->piece.size && !exchange->stream_over) {
        qn_buffer_clear(&exchange->piece);
        exchange->piece_at = 0;
        qn_watch_no_deadline(exchange->watched);
        exchange->stream_over = !exchange->stream.pull(exchange->stream.state, exchange, &exchange->piece);
        qn_watch_deadline(exchange->watched, qn_now_us(), exchange->piece.size);
    }
    if (exchange->piece.failed) {
        return MHD_CONTENT_READER_END_WITH_ERROR;
    }
    size_t left = exchange->piece.size - exchange->piece_at;
    if (left == 0) {
        return MHD_CONTENT_READER_END_OF_STREAM;
    }
    size_t taken = left < max ? left : max;
    memcpy(out, exchange->piece.data + exchange->piece_at, taken);
    exchange->piece_at += taken;
    return (ssize_t)taken;
}

static struct MHD_Response *make_response(qn_http_exchange *exchange, qn_http_reply *reply)
{
    if (reply->stream.pull != NULL) {
        exchange->stream = reply->stream;
        reply->stream = (qn_http_stream){0};
        return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, PIECE_BYTES, read_stream, exchange, NULL);
    }
    if (reply->body.size == 0) {
        return MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    }
    struct MHD_Response *response = MHD_create_response_from_buffer_with_free_callback(reply->body.size,
                                                                                       reply->body.data, qn_free);
    if (response != NULL) {
        reply->body = (qn_buffer){0}; /* the response's now */
    }
    return response;
}

static bool add_header(struct MHD_Response *response, const char *name, const char *value)
{
    return MHD_add_response_header(response, name, value) == MHD_YES;
}

static bool add_headers(qn_http_exchange *exchange, const qn_http_reply *reply, struct MHD_Response *response)
{
    bool fine = true;
    char number[16];
    if (reply->content_type != NULL) {
        fine = add_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, reply->content_type) && fine;
    }
    if (reply->retry_after_s > 0) {
        snprintf(number, sizeof number, "%u", reply->retry_after_s);
        fine = add_header(response, MHD_HTTP_HEADER_RETRY_AFTER, number) && fine;
    }
    if (reply->allow[0] != '\0') {
        fine = add_header(response, MHD_HTTP_HEADER_ALLOW, reply->allow) && fine;
    }
    if (exchange->stream.pull != NULL) { /* nginx would else gather a stream before it passes it on */
        fine = add_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache") && fine;
        fine = add_header(response, "X-Accel-Buffering", "no") && fine;
    }
    if (is_draining(exchange->http) || is_crowded(exchange->http)) {
        fine = add_header(response, MHD_HTTP_HEADER_CONNECTION, "close") && fine;
    }
    return fine;
}

static enum MHD_Result send_reply(qn_http_exchange *exchange, qn_http_reply *reply)
{
    if (reply->body.failed) {
        qn_buffer_free(&reply->body);
        return MHD_NO; /* not enough memory to say so: the connection is closed */
    }
    size_t bytes = reply->body.size;
    struct MHD_Response *response = make_response(exchange, reply);
    qn_buffer_free(&reply->body);
    if (response == NULL) {
        return MHD_NO;
    }
    qn_watch_deadline(exchange->watched, qn_now_us(), bytes);
    enum MHD_Result result = MHD_NO;
    if (add_headers(exchange, reply, response)) {
        result = MHD_queue_response(exchange->connection, reply->status, response);
    }
    MHD_destroy_response(response);
    return result;
}

static void reply_error(qn_http *http, unsigned status, const char *message, qn_http_reply *reply)
{
    reply->status = status;
    reply->content_type = "application/json";
    http->options.write_error(status, message, &reply->body);
}

/* ---- routes ---- */

static bool route_matches(const qn_http_route *route, const char *path)
{
    size_t length = strlen(route->path);
    if (!route->prefix) {
        return strcmp(route->path, path) == 0;
    }
    return strncmp(route->path, path, length) == 0 && path[length] != '\0';
}

static void add_method(qn_http_reply *reply, const char *method)
{
    size_t used = strlen(reply->allow);
    snprintf(reply->allow + used, sizeof reply->allow - used, "%s%s", used > 0 ? ", " : "", method);
}

/* The route, or NULL with the reply filled: 404, 405, or what OPTIONS asks for. */
static const qn_http_route *find_route(qn_http_exchange *exchange, const char *path, qn_http_reply *reply)
{
    const qn_http_options *options = &exchange->http->options;
    for (size_t i = 0; i < options->route_count; i++) {
        const qn_http_route *route = &options->routes[i];
        if (!route_matches(route, path)) {
            continue;
        }
        if (strcmp(route->method, exchange->method) == 0) {
            return route;
        }
        add_method(reply, route->method);
        if (strcmp(route->method, "GET") == 0) {
            add_method(reply, "HEAD");
        }
    }
    if (reply->allow[0] == '\0') {
        reply_error(exchange->http, 404, "path: there is no such endpoint: see docs/api.md for those there are", reply);
        return NULL;
    }
    add_method(reply, "OPTIONS");
    if (strcmp(exchange->method, "OPTIONS") == 0) {
        reply->status = 204;
        return NULL;
    }
    reply_error(exchange->http, 405, "method: not for this endpoint: use one that the Allow header names", reply);
    return NULL;
}

static enum MHD_Result answer(qn_http_exchange *exchange, const char *path)
{
    qn_http *http = exchange->http;
    qn_http_reply reply = {0};
    const qn_http_route *route = find_route(exchange, path, &reply);
    if (route != NULL && strcmp(route->method, "POST") == 0 && is_crowded(http)) {
        reply.allow[0] = '\0';
        reply_error(http, 503, "server: it has as many connections as it may: send it again later", &reply);
        reply.retry_after_s = 1;
    } else if (route != NULL) {
        reply.allow[0] = '\0';
        const qn_http_request request = {
            .method = exchange->method,
            .path = path,
            .rest = path + strlen(route->path),
            .body = qn_buffer_string(&exchange->body),
            .body_bytes = exchange->body.size,
            .exchange = exchange,
        };
        qn_watch_no_deadline(exchange->watched);
        route->handle(http->options.context, &request, &reply);
    }
    qn_http_release_body(exchange);
    return send_reply(exchange, &reply);
}

/* ---- bodies ---- */

static bool send_all(int fd, const char *data, size_t bytes)
{
    while (bytes > 0) {
        ssize_t sent = send(fd, data, bytes, MSG_NOSIGNAL);
        if (sent > 0) {
            data += sent;
            bytes -= (size_t)sent;
            continue;
        }
        struct pollfd writable = {.fd = fd, .events = POLLOUT};
        if ((sent < 0 && errno != EAGAIN && errno != EINTR) || poll(&writable, 1, SEND_WAIT_MS) == 0) {
            return false;
        }
    }
    return true;
}

/* Reads on to the client's end, or until the watch shuts the socket: closing with unread bytes would reset the
 * connection and could destroy the answer before the client has read it. */
static void linger(qn_http_exchange *exchange)
{
    static const int forever = -1;
    char sink[16 << 10];
    qn_watch_deadline(exchange->watched, qn_now_us(), 0);
    shutdown(exchange->client_fd, SHUT_WR);
    for (;;) {
        ssize_t got = recv(exchange->client_fd, sink, sizeof sink, 0);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
            return;
        }
        struct pollfd readable = {.fd = exchange->client_fd, .events = POLLIN};
        poll(&readable, 1, forever);
    }
}

/* Answers before the body has come, on the bare socket. MHD_NO then closes the connection. */
static enum MHD_Result refuse_body(qn_http_exchange *exchange, unsigned status, const char *reason, const char *message)
{
    qn_buffer body = {0}, head = {0};
    exchange->http->options.write_error(status, message, &body);
    qn_buffer_format(&head,
                     "HTTP/1.1 %u %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n%sConnection: "
                     "close\r\n\r\n",
                     status, reason, body.size, status == 503 ? "Retry-After: 1\r\n" : "");
    if (!head.failed && !body.failed && send_all(exchange->client_fd, head.data, head.size) &&
        send_all(exchange->client_fd, body.data, body.size)) {
        linger(exchange);
    }
    qn_buffer_free(&head);
    qn_buffer_free(&body);
    return MHD_NO;
}

static enum MHD_Result refuse_large(qn_http_exchange *exchange)
{
    char message[96];
    snprintf(message, sizeof message, "body: larger than %zu bytes: send a smaller request",
             exchange->http->options.max_body_bytes);
    return refuse_body(exchange, 413, "Content Too Large", message);
}

static enum MHD_Result refuse_busy(qn_http_exchange *exchange)
{
    return refuse_body(exchange, 503, "Service Unavailable",
                       "body: the server holds as many bodies as it may: send it again later");
}

/* Is a body announced that is too large? What is not announced is counted as it comes. */
static bool announces_too_much(qn_http_exchange *exchange)
{
    const char *length = MHD_lookup_connection_value(exchange->connection, MHD_HEADER_KIND,
                                                     MHD_HTTP_HEADER_CONTENT_LENGTH);
    char *end = NULL;
    errno = 0;
    unsigned long long bytes = length != NULL ? strtoull(length, &end, 10) : 0;
    return errno == ERANGE || bytes > exchange->http->options.max_body_bytes;
}

/* How the head says where the body ends. */
typedef struct framing {
    size_t lengths, encodings;
    bool unknown_encoding;
} framing;

static enum MHD_Result note_framing(void *context, enum MHD_ValueKind kind, const char *key, const char *value)
{
    (void)kind;
    framing *f = context;
    if (strcasecmp(key, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0) {
        f->lengths++;
    } else if (strcasecmp(key, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0) {
        f->encodings++;
        f->unknown_encoding = f->unknown_encoding || value == NULL || strcasecmp(value, "chunked") != 0;
    }
    return MHD_YES;
}

/* A body whose end a proxy before us may see elsewhere would let its client smuggle a second request past it (RFC
 * 9112, 6.3), so whatever is not told in exactly one way is refused. */
static bool body_end_is_unclear(const qn_http_exchange *exchange)
{
    framing f = {0};
    MHD_get_connection_values(exchange->connection, MHD_HEADER_KIND, note_framing, &f);
    bool none = f.lengths + f.encodings == 0 && strcmp(exchange->method, "POST") == 0;
    return f.lengths + f.encodings > 1 || f.unknown_encoding || none;
}

static enum MHD_Result refuse_framing(qn_http_exchange *exchange)
{
    return refuse_body(exchange, 400, "Bad Request",
                       "body: its end is not told in one way: send one Content-Length, or Transfer-Encoding: chunked");
}

static enum MHD_Result take_body(qn_http_exchange *exchange, const char *data, size_t bytes)
{
    if (bytes > exchange->http->options.max_body_bytes - exchange->body.size) {
        return refuse_large(exchange);
    }
    if (!count_body(exchange, bytes)) {
        return refuse_busy(exchange);
    }
    qn_buffer_append(&exchange->body, data, bytes);
    if (exchange->body.failed) {
        return refuse_busy(exchange);
    }
    qn_watch_deadline(exchange->watched, exchange->started_us, exchange->body.size);
    return MHD_YES;
}

/* Called for the head, for each piece of the body, and at its end. */
static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *url, const char *method,
                                  const char *version, const char *data, size_t *bytes, void **request)
{
    (void)version;
    qn_http *http = context;
    qn_http_exchange *exchange = *request;
    if (exchange == NULL) {
        exchange = new_exchange(http, connection, method);
        if (exchange == NULL) {
            return MHD_NO;
        }
        *request = exchange;
        if (body_end_is_unclear(exchange)) {
            return refuse_framing(exchange);
        }
        return announces_too_much(exchange) ? refuse_large(exchange) : MHD_YES;
    }
    if (*bytes > 0) {
        enum MHD_Result result = take_body(exchange, data, *bytes);
        *bytes = 0;
        return result;
    }
    return answer(exchange, url);
}

/* ---- the server ---- */

static qn_status start_daemon(qn_http *http, qn_http_socket *socket, qn_error *err)
{
    if (listen(socket->fd, SOMAXCONN) != 0) {
        return qn_fail(err, QN_RESOURCE, "%s port %u: %s: choose another with --port or --host", socket->host,
                       socket->port, strerror(errno));
    }
    http->daemon = MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL |
                                        MHD_USE_ITC,
                                    0, NULL, NULL, on_request, http, MHD_OPTION_LISTEN_SOCKET, socket->fd,
                                    MHD_OPTION_CONNECTION_LIMIT, (unsigned)http->options.max_connections + CROWD,
                                    MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEAD_BYTES, MHD_OPTION_NOTIFY_COMPLETED,
                                    on_completed, http, MHD_OPTION_NOTIFY_CONNECTION, on_connection, http,
                                    MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
    if (http->daemon == NULL) {
        return qn_fail(err, QN_RESOURCE, "HTTP server: could not start: raise the limits on threads and open files");
    }
    socket->fd = -1; /* the daemon's now */
    return QN_OK;
}

static void free_http(qn_http *http)
{
    qn_watch_free(http->watch);
    if (http->idle_fd >= 0) {
        close(http->idle_fd);
    }
    pthread_mutex_destroy(&http->mutex);
    qn_free(http);
}

qn_status qn_http_start(const qn_http_options *options, qn_http_socket *socket, qn_http **out, qn_error *err)
{
    qn_http *http = qn_alloc_zero(1, sizeof *http);
    if (http == NULL) {
        return qn_fail_memory(err, "HTTP server", sizeof *http);
    }
    http->options = *options;
    pthread_mutex_init(&http->mutex, NULL);
    http->idle_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    qn_status status = http->idle_fd >= 0
                           ? qn_watch_new(options->patience_s, &http->watch, err)
                           : qn_fail(err, QN_RESOURCE, "HTTP server: no file descriptor left: raise the limit on them");
    if (status == QN_OK) {
        status = start_daemon(http, socket, err);
    }
    if (status != QN_OK) {
        free_http(http);
        return status;
    }
    *out = http;
    return QN_OK;
}

void qn_http_drain(qn_http *http)
{
    if (is_draining(http)) {
        return;
    }
    MHD_socket fd = MHD_quiesce_daemon(http->daemon);
    if (fd >= 0) {
        shutdown(fd, SHUT_RDWR); /* closing alone would let it listen while a thread still polls it */
        close(fd);
    }
    pthread_mutex_lock(&http->mutex);
    http->draining = true;
    pthread_mutex_unlock(&http->mutex);
    count_exchange(http, 0);
}

int qn_http_idle_fd(const qn_http *http)
{
    return http->idle_fd;
}

void qn_http_stop(qn_http *http)
{
    if (http == NULL) {
        return;
    }
    MHD_stop_daemon(http->daemon);
    free_http(http);
}
