/* Norm, activation and sums of rows. Ends of rows go through masked loads and stores, so that an element's result never
 * depends on where it lies. */
#include "kernels/x86/avx2_exp.h"

#include <math.h>

/* As the reference: 16 lanes in double, element i in lane i mod 16. The products are exact there. */
void qn_avx2_rms_norm(float *out, const float *x, const float *weight, size_t count, float eps)
{
    enum { LANES = 16 };
    __m256d sums[4];
    double lanes[LANES];
    size_t at = 0;
    for (int v = 0; v < 4; v++)
        sums[v] = _mm256_setzero_pd();
    for (; at + LANES <= count; at += LANES)
        for (int v = 0; v < 4; v++) {
            __m256d wide = _mm256_cvtps_pd(_mm_loadu_ps(x + at + 4 * (size_t)v));
            sums[v] = _mm256_fmadd_pd(wide, wide, sums[v]);
        }
    for (int v = 0; v < 4; v++)
        _mm256_storeu_pd(lanes + 4 * v, sums[v]);
    for (size_t l = 0; l < count - at; l++)
        lanes[l] += (double)x[at + l] * (double)x[at + l];
    for (size_t half = LANES / 2; half > 0; half /= 2)
        for (size_t l = 0; l < half; l++)
            lanes[l] += lanes[l + half];
    const float factor = 1.0f / sqrtf((float)(lanes[0] / (double)count) + eps);
    for (size_t i = 0; i < count; i++)
        out[i] = x[i] * factor * weight[i];
}

QN_INLINE __m256 silu_times(__m256 gate, __m256 up)
{
    __m256 minus = _mm256_xor_ps(gate, _mm256_set1_ps(-0.0f));
    __m256 divisor = _mm256_add_ps(_mm256_set1_ps(1.0f), qn_exp8(minus));
    return _mm256_mul_ps(_mm256_div_ps(gate, divisor), up);
}

void qn_avx2_silu_multiply(float *out, const float *gate, const float *up, size_t count)
{
    size_t i = 0;
    for (; i + 8 <= count; i += 8)
        _mm256_storeu_ps(out + i, silu_times(_mm256_loadu_ps(gate + i), _mm256_loadu_ps(up + i)));
    __m256i mask = qn_tail_mask(count - i);
    if (i < count)
        _mm256_maskstore_ps(out + i, mask,
                            silu_times(_mm256_maskload_ps(gate + i, mask), _mm256_maskload_ps(up + i, mask)));
}

void qn_avx2_axpy(float *y, float a, const float *x, size_t count)
{
    const __m256 factor = _mm256_set1_ps(a);
    size_t i = 0;
    for (; i + 8 <= count; i += 8)
        _mm256_storeu_ps(y + i, _mm256_fmadd_ps(factor, _mm256_loadu_ps(x + i), _mm256_loadu_ps(y + i)));
    __m256i mask = qn_tail_mask(count - i);
    if (i < count)
        _mm256_maskstore_ps(y + i, mask,
                            _mm256_fmadd_ps(factor, _mm256_maskload_ps(x + i, mask), _mm256_maskload_ps(y + i, mask)));
}
