/* What test_lanes.c tests, compiled with AVX2: to be called where the CPU has it. */
#ifndef TESTS_KERNELS_LANES_AVX2_H
#define TESTS_KERNELS_LANES_AVX2_H

#include <stddef.h>

/* Eight dot products' 16 lanes, `stride` floats apart: reduced all at once, and one. */
void reduce_eight(const float *lanes, size_t stride, float sums[8]);
float reduce_one(const float *lanes);

#endif
