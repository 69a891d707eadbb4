/* Twelve independent chains of one instruction: more than latency times throughput on any core at hand, and few enough
 * that they stay in registers. Each is a variable of its own, since compilers keep an array of them in memory. An empty
 * assembly statement in the loop keeps the compiler from joining iterations. */
#include "bench/arithmetic.h"

#include <immintrin.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"

enum { CHAINS = 12, ITEMS_PER_THREAD = 4, FIRST_ITERATIONS = 20000 };

#define HOLD(v, constraint) __asm__ volatile("" : "+" constraint(v))
#define EACH_CHAIN(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11)

/* Returns something that depends on every chain. */
typedef float (*loop)(size_t iterations);

#define START_256(k) __m256 sum##k = _mm256_set1_ps(k);
#define FMA_256(k)                          \
    sum##k = _mm256_fmadd_ps(x, y, sum##k); \
    HOLD(sum##k, "x");
#define ADD_256(k) all = _mm256_add_ps(all, sum##k);

__attribute__((target("avx2,fma"))) static float fma_256(size_t iterations)
{
    __m256 x = _mm256_set1_ps(1.0f), y = _mm256_set1_ps(0x1p-20f), all = _mm256_setzero_ps();
    HOLD(x, "x");
    HOLD(y, "x");
    EACH_CHAIN(START_256)
    for (size_t i = 0; i < iterations; i++) {
        EACH_CHAIN(FMA_256)
    }
    EACH_CHAIN(ADD_256)
    return _mm256_cvtss_f32(all);
}

#define START_512(k) __m512 sum##k = _mm512_set1_ps(k);
#define FMA_512(k)                          \
    sum##k = _mm512_fmadd_ps(x, y, sum##k); \
    HOLD(sum##k, "v");
#define ADD_512(k) all = _mm512_add_ps(all, sum##k);

__attribute__((target("avx512f"))) static float fma_512(size_t iterations)
{
    __m512 x = _mm512_set1_ps(1.0f), y = _mm512_set1_ps(0x1p-20f), all = _mm512_setzero_ps();
    HOLD(x, "v");
    HOLD(y, "v");
    EACH_CHAIN(START_512)
    for (size_t i = 0; i < iterations; i++) {
        EACH_CHAIN(FMA_512)
    }
    EACH_CHAIN(ADD_512)
    return _mm512_cvtss_f32(all);
}

#define DOT_512(k)                           \
    sum##k = _mm512_dpbf16_ps(sum##k, x, y); \
    HOLD(sum##k, "v");

__attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16"))) static float dot_bf16(size_t iterations)
{
    __m512bh x = _mm512_cvtne2ps_pbh(_mm512_set1_ps(1.0f), _mm512_set1_ps(1.0f));
    __m512bh y = _mm512_cvtne2ps_pbh(_mm512_set1_ps(0x1p-20f), _mm512_set1_ps(0x1p-20f));
    __m512 all = _mm512_setzero_ps();
    EACH_CHAIN(START_512)
    for (size_t i = 0; i < iterations; i++) {
        EACH_CHAIN(DOT_512)
    }
    EACH_CHAIN(ADD_512)
    return _mm512_cvtss_f32(all);
}

/* The loop for this CPU and the operations of one iteration; NULL where there is none. */
static loop choose(qn_arithmetic kind, double *operations)
{
    bool wide = __builtin_cpu_supports("avx512f");
    if (kind == QN_ARITHMETIC_BF16) {
        *operations = CHAINS * 32 * 2;
        bool has = wide && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                   __builtin_cpu_supports("avx512bf16");
        return has ? dot_bf16 : NULL;
    }
    *operations = CHAINS * (wide ? 16 : 8) * 2;
    if (wide)
        return fma_512;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? fma_256 : NULL;
}

bool qn_arithmetic_supported(qn_arithmetic kind)
{
    double operations;
    return choose(kind, &operations) != NULL;
}

typedef struct work {
    loop run;
    size_t iterations;
    atomic_uint sum;
} work;

static void run_item(void *context, size_t item, size_t worker)
{
    (void)item, (void)worker;
    work *w = context;
    float sum = w->run(w->iterations);
    unsigned bits;
    memcpy(&bits, &sum, sizeof bits);
    atomic_fetch_xor(&w->sum, bits);
}

double qn_arithmetic_run(qn_arithmetic kind, qn_pool *pool, double milliseconds)
{
    double operations;
    work w = {.run = choose(kind, &operations), .iterations = FIRST_ITERATIONS};
    if (!w.run)
        return 0;
    size_t items = qn_pool_threads(pool) * ITEMS_PER_THREAD;
    for (;;) {
        uint64_t started = qn_now_us();
        qn_pool_run(pool, items, run_item, &w);
        uint64_t us = qn_now_us() - started;
        if ((double)us >= milliseconds * 500)
            return operations * (double)(w.iterations * items) / (double)us / 1e3;
        w.iterations *= 2;
    }
}
