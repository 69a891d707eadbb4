/* libmicrohttpd with a thread a connection, because a handler's work is to wait: for its turn, for a prompt, for the
 * next token. A request is an exchange from its head to NOTIFY_COMPLETED, which libmicrohttpd calls exactly once for
 * each, whatever ends it. */
#include "server/http.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/random.h"
#include "server/http_internal.h"

enum {
    HEAD_BYTES = 64 << 10,
    CROWD = 1024 /* connections beyond the limit that are told so; more are closed without a word */
};

/* ---- counting ---- */

bool qn_http_is_draining(qn_http *http)
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

bool qn_http_is_crowded(qn_http *http)
{
    pthread_mutex_lock(&http->mutex);
    bool crowded = http->connections > http->options.max_connections;
    pthread_mutex_unlock(&http->mutex);
    return crowded;
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

static bool is_request_id(const char *text)
{
    size_t length = strlen(text);
    for (size_t i = 0; i < length; i++) {
        if (text[i] <= ' ' || text[i] > '~' || text[i] == '"' || text[i] == '\\') {
            return false;
        }
    }
    return length > 0 && length <= QN_HTTP_REQUEST_ID_MAX;
}

static void start_request_id(qn_http_exchange *exchange)
{
    const char *given = qn_http_header(exchange, "X-Request-Id");
    exchange->request_id_given = given != NULL && is_request_id(given);
    if (exchange->request_id_given) {
        snprintf(exchange->request_id, sizeof exchange->request_id, "%s", given);
    } else {
        snprintf(exchange->request_id, sizeof exchange->request_id, "%016" PRIx64 "%016" PRIx64, qn_random_seed(),
                 qn_random_seed());
    }
}

const char *qn_http_request_id(const qn_http_exchange *exchange)
{
    return exchange->request_id;
}

bool qn_http_name_request(qn_http_exchange *exchange, const char *id)
{
    if (!is_request_id(id)) {
        return false;
    }
    if (!exchange->request_id_given) {
        snprintf(exchange->request_id, sizeof exchange->request_id, "%s", id);
    }
    return true;
}

/* A proxy may send the whole address (RFC 9112, 3.2.2). */
static const char *path_of(const char *target)
{
    size_t scheme = strncasecmp(target, "http://", 7) == 0 ? 7 : strncasecmp(target, "https://", 8) == 0 ? 8 : 0;
    const char *path = scheme > 0 ? strchr(target + scheme, '/') : target;
    return path != NULL ? path : "/";
}

static qn_http_exchange *new_exchange(qn_http *http, struct MHD_Connection *connection, const char *method,
                                      const char *path)
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
    exchange->path = path_of(path);
    exchange->started_us = qn_now_us();
    start_request_id(exchange);
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
    qn_buffer_free(&exchange->refusal.body);
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

/* Did the client go, of what poll says of its socket? */
static bool is_gone(qn_http_exchange *exchange, short events)
{
    if ((events & ~POLLIN) != 0) {
        return true;
    }
    if (events == 0) {
        return false;
    }
    exchange->has_unread = qn_http_peek(exchange) == QN_HTTP_UNREAD_DATA;
    return !exchange->has_unread;
}

qn_http_event qn_http_wait(qn_http_exchange *exchange, const int *fds, size_t count, int timeout_ms)
{
    struct pollfd polled[1 + QN_HTTP_WAIT_MAX];
    assert(count <= QN_HTTP_WAIT_MAX);
    bool watch_unread = exchange->http->options.tls != NULL && !exchange->has_unread;
    polled[0] = (struct pollfd){.fd = exchange->client_fd, .events = POLLRDHUP | (watch_unread ? POLLIN : 0)};
    for (size_t i = 0; i < count; i++) {
        polled[1 + i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
    }
    int ready = poll(polled, 1 + count, timeout_ms);
    if (ready <= 0) {
        return QN_HTTP_TIMEOUT; /* an interrupted wait looks again like any other */
    }
    if (is_gone(exchange, polled[0].revents)) {
        return QN_HTTP_GONE;
    }
    bool only_unread = ready == 1 && polled[0].revents != 0;
    return only_unread ? qn_http_wait(exchange, fds, count, timeout_ms) : QN_HTTP_NEWS;
}

/* ---- requests ---- */

const char *qn_http_header(const qn_http_exchange *exchange, const char *name)
{
    return MHD_lookup_connection_value(exchange->connection, MHD_HEADER_KIND, name);
}

const char *qn_http_query(const qn_http_exchange *exchange, const char *name)
{
    const char *value = NULL;
    size_t bytes = 0;
    if (MHD_lookup_connection_value_n(exchange->connection, MHD_GET_ARGUMENT_KIND, name, strlen(name), &value,
                                      &bytes) != MHD_YES) {
        return NULL;
    }
    return value != NULL ? value : "";
}

uint64_t qn_http_client(const qn_http_exchange *exchange)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(exchange->connection,
                                                                   MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    uint64_t client = 0;
    if (info == NULL || info->client_addr == NULL) {
        return client;
    }
    struct sockaddr_storage address = {0};
    if (info->client_addr->sa_family == AF_INET6) {
        memcpy(&address, info->client_addr, sizeof(struct sockaddr_in6));
        const struct in6_addr *in6 = &((const struct sockaddr_in6 *)&address)->sin6_addr;
        bool mapped = IN6_IS_ADDR_V4MAPPED(in6);
        memcpy(&client, in6->s6_addr + (mapped ? 12 : 0), mapped ? 4 : 8);
    } else if (info->client_addr->sa_family == AF_INET) {
        memcpy(&address, info->client_addr, sizeof(struct sockaddr_in));
        memcpy(&client, &((const struct sockaddr_in *)&address)->sin_addr, 4);
    }
    return client;
}

static qn_http_request request_of(qn_http_exchange *exchange, const qn_http_route *route)
{
    return (qn_http_request){
        .method = exchange->method,
        .path = exchange->path,
        .rest = route != NULL ? exchange->path + strlen(route->path) : "",
        .body = qn_buffer_string(&exchange->body),
        .body_bytes = exchange->body.size,
        .exchange = exchange,
    };
}

static bool is_admitted(qn_http_exchange *exchange)
{
    const qn_http_options *options = &exchange->http->options;
    if (!qn_http_client_is_known(exchange)) {
        qn_http_reply_error(exchange, 403, "certificate: the server must know its clients: show one that it accepts",
                            &exchange->refusal);
        return false;
    }
    if (options->admit == NULL || strcmp(exchange->method, "OPTIONS") == 0 || qn_http_is_open(exchange)) {
        return true;
    }
    const qn_http_request head = request_of(exchange, NULL);
    return options->admit(options->context, &head, &exchange->refusal);
}

static enum MHD_Result refuse(qn_http_exchange *exchange)
{
    qn_http_reply reply = exchange->refusal;
    exchange->refusal = (qn_http_reply){0};
    return qn_http_send_reply(exchange, &reply);
}

static enum MHD_Result answer(qn_http_exchange *exchange)
{
    qn_http *http = exchange->http;
    qn_http_reply reply = {0};
    if (qn_http_is_preflight(exchange)) {
        qn_http_answer_preflight(exchange, &reply);
        return qn_http_send_reply(exchange, &reply);
    }
    const qn_http_route *route = qn_http_find_route(exchange, &reply);
    if (route != NULL && strcmp(route->method, "POST") == 0 && qn_http_is_crowded(http)) {
        reply.allow[0] = '\0';
        qn_http_reply_error(exchange, 503, "server: it has as many connections as it may: send it again later", &reply);
        reply.retry_after_s = 1;
    } else if (route != NULL) {
        reply.allow[0] = '\0';
        const qn_http_request request = request_of(exchange, route);
        qn_watch_no_deadline(exchange->watched);
        route->handle(http->options.context, &request, &reply);
    }
    qn_http_release_body(exchange);
    return qn_http_send_reply(exchange, &reply);
}

/* Called for the head, for each piece of the body, and at its end. */
static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *url, const char *method,
                                  const char *version, const char *data, size_t *bytes, void **request)
{
    (void)version;
    qn_http *http = context;
    qn_http_exchange *exchange = *request;
    if (exchange == NULL) {
        exchange = new_exchange(http, connection, method, url);
        if (exchange == NULL) {
            return MHD_NO;
        }
        *request = exchange;
        exchange->refused = !is_admitted(exchange);
        return qn_http_check_body(exchange);
    }
    if (*bytes > 0) {
        enum MHD_Result result = qn_http_take_body(exchange, data, *bytes);
        *bytes = 0;
        return result;
    }
    return exchange->refused ? refuse(exchange) : answer(exchange);
}

/* ---- the server ---- */

enum { TLS_OPTIONS = 5 };

/* Nothing without TLS. */
static void list_tls_options(const qn_tls *tls, struct MHD_OptionItem out[TLS_OPTIONS])
{
    static char priorities[] = "NORMAL:-VERS-TLS-ALL:+VERS-TLS1.3:+VERS-TLS1.2";
    size_t count = 0;
    if (tls != NULL) {
        out[count++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_CERT, 0, tls->certificate};
        out[count++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_KEY, 0, tls->key};
        out[count++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_PRIORITIES, 0, priorities};
        if (tls->client_ca != NULL) {
            out[count++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_TRUST, 0, tls->client_ca};
        }
    }
    out[count] = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
}

static qn_status start_daemon(qn_http *http, qn_http_socket *socket, qn_error *err)
{
    if (listen(socket->fd, SOMAXCONN) != 0) {
        return qn_fail(err, QN_RESOURCE, "%s port %u: %s: choose another with --port or --host", socket->host,
                       socket->port, strerror(errno));
    }
    struct MHD_OptionItem tls[TLS_OPTIONS];
    list_tls_options(http->options.tls, tls);
    http->daemon = MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL |
                                        MHD_USE_ITC | (http->options.tls != NULL ? MHD_USE_TLS : 0),
                                    0, NULL, NULL, on_request, http, MHD_OPTION_LISTEN_SOCKET, socket->fd,
                                    MHD_OPTION_CONNECTION_LIMIT, (unsigned)http->options.max_connections + CROWD,
                                    MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEAD_BYTES, MHD_OPTION_NOTIFY_COMPLETED,
                                    on_completed, http, MHD_OPTION_NOTIFY_CONNECTION, on_connection, http,
                                    MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
                                    (unsigned)http->options.max_connections_each, MHD_OPTION_ARRAY, tls,
                                    MHD_OPTION_END);
    if (http->daemon == NULL && http->options.tls != NULL && MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES) {
        return qn_fail_field(err, QN_USAGE, "ssl-certfile", "--ssl-certfile: this libmicrohttpd was built without TLS");
    }
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
    if (qn_http_is_draining(http)) {
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
