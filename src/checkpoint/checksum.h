/* XXH3-128 of stretches of a file, many side by side: each is an item of a pool, since a checksum can't be split. Files
 * are read past the page cache, never mapped. A checksummer belongs to one thread. */
#ifndef QN_CHECKPOINT_CHECKSUM_H
#define QN_CHECKPOINT_CHECKSUM_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/progress.h"

typedef struct qn_stretch {
    uint64_t offset, bytes;
    qn_hash hash; /* filled */
} qn_stretch;

typedef struct qn_checksummer qn_checksummer;

/* threads 0: as many as CPUs; 1: the caller's own. `progress` counts bytes, `stop` is asked between reads; both may be
 * NULL and are borrowed until qn_checksummer_free. */
qn_status qn_checksummer_new(size_t threads, qn_progress *progress, const atomic_bool *stop, qn_checksummer **out,
                             qn_error *err);
void qn_checksummer_free(qn_checksummer *checksummer); /* NULL is fine */

/* Fills the hash of each stretch of the file. A file that ends before: QN_BAD_INPUT. QN_CANCELLED: stopped. */
qn_status qn_checksummer_run(qn_checksummer *checksummer, const char *path, qn_stretch *stretches, size_t count,
                             qn_error *err);

uint64_t qn_checksummer_bytes(const qn_checksummer *checksummer); /* read so far */

#endif
