/* Bodies of requests: read into memory within bounds, or refused.
 *
 * libmicrohttpd can't answer in the middle of a body; a body that is too large gets its answer sent past it
 * here, and the connection is closed once the client had its time to read it (refuse_body). */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "server/http_internal.h"

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

/* Reads on to the client's end, or until the watch shuts the socket: closing with unread bytes would reset the
 * connection and could destroy the answer before the client has read it. */
static void linger(qn_http_exchange *exchange)
{
    static const int forever = -1;
    char sink[16 << 10];
    qn_watch_deadline(exchange->watched, qn_now_us(), 0);
    qn_http_send_end(exchange);
    for (;;) {
        ssize_t got = recv(exchange->client_fd, sink, sizeof sink, 0);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
            return;
        }
        struct pollfd readable = {.fd = exchange->client_fd, .events = POLLIN};
        poll(&readable, 1, forever);
    }
}

/* Answers before the body has come, past libmicrohttpd. MHD_NO then closes the connection. */
static enum MHD_Result refuse_body(qn_http_exchange *exchange, unsigned status, const char *reason, const char *message)
{
    qn_buffer body = {0}, head = {0};
    exchange->http->options.write_error(status, exchange->path, message, &body);
    qn_buffer_format(&head,
                     "HTTP/1.1 %u %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
                     "X-Request-Id: %s\r\nRequest-Id: %s\r\n%sConnection: close\r\n",
                     status, reason, body.size, exchange->request_id, exchange->request_id,
                     status == 503 ? "Retry-After: 1\r\n" : "");
    qn_http_headers cors;
    qn_http_list_cors_headers(exchange, status, &cors);
    for (size_t i = 0; i < cors.count; i++) {
        qn_buffer_format(&head, "%s: %s\r\n", cors.items[i].name, cors.items[i].value);
    }
    qn_buffer_text(&head, "\r\n");
    if (!head.failed && !body.failed && qn_http_send_raw(exchange, head.data, head.size) &&
        qn_http_send_raw(exchange, body.data, body.size)) {
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

enum MHD_Result qn_http_take_body(qn_http_exchange *exchange, const char *data, size_t bytes)
{
    if (bytes > exchange->http->options.max_body_bytes - exchange->body.size - exchange->dropped_bytes) {
        return refuse_large(exchange);
    }
    if (exchange->refused) {
        exchange->dropped_bytes += bytes;
        qn_watch_deadline(exchange->watched, exchange->started_us, exchange->dropped_bytes);
        return MHD_YES;
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

/* A compressed body would be told as broken JSON. */
static bool is_encoded(const qn_http_exchange *exchange)
{
    const char *encoding = qn_http_header(exchange, MHD_HTTP_HEADER_CONTENT_ENCODING);
    return encoding != NULL && encoding[0] != '\0' && strcasecmp(encoding, "identity") != 0;
}

enum MHD_Result qn_http_check_body(qn_http_exchange *exchange)
{
    if (body_end_is_unclear(exchange)) {
        return refuse_framing(exchange);
    }
    if (is_encoded(exchange)) {
        return refuse_body(exchange, 415, "Unsupported Media Type",
                           "body: a Content-Encoding that is not known here: send it as it is");
    }
    return announces_too_much(exchange) ? refuse_large(exchange) : MHD_YES;
}
