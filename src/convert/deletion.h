/* Frees the space of the source on the way: a file of it is removed once all its tensors lie in finished files of the
 * output, whichever run wrote them, and these files have been read back from the disk and found to be what was written.
 *
 * The order keeps every tensor on disk at any moment: output synced and in its place, its folder synced, read back,
 * then the source's file removed. Only files that the index names are ever removed. Internal to this room. */
#ifndef QN_CONVERT_DELETION_H
#define QN_CONVERT_DELETION_H

#include <stddef.h>

#include "base/error.h"
#include "convert/job.h"

typedef struct qn_deletion qn_deletion;

/* Refuses (QN_USAGE) what deletion could not or must not do: files that are symbolic links, whose content would stay
 * where it is; a checkpoint without an index, which could not be opened any more by a run that goes on; a folder that
 * may not be changed. */
qn_status qn_deletion_new(const qn_job *job, qn_deletion **out, qn_error *err);
void qn_deletion_free(qn_deletion *deletion); /* NULL is fine */

/* File `shard` of the plan is in its place: removes what of the source is not needed any more. A qn_shard_finished
 * (workers.h); `deletion` is a qn_deletion. Several threads may call. QN_FAILED when a finished file is not what was
 * written. */
qn_status qn_deletion_after(void *deletion, size_t shard, qn_error *err);

/* The same for everything that is done, by whatever run. */
qn_status qn_deletion_sweep(qn_deletion *deletion, qn_error *err);

#endif
