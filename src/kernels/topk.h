/* The k largest of n scores, ties towards the lower position: the DSA selection and the router's.
 *
 * Linear in n (no sort of the whole). NaN counts as smaller than everything. */
#ifndef QN_KERNELS_TOPK_H
#define QN_KERNELS_TOPK_H

#include <stddef.h>
#include <stdint.h>

/* Writes min(k, n) positions in ascending order to out and returns their number. `scratch`: n uint32_t. If margin is
 * not NULL it receives the gap between the smallest taken and the largest left score (infinity if none is left). */
size_t qn_topk(const float *scores, size_t n, size_t k, int32_t *out, uint32_t *scratch, float *margin);

#endif
