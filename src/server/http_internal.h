/* What the parts of the HTTP layer share: http.c (connections and exchanges), http_body.c, http_reply.c, http_route.c,
 * http_cors.c, http_tls.c.
 */
#ifndef QN_SERVER_HTTP_INTERNAL_H
#define QN_SERVER_HTTP_INTERNAL_H

#include <microhttpd.h>
#include <pthread.h>

#include "server/http.h"
#include "server/http_watch.h"

struct qn_http {
    qn_http_options options;
    struct MHD_Daemon *daemon;
    qn_watch *watch;
    pthread_mutex_t mutex; /* of those below up to draining */
    size_t connections, active, body_bytes;
    bool draining;
    int idle_fd;
};

/* A request, from its head to the end of its answer. */
struct qn_http_exchange {
    qn_http *http;
    struct MHD_Connection *connection;
    qn_watched *watched;
    int client_fd;
    const char *method, *path; /* libmicrohttpd's, for as long as the exchange lasts */
    uint64_t started_us;
    char request_id[QN_HTTP_REQUEST_ID_MAX + 1];
    bool request_id_given; /* by the client, as a header */
    bool refused;          /* by admit, which filled the refusal */
    qn_http_reply refusal;
    size_t dropped_bytes; /* of a refused request's body */
    qn_buffer body;
    size_t counted_bytes; /* of the body, in http->body_bytes */
    qn_http_stream stream;
    qn_buffer piece; /* of the stream, sent up to piece_at */
    size_t piece_at;
    bool stream_over;
    bool has_unread; /* data behind the request, which a wait would else be woken by for ever */
};

bool qn_http_is_draining(qn_http *http);
bool qn_http_is_crowded(qn_http *http); /* more connections than it may have */

/* Looks at a request's head before its body is read: MHD_NO when it was refused and the connection ends. */
enum MHD_Result qn_http_check_body(qn_http_exchange *exchange);

/* Keeps a piece of the body. MHD_NO as above. */
enum MHD_Result qn_http_take_body(qn_http_exchange *exchange, const char *data, size_t bytes);

/* The route, or NULL with the reply filled: 404, 405, or what OPTIONS asks for. */
const qn_http_route *qn_http_find_route(qn_http_exchange *exchange, qn_http_reply *reply);

/* Is it for anybody? What has no route is not: who has no key learns nothing of the paths. */
bool qn_http_is_open(const qn_http_exchange *exchange);

/* Makes the reply an error of HTTP's own. */
void qn_http_reply_error(const qn_http_exchange *exchange, unsigned status, const char *message, qn_http_reply *reply);

/* Does a browser ask what a page of another origin may send? If so, the answer. */
bool qn_http_is_preflight(const qn_http_exchange *exchange);
void qn_http_answer_preflight(const qn_http_exchange *exchange, qn_http_reply *reply);

/* The headers that an answer of this status has for the page's origin. The values live as long as the exchange. */
enum { QN_HTTP_CORS_HEADERS = 8 };
typedef struct qn_http_header_item {
    const char *name, *value;
} qn_http_header_item;
typedef struct qn_http_headers {
    qn_http_header_item items[QN_HTTP_CORS_HEADERS];
    size_t count;
} qn_http_headers;
void qn_http_list_cors_headers(const qn_http_exchange *exchange, unsigned status, qn_http_headers *out);

/* Sends bytes past libmicrohttpd, and the end of all that will be sent; both through TLS where there is TLS. */
bool qn_http_send_raw(const qn_http_exchange *exchange, const char *data, size_t bytes);
void qn_http_send_end(const qn_http_exchange *exchange);

/* What a client sent behind its request and nobody has read: more requests, or, under TLS, that it will send nothing
 * more (close_notify), which it may do without ending the connection. */
typedef enum qn_http_unread { QN_HTTP_UNREAD_DATA, QN_HTTP_UNREAD_END } qn_http_unread;
qn_http_unread qn_http_peek(const qn_http_exchange *exchange);

/* False: the client had to show a certificate, and showed none or a bad one. */
bool qn_http_client_is_known(const qn_http_exchange *exchange);

/* Hands the reply to libmicrohttpd and frees what it holds. */
enum MHD_Result qn_http_send_reply(qn_http_exchange *exchange, qn_http_reply *reply);

#endif
