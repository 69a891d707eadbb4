/* Deadlines of connections: nobody holds one by being slow.
 *
 * A connection always has a moment until which its next step must be done: the head of a request within `patience`
 * seconds of the connection's start or last answer (which also ends idle ones); a body, and each piece of an answer,
 * within that time and a second more for each QN_WATCH_BYTES_PER_SECOND of it. Only while a handler works there is
 * none. One thread looks every second and shuts down the sockets of those past it: their own threads then see the
 * end of the connection. libmicrohttpd's own timeout is not used: it restarts with every byte, so that a byte a minute
 * holds a connection for ever, and it runs while a handler works. */
#ifndef QN_SERVER_HTTP_WATCH_H
#define QN_SERVER_HTTP_WATCH_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { QN_WATCH_BYTES_PER_SECOND = 1 << 15 };

typedef struct qn_watch qn_watch;
typedef struct qn_watched qn_watched; /* a connection */

/* Starts the thread. QN_RESOURCE: no memory, thread or descriptor. */
qn_status qn_watch_new(unsigned patience_s, qn_watch **out, qn_error *err);
void qn_watch_free(qn_watch *watch); /* joins it; NULL is fine */

/* The socket must stay open until it is removed. NULL when out of memory. */
qn_watched *qn_watch_add(qn_watch *watch, int fd);
void qn_watch_remove(qn_watch *watch, qn_watched *connection); /* NULL is fine */

/* The deadline of a step that began at since_us (qn_now_us) and moves so many bytes. Any thread. */
void qn_watch_deadline(qn_watched *connection, uint64_t since_us, size_t bytes);
void qn_watch_no_deadline(qn_watched *connection);

#endif
