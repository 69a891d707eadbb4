/* HTTP/1.1 over libmicrohttpd: a listener, a thread a connection, a table of routes.
 *
 * Knows nothing of models or JSON. A handler runs on its connection's thread, with the whole body read, and may block:
 * then it waits with qn_http_wait, which also tells when the client hung up. A handler answers with a body or with a
 * stream that is pulled piece by piece, on the same thread.
 *
 * Limits: connections (while there are more, POST is answered 503, and answers close theirs), bytes of one body and of
 * all bodies being read, size of the head, and time: see http_watch.h. */
#ifndef QN_SERVER_HTTP_H
#define QN_SERVER_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "server/cors.h"
#include "server/tls.h"

typedef struct qn_http qn_http;
typedef struct qn_http_exchange qn_http_exchange;

enum { QN_HTTP_HOST_BYTES = 256, QN_HTTP_WAIT_MAX = 128, QN_HTTP_REQUEST_ID_MAX = 128 };

/* A bound socket that does not listen yet: taken before a model is loaded, so that a port in use is told at once. */
typedef struct qn_http_socket {
    int fd;
    char host[QN_HTTP_HOST_BYTES]; /* as given; an IPv6 address in brackets: ready for a URL */
    uint16_t port;                 /* the real one when 0 was asked for */
    bool loopback;                 /* only programs of this machine reach it */
} qn_http_socket;

/* QN_USAGE: a host that does not resolve; QN_RESOURCE: the port is taken or not ours to take. */
qn_status qn_http_bind(const char *host, uint16_t port, qn_http_socket *out, qn_error *err);
void qn_http_socket_close(qn_http_socket *socket); /* fd -1 is fine */

typedef struct qn_http_request {
    const char *method; /* "GET" also for HEAD */
    const char *path;   /* decoded, without the query */
    const char *rest;   /* what follows a prefix route's path */
    const char *body;   /* never NULL; valid until qn_http_release_body */
    size_t body_bytes;
    qn_http_exchange *exchange;
} qn_http_request;

/* A stream's next bytes are appended to `out`, at least one unless it is over; false ends it. */
typedef struct qn_http_stream {
    void *state;
    bool (*pull)(void *state, qn_http_exchange *exchange, qn_buffer *out);
    void (*close)(void *state); /* called exactly once, also when the client hung up before the first pull */
} qn_http_stream;

typedef struct qn_http_reply {
    unsigned status;
    const char *content_type; /* NULL: no body */
    qn_buffer body;           /* the reply owns it; not used with a stream */
    unsigned retry_after_s;   /* 0: no such header */
    bool asks_for_key;        /* WWW-Authenticate: Bearer */
    char allow[64];           /* "": no such header */
    qn_http_stream stream;    /* pull NULL: none */
} qn_http_reply;

typedef void (*qn_http_handler)(void *context, const qn_http_request *request, qn_http_reply *reply);

typedef struct qn_http_route {
    const char *method; /* "GET" answers HEAD too */
    const char *path;
    bool prefix;       /* path is the beginning, something must follow */
    const char *below; /* with prefix: one part of a path follows, and then this, such as "/items"; NULL: anything */
    bool open;         /* to everybody: admit is not asked */
    qn_http_handler handle;
} qn_http_route;

typedef struct qn_http_options {
    const qn_http_route *routes; /* live as long as the qn_http */
    size_t route_count;
    void *context; /* for handlers, and for admit */
    /* Asked at a request's head, before its body is read, unless its route is open or its method OPTIONS. false: the
     * reply is filled and will be the answer; a body is read and dropped. NULL: all are admitted. */
    bool (*admit)(void *context, const qn_http_request *head, qn_http_reply *reply);
    /* Writes the body of an error that HTTP itself asks for: 403, 404, 405, 413, 415, 503. `path` is the request's. */
    void (*write_error)(unsigned status, const char *path, const char *message, qn_buffer *out);
    size_t max_connections;
    size_t max_connections_each; /* of one address; more are closed without a word. 0: no limit */
    size_t max_body_bytes;       /* of one request */
    size_t max_all_body_bytes;   /* of all requests at one time */
    unsigned patience_s;         /* http_watch.h */
    const qn_cors *cors;         /* NULL: for pages of its own origin only. Lives as long as the qn_http */
    const qn_tls *tls;           /* NULL: plain HTTP. Lives as long as the qn_http */
} qn_http_options;

/* Listens and serves until qn_http_stop. Takes the socket. */
qn_status qn_http_start(const qn_http_options *options, qn_http_socket *socket, qn_http **out, qn_error *err);

/* Takes no new connections; answers close theirs. Again does nothing. Not from two threads at once. */
void qn_http_drain(qn_http *http);

/* Readable once qn_http_drain was called and no request is being answered any more. */
int qn_http_idle_fd(const qn_http *http);

/* Ends all connections, joins their threads and frees. Handlers must have been made to return first. NULL is fine. */
void qn_http_stop(qn_http *http);

/* A header of the request by its name, whatever the case; of several the first, NULL when there is none. */
const char *qn_http_header(const qn_http_exchange *exchange, const char *name);

/* A parameter of the request's query, decoded; of several the first, NULL when there is none. "" when it has no value.
 */
const char *qn_http_query(const qn_http_exchange *exchange, const char *name);

/* The request's id, which every answer tells as X-Request-Id, so that a client, a proxy and a log can speak of the same
 * request: the client's own X-Request-Id where it is 1 to QN_HTTP_REQUEST_ID_MAX visible ASCII characters without
 * quotes and backslashes, else a random one. */
const char *qn_http_request_id(const qn_http_exchange *exchange);

/* For a handler: takes the id that the request names in its body, unless the client sent one as a header. False: the
 * text is no id. */
bool qn_http_name_request(qn_http_exchange *exchange, const char *id);

/* A number for the host that the request came from: its IPv4 address, or the first half of an IPv6 one, all of which
 * belongs to one customer. */
uint64_t qn_http_client(const qn_http_exchange *exchange);

/* Frees the request's body, for a handler that has read it and goes on for long; it counts no more among all bodies. */
void qn_http_release_body(qn_http_exchange *exchange);

typedef enum qn_http_event { QN_HTTP_NEWS, QN_HTTP_TIMEOUT, QN_HTTP_GONE } qn_http_event;

/* Waits until one of `count` descriptors (at most QN_HTTP_WAIT_MAX; -1: none) is readable, the time is over, or the
 * client hung up. For handlers and streams. */
qn_http_event qn_http_wait(qn_http_exchange *exchange, const int *fds, size_t count, int timeout_ms);

#endif
