/* The k-th largest of many floats, or the one at which a weight is reached, without sorting them. */
#ifndef QN_SAMPLING_SELECTION_H
#define QN_SAMPLING_SELECTION_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A float's bits as an integer of the same order, -0 and +0 as one. */
static inline uint32_t qn_ordered_bits(float value)
{
    uint32_t bits;
    value += 0.0F;
    memcpy(&bits, &value, sizeof bits);
    return bits ^ ((bits >> 31) != 0 ? UINT32_MAX : UINT32_C(0x80000000));
}

float qn_from_ordered_bits(uint32_t bits);

/* Going down from the largest of values [count], the sum of weights [count] (NULL: 1 each) reaches `target` at some
 * value: its ordered bits, and in *before the sum over all larger ones. The weights must sum to target at least;
 * target >= 1. Radix selection: linear, no NaN. */
uint32_t qn_select_border(const float *values, const uint64_t *weights, size_t count, uint64_t target,
                          uint64_t *before);

#endif
