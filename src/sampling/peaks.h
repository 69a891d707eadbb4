/* The largest logit of each of up to QN_PEAKS stretches of a row: found in one pass at the speed of memory, they bound
 * what the rest of the work has to look at. */
#ifndef QN_SAMPLING_PEAKS_H
#define QN_SAMPLING_PEAKS_H

#include <stddef.h>
#include <stdint.h>

enum { QN_PEAKS = 1024 };

typedef struct qn_peaks {
    size_t count;         /* stretches; the last one may be shorter */
    size_t width;         /* tokens of a stretch */
    float best[QN_PEAKS]; /* -inf where all of it is */
    int32_t first;        /* the lowest id of the largest logit of all; -1: all are -inf */
    float highest;        /* that logit; -inf */
} qn_peaks;

/* logits [vocab_size], no NaN, vocab_size >= 1. */
void qn_peaks_find(const float *logits, size_t vocab_size, qn_peaks *out);

/* A bound that at least k logits of the row reach: the k-th largest of the peaks, -inf when there are fewer. k >= 1. */
float qn_peaks_bound(const qn_peaks *peaks, size_t k);

#endif
