/* Memory that stands for weights: anonymous, larger than the caches, filled with bytes that are harmless as BF16
 * values, packed or not, as MXFP4 codes and as MXFP4 scales (no NaN, nothing subnormal, no scale of 0 or 1). */
#ifndef QN_BENCH_REGION_H
#define QN_BENCH_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/huge_memory.h"
#include "base/pool.h"

typedef struct qn_region {
    uint8_t *data; /* aligned to 2 MiB */
    size_t bytes;
    qn_huge_memory memory; /* that they lie in */
} qn_region;

/* Mapped and written by the pool's threads. huge: 2 MiB pages are asked for, else refused. */
qn_status qn_region_new(size_t bytes, bool huge, qn_pool *pool, qn_region *out, qn_error *err);
void qn_region_free(qn_region *region); /* {0} is fine */

/* Every byte loaded once by the pool's threads; returns the seconds. */
double qn_region_read(const qn_region *region, qn_pool *pool);

#endif
