/* What libmicrohttpd leaves to us on a TLS connection: answers that go past it, and clients' certificates. */
#include <errno.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "server/http_internal.h"

enum { SEND_WAIT_MS = 5000 };

static gnutls_session_t session_of(const qn_http_exchange *exchange)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(exchange->connection,
                                                                   MHD_CONNECTION_INFO_GNUTLS_SESSION);
    return info != NULL ? info->tls_session : NULL;
}

typedef enum sending { SENT, BLOCKED, BROKEN } sending;

static sending send_some(const qn_http_exchange *exchange, gnutls_session_t session, const char *data, size_t *bytes)
{
    ssize_t sent;
    bool again;
    if (session != NULL) {
        sent = gnutls_record_send(session, data, *bytes);
        again = sent == GNUTLS_E_AGAIN || sent == GNUTLS_E_INTERRUPTED;
    } else {
        sent = send(exchange->client_fd, data, *bytes, MSG_NOSIGNAL);
        again = sent < 0 && (errno == EAGAIN || errno == EINTR);
    }
    if (sent >= 0) {
        *bytes = (size_t)sent;
        return SENT;
    }
    return again ? BLOCKED : BROKEN;
}

bool qn_http_send_raw(const qn_http_exchange *exchange, const char *data, size_t bytes)
{
    gnutls_session_t session = session_of(exchange);
    while (bytes > 0) {
        size_t moved = bytes;
        struct pollfd writable = {.fd = exchange->client_fd, .events = POLLOUT};
        switch (send_some(exchange, session, data, &moved)) {
        case SENT:
            data += moved;
            bytes -= moved;
            break;
        case BLOCKED:
            if (poll(&writable, 1, SEND_WAIT_MS) != 0) {
                break;
            }
            return false;
        case BROKEN:
            return false;
        }
    }
    return true;
}

void qn_http_send_end(const qn_http_exchange *exchange)
{
    gnutls_session_t session = session_of(exchange);
    if (session != NULL) {
        gnutls_bye(session, GNUTLS_SHUT_WR); /* where it fails, the end of the connection says the same */
    }
    shutdown(exchange->client_fd, SHUT_WR);
}

/* Records stand whole in the socket while nothing is read from it. A close_notify is an alert, which TLS 1.2 says in
 * the open (RFC 5246, 6.2.1); TLS 1.3 shows only its length: two bytes, the type's one and a tag of 16 (RFC 8446, 5.2),
 * which data could have too, but not a request. */
qn_http_unread qn_http_peek(const qn_http_exchange *exchange)
{
    enum { ALERT = 21, APPLICATION_DATA = 23, HIDDEN_ALERT_BYTES = 2 + 1 + 16 };
    gnutls_session_t session = session_of(exchange);
    unsigned char head[5]; /* type, version, length */
    ssize_t got = recv(exchange->client_fd, head, sizeof head, MSG_PEEK | MSG_DONTWAIT);
    if (got == 0) {
        return QN_HTTP_UNREAD_END;
    }
    if (session == NULL || got < (ssize_t)sizeof head) {
        return QN_HTTP_UNREAD_DATA;
    }
    bool hides = gnutls_protocol_get_version(session) == GNUTLS_TLS1_3;
    bool alert = hides ? head[0] == APPLICATION_DATA && head[3] == 0 && head[4] == HIDDEN_ALERT_BYTES
                       : head[0] == ALERT && head[3] == 0;
    return alert ? QN_HTTP_UNREAD_END : QN_HTTP_UNREAD_DATA;
}

static bool is_good(gnutls_session_t session)
{
    gnutls_typed_vdata_st purpose = {.type = GNUTLS_DT_KEY_PURPOSE_OID,
                                     .data = (unsigned char *)(uintptr_t)GNUTLS_KP_TLS_WWW_CLIENT};
    unsigned problems = 0;
    return gnutls_certificate_verify_peers(session, &purpose, 1, &problems) == 0 && problems == 0;
}

bool qn_http_client_is_known(const qn_http_exchange *exchange)
{
    const qn_tls *tls = exchange->http->options.tls;
    gnutls_session_t session = session_of(exchange);
    if (tls == NULL || tls->clients == QN_TLS_CLIENTS_UNKNOWN) {
        return true;
    }
    if (session == NULL) {
        return false;
    }
    unsigned count = 0;
    bool shown = gnutls_certificate_get_peers(session, &count) != NULL && count > 0;
    return shown ? is_good(session) : tls->clients == QN_TLS_CLIENTS_OPTIONAL;
}
