#include "server/http_watch.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"

struct qn_watched {
    qn_watch *watch;
    int fd;
    _Atomic uint64_t deadline_us;
    qn_watched *previous, *next;
};

struct qn_watch {
    pthread_mutex_t mutex; /* of the list */
    qn_watched *first;
    pthread_t thread;
    unsigned patience_s;
    int stop_fd;
};

static void shut_overdue(qn_watch *watch)
{
    uint64_t now = qn_now_us();
    pthread_mutex_lock(&watch->mutex);
    for (qn_watched *at = watch->first; at != NULL; at = at->next) {
        if (atomic_load(&at->deadline_us) <= now) {
            shutdown(at->fd, SHUT_RDWR);
        }
    }
    pthread_mutex_unlock(&watch->mutex);
}

static void *watch_main(void *context)
{
    qn_watch *watch = context;
    struct pollfd stop = {.fd = watch->stop_fd, .events = POLLIN};
    while (poll(&stop, 1, 1000) <= 0) {
        shut_overdue(watch);
    }
    return NULL;
}

qn_status qn_watch_new(unsigned patience_s, qn_watch **out, qn_error *err)
{
    qn_watch *watch = qn_alloc_zero(1, sizeof *watch);
    if (watch == NULL) {
        return qn_fail_memory(err, "connections", sizeof *watch);
    }
    watch->patience_s = patience_s;
    pthread_mutex_init(&watch->mutex, NULL);
    watch->stop_fd = eventfd(0, EFD_CLOEXEC);
    qn_status status = watch->stop_fd < 0 ? qn_fail(err, QN_RESOURCE,
                                                    "server: no file descriptor is left: raise the limit on open files")
                                          : qn_thread_start(&watch->thread, "http-watch", watch_main, watch, err);
    if (status != QN_OK) {
        if (watch->stop_fd >= 0) {
            close(watch->stop_fd);
        }
        pthread_mutex_destroy(&watch->mutex);
        qn_free(watch);
        return status;
    }
    *out = watch;
    return QN_OK;
}

void qn_watch_free(qn_watch *watch)
{
    if (watch == NULL) {
        return;
    }
    eventfd_write(watch->stop_fd, 1);
    pthread_join(watch->thread, NULL);
    close(watch->stop_fd);
    pthread_mutex_destroy(&watch->mutex);
    qn_free(watch);
}

qn_watched *qn_watch_add(qn_watch *watch, int fd)
{
    qn_watched *connection = qn_alloc_zero(1, sizeof *connection);
    if (connection == NULL) {
        return NULL;
    }
    connection->watch = watch;
    connection->fd = fd;
    qn_watch_deadline(connection, qn_now_us(), 0);
    pthread_mutex_lock(&watch->mutex);
    connection->next = watch->first;
    if (watch->first != NULL) {
        watch->first->previous = connection;
    }
    watch->first = connection;
    pthread_mutex_unlock(&watch->mutex);
    return connection;
}

void qn_watch_remove(qn_watch *watch, qn_watched *connection)
{
    if (connection == NULL) {
        return;
    }
    pthread_mutex_lock(&watch->mutex);
    if (connection->previous != NULL) {
        connection->previous->next = connection->next;
    } else {
        watch->first = connection->next;
    }
    if (connection->next != NULL) {
        connection->next->previous = connection->previous;
    }
    pthread_mutex_unlock(&watch->mutex);
    qn_free(connection);
}

void qn_watch_deadline(qn_watched *connection, uint64_t since_us, size_t bytes)
{
    uint64_t seconds = connection->watch->patience_s + bytes / QN_WATCH_BYTES_PER_SECOND;
    atomic_store(&connection->deadline_us, since_us + seconds * 1000000);
}

void qn_watch_no_deadline(qn_watched *connection)
{
    atomic_store(&connection->deadline_us, UINT64_MAX);
}
