#include "bench/yardstick.h"

#include <stdbool.h>
#include <string.h>

#include "base/log.h"
#include "base/size.h"
#include "base/system_memory.h"
#include "bench/arithmetic.h"

static const size_t REGION_BYTES = (size_t)256 << 20, LEAST_REGION_BYTES = (size_t)16 << 20;
static const double PEAK_MS = 20;

size_t qn_yardstick_bytes(size_t available)
{
    if (available == 0)
        return REGION_BYTES;
    return qn_max_size(qn_min_size(REGION_BYTES, available / 8), LEAST_REGION_BYTES);
}

qn_status qn_yardstick_open(qn_pool *pool, qn_yardstick *out, qn_error *err)
{
    return qn_yardstick_open_within(pool, qn_memory_available(""), out, err);
}

qn_status qn_yardstick_open_within(qn_pool *pool, size_t available, qn_yardstick *out, qn_error *err)
{
    const size_t bytes = qn_yardstick_bytes(available);
    if (bytes < REGION_BYTES)
        qn_log("bench: little memory: plain reads, and weights read once, are of %zu MiB instead of %zu MiB, of which "
               "caches may hold a part: free memory for figures that compare",
               bytes >> 20, REGION_BYTES >> 20);
    *out = (qn_yardstick){.pool = pool};
    qn_status status = qn_region_new(bytes, false, pool, &out->small, err);
    return status == QN_OK ? qn_region_new(bytes, true, pool, &out->huge, err) : status;
}

void qn_yardstick_close(qn_yardstick *yardstick)
{
    qn_region_free(&yardstick->small);
    qn_region_free(&yardstick->huge);
}

static double read_rate(const qn_region *region, qn_pool *pool)
{
    return (double)region->bytes / qn_region_read(region, pool) / 1e9;
}

qn_limits qn_yardstick_sample(const qn_yardstick *y, const qn_kernels *kernels)
{
    const bool bf16 = strstr(kernels->name, "bf16") != NULL;
    qn_limits limits = {.fp32 = qn_arithmetic_run(QN_ARITHMETIC_FP32, y->pool, PEAK_MS),
                        .bf16 = bf16 ? qn_arithmetic_run(QN_ARITHMETIC_BF16, y->pool, PEAK_MS) : 0};
    limits.read_small = read_rate(&y->small, y->pool);
    limits.read_huge = read_rate(&y->huge, y->pool);
    return limits;
}

double qn_limits_peak(const qn_limits *limits)
{
    return limits->bf16 > limits->fp32 ? limits->bf16 : limits->fp32;
}
