/* AVX-512 on machines without it, for the tests alone: SIMDe's emulation, and the few intrinsics that SIMDe 0.7.4
 * lacks. The names of what the sources export are changed, so that the emulated table links beside the native one. */
#ifndef TESTS_KERNELS_EMULATED_AVX512_H
#define TESTS_KERNELS_EMULATED_AVX512_H

#define qn_kernels_avx512bf16 qn_kernels_avx512bf16_emulated
#define qn_avx512bf16_packed_bytes qn_avx512bf16_emulated_packed_bytes
#define qn_avx512bf16_pack qn_avx512bf16_emulated_pack
#define qn_avx512bf16_matmul qn_avx512bf16_emulated_matmul
#define qn_avx512bf16_matmul_transposed qn_avx512bf16_emulated_matmul_transposed
#define qn_avx512bf16_packed_matmul qn_avx512bf16_emulated_packed_matmul
#define qn_avx512bf16_attend_scratch_bytes qn_avx512bf16_emulated_attend_scratch_bytes
#define qn_avx512bf16_attend qn_avx512bf16_emulated_attend
#define qn_avx512bf16_index_packed_bytes qn_avx512bf16_emulated_index_packed_bytes
#define qn_avx512bf16_index_scratch_bytes qn_avx512bf16_emulated_index_scratch_bytes
#define qn_avx512bf16_index_pack qn_avx512bf16_emulated_index_pack
#define qn_avx512bf16_index_scores qn_avx512bf16_emulated_index_scores
#define qn_avx512bf16_form qn_avx512bf16_emulated_form
#define qn_avx512bf16_set_form qn_avx512bf16_emulated_set_form
#define qn_avx512bf16_forms_agree qn_avx512bf16_emulated_forms_agree
#define qn_avx512bf16_cross_queries qn_avx512bf16_emulated_cross_queries
#define qn_avx512bf16_cross_keys qn_avx512bf16_emulated_cross_keys

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>

#include <string.h>

/* One step of vdpbf16ps: the odd products, then the even ones, each added with one rounding; subnormal operands count
 * as zero, as in the instruction. */
static inline __m256 emulated_dot_half(__m256 sums, __m256i a, __m256i b)
{
    const __m256i high = _mm256_set1_epi32((int)0xffff0000), exponent = _mm256_set1_epi32(0x7f800000);
    __m256i words[4] = {_mm256_and_si256(a, high), _mm256_and_si256(b, high), _mm256_slli_epi32(a, 16),
                        _mm256_slli_epi32(b, 16)};
    for (int i = 0; i < 4; i++) {
        __m256i subnormal = _mm256_cmpeq_epi32(_mm256_and_si256(words[i], exponent), _mm256_setzero_si256());
        words[i] = _mm256_andnot_si256(subnormal, words[i]);
    }
    sums = _mm256_fmadd_ps(_mm256_castsi256_ps(words[0]), _mm256_castsi256_ps(words[1]), sums);
    return _mm256_fmadd_ps(_mm256_castsi256_ps(words[2]), _mm256_castsi256_ps(words[3]), sums);
}

static inline __m512 emulated_dpbf16_ps(__m512 sums, __m512i a, __m512i b)
{
    __m256 lanes[2];
    __m256i left[2], right[2];
    memcpy(lanes, &sums, sizeof lanes);
    memcpy(left, &a, sizeof left);
    memcpy(right, &b, sizeof right);
    for (int half = 0; half < 2; half++)
        lanes[half] = emulated_dot_half(lanes[half], left[half], right[half]);
    memcpy(&sums, lanes, sizeof sums);
    return sums;
}

static inline __m512i emulated_cvtepu16_epi32(__m256i words)
{
    __m256i halves[2] = {_mm256_cvtepu16_epi32(_mm256_castsi256_si128(words)),
                         _mm256_cvtepu16_epi32(_mm256_extracti128_si256(words, 1))};
    __m512i out;
    memcpy(&out, halves, sizeof out);
    return out;
}

static inline __m512i emulated_cvtepu8_epi32(__m128i bytes)
{
    return emulated_cvtepu16_epi32(_mm256_cvtepu8_epi16(bytes));
}

static inline __m512 emulated_maskz_loadu_ps(unsigned mask, const float *p)
{
    float lanes[16] = {0};
    __m512 out;
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1)
            lanes[i] = p[i];
    memcpy(&out, lanes, sizeof out);
    return out;
}

static inline void emulated_mask_storeu_ps(float *p, unsigned mask, __m512 values)
{
    float lanes[16];
    memcpy(lanes, &values, sizeof lanes);
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1)
            p[i] = lanes[i];
}

#undef _mm512_dpbf16_ps
#undef _mm512_cvtepu16_epi32
#undef _mm512_cvtepu8_epi32
#undef _mm512_maskz_loadu_ps
#undef _mm512_mask_storeu_ps
#define _mm512_dpbf16_ps(sums, a, b) emulated_dpbf16_ps(sums, (__m512i)(a), (__m512i)(b))
#define _mm512_cvtepu16_epi32(words) emulated_cvtepu16_epi32(words)
#define _mm512_cvtepu8_epi32(bytes) emulated_cvtepu8_epi32(bytes)
#define _mm512_maskz_loadu_ps(mask, p) emulated_maskz_loadu_ps(mask, p)
#define _mm512_mask_storeu_ps(p, mask, values) emulated_mask_storeu_ps(p, mask, values)

#endif
