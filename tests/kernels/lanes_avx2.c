#include "lanes_avx2.h"

#include "kernels/x86/avx2_lanes.h"

void reduce_eight(const float *lanes, size_t stride, float sums[8])
{
    _mm256_storeu_ps(sums, qn_reduce16x8(lanes, stride));
}

float reduce_one(const float *lanes)
{
    return qn_reduce16(_mm256_loadu_ps(lanes), _mm256_loadu_ps(lanes + 8));
}
