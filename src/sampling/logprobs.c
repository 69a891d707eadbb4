/* The n most probable tokens without sorting: n stretches of the row have a peak at or above the n-th largest peak, so
 * no token below that is among them, and of those at or above there are hardly more than n. */
#include "sampling/logprobs.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>

#include "base/size.h"
#include "sampling/exponentials.h"
#include "sampling/peaks.h"

/* Puts a token in its place among the `count` best so far, of which there may be `top`. Tokens come in ascending id, so
 * that an equal one goes behind. Returns the new count. */
static size_t insert(qn_logprob *best, size_t count, size_t top, int32_t token, float logit)
{
    if (count == top && !(logit > best[count - 1].logprob)) {
        return count;
    }
    size_t place = count < top ? count : top - 1;
    while (place > 0 && logit > best[place - 1].logprob) {
        best[place] = best[place - 1];
        place--;
    }
    best[place] = (qn_logprob){.token = token, .logprob = logit};
    return qn_min_size(count + 1, top);
}

/* best [top]: the most probable tokens with their logits. */
static void find_top(const float *logits, size_t vocab_size, const qn_peaks *peaks, size_t top, qn_logprob *best)
{
    float bound = qn_peaks_bound(peaks, top);
    size_t count = 0;
    for (size_t i = 0; i < peaks->count; i++) {
        if (peaks->best[i] >= bound) {
            size_t end = qn_min_size((i + 1) * peaks->width, vocab_size);
            for (size_t v = i * peaks->width; v < end; v++) {
                if (logits[v] >= bound) {
                    count = insert(best, count, top, (int32_t)v, logits[v]);
                }
            }
        }
    }
    while (count < top) {
        best[count++] = (qn_logprob){.token = -1, .logprob = -INFINITY};
    }
}

static uint32_t count_at_least(const float *logits, size_t vocab_size, float least)
{
    uint32_t count = 0;
    for (size_t i = 0; i < vocab_size; i++) {
        count += logits[i] >= least;
    }
    return count;
}

uint32_t qn_logprobs(const float *logits, size_t vocab_size, int32_t chosen, size_t top, qn_logprob *out)
{
    assert(top <= QN_MAX_LOGPROBS && chosen >= 0 && (size_t)chosen < vocab_size);
    qn_peaks peaks;
    qn_peaks_find(logits, vocab_size, &peaks);
    assert(peaks.first >= 0);
    out[0] = (qn_logprob){.token = chosen, .logprob = logits[chosen]};
    if (top > 0) {
        find_top(logits, vocab_size, &peaks, top, out + 1);
    }
    double log_sum = log(qn_sum_exponentials(logits, vocab_size, peaks.highest, 1.0));
    for (size_t i = 0; i <= top; i++) {
        out[i].logprob = (float)((double)out[i].logprob - (double)peaks.highest - log_sum);
    }
    return count_at_least(logits, vocab_size, logits[chosen]);
}
