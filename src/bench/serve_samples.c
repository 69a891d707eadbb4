#include "bench/serve_samples.h"

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/size.h"

enum { FIRST_CAPACITY = 256 };

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bool grow(qn_samples *s)
{
    size_t capacity = qn_min_size(s->capacity ? 2 * s->capacity : FIRST_CAPACITY, QN_SAMPLES_MAX);
    double *values = s->count < capacity ? qn_realloc(s->values, capacity, sizeof *values) : NULL;
    if (!values)
        return false;
    s->values = values;
    s->capacity = capacity;
    return true;
}

void qn_samples_add(qn_samples *s, double value)
{
    if (s->count == s->capacity && !grow(s)) {
        s->dropped++;
        return;
    }
    s->values[s->count++] = value;
    s->sorted = false;
}

double qn_samples_percentile(qn_samples *s, double percent)
{
    if (s->count == 0)
        return 0;
    if (!s->sorted)
        qsort(s->values, s->count, sizeof *s->values, ascending);
    s->sorted = true;
    /* 99 / 100 * 100 must be rank 99: multiply first, so that no rounding lifts a whole number */
    double rank = ceil(percent * (double)s->count / 100);
    return s->values[rank < 1 ? 0 : qn_min_size((size_t)rank, s->count) - 1];
}

double qn_samples_max(qn_samples *s)
{
    return qn_samples_percentile(s, 100);
}

double qn_samples_mean(const qn_samples *s)
{
    double sum = 0;
    for (size_t i = 0; i < s->count; i++)
        sum += s->values[i];
    return s->count > 0 ? sum / (double)s->count : 0;
}

json_t *qn_samples_json(qn_samples *s)
{
    if (s->count == 0)
        return json_pack("{s:I, s:I}", "count", (json_int_t)0, "dropped", (json_int_t)s->dropped);
    return json_pack("{s:I, s:I, s:f, s:f, s:f, s:f, s:f}", "count", (json_int_t)s->count, "dropped",
                     (json_int_t)s->dropped, "mean", qn_samples_mean(s), "p50", qn_samples_percentile(s, 50), "p90",
                     qn_samples_percentile(s, 90), "p99", qn_samples_percentile(s, 99), "max", qn_samples_max(s));
}

void qn_samples_free(qn_samples *s)
{
    qn_free(s->values);
    *s = (qn_samples){0};
}
