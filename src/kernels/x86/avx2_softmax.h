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

/* Turns the dot products of a block into probabilities relative to the running maximum; `scores` has room for a whole
 * block, and what lies behind `count` becomes zero. Eight partial sums, added in a fixed way. */
static inline void qn_softmax_block(qn_softmax *head, float *scores, size_t count, float scale)
{
    float larger = head->maximum;
    for (size_t i = 0; i < count; i++) {
        scores[i] *= scale;
        larger = scores[i] > larger ? scores[i] : larger;
    }
    for (size_t i = count; i < QN_ATTENTION_BLOCK; i++)
        scores[i] = -INFINITY;
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
