/* All threads of a run at work on files of the plan: each takes the next tensor, of the next file when one has no more
 * to take, so that none waits for a file's end. Internal to this room. */
#ifndef QN_CONVERT_WORKERS_H
#define QN_CONVERT_WORKERS_H

#include "base/error.h"
#include "convert/job.h"

/* The memory of all buffers together: pieces shrink where there are many threads. */
#define QN_CONVERT_BUFFER_BYTES (UINT64_C(1536) << 20)

/* How many threads work for `threads` that compute (0: as many as CPUs), since some wait for the disk; and the bytes of
 * a piece, so that their buffers stay within QN_CONVERT_BUFFER_BYTES. */
size_t qn_workers_for(size_t threads);
size_t qn_piece_bytes_for(size_t workers);

/* Called by a worker after it has put file `shard` in its place; calls may overlap. */
typedef qn_status (*qn_shard_finished)(void *context, size_t shard, qn_error *err);

/* Does the `count` files of the plan in `shards` that are QN_SHARD_OPEN, in this order, and sets their states: done, or
 * busy where another run has the lock. The first error stops all. */
qn_status qn_workers_run(qn_job *job, const size_t *shards, size_t count, qn_shard_finished finished, void *context,
                         qn_error *err);

#endif
