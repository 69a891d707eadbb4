/* Loops and products: every row and every output exactly once, whatever the sizes and the number of threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/random.h"
#include "model/packed.h"
#include "model/parallel.h"

enum { MAX_THREADS = 4, MAX_COLS = 200, MAX_OUTPUTS = 700, MAX_ROWS = 140 };

static qn_pool *pool_of(size_t threads)
{
    qn_pool *pool;
    qn_error err;
    assert_int_equal(qn_pool_new(threads, &pool, &err), QN_OK);
    return pool;
}

static void count_row(void *context, size_t row, size_t worker)
{
    atomic_int *counts = context;
    assert_true(worker < MAX_THREADS);
    atomic_fetch_add(&counts[row], 1);
}

static void test_each_row_once(void **state)
{
    (void)state;
    for (size_t threads = 1; threads <= MAX_THREADS; threads++) {
        qn_pool *pool = pool_of(threads);
        for (size_t rows = 0; rows < 20; rows++) {
            atomic_int counts[20] = {0};
            qn_for_rows(pool, rows, count_row, counts);
            for (size_t r = 0; r < 20; r++)
                assert_int_equal(counts[r], r < rows);
        }
        qn_pool_free(pool);
    }
}

/* A matrix of small integers: sums are exact, so each output can be held to the plain product. */
typedef struct problem {
    size_t outputs, cols, rows;
    float *w, *x, *y;
    float **y_rows;
    const float **x_rows;
    qn_matrix matrix;
} problem;

static uint32_t drawn(uint64_t seed, uint32_t *counter)
{
    uint32_t at[4] = {(*counter)++, 0, 0, 0}, key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)}, out[4];
    qn_philox4x32_10(at, key, out);
    return out[0];
}

static problem make_problem(size_t rows, uint64_t seed, uint32_t *counter)
{
    problem p = {.rows = rows,
                 .outputs = 1 + drawn(seed, counter) % MAX_OUTPUTS,
                 .cols = 1 + drawn(seed, counter) % MAX_COLS};
    p.w = qn_alloc_aligned(p.outputs * p.cols, sizeof *p.w);
    p.x = qn_alloc_aligned(rows * p.cols, sizeof *p.x);
    p.y = qn_alloc_aligned(rows * p.outputs, sizeof *p.y);
    p.y_rows = qn_alloc(rows, sizeof *p.y_rows);
    p.x_rows = qn_alloc(rows, sizeof *p.x_rows);
    assert_true(p.w && p.x && p.y && p.y_rows && p.x_rows);
    for (size_t i = 0; i < p.outputs * p.cols; i++)
        p.w[i] = (float)(drawn(seed, counter) % 9) - 4;
    for (size_t i = 0; i < rows * p.cols; i++)
        p.x[i] = (float)(drawn(seed, counter) % 9) - 4;
    memset(p.y, 0xff, rows * p.outputs * sizeof *p.y);
    for (size_t r = 0; r < rows; r++) {
        p.y_rows[r] = p.y + r * p.outputs;
        p.x_rows[r] = p.x + r * p.cols;
    }
    p.matrix = (qn_matrix){.dtype = QN_DTYPE_F32, .rows = p.outputs, .cols = p.cols, .data = (const uint8_t *)p.w};
    return p;
}

static void check_problem(const problem *p)
{
    for (size_t r = 0; r < p->rows; r++) {
        for (size_t n = 0; n < p->outputs; n++) {
            float sum = 0;
            for (size_t i = 0; i < p->cols; i++)
                sum += p->w[n * p->cols + i] * p->x[r * p->cols + i];
            assert_true(p->y[r * p->outputs + n] == sum);
        }
    }
}

static void free_problem(problem *p)
{
    qn_free(p->w);
    qn_free(p->x);
    qn_free(p->y);
    qn_free(p->y_rows);
    qn_free(p->x_rows);
}

/* A packed product and an unrounded one together. */
static void check_products(qn_pool *pool, const qn_kernels *kernels, size_t rows, uint64_t seed, uint32_t *counter)
{
    problem a = make_problem(rows, seed, counter), b = make_problem(rows, seed, counter);
    size_t pointers, bytes = qn_packed_size(kernels, rows, a.cols, qn_dtype_set_of(&a.matrix), &pointers);
    assert_int_equal(pointers, rows);
    uint8_t *data = qn_alloc_aligned(bytes, 1);
    void **packed_rows = qn_alloc(pointers, sizeof *packed_rows);
    assert_true(data && packed_rows);
    qn_packed packed = qn_packed_make(kernels, rows, a.cols, qn_dtype_set_of(&a.matrix), data, packed_rows);
    for (size_t r = 0; r < rows; r++) {
        assert_int_equal((uintptr_t)packed_rows[r] % 64, 0);
        qn_packed_put(&packed, r, a.x_rows[r]);
    }
    qn_product products[2] = {{.w = &a.matrix, .x = qn_packed_rows(&packed, &a.matrix), .y = a.y_rows},
                              {.w = &b.matrix, .x_f32 = b.x_rows, .y = b.y_rows}};
    qn_products_run(pool, kernels, products, 2, rows);
    check_problem(&a);
    check_problem(&b);
    qn_free(data);
    qn_free(packed_rows);
    free_problem(&a);
    free_problem(&b);
}

static void test_products(void **state)
{
    (void)state;
    const qn_kernels *kernels;
    qn_error err;
    uint64_t seed = qn_random_seed();
    uint32_t counter = 0;
    printf("seed %llu\n", (unsigned long long)seed);
    assert_int_equal(qn_kernels_select("scalar", &kernels, &err), QN_OK);
    for (size_t threads = 1; threads <= MAX_THREADS; threads++) {
        qn_pool *pool = pool_of(threads);
        static const size_t rows[] = {1, 3, 64, 65, MAX_ROWS};
        for (size_t i = 0; i < 5; i++)
            check_products(pool, kernels, rows[i], seed, &counter);
        qn_pool_free(pool);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_row_once),
        cmocka_unit_test(test_products),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
