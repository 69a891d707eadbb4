/* The indexer's scores of the scalar reference, over float32 keys. */
#include "kernels/ref/ref.h"

#include <math.h>
#include <string.h>

size_t qn_ref_index_packed_bytes(size_t heads, size_t dim)
{
    return heads * dim * sizeof(float);
}

size_t qn_ref_index_scratch_bytes(size_t dim)
{
    (void)dim;
    return 0;
}

void qn_ref_index_pack(void *packed, const float *q, size_t heads, size_t dim)
{
    memcpy(packed, q, heads * dim * sizeof(float));
}

static float score(const float *q, const float *weights, size_t heads, size_t dim, const float *key)
{
    const float scale = 1.0f / sqrtf((float)dim);
    float total = 0.0f;
    for (size_t h = 0; h < heads; h++)
        total += weights[h] * fmaxf(scale * qn_ref_dot(key, q + h * dim, dim), 0.0f);
    return total;
}

void qn_ref_index_scores(float *const *scores, const void *const *q, const float *const *weights, size_t queries,
                         size_t heads, size_t dim, const void *keys, size_t key_count, void *scratch)
{
    (void)scratch;
    for (size_t i = 0; i < key_count; i++)
        for (size_t t = 0; t < queries; t++)
            scores[t][i] = score(q[t], weights[t], heads, dim, (const float *)keys + i * dim);
}
