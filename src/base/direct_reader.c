/* O_DIRECT wants offset, length and memory aligned, so a request is widened to whole blocks and what was asked for lies
 * somewhere inside of the buffer. Some file systems take the flag at open and fail at the first read: hence a read at
 * open, to know. */
#include "base/direct_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/size.h"

struct qn_direct_reader {
    char *path;
    int fd;
    qn_file_identity identity;
    bool buffered;
};

size_t qn_direct_buffer_bytes(size_t bytes)
{
    size_t blocks = bytes / QN_DIRECT_ALIGNMENT + 2; /* one more for each end that is not aligned */
    return blocks > SIZE_MAX / QN_DIRECT_ALIGNMENT ? SIZE_MAX : blocks * QN_DIRECT_ALIGNMENT;
}

/* Mapped, so that the pages are aligned and go back to the system when they are released. */
void *qn_direct_buffer_new(size_t buffer_bytes)
{
    if (buffer_bytes == SIZE_MAX || qn_fault_hit(QN_FAULT_ALLOC))
        return NULL;
    void *buffer = mmap(NULL, buffer_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return buffer == MAP_FAILED ? NULL : buffer;
}

void qn_direct_buffer_free(void *buffer, size_t buffer_bytes)
{
    if (buffer)
        munmap(buffer, buffer_bytes);
}

static bool direct_reads_work(int fd)
{
    void *block = qn_direct_buffer_new(QN_DIRECT_ALIGNMENT);
    if (!block)
        return false;
    bool work = pread(fd, block, QN_DIRECT_ALIGNMENT, 0) >= 0;
    qn_direct_buffer_free(block, QN_DIRECT_ALIGNMENT);
    return work;
}

/* Whatever fails here is tried again without the flag, and fails there with its reason. */
static int open_direct(const char *path)
{
    int fd = qn_fault_hit(QN_FAULT_READ) ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_DIRECT);
    if (fd >= 0 && !direct_reads_work(fd)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* Opens reader->path and tells its size. */
static qn_status open_file(qn_direct_reader *reader, qn_error *err)
{
    reader->fd = open_direct(reader->path);
    reader->buffered = reader->fd < 0;
    if (reader->buffered)
        reader->fd = qn_fault_hit(QN_FAULT_READ) ? (errno = EIO, -1)
                                                 : open(reader->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (reader->fd < 0)
        return qn_fail_errno(err, reader->path, "open", errno);
    struct stat info;
    if (qn_fault_hit(QN_FAULT_READ) ? (errno = EIO, true) : fstat(reader->fd, &info) != 0)
        return qn_fail_errno(err, reader->path, "examine", errno);
    if (!S_ISREG(info.st_mode))
        return qn_fail(err, QN_BAD_INPUT, "%s: is not a regular file: name a file", reader->path);
    /* it was to keep the open from waiting for the other end of a pipe; io_uring would take it for more */
    int flags = fcntl(reader->fd, F_GETFL);
    if (flags < 0 || fcntl(reader->fd, F_SETFL, flags & ~O_NONBLOCK) < 0)
        return qn_fail_errno(err, reader->path, "examine", errno);
    reader->identity = qn_file_identity_of(&info);
    return QN_OK;
}

qn_status qn_direct_reader_open(const char *path, qn_direct_reader **out, qn_error *err)
{
    qn_direct_reader *reader = qn_alloc_zero(1, sizeof *reader);
    if (!reader)
        return qn_fail_memory(err, path, sizeof *reader);
    reader->fd = -1;
    reader->path = qn_strdup(path);
    qn_status status = reader->path ? open_file(reader, err) : qn_fail_memory(err, path, strlen(path) + 1);
    if (status != QN_OK) {
        qn_direct_reader_close(reader);
        return status;
    }
    *out = reader;
    return QN_OK;
}

void qn_direct_reader_close(qn_direct_reader *reader)
{
    if (!reader)
        return;
    if (reader->fd >= 0)
        close(reader->fd);
    qn_free(reader->path);
    qn_free(reader);
}

const char *qn_direct_reader_path(const qn_direct_reader *reader)
{
    return reader->path;
}

int qn_direct_reader_descriptor(const qn_direct_reader *reader)
{
    return reader->fd;
}

uint64_t qn_direct_reader_bytes(const qn_direct_reader *reader)
{
    return reader->identity.bytes;
}

const qn_file_identity *qn_direct_reader_identity(const qn_direct_reader *reader)
{
    return &reader->identity;
}

bool qn_direct_reader_is_buffered(const qn_direct_reader *reader)
{
    return reader->buffered;
}

size_t qn_direct_bytes_before(uint64_t offset)
{
    return (size_t)(offset % QN_DIRECT_ALIGNMENT);
}

size_t qn_direct_widened(uint64_t offset, size_t bytes)
{
    return qn_ceil_div(qn_direct_bytes_before(offset) + bytes, QN_DIRECT_ALIGNMENT) * QN_DIRECT_ALIGNMENT;
}

qn_status qn_direct_fail_cut_off(const qn_direct_reader *reader, uint64_t end, qn_error *err)
{
    return qn_fail(err, QN_BAD_INPUT,
                   "%s: ends at byte %llu, inside of what its header tells of: it was truncated, fetch it again",
                   reader->path, (unsigned long long)end);
}

/* Reads until `needed` bytes are there, asking for `capacity`. A direct read that ends inside of a block has met the
 * file's end. */
static qn_status read_range(qn_direct_reader *reader, uint64_t offset, uint8_t *buffer, size_t needed, size_t capacity,
                            qn_error *err)
{
    size_t got = 0;
    while (got < needed) {
        ssize_t n = qn_fault_hit(QN_FAULT_READ)
                        ? (errno = EIO, -1)
                        : pread(reader->fd, buffer + got, capacity - got, (off_t)(offset + got));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return qn_fail_errno(err, reader->path, "read", errno);
        bool ended = n == 0 || (!reader->buffered && n % QN_DIRECT_ALIGNMENT != 0 && got + (size_t)n < needed);
        if (ended)
            return qn_direct_fail_cut_off(reader, offset + got + (uint64_t)n, err);
        got += (size_t)n;
    }
    return QN_OK;
}

void qn_direct_reader_drop(const qn_direct_reader *reader, uint64_t offset, uint64_t bytes)
{
    (void)posix_fadvise(reader->fd, (off_t)offset, (off_t)bytes, POSIX_FADV_DONTNEED);
}

qn_status qn_direct_read(qn_direct_reader *reader, uint64_t offset, size_t bytes, void *buffer, const uint8_t **data,
                         qn_error *err)
{
    if (reader->buffered) {
        qn_status status = read_range(reader, offset, buffer, bytes, bytes, err);
        qn_direct_reader_drop(reader, offset, bytes);
        *data = buffer;
        return status;
    }
    size_t before = qn_direct_bytes_before(offset);
    qn_status status = read_range(reader, offset - before, buffer, before + bytes, qn_direct_widened(offset, bytes),
                                  err);
    *data = (const uint8_t *)buffer + before;
    return status;
}
