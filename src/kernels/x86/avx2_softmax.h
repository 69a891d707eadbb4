/* The online softmax of attention (Milakov and Gimelshein, 2018), one block of keys at a time; shared by the vector
 * tables. Include it from files compiled with AVX2 only. */
#ifndef QN_KERNELS_X86_AVX2_SOFTMAX_H
#define QN_KERNELS_X86_AVX2_SOFTMAX_H

#include <math.h>

#include "kernels/x86/avx2_exp.h"

/* A head's state: the largest score so far, the sum of exp(score - maximum), and the factor by which the last block
 * made earlier sums smaller. */
typedef struct qn_softmax {
    float maximum, sum, correction;
} qn_softmax;

static inline void qn_softmax_start(qn_softmax *head)
{
    *head = (qn_softmax){.maximum = -INFINITY, .sum = 0.0f, .correction = 0.0f};
}

static inline float qn_largest8(__m256 x)
{
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

/* Turns the dot products of a block into probabilities relative to the running maximum; `scores` has room for a whole
 * block, and what lies behind `count` becomes zero. Eight partial sums, added in a fixed way. */
static inline void qn_softmax_block(qn_softmax *head, float *scores, size_t count, float scale)
{
    for (size_t i = 0; i < QN_ATTENTION_BLOCK; i += 8)
        _mm256_storeu_ps(scores + i, _mm256_mul_ps(_mm256_loadu_ps(scores + i), _mm256_set1_ps(scale)));
    for (size_t i = count; i < QN_ATTENTION_BLOCK; i++)
        scores[i] = -INFINITY;
    __m256 largest = _mm256_set1_ps(head->maximum);
    for (size_t i = 0; i < QN_ATTENTION_BLOCK; i += 8)
        largest = _mm256_max_ps(_mm256_loadu_ps(scores + i), largest); /* passes over NaN, as the first operand */
    const float larger = qn_largest8(largest);
    __m256 sums = _mm256_setzero_ps();
    for (size_t i = 0; i < QN_ATTENTION_BLOCK; i += 8) {
        __m256 p = qn_exp8(_mm256_sub_ps(_mm256_loadu_ps(scores + i), _mm256_set1_ps(larger)));
        _mm256_storeu_ps(scores + i, p);
        sums = _mm256_add_ps(sums, p);
    }
    head->correction = _mm256_cvtss_f32(qn_exp8(_mm256_set1_ps(head->maximum - larger)));
    head->sum = fmaf(head->sum, head->correction, qn_reduce8(sums));
    head->maximum = larger;
}

static inline void qn_softmax_finish(const qn_softmax *head, float *out, size_t count)
{
    const float factor = 1.0f / head->sum;
    for (size_t i = 0; i < count; i++)
        out[i] *= factor;
}

#endif
