/* What this machine and quern's own kernels on it do, in figures: the yardstick of benches and the ground of plans.
 *
 * Everything is measured in rounds, one sample of each figure a round, so that a machine whose speed drifts (a shared
 * host, a busy neighbour) moves all figures together: compare ratios, and look at min and max. Weights are read cold:
 * the kernels walk through a region larger than the caches, on 4 KiB pages, as the mapped files of a checkpoint are. */
#ifndef QN_BENCH_HARDWARE_H
#define QN_BENCH_HARDWARE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "bench/statistic.h"
#include "kernels/kernels.h"

enum { QN_ROW_POINTS = 7, QN_THREAD_COUNTS = 12, QN_CPU_NAME_BYTES = 96, QN_ISA_NAME_BYTES = 16 };

/* The rows of activations that matrix products are measured with: 1, 2, 4, 8, 16, 64, 512. */
extern const size_t qn_row_points[QN_ROW_POINTS];

/* As /proc/cpuinfo calls it; "unknown" when it does not. */
void qn_cpu_name(char out[QN_CPU_NAME_BYTES]);

typedef enum qn_figure {
    QN_FIGURE_FP32_ONE_THREAD, /* GFLOP/s of fused multiply-adds from registers, the widest that the CPU has */
    QN_FIGURE_FP32,
    QN_FIGURE_BF16_ONE_THREAD, /* GFLOP/s of BF16 dot products (AVX512_BF16); not measured without them */
    QN_FIGURE_BF16,
    QN_FIGURE_MXFP4_ROWS,                                       /* and the following: matmul with MXFP4 weights */
    QN_FIGURE_BF16_ROWS = QN_FIGURE_MXFP4_ROWS + QN_ROW_POINTS, /* the same with BF16 weights */
    /* matmul_transposed of BF16 weights [192, 512], at 1 row (GB/s, cold) and at 8 */
    QN_FIGURE_TRANSPOSED_1 = QN_FIGURE_BF16_ROWS + QN_ROW_POINTS,
    QN_FIGURE_TRANSPOSED_8,
    QN_FIGURE_ATTENTION_FEW, /* GFLOP/s of the attention core: 64 heads, 512 + 64 values a key, 64 keys; keys in cache
                              */
    QN_FIGURE_ATTENTION,     /* the same with 2048 keys */
    QN_FIGURE_INDEXER,       /* GFLOP/s of the indexer's scores: 32 heads of 128, 16384 keys, in cache */
    QN_FIGURE_TOPK,          /* M keys/s of choosing 2048 out of 32768 scores, on one thread */
    QN_FIGURE_ROW_WORK,      /* M values/s, one thread: reading float32 and writing packed BF16 activations */
    QN_FIGURE_LOOP,          /* microseconds to start and end a loop over all threads */
    QN_FIGURE_DISK_SEQUENTIAL,
    QN_FIGURE_DISK_RANDOM, /* reads of one expert's matrix (6.7 MB, MXFP4) at random places, 4 at a time */
    QN_FIGURE_DISK_WRITE,
    QN_FIGURES
} qn_figure;

typedef struct qn_figure_info {
    char name[24];     /* of the JSON: "mxfp4_rows_64" */
    const char *unit;  /* "GB/s", "GFLOP/s", "us", ... */
    const char *label; /* for people */
} qn_figure_info;

qn_figure_info qn_figure_describe(qn_figure figure);

/* Reading memory with so many threads: each byte once, GB/s (10^9 bytes a second). */
typedef struct qn_read_rate {
    size_t threads;
    qn_statistic huge_pages, small_pages; /* 2 MiB (madvise) and 4 KiB */
} qn_read_rate;

typedef struct qn_hardware {
    char cpu[QN_CPU_NAME_BYTES]; /* as /proc/cpuinfo calls it */
    char isa[QN_ISA_NAME_BYTES]; /* the kernels' table */
    size_t threads;              /* of the figures that name no number */
    size_t region_bytes;         /* that the weights were read from */
    qn_read_rate read[QN_THREAD_COUNTS];
    size_t read_count;
    qn_statistic figure[QN_FIGURES]; /* samples 0: not measured */
} qn_hardware;

typedef struct qn_hardware_options {
    const qn_kernels *kernels;
    const char *disk;    /* a folder whose disk is measured, with an unnamed file of up to 1 GiB in it; NULL: none */
    double seconds;      /* what to take, about; each figure gets at least 3 samples, so it may be more */
    size_t memory_bytes; /* most to use; 0: 1.5 GiB, or a quarter of what is available */
    bool show_progress;
} qn_hardware_options;

/* Uses all CPUs that this process may run on. QN_RESOURCE when memory, threads or the disk are not to be had. */
qn_status qn_hardware_measure(const qn_hardware_options *options, qn_hardware *out, qn_error *err);

/* As JSON, and back: `what` names the document in errors. json_decref frees; NULL when out of memory. */
json_t *qn_hardware_to_json(const qn_hardware *hardware);
qn_status qn_hardware_from_json(const json_t *root, const char *what, qn_hardware *out, qn_error *err);

#endif
