/* Several measurements of one thing. */
#ifndef QN_BENCH_STATISTIC_H
#define QN_BENCH_STATISTIC_H

#include <stddef.h>

typedef struct qn_statistic {
    double min, median, p99, max;
    size_t samples; /* 0: not measured, the others are 0 */
} qn_statistic;

/* Sorts the values. The median of an even number is the lower of the two in the middle; 99 in 100 values are
 * at most p99. */
qn_statistic qn_statistic_of(double *values, size_t count);

#endif
