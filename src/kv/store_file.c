/* A file goes to the disk in one piece, past the page cache where the file system can: blocks are read back at the next
 * start at the earliest, and the memory is better left to the weights.
 *
 * There is one writer, so one temporary name does, in the folder itself: what a killed process left there is found
 * without a search. It is removed before each write and created anew, never followed. */
#include "kv/store_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/direct_reader.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/memory.h"

static const int64_t NS_PER_S = 1000000000;

char *qn_kv_file_path(const char *dir, qn_hash id)
{
    char text[QN_HASH_TEXT_BYTES];
    qn_hash_text(id, text);
    size_t bytes = strlen(dir) + QN_HASH_TEXT_BYTES + sizeof "/ab/" QN_KV_BLOCK_SUFFIX;
    char *path = qn_alloc(bytes, 1);
    if (path)
        snprintf(path, bytes, "%s/%.2s/%s" QN_KV_BLOCK_SUFFIX, dir, text, text);
    return path;
}

static struct timespec to_timespec(int64_t ns)
{
    return (struct timespec){.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};
}

static int create_temporary(const char *temporary)
{
    unlink(temporary);
    int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    if (qn_fault_hit(QN_FAULT_WRITE)) {
        errno = ENOSPC;
        return -1;
    }
    int fd = open(temporary, flags | O_DIRECT, 0666);
    if (fd < 0 && errno == EINVAL) { /* a file system that cannot; some make the file all the same */
        unlink(temporary);
        fd = open(temporary, flags, 0666);
    }
    return fd;
}

/* After a part of it was written the rest may not be aligned any more; then, and where the flag is taken at open but no
 * write, the page cache takes it. */
static int write_all(int fd, const uint8_t *data, size_t bytes)
{
    bool direct = true;
    while (bytes > 0) {
        ssize_t written = qn_fault_hit(QN_FAULT_WRITE) ? (errno = ENOSPC, -1) : write(fd, data, bytes);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0 && errno == EINVAL && direct) {
            direct = false;
            int flags = fcntl(fd, F_GETFL);
            if (flags >= 0 && fcntl(fd, F_SETFL, flags & ~O_DIRECT) == 0)
                continue;
        }
        if (written < 0)
            return errno;
        data += written;
        bytes -= (size_t)written;
    }
    return 0;
}

/* The folder of path, which must be one of its own: what lies behind a link would not be found at the next start. */
static qn_status make_folder_of(char *path, qn_error *err)
{
    char *slash = strrchr(path, '/');
    *slash = '\0';
    struct stat info;
    qn_status status = QN_OK;
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        status = qn_fail_errno(err, path, "create the folder", errno);
    else if (lstat(path, &info) != 0)
        status = qn_fail_errno(err, path, "examine", errno);
    else if (!S_ISDIR(info.st_mode))
        status = qn_fail(err, QN_RESOURCE, "%s: is no folder, where KV blocks should go: remove it", path);
    *slash = '/';
    return status;
}

static qn_status write_file(const char *temporary, char *path, const uint8_t *data, size_t bytes, int64_t recency_ns,
                            qn_error *err)
{
    qn_status status = make_folder_of(path, err);
    if (status != QN_OK)
        return status;
    int fd = create_temporary(temporary);
    if (fd < 0)
        return qn_fail_errno(err, temporary, "create", errno);
    int code = write_all(fd, data, bytes);
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, to_timespec(recency_ns)};
    futimens(fd, times);
    if (close(fd) != 0 && code == 0)
        code = errno;
    if (code == 0 && (qn_fault_hit(QN_FAULT_WRITE) ? (errno = EIO, true) : rename(temporary, path) != 0))
        code = errno;
    if (code == 0)
        return QN_OK;
    unlink(temporary);
    return qn_fail_errno(err, path, "write", code);
}

qn_status qn_kv_file_write(const char *dir, const qn_kv_header *header, const int32_t *ids, const uint8_t *block,
                           int64_t recency_ns, uint8_t *buffer, qn_error *err)
{
    size_t header_bytes = qn_kv_header_bytes(header->block_tokens);
    size_t payload_bytes = qn_kv_payload_bytes(header->block_bytes);
    uint8_t *payload = buffer + header_bytes;
    memcpy(payload, block, header->block_bytes);
    memset(payload + header->block_bytes, 0, payload_bytes - header->block_bytes);
    qn_kv_header summed = *header;
    summed.payload_checksum = qn_hash_bytes(payload, payload_bytes);
    qn_kv_header_encode(&summed, ids, buffer);

    char *temporary = qn_path_join(dir, QN_KV_TEMPORARY_NAME), *path = qn_kv_file_path(dir, qn_kv_header_id(header));
    qn_status status = temporary && path
                           ? write_file(temporary, path, buffer, header_bytes + payload_bytes, recency_ns, err)
                           : qn_fail_memory(err, "name of a KV block's file", strlen(dir));
    qn_free(temporary);
    qn_free(path);
    return status;
}

static qn_status fail_mismatch(qn_error *err, const char *path, const char *what)
{
    return qn_fail(err, QN_BAD_INPUT, "%s: %s: its block is computed again", path, what);
}

/* data: the whole file. */
static qn_status check(const char *path, const uint8_t *data, const qn_kv_header *wanted, const int32_t *ids,
                       qn_error *err)
{
    size_t header_bytes = qn_kv_header_bytes(wanted->block_tokens);
    qn_kv_header found;
    qn_status status = qn_kv_header_parse(data, header_bytes, path, &found, err);
    if (status != QN_OK)
        return status;
    if (!qn_hash_equal(found.fingerprint, wanted->fingerprint))
        return fail_mismatch(err, path, "is of another model or configuration");
    if (found.block_bytes != wanted->block_bytes || found.block_tokens != wanted->block_tokens)
        return fail_mismatch(err, path, "is a block of another size");
    if (!qn_hash_equal(found.key, wanted->key))
        return fail_mismatch(err, path, "is a block of another key");
    if (!qn_hash_equal(found.parent, wanted->parent) || !qn_kv_header_has_ids(data, ids, wanted->block_tokens))
        return fail_mismatch(err, path, "is a block of other tokens");
    qn_hash checksum = qn_hash_bytes(data + header_bytes, qn_kv_payload_bytes(wanted->block_bytes));
    if (!qn_hash_equal(checksum, found.payload_checksum))
        return fail_mismatch(err, path, "is damaged (checksum of the contents)");
    return QN_OK;
}

static qn_status read_file(const char *path, const qn_kv_header *header, const int32_t *ids, uint8_t *buffer,
                           uint8_t *block, qn_error *err)
{
    size_t header_bytes = qn_kv_header_bytes(header->block_tokens);
    size_t file_bytes = header_bytes + qn_kv_payload_bytes(header->block_bytes);
    qn_direct_reader *reader = NULL;
    qn_status status = qn_direct_reader_open(path, &reader, err);
    if (status != QN_OK)
        return status;
    const uint8_t *data = NULL;
    if (qn_direct_reader_bytes(reader) != file_bytes)
        status = fail_mismatch(err, path, "has not the size of a block's file");
    else if (qn_direct_read(reader, 0, file_bytes, buffer, &data, err) != QN_OK)
        status = err->status = QN_BAD_INPUT; /* a disk that fails here will fail again */
    else
        status = check(path, data, header, ids, err);
    qn_direct_reader_close(reader);
    if (status == QN_OK)
        memcpy(block, data + header_bytes, header->block_bytes);
    return status;
}

qn_status qn_kv_file_read(const char *dir, const qn_kv_header *header, const int32_t *ids, uint8_t *buffer,
                          uint8_t *block, qn_error *err)
{
    char *path = qn_kv_file_path(dir, qn_kv_header_id(header));
    if (!path)
        return qn_fail_memory(err, "name of a KV block's file", strlen(dir));
    qn_status status = read_file(path, header, ids, buffer, block, err);
    qn_free(path);
    return status;
}

void qn_kv_file_date(const char *dir, qn_hash id, int64_t recency_ns)
{
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, to_timespec(recency_ns)};
    char *path = qn_kv_file_path(dir, id);
    if (path)
        utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW);
    qn_free(path);
}

bool qn_kv_file_remove(const char *dir, qn_hash id, qn_error *err)
{
    char *path = qn_kv_file_path(dir, id);
    if (!path) {
        qn_fail_memory(err, "name of a KV block's file", strlen(dir));
        return false;
    }
    bool gone = (qn_fault_hit(QN_FAULT_WRITE) ? (errno = EIO, false) : unlink(path) == 0) || errno == ENOENT;
    if (!gone)
        qn_fail_errno(err, path, "remove", errno);
    qn_free(path);
    return gone;
}
