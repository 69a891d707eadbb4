/* The indexer's scores of the scalar reference, over float32 keys. */
#include "kernels/ref/ref.h"

#include <math.h>

void qn_ref_index_scores(float *scores, const float *q, const float *weights, size_t heads, size_t dim,
                         const void *keys, size_t key_count)
{
    float scale = 1.0f / sqrtf((float)dim);
    const float *rows = keys;
    for (size_t i = 0; i < key_count; i++) {
        float total = 0.0f;
        for (size_t h = 0; h < heads; h++) {
            float score = scale * qn_ref_dot(rows + i * dim, q + h * dim, dim);
            total += weights[h] * fmaxf(score, 0.0f);
        }
        scores[i] = total;
    }
}
