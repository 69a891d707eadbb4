/* The HTTP layer alone, with small handlers, over loopback: what its tests share.
 *
 * Routes: /echo (GET, POST) tells what it got, /open (POST) too, without admission; /below/ and /item/ lead to what is
 * behind them; /query tells a, b[] and c; /wait (GET) and /release (POST, which lets go of its body first) wait for
 * ever; /timeout; /stream. A request with X-Refuse is not admitted. */
#ifndef HTTP_FIXTURE_H
#define HTTP_FIXTURE_H

#include <stdatomic.h>
#include <stdint.h>

#include "server/http.h"

enum { MAX_BODY = 1000, ANSWER_BYTES = 1 << 16, MAX_CONNECTIONS = 64 };

/* What handlers share with the tests. */
typedef struct http_fixture {
    qn_http *http;
    uint16_t port;
    int never_fd;           /* never readable */
    int event_fd;           /* a handler tells that it saw its client go */
    int entered_fd;         /* a handler tells that it waits */
    atomic_int closed;      /* streams closed */
    atomic_int stream_goal; /* pieces of a stream */
} http_fixture;

#define CLOSE "Host: x\r\nConnection: close\r\n"

/* A server on a free port, in *state an http_fixture. */
int http_setup(void **state);
int http_teardown(void **state);

int dial(const http_fixture *f); /* a connected socket, the caller's */
void say(int fd, const char *text);
void read_all(int fd, char answer[ANSWER_BYTES]); /* up to the end of the connection, which it closes */
void ask(const http_fixture *f, const char *request, char answer[ANSWER_BYTES]);
void assert_says(const char *answer, const char *start, const char *part);

#endif
