/* What the disk of a checkpoint gives to whoever reads experts from it: the yardstick for a model whose experts do not
 * fit memory, sampled beside its steps. Reads only. */
#ifndef QN_BENCH_EXPERT_DISK_H
#define QN_BENCH_EXPERT_DISK_H

#include <stdint.h>

#include "base/error.h"
#include "checkpoint/checkpoint.h"

typedef struct qn_expert_disk qn_expert_disk;

/* The checkpoint need not outlive it. QN_RESOURCE: no io_uring, no memory. */
qn_status qn_expert_disk_open(const qn_checkpoint *checkpoint, uint64_t seed, qn_expert_disk **out, qn_error *err);
void qn_expert_disk_close(qn_expert_disk *disk); /* NULL is fine */

/* One sample, *gbps in GB/s: ten pieces of 6.7 MB, one matrix of an expert of GLM-5.3 in MXFP4 each (or of a file that
 * is smaller), from random places of the checkpoint's files, four at a time, past the page cache. */
qn_status qn_expert_disk_sample(qn_expert_disk *disk, double *gbps, qn_error *err);

#endif
