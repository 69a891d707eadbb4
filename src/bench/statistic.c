#include "bench/statistic.h"

#include <stdlib.h>

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

qn_statistic qn_statistic_of(double *values, size_t count)
{
    if (count == 0)
        return (qn_statistic){0};
    qsort(values, count, sizeof *values, ascending);
    return (qn_statistic){.min = values[0],
                          .median = values[(count - 1) / 2],
                          .p99 = values[count - 1 - count / 100],
                          .max = values[count - 1],
                          .samples = count};
}
