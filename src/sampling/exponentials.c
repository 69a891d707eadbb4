/* exp(x) = 2^n * exp(r), n the integer nearest to x / log 2 and |r| <= log(2) / 2, exp(r) by its Taylor polynomial of
 * degree 7 (the next term is below 5.2e-9). Written in lanes of plain float operations, which compilers keep in vector
 * registers and which IEEE 754 defines to the bit. */
#include "sampling/exponentials.h"

#include <stdint.h>
#include <string.h>

enum { LANES = 16 };

static inline int32_t bits_of(float value)
{
    int32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float from_bits(int32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* exp(-x), x >= 0. Beyond 87, where the result would leave the normal numbers, that of 87: far below what a sum of 1 or
 * more in float64 feels. The bits of positive floats compare like the floats, and unlike them without a branch. */
static inline float decay(float x)
{
    const float round_to_integer = 12582912.0F;                       /* 1.5 * 2^23: the sum's last bit is worth 1 */
    const float log2_high = 0.693359375F, log2_low = -2.12194440e-4F; /* log 2 in two parts, the high one of 10 bits */
    const int32_t most = 0x42ae0000;                                  /* 87.0F */
    int32_t magnitude = bits_of(x) & 0x7fffffff;                      /* -0 counts as 0 */
    x = -from_bits(magnitude < most ? magnitude : most);
    float shifted = x * 1.44269504F + round_to_integer, n = shifted - round_to_integer;
    float r = (x - n * log2_high) - n * log2_low;
    float p = 1.0F / 5040.0F;
    p = p * r + 1.0F / 720.0F;
    p = p * r + 1.0F / 120.0F;
    p = p * r + 1.0F / 24.0F;
    p = p * r + 1.0F / 6.0F;
    p = p * r + 0.5F;
    p = p * r + 1.0F;
    p = p * r + 1.0F;
    return p * from_bits(((int32_t)n + 127) << 23);
}

double qn_sum_exponentials(const float *logits, size_t count, float highest, float scale)
{
    double lanes[LANES] = {0}, sum = 0.0;
    size_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        for (size_t lane = 0; lane < LANES; lane++) {
            lanes[lane] += (double)decay((highest - logits[i + lane]) * scale);
        }
    }
    for (size_t lane = 0; lane < LANES; lane++) {
        sum += lanes[lane];
    }
    for (; i < count; i++) {
        sum += (double)decay((highest - logits[i]) * scale);
    }
    return sum;
}
