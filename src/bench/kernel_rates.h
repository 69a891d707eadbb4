/* What quern's kernels reach, one sample at a time, through the same loops that the model runs them in. */
#ifndef QN_BENCH_KERNEL_RATES_H
#define QN_BENCH_KERNEL_RATES_H

#include "base/error.h"
#include "base/pool.h"
#include "bench/hardware.h"
#include "bench/region.h"
#include "kernels/kernels.h"

typedef struct qn_kernel_rates qn_kernel_rates;

/* Region and pool outlive it. Allocates some 90 MB. */
qn_status qn_kernel_rates_new(const qn_kernels *kernels, qn_pool *pool, const qn_region *region, qn_kernel_rates **out,
                              qn_error *err);
void qn_kernel_rates_free(qn_kernel_rates *rates); /* NULL is fine */

/* One sample of a figure from QN_FIGURE_MXFP4_ROWS to QN_FIGURE_LOOP, in its unit. A sample takes some
 * `milliseconds`; the first one of a figure finds out how much work that is, and takes longer. */
double qn_kernel_rates_sample(qn_kernel_rates *rates, qn_figure figure, double milliseconds);

#endif
