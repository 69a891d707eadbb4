/* Open-file-description locks, which belong to the open file and not to the process: closing another descriptor of the
 * same file does not lose them. A file that was removed by the time its lock was got locks nothing any more, so it is
 * opened anew. */
#include "base/file_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/memory.h"

struct qn_file_lock {
    int fd;
};

static bool is_still_there(const char *path, int fd)
{
    struct stat named, opened;
    return stat(path, &named) == 0 && fstat(fd, &opened) == 0 && named.st_dev == opened.st_dev &&
           named.st_ino == opened.st_ino;
}

/* "pid N on HOST" as the holder left it; "another process" where it has not yet. */
static void read_holder(int fd, char holder[QN_LOCK_HOLDER_BYTES])
{
    ssize_t got = pread(fd, holder, QN_LOCK_HOLDER_BYTES - 1, 0);
    holder[got > 0 ? got : 0] = '\0';
    holder[strcspn(holder, "\n")] = '\0';
    if (holder[0] == '\0')
        snprintf(holder, QN_LOCK_HOLDER_BYTES, "another process");
}

/* Only for messages, so that it may fail. */
static void write_holder(int fd)
{
    char host[64] = "", text[QN_LOCK_HOLDER_BYTES];
    gethostname(host, sizeof host - 1);
    int bytes = snprintf(text, sizeof text, "pid %ld on %s\n", (long)getpid(), host);
    if (ftruncate(fd, 0) == 0) {
        ssize_t written = pwrite(fd, text, (size_t)bytes, 0);
        (void)written;
    }
}

/* The lock itself: 0, or errno. */
static int lock(int fd, qn_lock_mode mode)
{
    struct flock range = {.l_type = mode == QN_LOCK_SHARED ? F_RDLCK : F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(fd, F_OFD_SETLK, &range) == 0 ? 0 : errno;
}

static qn_status open_locked(const char *path, qn_lock_mode mode, int *out, char holder[QN_LOCK_HOLDER_BYTES],
                             qn_error *err)
{
    for (;;) {
        int fd = qn_fault_hit(QN_FAULT_WRITE) ? (errno = EIO, -1)
                                              : open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (fd < 0)
            return qn_fail_errno(err, path, "open", errno);
        int code = qn_fault_hit(QN_FAULT_WRITE) ? ENOLCK : lock(fd, mode);
        if (code == 0 && is_still_there(path, fd)) {
            *out = fd;
            return QN_OK;
        }
        if (code == EAGAIN || code == EACCES)
            read_holder(fd, holder);
        close(fd);
        if (code == EAGAIN || code == EACCES)
            return QN_OK;
        if (code != 0)
            return qn_fail(err, QN_RESOURCE,
                           "%s: cannot be locked (%s): use a file system with locks, with its lock service running",
                           path, strerror(code));
    }
}

qn_status qn_file_lock_try(const char *path, qn_lock_mode mode, qn_file_lock **out, char holder[QN_LOCK_HOLDER_BYTES],
                           qn_error *err)
{
    *out = NULL;
    qn_file_lock *taken = qn_alloc(1, sizeof *taken);
    if (!taken)
        return qn_fail_memory(err, path, sizeof *taken);
    taken->fd = -1;
    qn_status status = open_locked(path, mode, &taken->fd, holder, err);
    if (status != QN_OK || taken->fd < 0) {
        qn_free(taken);
        return status;
    }
    if (mode == QN_LOCK_EXCLUSIVE)
        write_holder(taken->fd);
    *out = taken;
    return QN_OK;
}

/* Not the kernel's own waiting: a signal that came just before it would not end it. */
qn_status qn_file_lock_wait(const char *path, qn_lock_mode mode, const atomic_bool *stop, qn_file_lock **out,
                            qn_error *err)
{
    enum { PAUSE_NS = 20000000 };
    for (;;) {
        char holder[QN_LOCK_HOLDER_BYTES];
        qn_status status = qn_file_lock_try(path, mode, out, holder, err);
        if (status != QN_OK || *out)
            return status;
        if (stop && atomic_load(stop))
            return qn_fail(err, QN_CANCELLED, "%s: stopped while %s has the lock: run again", path, holder);
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    }
}

void qn_file_lock_release(qn_file_lock *lock)
{
    if (!lock)
        return;
    close(lock->fd);
    qn_free(lock);
}
