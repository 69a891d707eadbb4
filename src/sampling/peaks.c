#include "sampling/peaks.h"

#include <math.h>

#include "base/size.h"
#include "sampling/selection.h"

enum { LANES = 16 };

static float largest(const float *logits, size_t count)
{
    float lanes[LANES], best = -INFINITY;
    size_t i = 0;
    for (size_t lane = 0; lane < LANES; lane++) {
        lanes[lane] = -INFINITY;
    }
    for (; i + LANES <= count; i += LANES) {
        for (size_t lane = 0; lane < LANES; lane++) {
            lanes[lane] = logits[i + lane] > lanes[lane] ? logits[i + lane] : lanes[lane];
        }
    }
    for (size_t lane = 0; lane < LANES; lane++) {
        best = lanes[lane] > best ? lanes[lane] : best;
    }
    for (; i < count; i++) {
        best = logits[i] > best ? logits[i] : best;
    }
    return best;
}

void qn_peaks_find(const float *logits, size_t vocab_size, qn_peaks *out)
{
    out->width = qn_ceil_div(qn_ceil_div(vocab_size, QN_PEAKS), LANES) * LANES;
    out->count = qn_ceil_div(vocab_size, out->width);
    out->first = -1;
    out->highest = -INFINITY;
    size_t stretch = 0;
    for (size_t i = 0; i < out->count; i++) {
        size_t start = i * out->width;
        out->best[i] = largest(logits + start, qn_min_size(out->width, vocab_size - start));
        if (out->best[i] > out->highest) {
            out->highest = out->best[i];
            stretch = i;
        }
    }
    if (out->highest > -INFINITY) {
        size_t first = stretch * out->width;
        while (logits[first] != out->highest) {
            first++;
        }
        out->first = (int32_t)first;
    }
}

float qn_peaks_bound(const qn_peaks *peaks, size_t k)
{
    if (k > peaks->count) {
        return -INFINITY;
    }
    uint64_t before;
    return qn_from_ordered_bits(qn_select_border(peaks->best, NULL, peaks->count, k, &before));
}
