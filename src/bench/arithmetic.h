/* Arithmetic out of registers: what the CPU could do if nothing had to be fetched. */
#ifndef QN_BENCH_ARITHMETIC_H
#define QN_BENCH_ARITHMETIC_H

#include <stdbool.h>

#include "base/pool.h"

typedef enum qn_arithmetic {
    QN_ARITHMETIC_FP32, /* fused multiply-adds of float32, 512 bits wide with AVX-512F, else 256 */
    QN_ARITHMETIC_BF16  /* vdpbf16ps */
} qn_arithmetic;

bool qn_arithmetic_supported(qn_arithmetic kind);

/* GFLOP/s over all threads of the pool, a multiply-add being two; takes some `milliseconds`. 0 where unsupported. */
double qn_arithmetic_run(qn_arithmetic kind, qn_pool *pool, double milliseconds);

#endif
