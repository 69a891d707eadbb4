#include "base/histogram.h"

#include <assert.h>

void qn_histogram_init(qn_histogram *histogram, const double *bounds, size_t bound_count)
{
    assert(bound_count <= QN_HISTOGRAM_MAX_BOUNDS);
    *histogram = (qn_histogram){.bounds = bounds, .bound_count = bound_count};
}

void qn_histogram_add(qn_histogram *histogram, double value)
{
    size_t low = 0, high = histogram->bound_count; /* the first bound that is not below the value */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (histogram->bounds[middle] < value) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    histogram->counts[low]++;
    histogram->count++;
    histogram->sum += value;
}

uint64_t qn_histogram_at_most(const qn_histogram *histogram, size_t i)
{
    uint64_t count = 0;
    for (size_t at = 0; at <= i; at++) {
        count += histogram->counts[at];
    }
    return count;
}
