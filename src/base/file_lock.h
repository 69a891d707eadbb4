/* A lock on a file, between processes and, on file systems that share locks (NFS), between machines.
 *
 * It is the kernel's byte-range lock, held as long as the file is open: the end of a process releases it, however it
 * ends. The file itself is left behind. Whoever holds it alone leaves "pid N on HOST" in it, for others to tell. Two
 * locks of one process exclude each other like those of two. */
#ifndef QN_BASE_FILE_LOCK_H
#define QN_BASE_FILE_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/error.h"

enum { QN_LOCK_HOLDER_BYTES = 128 };

typedef enum qn_lock_mode {
    QN_LOCK_SHARED,    /* with others that share it */
    QN_LOCK_EXCLUSIVE, /* alone */
} qn_lock_mode;

typedef struct qn_file_lock qn_file_lock;

/* Makes the file if need be. *out stays NULL, with QN_OK, when another has the lock: `holder` says who, as far as
 * known.
 */
qn_status qn_file_lock_try(const char *path, qn_lock_mode mode, qn_file_lock **out, char holder[QN_LOCK_HOLDER_BYTES],
                           qn_error *err);
/* Tries again and again until it has it, or *stop (NULL: never) is set: QN_CANCELLED. */
qn_status qn_file_lock_wait(const char *path, qn_lock_mode mode, const atomic_bool *stop, qn_file_lock **out,
                            qn_error *err);
void qn_file_lock_release(qn_file_lock *lock); /* NULL is fine */

#endif
