/* Measured values of one kind, all of them kept, and what a distribution of them is told by.
 *
 * The p-th percentile is by nearest rank: the smallest value that at least p percent of the values do not exceed. So it
 * is always a value that was measured, p100 is the largest, and of few values the high ones are the largest too: a p99
 * of less than 100 values says no more than the maximum. */
#ifndef QN_BENCH_SERVE_SAMPLES_H
#define QN_BENCH_SERVE_SAMPLES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum { QN_SAMPLES_MAX = 1 << 24 }; /* 128 MiB */

/* Start from {0}. */
typedef struct qn_samples {
    double *values;
    size_t count, capacity;
    size_t dropped; /* past QN_SAMPLES_MAX, or for want of memory: the others tell less than all */
    bool sorted;
} qn_samples;

void qn_samples_add(qn_samples *samples, double value);

/* percent in (0, 100]; 0 of no samples. Sorts the values. */
double qn_samples_percentile(qn_samples *samples, double percent);
double qn_samples_max(qn_samples *samples);
double qn_samples_mean(const qn_samples *samples);

/* {"count", "dropped", "mean", "p50", "p90", "p99", "max"}; of no samples only the counts. NULL: no memory. */
json_t *qn_samples_json(qn_samples *samples);

void qn_samples_free(qn_samples *samples); /* back to {0} */

#endif
