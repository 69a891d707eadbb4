/* Attention of the scalar reference, over float32 keys.
 *
 * The softmax is the online one (Milakov and Gimelshein, 2018): after each block of keys the running sums are scaled to
 * the new maximum. The blocks are counted along the list of selected keys, never along positions or pages, so a result
 * does not depend on where the keys lie. */
#include "kernels/ref/ref.h"

#include <math.h>
#include <string.h>

void qn_ref_store_row(void *row, const float *x, size_t count)
{
    memcpy(row, x, count * sizeof(float));
}

/* The scores of a block live on the stack. */
size_t qn_ref_attend_scratch_bytes(size_t heads, size_t latent, size_t rope)
{
    (void)heads, (void)latent, (void)rope;
    return 0;
}

/* Scores of one block of keys; returns the largest of them and `maximum`. */
static float score_block(float *scores, const float *q, size_t dim, float scale, const void *const *keys, size_t count,
                         float maximum)
{
    for (size_t i = 0; i < count; i++) {
        scores[i] = scale * qn_ref_dot(keys[i], q, dim);
        maximum = fmaxf(maximum, scores[i]);
    }
    return maximum;
}

static void add_key(float *restrict out, float p, const float *restrict key, size_t latent)
{
    for (size_t c = 0; c < latent; c++)
        out[c] += p * key[c];
}

static void scale_row(float *out, float factor, size_t latent)
{
    for (size_t c = 0; c < latent; c++)
        out[c] *= factor;
}

void qn_ref_attend(float *out, const float *q, size_t heads, size_t latent, size_t rope, float scale,
                   const void *const *keys, size_t key_count, void *scratch)
{
    (void)scratch;
    float scores[QN_ATTENTION_BLOCK];
    for (size_t h = 0; h < heads; h++) {
        const float *q_head = q + h * (latent + rope);
        float *out_head = out + h * latent;
        float maximum = -INFINITY, sum = 0.0f;
        memset(out_head, 0, latent * sizeof(float));
        for (size_t at = 0; at < key_count; at += QN_ATTENTION_BLOCK) {
            size_t count = key_count - at < QN_ATTENTION_BLOCK ? key_count - at : QN_ATTENTION_BLOCK;
            float larger = score_block(scores, q_head, latent + rope, scale, keys + at, count, maximum);
            float correction = at == 0 ? 0.0f : expf(maximum - larger);
            maximum = larger;
            sum *= correction;
            scale_row(out_head, correction, latent);
            for (size_t i = 0; i < count; i++) {
                float p = expf(scores[i] - maximum);
                sum += p;
                add_key(out_head, p, keys[at + i], latent);
            }
        }
        scale_row(out_head, 1.0f / sum, latent);
    }
}
