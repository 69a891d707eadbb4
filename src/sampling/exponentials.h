/* The sum of many exponentials, fast and the same on every machine. */
#ifndef QN_SAMPLING_EXPONENTIALS_H
#define QN_SAMPLING_EXPONENTIALS_H

#include <stddef.h>

/* sum over i of exp(scale * (logits[i] - highest)): no logit lies above `highest`, which is finite, and scale > 0. -inf
 * is fine. Terms are computed in float32, each within 1e-6 of its value + 2e-7 * its exponent, and added in float64 in
 * a fixed order, so that the result has the same bits with any compiler and any vector width. */
double qn_sum_exponentials(const float *logits, size_t count, float highest, float scale);

#endif
