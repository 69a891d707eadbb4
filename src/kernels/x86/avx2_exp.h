/* exp of eight float32, within 1 ulp over the whole range, subnormal results included.
 *
 * exp(x) = 2^n exp(r) with n = round(x / ln 2) and |r| <= ln(2) / 2; exp(r) by its Taylor series to r^7 / 7!, whose
 * rest is below 2^-27. ln 2 is taken in two parts, the first with so few bits that n times it is exact. 2^n is applied
 * in two steps, since n reaches beyond the exponents of normal numbers. Include it from avx2*.c only. */
#ifndef QN_KERNELS_X86_AVX2_EXP_H
#define QN_KERNELS_X86_AVX2_EXP_H

#include "kernels/x86/avx2_lanes.h"

QN_INLINE __m256 qn_power_of_two(__m256i n)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}

QN_INLINE __m256 qn_exp8(__m256 x)
{
    /* beyond these the result is 0 or infinity; NaN, as the second operand, passes */
    x = _mm256_max_ps(_mm256_set1_ps(-105.0f), _mm256_min_ps(_mm256_set1_ps(89.0f), x));
    __m256 n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(0x1.715476p+0f)),
                               _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0x1.62ep-1f), x);
    r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0x1.0bfbe8p-15f), r);

    static const float factors[] = {0x1.6c16c2p-10f, 0x1.111112p-7f, 0x1.555556p-5f, 0x1.555556p-3f, 0.5f};
    __m256 p = _mm256_set1_ps(0x1.a01a02p-13f);
    for (int i = 0; i < 5; i++)
        p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(factors[i]));
    p = _mm256_fmadd_ps(p, _mm256_mul_ps(r, r), r);
    p = _mm256_add_ps(p, _mm256_set1_ps(1.0f));

    __m256i exponent = _mm256_cvtps_epi32(n);
    __m256i part = _mm256_srai_epi32(exponent, 1);
    p = _mm256_mul_ps(p, qn_power_of_two(part));
    return _mm256_mul_ps(p, qn_power_of_two(_mm256_sub_epi32(exponent, part)));
}

#endif
