/* Counts of values by size, in the form that Prometheus knows: how many were at most each of some fixed bounds, how
 * many there were at all, and their sum. A plain value with nothing to release; whoever shares one brings a lock. */
#ifndef QN_BASE_HISTOGRAM_H
#define QN_BASE_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

enum { QN_HISTOGRAM_MAX_BOUNDS = 32 };

typedef struct qn_histogram {
    const double *bounds;                         /* ascending; lives as long as the histogram */
    size_t bound_count;                           /* at most QN_HISTOGRAM_MAX_BOUNDS */
    uint64_t counts[QN_HISTOGRAM_MAX_BOUNDS + 1]; /* values above bounds[i - 1], at most bounds[i]; the last: beyond */
    uint64_t count;
    double sum;
} qn_histogram;

/* Empty, with these bounds. */
void qn_histogram_init(qn_histogram *histogram, const double *bounds, size_t bound_count);

void qn_histogram_add(qn_histogram *histogram, double value);

/* Values that were at most bounds[i]; i == bound_count: all. */
uint64_t qn_histogram_at_most(const qn_histogram *histogram, size_t i);

#endif
