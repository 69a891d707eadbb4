#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/random.h"

uint64_t test_seed(void)
{
    static uint64_t seed;
    static int known;
    if (!known) {
        const char *text = getenv("QUERN_TEST_SEED");
        seed = text != NULL ? strtoull(text, NULL, 0) : qn_random_seed();
        known = 1;
        printf("seed: QUERN_TEST_SEED=%llu\n", (unsigned long long)seed);
    }
    return seed;
}

random_state random_start(void)
{
    return (random_state){test_seed()};
}

/* splitmix64 (Steele, Lea, Flood 2014) */
uint64_t random_bits(random_state *random)
{
    uint64_t z = random->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

size_t random_below(random_state *random, size_t limit)
{
    return (size_t)(random_bits(random) % limit);
}

float random_float(random_state *random)
{
    return (float)(int32_t)(random_bits(random) >> 40) * 0x1p-23f - 1.0f;
}

/* A sum of uniform numbers is near enough. */
float random_normal(random_state *random)
{
    float sum = 0.0f;
    for (int i = 0; i < 3; i++)
        sum += random_float(random);
    return sum;
}

enum { GUARDED_MAX = 1024 };

static void require(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "test support: %s failed\n", what);
        abort();
    }
}

static struct {
    void *base;
    size_t bytes;
} blocks[GUARDED_MAX];
static size_t block_count;

void *guarded(size_t bytes, int at_end)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t inside = (bytes + page - 1) / page * page;
    require(block_count < GUARDED_MAX, "keeping count of guarded blocks");
    char *base = mmap(NULL, inside + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(base != MAP_FAILED, "mmap");
    if (inside > 0) {
        require(mprotect(base + page, inside, PROT_READ | PROT_WRITE) == 0, "mprotect");
        memset(base + page, 0xA5, inside);
    }
    blocks[block_count].base = base;
    blocks[block_count++].bytes = inside + 2 * page;
    return base + page + (at_end ? inside - bytes : 0);
}

void guarded_release_all(void)
{
    while (block_count > 0) {
        block_count--;
        munmap(blocks[block_count].base, blocks[block_count].bytes);
    }
}

float bf16_round(float x)
{
    return qn_bf16_to_f32(qn_f32_to_bf16(x));
}

/* To F16 by dropping bits: normal numbers only, which is what the tests feed. */
static uint16_t f16_from_float(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    int exponent = (int)(bits >> 23 & 255) - 127;
    if (exponent < -14)
        return (uint16_t)(bits >> 16 & 0x8000);
    return (uint16_t)((bits >> 16 & 0x8000) | (uint32_t)(exponent + 15) << 10 | (bits >> 13 & 1023));
}

static void fill_values(random_state *random, qn_dtype dtype, uint8_t *data, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float x = random_normal(random);
        uint16_t half = dtype == QN_DTYPE_F16 ? f16_from_float(x) : qn_f32_to_bf16(x);
        if (dtype == QN_DTYPE_F32)
            memcpy(data + 4 * i, &x, 4);
        else
            memcpy(data + 2 * i, &half, 2);
    }
}

qn_matrix random_matrix(random_state *random, qn_dtype dtype, size_t rows, size_t cols, size_t offset)
{
    size_t bytes = rows * cols * qn_dtype_bits(dtype) / 8, scale_bytes = rows * cols / QN_MXFP4_BLOCK;
    uint8_t *data = (uint8_t *)guarded(bytes + offset, offset == 0) + offset;
    uint8_t *scales = NULL;
    if (dtype == QN_DTYPE_MXFP4) {
        scales = (uint8_t *)guarded(scale_bytes + offset, offset == 0) + offset;
        for (size_t i = 0; i < scale_bytes; i++)
            scales[i] = (uint8_t)(random_below(random, 20) == 0 ? random_below(random, 2)
                                                                : 120 + random_below(random, 14));
        for (size_t i = 0; i < bytes; i++)
            data[i] = (uint8_t)random_bits(random);
    } else {
        fill_values(random, dtype, data, rows * cols);
    }
    return (qn_matrix){.dtype = dtype, .rows = rows, .cols = cols, .data = data, .scales = scales};
}

void matrix_row(const qn_matrix *w, size_t n, float *out)
{
    qn_matrix_row_to_f32(w, n, out);
    if (w->dtype != QN_DTYPE_MXFP4)
        return;
    size_t per_row = w->cols / QN_MXFP4_BLOCK;
    for (size_t b = 0; b < per_row; b++)
        if (w->scales[n * per_row + b] < 2)
            memset(out + b * QN_MXFP4_BLOCK, 0, QN_MXFP4_BLOCK * sizeof(float));
}
