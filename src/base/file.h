/* Files: mapped for reading, or read whole within a bound. */
#ifndef QN_BASE_FILE_H
#define QN_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Tells a file from another that took its name, and from itself after a write. */
typedef struct qn_file_identity {
    uint64_t device, inode, bytes;
    int64_t modified_s, modified_ns;
} qn_file_identity;

struct stat;
qn_file_identity qn_file_identity_of(const struct stat *info);
bool qn_file_identity_equal(const qn_file_identity *a, const qn_file_identity *b);

/* A read-only mapping. Start from {0}. The bytes live until qn_file_unmap. */
typedef struct qn_mapping {
    const uint8_t *data; /* NULL for an empty file */
    size_t bytes;
    qn_file_identity identity; /* when it was mapped */
} qn_mapping;

/* Refuses what is not a regular file. A file that shrinks while mapped kills the process (SIGBUS): quern
 * checks sizes at open, and owners of checkpoints must not truncate them in use (docs/). */
qn_status qn_file_map(const char *path, qn_mapping *out, qn_error *err);
void qn_file_unmap(qn_mapping *mapping);

/* The whole file with a NUL behind, to be released with qn_free; more than limit_bytes is an error. */
qn_status qn_file_read(const char *path, size_t limit_bytes, char **out, size_t *bytes, qn_error *err);

/* All of fd to its end (stdin), within the limit. */
qn_status qn_fd_read(int fd, const char *what, size_t limit_bytes, char **out, size_t *bytes, qn_error *err);

/* Writes a temporary file beside path, syncs it and renames it over path. Where path is a symbolic link, the file that
 * it leads to is replaced; anything but a regular file in its place is refused (QN_USAGE). */
qn_status qn_file_write(const char *path, const void *data, size_t bytes, qn_error *err);

/* The same in pieces: append any number of times, then commit, which puts the file in its place. Close releases the
 * writer, and removes the temporary file if it was not committed. One thread at a time. */
typedef struct qn_file_writer qn_file_writer;
qn_status qn_file_writer_open(const char *path, qn_file_writer **out, qn_error *err);
qn_status qn_file_writer_append(qn_file_writer *writer, const void *data, size_t bytes, qn_error *err);
qn_status qn_file_writer_commit(qn_file_writer *writer, qn_error *err);
void qn_file_writer_close(qn_file_writer *writer); /* NULL is fine */

/* The error of a system call that failed on `what` ("cannot ACTION"), `code` its errno: QN_BAD_INPUT for what the
 * caller named wrong, QN_RESOURCE for what the system lacks. */
qn_status qn_fail_errno(qn_error *err, const char *what, const char *action, int code);

/* Makes what was renamed to, created in or removed from the folder of `path` durable. File systems that cannot sync a
 * folder lose nothing else, so that failure is no error. */
void qn_sync_folder_of(const char *path);

/* "dir/name" to be released with qn_free; NULL when out of memory. */
char *qn_path_join(const char *dir, const char *name);

#endif
