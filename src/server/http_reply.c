/* Answers: a body or a stream, its headers, and their hand-over to libmicrohttpd. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "server/http_internal.h"

enum { PIECE_BYTES = 16 << 10 };

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
    bool fine = add_header(response, "X-Request-Id", exchange->request_id);
    fine = add_header(response, "Request-Id", exchange->request_id) && fine; /* where Anthropic's clients look */
    char number[16];
    if (reply->content_type != NULL) {
        fine = add_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, reply->content_type) && fine;
    }
    if (reply->retry_after_s > 0) {
        snprintf(number, sizeof number, "%u", reply->retry_after_s);
        fine = add_header(response, MHD_HTTP_HEADER_RETRY_AFTER, number) && fine;
    }
    if (reply->asks_for_key) {
        fine = add_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer") && fine;
    }
    if (reply->allow[0] != '\0') {
        fine = add_header(response, MHD_HTTP_HEADER_ALLOW, reply->allow) && fine;
    }
    qn_http_headers cors;
    qn_http_list_cors_headers(exchange, reply->status, &cors);
    for (size_t i = 0; i < cors.count; i++) {
        fine = add_header(response, cors.items[i].name, cors.items[i].value) && fine;
    }
    if (exchange->stream.pull != NULL) { /* nginx would else gather a stream before it passes it on */
        fine = add_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache") && fine;
        fine = add_header(response, "X-Accel-Buffering", "no") && fine;
    }
    if (qn_http_is_draining(exchange->http) || qn_http_is_crowded(exchange->http)) {
        fine = add_header(response, MHD_HTTP_HEADER_CONNECTION, "close") && fine;
    }
    return fine;
}

enum MHD_Result qn_http_send_reply(qn_http_exchange *exchange, qn_http_reply *reply)
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

void qn_http_reply_error(const qn_http_exchange *exchange, unsigned status, const char *message, qn_http_reply *reply)
{
    reply->status = status;
    reply->content_type = "application/json";
    exchange->http->options.write_error(status, exchange->path, message, &reply->body);
}
