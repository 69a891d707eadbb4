/* Files are opened non-blocking and their kind checked after the open: a named pipe in a model folder must be an error,
 * not a wait for a writer that never comes. Every system call that may fail asks the fault injector first. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/memory.h"
#include "base/random.h"

enum { FIRST_READ_BYTES = 64 * 1024, TEMPORARY_TRIES = 16 };

qn_status qn_fail_errno(qn_error *err, const char *what, const char *action, int code)
{
    switch (code) {
    case ENOENT:
        return qn_fail(err, QN_BAD_INPUT, "%s: no such file: check the path", what);
    case EACCES:
    case EPERM:
        return qn_fail(err, QN_BAD_INPUT, "%s: cannot %s (%s): check its permissions", what, action, strerror(code));
    case ENOTDIR:
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
    case ENXIO:
    case ENODEV:
        return qn_fail(err, QN_BAD_INPUT, "%s: cannot %s (%s): check the path", what, action, strerror(code));
    case ENOMEM:
        return qn_fail(err, QN_RESOURCE, "%s: cannot %s (%s): free memory", what, action, strerror(code));
    case ENOSPC:
    case EDQUOT:
        return qn_fail(err, QN_RESOURCE, "%s: cannot %s (%s): free disk space", what, action, strerror(code));
    default:
        return qn_fail(err, QN_RESOURCE, "%s: cannot %s (%s): check the disk and the process's limits", what, action,
                       strerror(code));
    }
}

qn_file_identity qn_file_identity_of(const struct stat *info)
{
    return (qn_file_identity){.device = info->st_dev,
                              .inode = info->st_ino,
                              .bytes = (uint64_t)info->st_size,
                              .modified_s = info->st_mtim.tv_sec,
                              .modified_ns = info->st_mtim.tv_nsec};
}

bool qn_file_identity_equal(const qn_file_identity *a, const qn_file_identity *b)
{
    return a->device == b->device && a->inode == b->inode && a->bytes == b->bytes && a->modified_s == b->modified_s &&
           a->modified_ns == b->modified_ns;
}

/* Opens a regular file for reading and tells what it is. */
static qn_status open_regular(const char *path, int *out, qn_file_identity *identity, qn_error *err)
{
    int fd = qn_fault_hit(QN_FAULT_READ) ? (errno = EIO, -1) : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return qn_fail_errno(err, path, "open", errno);
    struct stat info;
    if (qn_fault_hit(QN_FAULT_READ) ? (errno = EIO, true) : fstat(fd, &info) != 0) {
        int code = errno;
        close(fd);
        return qn_fail_errno(err, path, "examine", code);
    }
    if (!S_ISREG(info.st_mode)) {
        close(fd);
        return qn_fail(err, QN_BAD_INPUT, "%s: is %s, not a regular file: name a file", path,
                       S_ISDIR(info.st_mode) ? "a folder" : "a device or pipe");
    }
    *out = fd;
    *identity = qn_file_identity_of(&info);
    return QN_OK;
}

qn_status qn_file_map(const char *path, qn_mapping *out, qn_error *err)
{
    int fd = -1;
    qn_file_identity identity = {0};
    qn_status status = open_regular(path, &fd, &identity, err);
    if (status != QN_OK)
        return status;
    void *data = NULL;
    size_t bytes = (size_t)identity.bytes;
    if (bytes > 0) {
        data = qn_fault_hit(QN_FAULT_READ) ? (errno = ENOMEM, MAP_FAILED)
                                           : mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data == MAP_FAILED) {
            int code = errno;
            close(fd);
            return qn_fail_errno(err, path, "map", code);
        }
    }
    close(fd); /* the mapping holds the file */
    *out = (qn_mapping){.data = data, .bytes = bytes, .identity = identity};
    return QN_OK;
}

void qn_file_unmap(qn_mapping *mapping)
{
    if (mapping->data)
        munmap((void *)(uintptr_t)mapping->data, mapping->bytes);
    *mapping = (qn_mapping){0};
}

static qn_status fail_limit(qn_error *err, const char *what, size_t limit_bytes)
{
    return qn_fail(err, QN_BAD_INPUT, "%s: is larger than the %zu bytes allowed here: use a smaller one", what,
                   limit_bytes);
}

/* Grows block to a capacity of `wanted` bytes and the NUL. */
static qn_status grow(char **block, size_t wanted, const char *what, qn_error *err)
{
    size_t with_nul;
    char *grown = qn_size_add(wanted, 1, &with_nul) ? qn_realloc(*block, with_nul, 1) : NULL;
    if (!grown)
        return qn_fail_memory(err, what, wanted);
    *block = grown;
    return QN_OK;
}

/* Reads to the end, the first block sized for `expected` bytes. The size of a file is only a hint: it may grow while
 * it is read, and those of /proc tell 0. */
static qn_status read_to_end(int fd, const char *what, size_t expected, size_t limit_bytes, char **out, size_t *bytes,
                             qn_error *err)
{
    char *block = NULL;
    size_t capacity = expected < limit_bytes ? expected : limit_bytes, size = 0;
    qn_status status = grow(&block, capacity, what, err);
    while (status == QN_OK) {
        /* the byte for the NUL serves to ask whether anything follows a full block */
        ssize_t got = qn_fault_hit(QN_FAULT_READ) ? (errno = EIO, -1) : read(fd, block + size, capacity - size + 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            status = qn_fail_errno(err, what, "read", errno);
            break;
        }
        size += (size_t)got;
        if (size > limit_bytes) {
            status = fail_limit(err, what, limit_bytes);
            break;
        }
        if (got == 0) {
            block[size] = '\0';
            *out = block;
            *bytes = size;
            return QN_OK;
        }
        if (size > capacity) {
            size_t doubled = capacity < FIRST_READ_BYTES / 2 ? FIRST_READ_BYTES : 2 * capacity;
            capacity = doubled < limit_bytes ? doubled : limit_bytes;
            status = grow(&block, capacity, what, err);
        }
    }
    qn_free(block);
    return status;
}

qn_status qn_file_read(const char *path, size_t limit_bytes, char **out, size_t *bytes, qn_error *err)
{
    int fd = -1;
    qn_file_identity identity = {0};
    qn_status status = open_regular(path, &fd, &identity, err);
    if (status != QN_OK)
        return status;
    size_t expected = (size_t)identity.bytes;
    status = expected > limit_bytes ? fail_limit(err, path, limit_bytes)
                                    : read_to_end(fd, path, expected, limit_bytes, out, bytes, err);
    close(fd);
    return status;
}

qn_status qn_fd_read(int fd, const char *what, size_t limit_bytes, char **out, size_t *bytes, qn_error *err)
{
    return read_to_end(fd, what, FIRST_READ_BYTES, limit_bytes, out, bytes, err);
}

/* A new file "path.XXXXXXXX" in *temporary (to be released); opened by hand, since mkstemp's files are private. */
static qn_status open_temporary(const char *path, char **temporary, int *out, qn_error *err)
{
    size_t bytes = strlen(path) + sizeof ".xxxxxxxx";
    char *name = qn_alloc(bytes, 1);
    if (!name)
        return qn_fail_memory(err, path, bytes);
    int fd = -1, code = EEXIST;
    for (int attempt = 0; attempt < TEMPORARY_TRIES && code == EEXIST; attempt++) {
        snprintf(name, bytes, "%s.%08" PRIx32, path, (uint32_t)qn_random_seed());
        fd = qn_fault_hit(QN_FAULT_WRITE) ? (errno = ENOSPC, -1)
                                          : open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        code = fd < 0 ? errno : 0;
    }
    if (fd < 0) {
        qn_status status = code == ENOENT
                               ? qn_fail(err, QN_BAD_INPUT, "%s: its folder does not exist: create it first", path)
                               : qn_fail_errno(err, path, "create a file beside it", code);
        qn_free(name);
        return status;
    }
    *temporary = name;
    *out = fd;
    return QN_OK;
}

static qn_status write_all(int fd, const char *path, const void *data, size_t bytes, qn_error *err)
{
    const uint8_t *at = data;
    while (bytes > 0) {
        ssize_t written = qn_fault_hit(QN_FAULT_WRITE) ? (errno = ENOSPC, -1) : write(fd, at, bytes);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return qn_fail_errno(err, path, "write", errno);
        at += written;
        bytes -= (size_t)written;
    }
    return QN_OK;
}

void qn_sync_folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash == NULL ? qn_strdup(".") : qn_strndup(path, slash == path ? 1 : (size_t)(slash - path));
    if (!folder)
        return;
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    qn_free(folder);
}

struct qn_file_writer {
    char *path, *temporary;
    int fd; /* -1 once closed */
    bool committed;
};

/* The file that a rename may replace: path, or what it links to. A device, a pipe or a folder would be lost to it. */
static qn_status find_target(const char *path, char **out, qn_error *err)
{
    struct stat info;
    if (lstat(path, &info) != 0) {
        *out = qn_strdup(path);
        return *out ? QN_OK : qn_fail_memory(err, path, strlen(path) + 1);
    }
    char *resolved = realpath(path, NULL);
    if (!resolved && errno == ENOENT)
        return qn_fail(err, QN_USAGE, "%s: is a link to nothing: name a file", path);
    if (!resolved || stat(resolved, &info) != 0) {
        int code = errno;
        free(resolved); /* libc's own allocation, here and below */
        return qn_fail_errno(err, path, "look up", code);
    }
    bool is_file = S_ISREG(info.st_mode);
    *out = is_file ? qn_strdup(resolved) : NULL;
    free(resolved);
    if (!is_file)
        return qn_fail(err, QN_USAGE, "%s: is not a regular file, which is all that can be replaced: name a file",
                       path);
    return *out ? QN_OK : qn_fail_memory(err, path, strlen(path) + 1);
}

qn_status qn_file_writer_open(const char *path, qn_file_writer **out, qn_error *err)
{
    qn_file_writer *writer = qn_alloc_zero(1, sizeof *writer);
    if (!writer)
        return qn_fail_memory(err, path, sizeof *writer);
    writer->fd = -1;
    qn_status status = find_target(path, &writer->path, err);
    if (status == QN_OK)
        status = open_temporary(writer->path, &writer->temporary, &writer->fd, err);
    if (status != QN_OK) {
        qn_file_writer_close(writer);
        return status;
    }
    *out = writer;
    return QN_OK;
}

qn_status qn_file_writer_append(qn_file_writer *writer, const void *data, size_t bytes, qn_error *err)
{
    return write_all(writer->fd, writer->path, data, bytes, err);
}

qn_status qn_file_writer_commit(qn_file_writer *writer, qn_error *err)
{
    int fd = writer->fd;
    bool synced = qn_fault_hit(QN_FAULT_WRITE) ? (errno = EIO, false) : fsync(fd) == 0;
    if (!synced)
        return qn_fail_errno(err, writer->path, "sync", errno);
    writer->fd = -1;
    if (close(fd) != 0)
        return qn_fail_errno(err, writer->path, "close", errno);
    bool renamed = qn_fault_hit(QN_FAULT_WRITE) ? (errno = EIO, false) : rename(writer->temporary, writer->path) == 0;
    if (!renamed)
        return qn_fail_errno(err, writer->path, "replace", errno);
    writer->committed = true;
    qn_sync_folder_of(writer->path);
    return QN_OK;
}

void qn_file_writer_close(qn_file_writer *writer)
{
    if (!writer)
        return;
    if (writer->fd >= 0)
        close(writer->fd);
    if (writer->temporary && !writer->committed)
        unlink(writer->temporary);
    qn_free(writer->temporary);
    qn_free(writer->path);
    qn_free(writer);
}

qn_status qn_file_write(const char *path, const void *data, size_t bytes, qn_error *err)
{
    qn_file_writer *writer = NULL;
    qn_status status = qn_file_writer_open(path, &writer, err);
    if (status == QN_OK)
        status = qn_file_writer_append(writer, data, bytes, err);
    if (status == QN_OK)
        status = qn_file_writer_commit(writer, err);
    qn_file_writer_close(writer);
    return status;
}

char *qn_path_join(const char *dir, const char *name)
{
    size_t dir_bytes = strlen(dir), name_bytes = strlen(name);
    bool slash = dir_bytes > 0 && dir[dir_bytes - 1] != '/';
    char *path = qn_alloc(dir_bytes + name_bytes + 2, 1);
    if (!path)
        return NULL;
    snprintf(path, dir_bytes + name_bytes + 2, "%s%s%s", dir, slash ? "/" : "", name);
    return path;
}
