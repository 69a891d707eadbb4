/* The parameters are mixed in the precision that transformers mixes them in: Python's floats are doubles and meet the
 * float32 tensors as float32, so each product and quotient below is rounded where PyTorch rounds it. */
#include "model/rope.h"

#include <math.h>

/* How much a context stretched `scale` times sharpens attention. */
static double magnitude_scale(double scale, double mscale)
{
    return scale <= 1 ? 1.0 : 0.1 * mscale * log(scale) + 1.0;
}

static double attention_factor(const qn_rope_parameters *p)
{
    if (p->attention_factor >= 0)
        return p->attention_factor;
    if (p->mscale != 0 && p->mscale_all_dim != 0)
        return magnitude_scale(p->factor, p->mscale) / magnitude_scale(p->factor, p->mscale_all_dim);
    return magnitude_scale(p->factor, 1);
}

/* The (fractional) pair whose wave turns `rotations` times within the original context. */
static double pair_with_rotations(const qn_rope_parameters *p, double rotations, double dims)
{
    double context = (double)p->original_max_position_embeddings;
    return dims * log(context / (rotations * 2 * M_PI)) / (2 * log(p->rope_theta));
}

typedef struct ramp {
    double low, high;
} ramp;

/* Pairs below `low` keep their frequency, pairs above `high` are slowed down by the full factor. */
static ramp interpolation_ramp(const qn_rope_parameters *p, size_t pairs)
{
    double dims = 2 * (double)pairs;
    ramp r = {pair_with_rotations(p, p->beta_fast, dims), pair_with_rotations(p, p->beta_slow, dims)};
    if (p->truncate) {
        r.low = floor(r.low);
        r.high = ceil(r.high);
    }
    r.low = fmax(r.low, 0);
    r.high = fmin(r.high, dims - 1);
    if (r.low == r.high)
        r.high += 0.001;
    return r;
}

static float yarn_frequency(const qn_rope_parameters *p, ramp r, size_t pair, float power)
{
    float position = ((float)pair - (float)r.low) / (float)(r.high - r.low);
    float kept = 1.0f - fminf(fmaxf(position, 0.0f), 1.0f);
    float slowed_down = 1.0f / ((float)p->factor * power);
    return slowed_down * (1.0f - kept) + 1.0f / power * kept;
}

qn_status qn_rope_make(const qn_config *config, qn_rope *out, qn_error *err)
{
    const qn_rope_parameters *p = &config->rope;
    bool yarn = p->rope_type == QN_ROPE_YARN;
    size_t pairs = config->qk_rope_head_dim / 2;
    if (pairs > QN_ROPE_MAX_PAIRS)
        return qn_fail(err, QN_BAD_INPUT, "config.json: qk_rope_head_dim %zu: at most %d is supported",
                       config->qk_rope_head_dim, 2 * QN_ROPE_MAX_PAIRS);
    double scale = 1.0 / sqrt((double)(config->qk_nope_head_dim + config->qk_rope_head_dim));
    if (yarn && p->mscale_all_dim != 0) {
        double sharper = magnitude_scale(p->factor, p->mscale_all_dim);
        scale = scale * sharper * sharper;
    }
    *out = (qn_rope){.pairs = pairs,
                     .attention_factor = yarn ? (float)attention_factor(p) : 1.0f,
                     .softmax_scale = (float)scale};
    ramp r = yarn ? interpolation_ramp(p, pairs) : (ramp){0, 0};
    bool finite = isfinite(out->attention_factor) && isfinite(out->softmax_scale);
    for (size_t i = 0; i < pairs; i++) {
        float exponent = (float)(2 * i) / (float)(2 * pairs);
        float power = (float)pow(p->rope_theta, (double)exponent);
        out->inv_freq[i] = yarn ? yarn_frequency(p, r, i, power) : 1.0f / power;
        finite = finite && isfinite(out->inv_freq[i]);
    }
    if (!finite)
        return qn_fail(err, QN_BAD_INPUT, "config.json: rope_parameters: they give no finite frequencies: check them");
    return QN_OK;
}

void qn_rope_angles(const qn_rope *rope, size_t position, float *cosines, float *sines)
{
    for (size_t i = 0; i < rope->pairs; i++) {
        float angle = (float)position * rope->inv_freq[i];
        cosines[i] = cosf(angle) * rope->attention_factor;
        sines[i] = sinf(angle) * rope->attention_factor;
    }
}

void qn_rope_rotate(float *x, const float *cosines, const float *sines, size_t pairs)
{
    for (size_t i = 0; i < pairs; i++) {
        float a = x[2 * i], b = x[2 * i + 1];
        x[2 * i] = a * cosines[i] - b * sines[i];
        x[2 * i + 1] = b * cosines[i] + a * sines[i];
    }
}
