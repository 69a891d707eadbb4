/* Is every value of an array a number, neither NaN nor infinite? At the speed of memory. */
#ifndef QN_BASE_FINITE_H
#define QN_BASE_FINITE_H

#include <stdbool.h>
#include <stddef.h>

bool qn_all_finite(const float *values, size_t count);

#endif
