/* Four passes over the values, each fixing one byte of the border's bit pattern from the top. */
#include "sampling/selection.h"

#include <string.h>

enum { RADIX = 256 };

float qn_from_ordered_bits(uint32_t bits)
{
    float value;
    bits = (bits & UINT32_C(0x80000000)) != 0 ? bits & UINT32_C(0x7fffffff) : ~bits;
    memcpy(&value, &bits, sizeof value);
    return value;
}

uint32_t qn_select_border(const float *values, const uint64_t *weights, size_t count, uint64_t target, uint64_t *before)
{
    uint64_t histogram[RADIX], sum = 0;
    uint32_t prefix = 0, mask = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        memset(histogram, 0, sizeof histogram);
        for (size_t i = 0; i < count; i++) {
            uint32_t bits = qn_ordered_bits(values[i]);
            if ((bits & mask) == prefix) {
                histogram[(bits >> shift) & (RADIX - 1)] += weights == NULL ? 1 : weights[i];
            }
        }
        uint32_t digit = RADIX - 1;
        while (digit > 0 && sum + histogram[digit] < target) {
            sum += histogram[digit--];
        }
        prefix |= digit << shift;
        mask |= UINT32_C(0xff) << shift;
    }
    *before = sum;
    return prefix;
}
