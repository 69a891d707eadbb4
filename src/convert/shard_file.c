/* The header follows from the declarations, so every tensor's place is known before any is written. On a disk that has
 * the space from the start the writes can only fail for the disk's own faults. */
#include "convert/shard_file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/size.h"
#include "checkpoint/manifest.h"
#include "convert/journal.h"

/* Tensors that were committed and may still be on their way to the disk: the one before these is waited for, which
 * keeps the memory of written pages small and the sync at the end short. */
enum { IN_FLIGHT = 32 };

typedef struct placed_tensor {
    uint64_t offset, bytes;
    qn_hash hash;
    bool has; /* journalled */
} placed_tensor;

struct qn_shard_file {
    char *path, *part, *entry, *journal_path;
    const char *name; /* in path */
    qn_tensor_declaration *declared;
    placed_tensor *tensors;
    size_t count;
    qn_hash header_hash;
    uint64_t bytes;
    int fd;
    qn_journal *journal;
    pthread_mutex_t lock; /* the journal, `has` and `hash`, and: */
    size_t in_flight[IN_FLIGHT], commits;
};

char *qn_convert_state_path(const char *dst, const char *name, const char *suffix)
{
    size_t bytes = strlen(dst) + sizeof QN_CONVERT_FOLDER + strlen(name) + strlen(suffix) + 2;
    char *path = qn_alloc(bytes, 1);
    if (path)
        snprintf(path, bytes, "%s/%s/%s%s", dst, QN_CONVERT_FOLDER, name, suffix);
    return path;
}

static qn_status fail_foreign(const char *path, const char *why, qn_error *err)
{
    return qn_fail(err, QN_BAD_INPUT, "%s: %s: remove the file, and it will be made anew", path, why);
}

/* Is the file at `path`, of `bytes` bytes, as its entry tells? */
static qn_status compare_with_entry(const char *path, const char *entry_path, const char *name, uint64_t bytes,
                                    qn_error *err)
{
    qn_manifest *manifest = NULL;
    qn_status status = qn_manifest_new(&manifest, err);
    if (status == QN_OK)
        status = qn_manifest_entry_read(entry_path, manifest, err);
    const qn_manifest_file *entry = status == QN_OK ? qn_manifest_find(manifest, name) : NULL;
    qn_safetensors *header = NULL;
    if (status == QN_OK && !entry)
        status = fail_foreign(entry_path, "is of another file", err);
    if (status == QN_OK && entry->bytes != bytes)
        status = fail_foreign(path, "has another size than when it was finished", err);
    if (status == QN_OK)
        status = qn_safetensors_open_header(path, &header, err);
    if (status == QN_OK && !qn_hash_equal(qn_safetensors_header_hash(header), entry->hash))
        status = fail_foreign(path, "has another header than when it was finished", err);
    qn_safetensors_close(header);
    qn_manifest_free(manifest);
    return status;
}

static qn_status check_done(const char *path, const char *entry_path, const char *name, bool *done, qn_error *err)
{
    struct stat info;
    *done = false;
    if (qn_fault_hit(QN_FAULT_READ) ? (errno = EIO, true) : lstat(path, &info) != 0)
        return errno == ENOENT ? QN_OK : qn_fail_errno(err, path, "examine", errno);
    struct stat entry_info;
    if (!S_ISREG(info.st_mode) || lstat(entry_path, &entry_info) != 0)
        return fail_foreign(path, "was not made by this conversion", err);
    qn_status status = compare_with_entry(path, entry_path, name, (uint64_t)info.st_size, err);
    *done = status == QN_OK;
    return status;
}

qn_status qn_shard_file_done(const char *dst, const char *name, bool *done, qn_error *err)
{
    char *path = qn_path_join(dst, name), *entry = qn_convert_state_path(dst, name, ".json");
    qn_status status = path && entry ? check_done(path, entry, name, done, err)
                                     : qn_fail_memory(err, dst, strlen(dst) + strlen(name));
    qn_free(entry);
    qn_free(path);
    return status;
}

static qn_status make_paths(qn_shard_file *file, const char *dst, const char *name, qn_error *err)
{
    file->path = qn_path_join(dst, name);
    file->part = qn_convert_state_path(dst, name, ".part");
    file->entry = qn_convert_state_path(dst, name, ".json");
    file->journal_path = qn_convert_state_path(dst, name, ".journal");
    if (!file->path || !file->part || !file->entry || !file->journal_path)
        return qn_fail_memory(err, dst, strlen(dst) + strlen(name));
    file->name = file->path + strlen(file->path) - strlen(name);
    return QN_OK;
}

/* Places the tensors behind the header, which is appended to *header. */
static qn_status place(qn_shard_file *file, const qn_tensor_declaration *tensors, size_t count, qn_buffer *header,
                       qn_error *err)
{
    file->declared = qn_alloc(count, sizeof *file->declared);
    file->tensors = qn_alloc_zero(count, sizeof *file->tensors);
    if (!file->declared || !file->tensors)
        return qn_fail_memory(err, file->path, count * (sizeof *file->declared + sizeof *file->tensors));
    file->count = count;
    for (size_t i = 0; i < count; i++) {
        file->declared[i] = tensors[i];
        qn_status status = qn_tensor_declare(&file->declared[i], err);
        if (status != QN_OK)
            return status;
    }
    qn_status status = qn_safetensors_format_header(file->declared, count, QN_SHARD_DATA_ALIGNMENT, file->path, header,
                                                    err);
    if (status != QN_OK)
        return status;
    file->header_hash = qn_hash_bytes(header->data, header->size);
    file->bytes = header->size;
    for (size_t i = 0; i < count; i++) {
        file->tensors[i] = (placed_tensor){.offset = file->bytes, .bytes = file->declared[i].bytes};
        file->bytes += file->declared[i].bytes;
    }
    return QN_OK;
}

/* The space is taken now, so that a disk that is too small shows before the work; where the file system cannot do that,
 * the size alone is set. */
static qn_status allocate(qn_shard_file *file, qn_error *err)
{
    int code = qn_fault_hit(QN_FAULT_WRITE) ? ENOSPC : fallocate(file->fd, 0, 0, (off_t)file->bytes) == 0 ? 0 : errno;
    if (code == EOPNOTSUPP || code == ENOSYS || code == EINVAL)
        code = ftruncate(file->fd, (off_t)file->bytes) == 0 ? 0 : errno;
    return code == 0 ? QN_OK : qn_fail_errno(err, file->part, "allocate its space", code);
}

static qn_status write_at(qn_shard_file *file, const void *data, size_t bytes, uint64_t offset, qn_error *err)
{
    const uint8_t *at = data;
    while (bytes > 0) {
        ssize_t written = qn_fault_hit(QN_FAULT_WRITE) ? (errno = ENOSPC, -1)
                                                       : pwrite(file->fd, at, bytes, (off_t)offset);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return qn_fail_errno(err, file->part, "write", errno);
        at += written;
        offset += (uint64_t)written;
        bytes -= (size_t)written;
    }
    return QN_OK;
}

static void remember(void *context, size_t tensor, qn_hash hash)
{
    qn_shard_file *file = context;
    file->tensors[tensor].has = true;
    file->tensors[tensor].hash = hash;
}

/* The header is written at each opening: the journal knows nothing of it but its hash. */
static qn_status open_part(qn_shard_file *file, const qn_buffer *header, qn_error *err)
{
    bool fresh = false;
    file->fd = qn_fault_hit(QN_FAULT_WRITE) ? (errno = ENOSPC, -1)
                                            : open(file->part, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (file->fd < 0)
        return qn_fail_errno(err, file->part, "open", errno);
    qn_status status = qn_journal_open(file->journal_path, file->header_hash, file->count, remember, file,
                                       &file->journal, &fresh, err);
    if (status == QN_OK && fresh && ftruncate(file->fd, 0) != 0)
        status = qn_fail_errno(err, file->part, "empty", errno);
    if (status == QN_OK)
        status = allocate(file, err);
    if (status == QN_OK)
        status = write_at(file, header->data, header->size, 0, err);
    /* nothing is lost with it, and the space is what is missing */
    if (status == QN_RESOURCE && fresh)
        unlink(file->part);
    return status;
}

qn_status qn_shard_file_open(const char *dst, const char *name, const qn_tensor_declaration *tensors, size_t count,
                             qn_shard_file **out, qn_error *err)
{
    qn_shard_file *file = qn_alloc_zero(1, sizeof *file);
    if (!file)
        return qn_fail_memory(err, name, sizeof *file);
    file->fd = -1;
    pthread_mutex_init(&file->lock, NULL);
    qn_buffer header = {0};
    qn_status status = make_paths(file, dst, name, err);
    if (status == QN_OK)
        status = place(file, tensors, count, &header, err);
    if (status == QN_OK)
        status = open_part(file, &header, err);
    qn_buffer_free(&header);
    if (status != QN_OK) {
        qn_shard_file_close(file);
        return status;
    }
    *out = file;
    return QN_OK;
}

void qn_shard_file_close(qn_shard_file *file)
{
    if (!file)
        return;
    if (file->fd >= 0)
        close(file->fd);
    qn_journal_close(file->journal);
    pthread_mutex_destroy(&file->lock);
    qn_free(file->declared);
    qn_free(file->tensors);
    qn_free(file->journal_path);
    qn_free(file->entry);
    qn_free(file->part);
    qn_free(file->path);
    qn_free(file);
}

uint64_t qn_shard_file_tensor_bytes(const qn_shard_file *file, size_t tensor)
{
    assert(tensor < file->count);
    return file->tensors[tensor].bytes;
}

bool qn_shard_file_has(qn_shard_file *file, size_t tensor)
{
    assert(tensor < file->count);
    pthread_mutex_lock(&file->lock);
    bool has = file->tensors[tensor].has;
    pthread_mutex_unlock(&file->lock);
    return has;
}

/* The hash of what lies in the part now. */
static qn_status hash_tensor(const qn_shard_file *file, const placed_tensor *t, qn_hasher *hasher, void *buffer,
                             size_t buffer_bytes, qn_hash *out, qn_error *err)
{
    for (uint64_t at = 0; at < t->bytes;) {
        size_t wanted = t->bytes - at < buffer_bytes ? (size_t)(t->bytes - at) : buffer_bytes;
        ssize_t got = qn_fault_hit(QN_FAULT_READ) ? (errno = EIO, -1)
                                                  : pread(file->fd, buffer, wanted, (off_t)(t->offset + at));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return qn_fail_errno(err, file->part, "read", got < 0 ? errno : EIO);
        qn_hasher_update(hasher, buffer, (size_t)got);
        at += (uint64_t)got;
    }
    *out = qn_hasher_finish(hasher);
    return QN_OK;
}

qn_status qn_shard_file_check(qn_shard_file *file, size_t tensor, void *buffer, size_t buffer_bytes, bool *same,
                              qn_error *err)
{
    assert(tensor < file->count && buffer_bytes > 0);
    placed_tensor *t = &file->tensors[tensor];
    qn_hasher *hasher = qn_hasher_new();
    if (!hasher)
        return qn_fail_memory(err, file->part, buffer_bytes);
    qn_hash found = {0};
    qn_status status = hash_tensor(file, t, hasher, buffer, buffer_bytes, &found, err);
    qn_hasher_free(hasher);
    if (status != QN_OK)
        return status;
    pthread_mutex_lock(&file->lock);
    t->has = t->has && qn_hash_equal(found, t->hash);
    *same = t->has;
    pthread_mutex_unlock(&file->lock);
    return QN_OK;
}

qn_status qn_shard_file_write(qn_shard_file *file, size_t tensor, uint64_t at, const void *data, size_t bytes,
                              qn_error *err)
{
    const placed_tensor *t = &file->tensors[tensor];
    assert(tensor < file->count && at <= t->bytes && bytes <= t->bytes - at);
    qn_status status = write_at(file, data, bytes, t->offset + at, err);
    /* only a hint that the disk may begin; the sync at the end is what counts */
    if (status == QN_OK)
        (void)sync_file_range(file->fd, (off_t)(t->offset + at), (off_t)bytes, SYNC_FILE_RANGE_WRITE);
    return status;
}

/* Pages that could not be written may still be read as if they had been, so that a check would find them good: all is
 * to be written anew. */
static qn_status fail_sync(const qn_shard_file *file, int code, qn_error *err)
{
    unlink(file->journal_path);
    return qn_fail_errno(err, file->part, "sync", code);
}

/* Waits until a tensor is on disk and lets its pages go. The kernel tells a failed write once, to the first that waits,
 * so that what this says must not be lost; that it cannot wait on this file system is no failure. */
static qn_status settle(const qn_shard_file *file, size_t tensor, qn_error *err)
{
    const placed_tensor *t = &file->tensors[tensor];
    int code = qn_fault_hit(QN_FAULT_WRITE) ? EIO
               : sync_file_range(file->fd, (off_t)t->offset, (off_t)t->bytes,
                                 SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER) == 0
                   ? 0
                   : errno;
    if (code == EIO || code == ENOSPC || code == EDQUOT)
        return fail_sync(file, code, err);
    (void)posix_fadvise(file->fd, (off_t)t->offset, (off_t)t->bytes, POSIX_FADV_DONTNEED);
    return QN_OK;
}

qn_status qn_shard_file_commit(qn_shard_file *file, size_t first, size_t count, const qn_hash *hashes, qn_error *err)
{
    assert(count > 0 && first + count <= file->count);
    size_t oldest = file->count;
    pthread_mutex_lock(&file->lock);
    qn_status status = qn_journal_append(file->journal, first, count, hashes, err);
    for (size_t i = 0; i < count && status == QN_OK; i++)
        remember(file, first + i, hashes[i]);
    if (status == QN_OK) {
        size_t slot = file->commits++ % IN_FLIGHT;
        oldest = file->commits > IN_FLIGHT ? file->in_flight[slot] : file->count;
        file->in_flight[slot] = first;
    }
    pthread_mutex_unlock(&file->lock);
    return status == QN_OK && oldest < file->count ? settle(file, oldest, err) : status;
}

static qn_status write_entry(const qn_shard_file *file, qn_error *err)
{
    qn_manifest_tensor *tensors = qn_alloc(file->count, sizeof *tensors);
    if (!tensors)
        return qn_fail_memory(err, file->entry, file->count * sizeof *tensors);
    for (size_t i = 0; i < file->count; i++)
        tensors[i] = (qn_manifest_tensor){.name = file->declared[i].name, .hash = file->tensors[i].hash};
    qn_manifest_file entry = {.name = file->name,
                              .bytes = file->bytes,
                              .hash = file->header_hash,
                              .tensors = tensors,
                              .tensor_count = file->count};
    qn_status status = qn_manifest_entry_write(&entry, file->entry, err);
    qn_free(tensors);
    return status;
}

qn_status qn_shard_file_finish(qn_shard_file *file, qn_error *err)
{
    for (size_t i = 0; i < file->count; i++)
        assert(file->tensors[i].has);
    bool synced = qn_fault_hit(QN_FAULT_WRITE) ? (errno = EIO, false) : fdatasync(file->fd) == 0;
    if (!synced)
        return fail_sync(file, errno, err);
    qn_status status = write_entry(file, err);
    if (status != QN_OK)
        return status;
    bool renamed = qn_fault_hit(QN_FAULT_WRITE) ? (errno = EIO, false) : rename(file->part, file->path) == 0;
    if (!renamed)
        return qn_fail_errno(err, file->part, "put in its place", errno);
    qn_sync_folder_of(file->path);
    unlink(file->journal_path); /* of no use any more, and harmless where it stays */
    return QN_OK;
}
