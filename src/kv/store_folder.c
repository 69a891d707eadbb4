/* Only names that the store itself gives are looked at, in the 256 folders that it makes, and nothing is followed out
 * of them: a folder given by mistake loses nothing. A header's file name and size must agree with what it tells, so
 * that a renamed or cut file is found here and not at its first use. */
#include "kv/store_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/progress.h"
#include "kv/store_file.h"

enum { FOLDERS = 256, FOLDER_NAME_BYTES = 8, NAME_DIGITS = QN_HASH_TEXT_BYTES - 1 };
static const int64_t NS_PER_S = 1000000000;

typedef struct folder_reader {
    const char *dir;
    const qn_kv_header *own;
    qn_kv_index *index;
    int64_t now_ns;
    size_t damaged, unreadable, other_layout;
    qn_error first_damaged, first_unreadable;
    qn_kv_header other; /* the layout of one of other_layout */
} folder_reader;

qn_status qn_kv_folder_make(const char *dir, qn_error *err)
{
    struct stat info;
    if (mkdir(dir, 0777) != 0 && errno != EEXIST)
        return qn_fail_errno(err, dir, "create the folder for KV blocks", errno);
    if (stat(dir, &info) != 0)
        return qn_fail_errno(err, dir, "examine", errno);
    if (!S_ISDIR(info.st_mode))
        return qn_fail(err, QN_USAGE, "%s: is no folder: name one for KV blocks", dir);
    return QN_OK;
}

/* Whether name is one of a block's file in this folder. */
static bool parse_name(const char *folder, const char *name, qn_hash *id)
{
    return strlen(name) == NAME_DIGITS + strlen(QN_KV_BLOCK_SUFFIX) &&
           strcmp(name + NAME_DIGITS, QN_KV_BLOCK_SUFFIX) == 0 && strncmp(name, folder, 2) == 0 &&
           qn_hash_parse(name, NAME_DIGITS, id);
}

/* A date of the future, by a clock that was wrong, would stay the newest for long. */
static int64_t recency_of(const struct stat *info, int64_t now_ns)
{
    if (info->st_mtim.tv_sec < 0)
        return 0;
    if (info->st_mtim.tv_sec > now_ns / NS_PER_S)
        return now_ns;
    int64_t ns = info->st_mtim.tv_sec * NS_PER_S + info->st_mtim.tv_nsec;
    return ns < now_ns ? ns : now_ns;
}

/* The header of an open file; QN_BAD_INPUT when the file is damaged, QN_RESOURCE when it could not be read. */
static qn_status read_header(int fd, const char *name, qn_hash id, qn_kv_header *out, struct stat *info, qn_error *err)
{
    uint8_t data[QN_KV_HEADER_MAX_BYTES];
    posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM); /* no reading ahead into contents */
    ssize_t got = qn_fault_hit(QN_FAULT_READ) ? (errno = EIO, -1) : pread(fd, data, sizeof data, 0);
    if (got < 0 || fstat(fd, info) != 0)
        return qn_fail(err, QN_RESOURCE, "%s: cannot be read (%s): check the disk", name, strerror(errno));
    qn_status status = qn_kv_header_parse(data, (size_t)got, name, out, err);
    if (status != QN_OK)
        return status;
    size_t file_bytes = 0;
    if (!qn_kv_file_bytes(out->block_bytes, out->block_tokens, &file_bytes) || (uint64_t)info->st_size != file_bytes)
        return qn_fail(err, QN_BAD_INPUT, "%s: has not the size that its header tells: its block is computed again",
                       name);
    if (!qn_hash_equal(qn_kv_header_id(out), id))
        return qn_fail(err, QN_BAD_INPUT, "%s: was renamed: its block is computed again", name);
    return QN_OK;
}

static void count_error(size_t *count, qn_error *first, const qn_error *err)
{
    if ((*count)++ == 0)
        *first = *err;
}

static qn_status add(folder_reader *r, qn_hash id, const qn_kv_header *header, const struct stat *info, qn_error *err)
{
    bool same_model = qn_hash_equal(header->fingerprint, r->own->fingerprint);
    bool same_layout = header->block_bytes == r->own->block_bytes && header->block_tokens == r->own->block_tokens;
    if (same_model && !same_layout) {
        r->other_layout++;
        r->other = *header;
    }
    qn_kv_entry *entry = qn_kv_index_add(r->index, id, qn_kv_header_parent_id(header), !(same_model && same_layout));
    if (!entry)
        return qn_fail_memory(err, "index of KV blocks", sizeof *entry);
    qn_kv_index_set_stored(r->index, entry, (uint64_t)info->st_size, recency_of(info, r->now_ns));
    return QN_OK;
}

static qn_status read_block(folder_reader *r, int folder_fd, const char *name, qn_hash id, qn_error *err)
{
    qn_kv_header header;
    struct stat info;
    qn_error reason;
    int fd = qn_fault_hit(QN_FAULT_READ) ? (errno = EIO, -1)
                                         : openat(folder_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bool is_file = fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
    qn_status status = is_file ? read_header(fd, name, id, &header, &info, &reason)
                               : qn_fail(&reason, QN_RESOURCE, "%s: %s: check what it is", name,
                                         fd < 0 ? strerror(errno) : "is no regular file");
    if (fd >= 0)
        close(fd);
    if (status == QN_OK)
        return add(r, id, &header, &info, err);
    if (status == QN_BAD_INPUT && unlinkat(folder_fd, name, 0) == 0)
        count_error(&r->damaged, &r->first_damaged, &reason);
    else
        count_error(&r->unreadable, &r->first_unreadable, &reason);
    return QN_OK;
}

static qn_status read_folder(folder_reader *r, int dir_fd, const char *folder, qn_error *err)
{
    int fd = openat(dir_fd, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
    if (!stream) {
        qn_error reason;
        if (errno != ENOENT) {
            qn_fail_errno(&reason, folder, "open", errno);
            count_error(&r->unreadable, &r->first_unreadable, &reason);
        }
        if (fd >= 0)
            close(fd);
        return QN_OK;
    }
    qn_status status = QN_OK;
    for (struct dirent *item; status == QN_OK && (item = readdir(stream)) != NULL;) {
        qn_hash id;
        if (parse_name(folder, item->d_name, &id))
            status = read_block(r, dirfd(stream), item->d_name, id, err);
    }
    closedir(stream);
    return status;
}

static void tell(const folder_reader *r)
{
    if (r->damaged > 0)
        qn_log("%s: removed %zu damaged KV blocks, one of them: %s", r->dir, r->damaged, r->first_damaged.message);
    if (r->unreadable > 0)
        qn_log("%s: left out %zu files that cannot be read, one of them: %s", r->dir, r->unreadable,
               r->first_unreadable.message);
    if (r->other_layout > 0)
        qn_log("%s: %zu KV blocks of this model lie there in another layout, such as %zu tokens in %zu bytes; this run "
               "has "
               "%zu in %zu: they are not read, and go first when room is needed",
               r->dir, r->other_layout, r->other.block_tokens, r->other.block_bytes, r->own->block_tokens,
               r->own->block_bytes);
}

static int64_t now_in_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * NS_PER_S + now.tv_nsec;
}

qn_status qn_kv_folder_read(const char *dir, const qn_kv_header *own, qn_kv_index *index, qn_error *err)
{
    folder_reader reader = {.dir = dir, .own = own, .index = index, .now_ns = now_in_ns()};
    int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0)
        return qn_fail_errno(err, dir, "open", errno);
    unlinkat(dir_fd, QN_KV_TEMPORARY_NAME, 0);
    qn_progress progress;
    qn_progress_start(&progress, "reading KV blocks' headers", "folders", FOLDERS);
    qn_status status = QN_OK;
    for (unsigned i = 0; i < FOLDERS && status == QN_OK; i++) {
        char folder[FOLDER_NAME_BYTES];
        snprintf(folder, sizeof folder, "%02x", i & 0xffu);
        status = read_folder(&reader, dir_fd, folder, err);
        qn_progress_update(&progress, i + 1);
    }
    qn_progress_finish(&progress);
    close(dir_fd);
    if (status == QN_OK)
        tell(&reader);
    return status;
}
