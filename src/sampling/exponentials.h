/* The sum of many exponentials, fast and the same on every machine. */
#ifndef QN_SAMPLING_EXPONENTIALS_H
#define QN_SAMPLING_EXPONENTIALS_H

#include <stddef.h>

/* The sum is off by less than this part of itself. */
static const double QN_EXPONENTIALS_ERROR = 1e-10;

/* sum over i of exp(scale * (logits[i] - highest)): no logit lies above `highest`, which is finite, and scale > 0. -inf
 * is fine, NaN is not. Computed in float64 and added in a fixed order, so that the result has the same bits with any
 * compiler and any vector width. */
double qn_sum_exponentials(const float *logits, size_t count, float highest, double scale);

#endif
