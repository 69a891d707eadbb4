/* The MXFP4 encoder of the scalar reference.
 *
 * A block is first scaled, exactly, so that its OCP scale becomes 1; candidates are numbered by their exponent relative
 * to that ("step"), and all errors are in this one unit: nothing overflows, and candidates compare. For a given scale
 * the nearest element has the least error whatever the importance, so only the scale is searched.
 *
 * Canonical sum of errors: 8 lanes, element j in lane j mod 8, grown by one fused multiply-add for each element in
 * ascending order; the lanes are reduced l with l + 4, then (0 + 1) + (2 + 3). */
#include "kernels/ref/ref.h"

#include <math.h>
#include <string.h>

enum {
    LANES = 8,
    LEAST_BYTE = 2,     /* of a block that dot products do not count as zero */
    LARGEST_BYTE = 252, /* that loads */
    LOWEST_STEP = -100, /* whatever a step further down could make smaller is below 2^-75 and counts as no error */
    INFINITE_BITS = 0x7f800000
};

typedef struct block_values {
    float magnitude[QN_MXFP4_BLOCK]; /* in units of the scale that `byte` stands for */
    float importance[QN_MXFP4_BLOCK];
    int byte; /* of the OCP scale, or the least one allowed */
} block_values;

/* The code of the E2M1 value nearest to x >= 0; of two equally near, the even code. */
static unsigned magnitude_code(float x)
{
    return (x > 0.25f) + (unsigned)(x >= 0.75f) + (x > 1.25f) + (x >= 1.75f) + (x > 2.5f) + (x >= 3.5f) + (x > 5.0f);
}

static float reduce(const float lanes[LANES])
{
    return ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) + ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
}

/* The error of the block when its scale is 2^step. */
static float step_error(const block_values *block, int step)
{
    float lanes[LANES] = {0}, scale = ldexpf(1.0f, step), inverse = ldexpf(1.0f, -step);
    for (size_t j = 0; j < QN_MXFP4_BLOCK; j++) {
        float x = block->magnitude[j];
        float error = x - qn_e2m1_value(magnitude_code(x * inverse)) * scale;
        lanes[j % LANES] = fmaf(error * block->importance[j], error, lanes[j % LANES]);
    }
    return reduce(lanes);
}

/* The part of that error that is due to saturation: it only grows as the step falls. */
static float saturation_error(const block_values *block, int step)
{
    float lanes[LANES] = {0}, largest = 6.0f * ldexpf(1.0f, step);
    for (size_t j = 0; j < QN_MXFP4_BLOCK; j++) {
        float error = fmaxf(block->magnitude[j] - largest, 0.0f);
        lanes[j % LANES] = fmaf(error * block->importance[j], error, lanes[j % LANES]);
    }
    return reduce(lanes);
}

static int least_error_step(const block_values *block, bool weighted)
{
    int best = 0;
    float least = step_error(block, 0);
    if (block->byte + 1 <= LARGEST_BYTE) {
        float error = step_error(block, 1);
        if (error < least) {
            least = error;
            best = 1;
        }
    }
    int lowest = weighted ? LOWEST_STEP : -1;
    for (int step = -1; step >= lowest && block->byte + step >= LEAST_BYTE; step--) {
        /* not asked at -1, where the answer would seldom spare anything */
        if (step < -1 && !(saturation_error(block, step) < least))
            break;
        float error = step_error(block, step);
        if (error < least) {
            least = error;
            best = step;
        }
    }
    return best;
}

static void encode(uint8_t *codes, const block_values *block, const float *x, int step)
{
    float inverse = ldexpf(1.0f, -step);
    for (size_t j = 0; j < QN_MXFP4_BLOCK; j += 2) {
        unsigned low = magnitude_code(block->magnitude[j] * inverse) | (signbit(x[j]) ? 8 : 0);
        unsigned high = magnitude_code(block->magnitude[j + 1] * inverse) | (signbit(x[j + 1]) ? 8 : 0);
        codes[j / 2] = (uint8_t)(low | high << 4);
    }
}

static uint32_t magnitude_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits & 0x7fffffff;
}

/* Magnitudes sort as their bits do; NaN and infinity are the largest. */
static uint32_t largest_bits(const float *x)
{
    uint32_t largest = 0;
    for (size_t j = 0; j < QN_MXFP4_BLOCK; j++)
        largest = magnitude_bits(x[j]) > largest ? magnitude_bits(x[j]) : largest;
    return largest;
}

static size_t first_not_finite(const float *x)
{
    size_t j = 0;
    while (magnitude_bits(x[j]) < INFINITE_BITS)
        j++;
    return j;
}

size_t qn_ref_quantise_mxfp4(uint8_t *codes, uint8_t *scales, const float *x, const float *importance, size_t blocks,
                             qn_scale_rule rule)
{
    for (size_t b = 0; b < blocks; b++, x += QN_MXFP4_BLOCK, codes += QN_MXFP4_BLOCK / 2) {
        uint32_t largest = largest_bits(x);
        if (largest >= INFINITE_BITS)
            return b * QN_MXFP4_BLOCK + first_not_finite(x);
        int least = rule == QN_SCALE_OCP || largest == 0 ? 0 : LEAST_BYTE, ocp = (int)(largest >> 23) - 2;
        block_values block = {.byte = ocp > least ? ocp : least};
        float inverse = ldexpf(1.0f, 127 - block.byte);
        for (size_t j = 0; j < QN_MXFP4_BLOCK; j++) {
            block.magnitude[j] = fabsf(x[j]) * inverse;
            block.importance[j] = importance != NULL ? importance[b * QN_MXFP4_BLOCK + j] : 1.0f;
        }
        int step = rule == QN_SCALE_OCP || largest == 0 ? 0 : least_error_step(&block, importance != NULL);
        encode(codes, &block, x, step);
        scales[b] = (uint8_t)(block.byte + step);
    }
    return QN_ALL_FINITE;
}
