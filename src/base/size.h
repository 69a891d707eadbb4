/* Small arithmetic on sizes that every room needs. */
#ifndef QN_BASE_SIZE_H
#define QN_BASE_SIZE_H

#include <stddef.h>

static inline size_t qn_min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t qn_max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* a / b rounded up; b is not 0. */
static inline size_t qn_ceil_div(size_t a, size_t b)
{
    return a / b + (a % b != 0);
}

#endif
