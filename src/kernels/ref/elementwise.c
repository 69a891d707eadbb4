/* Norm, activation and sums of rows in the scalar reference. */
#include "kernels/ref/ref.h"

#include <math.h>

/* The mean of squares is summed in double: 16 lanes, element i in lane i mod 16. Every table does the same, so they
 * agree to the bit. */
void qn_ref_rms_norm(float *out, const float *x, const float *weight, size_t count, float eps)
{
    enum { LANES = 16 };
    double lanes[LANES] = {0};
    size_t at = 0;
    for (; at + LANES <= count; at += LANES)
        for (size_t l = 0; l < LANES; l++)
            lanes[l] += (double)x[at + l] * (double)x[at + l];
    for (size_t l = 0; l < count - at; l++)
        lanes[l] += (double)x[at + l] * (double)x[at + l];
    for (size_t half = LANES / 2; half > 0; half /= 2)
        for (size_t l = 0; l < half; l++)
            lanes[l] += lanes[l + half];
    float factor = 1.0f / sqrtf((float)(lanes[0] / (double)count) + eps);
    for (size_t i = 0; i < count; i++)
        out[i] = x[i] * factor * weight[i];
}

void qn_ref_silu_multiply(float *out, const float *gate, const float *up, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = gate[i] / (1.0f + expf(-gate[i])) * up[i];
}

void qn_ref_axpy(float *y, float a, const float *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        y[i] = fmaf(a, x[i], y[i]);
}
