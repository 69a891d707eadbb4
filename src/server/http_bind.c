/* Taking a port before anything listens on it. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/http.h"

/* What the kernel may hold for a client that does not read: its own limit would be megabytes for each. */
enum { SEND_BUFFER_BYTES = 256 << 10 };

static bool is_loopback(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET6) {
        return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
    }
    return address->ss_family == AF_INET &&
           ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> IN_CLASSA_NSHIFT == IN_LOOPBACKNET;
}

static void name_socket(const char *host, int fd, qn_http_socket *out)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    out->port = 0;
    out->loopback = false;
    if (getsockname(fd, (struct sockaddr *)&address, &length) == 0) {
        out->port = address.ss_family == AF_INET6 ? ntohs(((struct sockaddr_in6 *)&address)->sin6_port)
                                                  : ntohs(((struct sockaddr_in *)&address)->sin_port);
        out->loopback = is_loopback(&address);
    }
    bool bare_ipv6 = strchr(host, ':') != NULL && host[0] != '[';
    snprintf(out->host, sizeof out->host, bare_ipv6 ? "[%s]" : "%s", host);
}

static int bind_address(const struct addrinfo *address)
{
    int fd = socket(address->ai_family, address->ai_socktype | SOCK_CLOEXEC, address->ai_protocol);
    if (fd < 0) {
        return -1;
    }
    const int yes = 1, send_bytes = SEND_BUFFER_BYTES; /* connections inherit it */
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send_bytes, sizeof send_bytes);
    if (bind(fd, address->ai_addr, address->ai_addrlen) == 0) {
        return fd;
    }
    int kept = errno;
    close(fd);
    errno = kept;
    return -1;
}

qn_status qn_http_bind(const char *host, uint16_t port, qn_http_socket *out, qn_error *err)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char service[8];
    snprintf(service, sizeof service, "%u", port);
    out->fd = -1;
    if (strlen(host) + 3 > sizeof out->host) {
        return qn_fail_field(err, QN_USAGE, "host", "--host: too long: give a name or an address");
    }
    int failed = getaddrinfo(host, service, &hints, &found);
    if (failed != 0) {
        return qn_fail_field(err, QN_USAGE, "host", "--host: %s: %s: give an address of this machine", host,
                             gai_strerror(failed));
    }
    for (const struct addrinfo *at = found; at != NULL && out->fd < 0; at = at->ai_next) {
        out->fd = bind_address(at);
    }
    int reason = errno;
    freeaddrinfo(found);
    if (out->fd < 0) {
        return qn_fail_field(err, QN_RESOURCE, "port", "%s port %u: %s: choose another with --port or --host", host,
                             port, strerror(reason));
    }
    name_socket(host, out->fd, out);
    return QN_OK;
}

void qn_http_socket_close(qn_http_socket *socket)
{
    if (socket->fd >= 0) {
        close(socket->fd);
        socket->fd = -1;
    }
}
