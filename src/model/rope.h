/* Rotary position embedding as transformers computes it for this family: frequencies and angles in float32.
 *
 * Default: frequency i is 1 / f32(theta^(2i / dims)). YaRN (Peng et al., 2023, arXiv:2309.00071, section 3.4, with the
 * parameters of transformers' rope_utils): frequencies between those and the same divided by `factor`, by a linear ramp
 * over i; cosines and sines are multiplied by an attention factor; and the softmax scale by the square of
 * 0.1 * mscale_all_dim * ln(factor) + 1. The angle of position t is the float32 product f32(t) * frequency. Vectors are
 * rotated in pairs (x[2i], x[2i + 1]) that stay in place. */
#ifndef QN_MODEL_ROPE_H
#define QN_MODEL_ROPE_H

#include <stddef.h>

#include "base/error.h"
#include "checkpoint/config.h"

enum { QN_ROPE_MAX_PAIRS = 1 << 11 }; /* config.c bounds qk_rope_head_dim */

typedef struct qn_rope {
    size_t pairs; /* qk_rope_head_dim / 2 */
    float inv_freq[QN_ROPE_MAX_PAIRS];
    float attention_factor; /* of cosines and sines */
    float softmax_scale;    /* (qk_nope_head_dim + qk_rope_head_dim)^-1/2, YaRN's square included */
} qn_rope;

/* QN_BAD_INPUT when the parameters give no finite frequencies. */
qn_status qn_rope_make(const qn_config *config, qn_rope *out, qn_error *err);

/* cosines[pairs] and sines[pairs] of a position. */
void qn_rope_angles(const qn_rope *rope, size_t position, float *cosines, float *sines);

/* Rotates x [2 * pairs] in place. */
void qn_rope_rotate(float *x, const float *cosines, const float *sines, size_t pairs);

#endif
