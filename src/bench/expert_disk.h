/* What the disk of a checkpoint gives to whoever reads experts from it: the yardstick for a model whose experts do not
 * fit memory, sampled beside its steps. It is asked as the expert cache asks (model/expert_cache.h): parts of experts,
 * as many at once. Reads only. */
#ifndef QN_BENCH_EXPERT_DISK_H
#define QN_BENCH_EXPERT_DISK_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "model/expert_slot.h"

typedef struct qn_expert_disk qn_expert_disk;

/* part_bytes: of an expert, 0 for those that it does not have. The checkpoint need not outlive it. QN_RESOURCE: no
 * io_uring, no memory. */
qn_status qn_expert_disk_open(const qn_checkpoint *checkpoint, const size_t part_bytes[QN_EXPERT_PARTS], uint64_t seed,
                              qn_expert_disk **out, qn_error *err);
void qn_expert_disk_close(qn_expert_disk *disk); /* NULL is fine */

/* One sample, *gbps in GB/s: the parts of eight experts (of GLM-5.3 in MXFP4 160 MB), each from a random place of the
 * checkpoint's files, QN_EXPERT_READS at a time, past the page cache. A part is no longer than its file. */
qn_status qn_expert_disk_sample(qn_expert_disk *disk, double *gbps, qn_error *err);

#endif
