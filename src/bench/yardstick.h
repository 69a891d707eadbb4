/* The machine's own limits, sampled beside something else that is measured. */
#ifndef QN_BENCH_YARDSTICK_H
#define QN_BENCH_YARDSTICK_H

#include <stddef.h>

#include "base/error.h"
#include "base/pool.h"
#include "bench/region.h"
#include "kernels/kernels.h"

/* Start from {0}. */
typedef struct qn_yardstick {
    qn_pool *pool;
    qn_region small, huge;
} qn_yardstick;

typedef struct qn_limits {
    double read_small, read_huge; /* GB/s, plain read by all threads from 4 KiB and 2 MiB pages */
    double fp32, bf16;            /* GFLOP/s by all threads: float32 multiply-adds; BF16 dot products, 0: the kernels,
                                     or the CPU, have none */
} qn_limits;

/* The peak that arithmetic is held against: the faster of the two, since either gives a BF16 product its bits. */
double qn_limits_peak(const qn_limits *limits);

/* Of one region: 256 MiB, or an eighth of the available memory (0: not known) if that is less, but at least 16 MiB. */
size_t qn_yardstick_bytes(size_t available);

/* Takes two regions; says so in the log if they are smaller than 256 MiB. QN_RESOURCE. */
qn_status qn_yardstick_open(qn_pool *pool, qn_yardstick *out, qn_error *err);
qn_status qn_yardstick_open_within(qn_pool *pool, size_t available, qn_yardstick *out, qn_error *err);
void qn_yardstick_close(qn_yardstick *yardstick);

/* One sample of each; some 70 ms at 10 GB/s. */
qn_limits qn_yardstick_sample(const qn_yardstick *yardstick, const qn_kernels *kernels);

#endif
