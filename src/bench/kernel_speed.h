/* How near quern's kernels come to this machine's limits: every table that its CPU runs, on the shapes of GLM-5.3.
 *
 * Each sample is taken right behind a plain read of the same memory that the weights lie in (2 MiB pages), and
 * arithmetic out of registers; shares are medians of the ratios. A case's samples are taken one after the other. */
#ifndef QN_BENCH_KERNEL_SPEED_H
#define QN_BENCH_KERNEL_SPEED_H

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "bench/hardware.h"
#include "bench/kernel_case.h"
#include "bench/statistic.h"
#include "kernels/kernels.h"

enum { QN_KERNEL_MAX_TABLES = 8, QN_KERNEL_MAX_REPEATS = 64 };

typedef struct qn_kernel_speed_options {
    const qn_kernels *kernels; /* NULL: every table that the CPU runs */
    bool kinds[QN_KERNEL_KINDS];
    const size_t *rows; /* of activations */
    size_t row_count;   /* 1 .. QN_KERNEL_MAX_ROW_POINTS */
    size_t repeats;     /* 1 .. QN_KERNEL_MAX_REPEATS */
    size_t threads;     /* 0: all CPUs */
    double sample_ms;
    bool show_progress;
    const atomic_bool *stop; /* may be NULL */
} qn_kernel_speed_options;

typedef struct qn_kernel_figure {
    const qn_kernels *kernels;
    qn_kernel_case which;
    qn_statistic gflops, gbps, mkeys;    /* samples 0 where the kernel has no such work; mkeys: million keys a second */
    qn_statistic peak_share, read_share; /* the same */
} qn_kernel_figure;

typedef struct qn_kernel_speed {
    char cpu[QN_CPU_NAME_BYTES];
    size_t threads, region_bytes;
    qn_statistic read_small, read_huge; /* GB/s */
    qn_statistic fp32, bf16;            /* GFLOP/s; samples 0: no table uses it */
    qn_kernel_figure *figures;          /* [count], by table, kernel, shape, rows */
    size_t count;
} qn_kernel_speed;

/* QN_RESOURCE; QN_CANCELLED. */
qn_status qn_kernel_speed_measure(const qn_kernel_speed_options *options, qn_kernel_speed *out, qn_error *err);
void qn_kernel_speed_free(qn_kernel_speed *speed); /* {0} is fine */

/* json_decref frees; NULL when out of memory. */
json_t *qn_kernel_speed_to_json(const qn_kernel_speed *speed);

#endif
