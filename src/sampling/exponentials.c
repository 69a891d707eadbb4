/* exp(-x) = 2^n * exp(r), n the integer nearest to -x / log 2 and |r| <= log(2) / 2, exp(r) by its Taylor polynomial of
 * degree 9 (the next terms are below 1e-11). Plain operations in independent lanes, which compilers keep in vector
 * registers and which IEEE 754 defines to the bit; the same code is compiled for wider registers, too. */
#include "sampling/exponentials.h"

#include <stdint.h>
#include <string.h>

enum { LANES = 16 };

/* Beyond it a term is counted as exp(-FARTHEST): nothing beside the largest, which is 1. */
static const double FARTHEST = 100.0;

/* exp(-x), x >= 0. */
static inline double decay(double x)
{
    const double round_to_integer = 6755399441055744.0; /* 1.5 * 2^52: the sum's last bit is worth 1 */
    x = x < FARTHEST ? x : FARTHEST;
    double shifted = round_to_integer - x * 1.4426950408889634, n = shifted - round_to_integer;
    double r = -x - n * 0.6931471805599453;
    double p = 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    /* The low bits of `shifted` are n; 1023 more, they are the exponent of 2^n. */
    uint64_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 1023) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return p * power;
}

__attribute__((always_inline)) static inline double sum_lanes(const float *logits, size_t count, double highest,
                                                              double scale)
{
    double lanes[LANES] = {0}, sum = 0.0;
    size_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        for (size_t lane = 0; lane < LANES; lane++) {
            lanes[lane] += decay((highest - (double)logits[i + lane]) * scale);
        }
    }
    for (size_t lane = 0; lane < LANES; lane++) {
        sum += lanes[lane];
    }
    for (; i < count; i++) {
        sum += decay((highest - (double)logits[i]) * scale);
    }
    return sum;
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static double sum_avx2(const float *logits, size_t count, double highest, double scale)
{
    return sum_lanes(logits, count, highest, scale);
}
#endif

double qn_sum_exponentials(const float *logits, size_t count, float highest, double scale)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
        return sum_avx2(logits, count, (double)highest, scale);
    }
#endif
    return sum_lanes(logits, count, (double)highest, scale);
}
