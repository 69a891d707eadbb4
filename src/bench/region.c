/* Reading takes 32-byte loads in four chains with a prefetch some pages ahead, which on the machines at hand is within
 * a few percent of the best. Pieces are small enough that a thread that the system holds up delays the end little. */
#include "bench/region.h"

#include <immintrin.h>
#include <string.h>

#include "base/clock.h"
#include "base/size.h"

enum { PIECE_BYTES = 1 << 20, PREFETCH_BYTES = 4096, STEP_BYTES = 128 };

static void fill_piece(void *context, size_t item, size_t worker)
{
    (void)worker;
    const qn_region *region = context;
    uint64_t state = 0x9e3779b97f4a7c15u * (item + 1), word;
    size_t first = item * PIECE_BYTES, last = qn_min_size(first + PIECE_BYTES, region->bytes);
    for (size_t i = first; i < last; i += sizeof word) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        /* each byte 0x38, 0x3a, 0x3c or 0x3e: BF16 from 2^-15 to 1, scales 2^-71 to 2^-65, no packed BF16 code of 15 */
        word = 0x3838383838383838u | (state & 0x0606060606060606u);
        memcpy(region->data + i, &word, sizeof word);
    }
}

qn_status qn_region_new(size_t bytes, bool huge, qn_pool *pool, qn_region *out, qn_error *err)
{
    *out = (qn_region){0};
    bytes = bytes / QN_HUGE_PAGE_BYTES * QN_HUGE_PAGE_BYTES;
    qn_huge_memory memory;
    qn_status status = qn_huge_memory_new(bytes, huge, "memory to measure in", &memory, err);
    if (status != QN_OK)
        return status;
    *out = (qn_region){.data = memory.data, .bytes = bytes, .memory = memory};
    qn_pool_run(pool, qn_ceil_div(bytes, PIECE_BYTES), fill_piece, out);
    return QN_OK;
}

void qn_region_free(qn_region *region)
{
    qn_huge_memory_free(&region->memory);
    *region = (qn_region){0};
}

typedef struct reading {
    const qn_region *region;
    _Atomic uint64_t sum; /* keeps the loads from being left out */
} reading;

__attribute__((target("avx2"))) static uint64_t read_avx2(const uint8_t *data, size_t bytes)
{
    __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
    for (size_t i = 0; i < bytes; i += STEP_BYTES) {
        const __m256i *at = (const __m256i *)(data + i);
        _mm_prefetch((const char *)at + PREFETCH_BYTES, _MM_HINT_T0);
        _mm_prefetch((const char *)at + PREFETCH_BYTES + STEP_BYTES / 2, _MM_HINT_T0);
        a = _mm256_xor_si256(a, _mm256_load_si256(at));
        b = _mm256_xor_si256(b, _mm256_load_si256(at + 1));
        c = _mm256_xor_si256(c, _mm256_load_si256(at + 2));
        d = _mm256_xor_si256(d, _mm256_load_si256(at + 3));
    }
    uint64_t words[4];
    _mm256_storeu_si256((__m256i *)words, _mm256_xor_si256(_mm256_xor_si256(a, b), _mm256_xor_si256(c, d)));
    return words[0] ^ words[1] ^ words[2] ^ words[3];
}

static uint64_t read_plain(const uint8_t *data, size_t bytes)
{
    uint64_t sum[4] = {0}, word[4];
    for (size_t i = 0; i < bytes; i += sizeof word) {
        memcpy(word, data + i, sizeof word);
        for (size_t k = 0; k < 4; k++)
            sum[k] ^= word[k];
    }
    return sum[0] ^ sum[1] ^ sum[2] ^ sum[3];
}

static void read_piece(void *context, size_t item, size_t worker)
{
    (void)worker;
    reading *r = context;
    size_t first = item * PIECE_BYTES, bytes = qn_min_size(PIECE_BYTES, r->region->bytes - first);
    const uint8_t *data = r->region->data + first;
    r->sum ^= __builtin_cpu_supports("avx2") ? read_avx2(data, bytes) : read_plain(data, bytes);
}

double qn_region_read(const qn_region *region, qn_pool *pool)
{
    reading r = {.region = region};
    uint64_t started = qn_now_us();
    qn_pool_run(pool, qn_ceil_div(region->bytes, PIECE_BYTES), read_piece, &r);
    uint64_t us = qn_now_us() - started;
    return (double)(us > 0 ? us : 1) / 1e6;
}
