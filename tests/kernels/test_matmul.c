/* Matrix products: the reference against double precision, every table against the reference, and the one order of
 * summation: the same bits whatever the rows of the batch, the cut of the output and the place in memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/ref/ref.h"
#include "tables.h"
#include "unit/kernels/support.h"

enum { MAX_COLS = 16384 };

static const qn_dtype dtypes[] = {QN_DTYPE_BF16, QN_DTYPE_F16, QN_DTYPE_F32, QN_DTYPE_MXFP4};

enum { DTYPES = sizeof dtypes / sizeof dtypes[0] };

static size_t random_cols(random_state *random, qn_dtype dtype)
{
    size_t cols = 1 + random_below(random, random_below(random, 4) == 0 ? 2000 : 300);
    return dtype == QN_DTYPE_MXFP4 ? (cols + 31) / 32 * 32 : cols;
}

static float *random_row(random_state *random, size_t cols, int round)
{
    float *x = guarded(cols * sizeof *x, 1);
    for (size_t i = 0; i < cols; i++) {
        x[i] = random_normal(random);
        if (round)
            x[i] = bf16_round(x[i]);
    }
    return x;
}

/* A row of results: a guard page behind it, canaries of 0xA5 before it. */
static float *result_row(size_t count)
{
    return guarded(count * sizeof(float), 1);
}

static void assert_canary(const float *y)
{
    const uint8_t *at = (const uint8_t *)y;
    while (((uintptr_t)at & 4095) != 0)
        assert_int_equal(*--at, 0xA5);
}

/* Sum and sum of absolute values in double. */
static double exact_dot(const float *w, const float *x, size_t cols, double *magnitude)
{
    double sum = 0.0;
    *magnitude = 0.0;
    for (size_t k = 0; k < cols; k++) {
        sum += (double)w[k] * (double)x[k];
        *magnitude += fabs((double)w[k] * (double)x[k]);
    }
    return sum;
}

/* One random product of `tested`: against double precision and, given the rounded inputs, against the reference. */
static void check_matmul(random_state *random, const qn_kernels *tested, qn_dtype dtype, int unrounded)
{
    static float row[MAX_COLS];
    size_t cols = random_cols(random, dtype), rows = 1 + random_below(random, 12), n = 1 + random_below(random, 21);
    qn_matrix w = random_matrix(random, dtype, n, cols, random_below(random, 3));
    size_t first = random_below(random, n), last = first + 1 + random_below(random, n - first);
    const float *x[QN_MATMUL_MAX_ROWS];
    const void *packed[QN_MATMUL_MAX_ROWS];
    float *y[QN_MATMUL_MAX_ROWS], *expected[QN_MATMUL_MAX_ROWS];
    for (size_t r = 0; r < rows; r++) {
        x[r] = random_row(random, cols, !unrounded && rounds_activations(tested));
        packed[r] = unrounded ? NULL : packed_row(tested, x[r], cols, dtype);
        y[r] = result_row(last - first);
        expected[r] = result_row(last - first);
    }
    if (unrounded)
        tested->matmul_f32(&w, first, last, x, rows, y);
    else
        tested->matmul(&w, first, last, packed, rows, y);
    qn_kernels_scalar.matmul_f32(&w, first, last, x, rows, expected);
    for (size_t r = 0; r < rows; r++) {
        assert_canary(y[r]);
        for (size_t i = 0; i < last - first; i++) {
            double magnitude, exact;
            matrix_row(&w, first + i, row);
            exact = exact_dot(row, x[r], cols, &magnitude);
            assert_true(fabs((double)y[r][i] - exact) <= sum_tolerance(cols, magnitude));
            assert_true(fabsf(y[r][i] - expected[r][i]) <= sum_tolerance(cols, magnitude));
        }
    }
    guarded_release_all();
}

static void test_products_are_right(void **state)
{
    (void)state;
    tested_table tables[TESTED_TABLES_MAX];
    size_t count = tested_tables(tables);
    random_state random = random_start();
    for (size_t t = 0; t < count; t++)
        for (size_t d = 0; d < DTYPES; d++)
            for (int round = 0; round < 40; round++) {
                check_matmul(&random, tables[t].kernels, dtypes[d], 0);
                check_matmul(&random, tables[t].kernels, dtypes[d], 1);
            }
}

static void test_activations_are_rounded_to_nearest_even_bf16(void **state)
{
    (void)state;
    tested_table tables[TESTED_TABLES_MAX];
    size_t count = tested_tables(tables);
    const float one[1] = {1.0f};
    const qn_matrix w = {.dtype = QN_DTYPE_F32, .rows = 1, .cols = 1, .data = (const uint8_t *)one};
    const float values[] = {1.0f + 0x1p-8f, 1.0f + 0x3p-8f, 1.0f + 0x1.000002p-8f,
                            -3.14159265f,   1e30f,          0x1.fffffep127f};
    for (size_t t = 0; t < count; t++)
        for (size_t v = 0; v < sizeof values / sizeof values[0]; v++) {
            const qn_kernels *kernels = tables[t].kernels;
            float y, *ys[] = {&y};
            const void *x[] = {packed_row(kernels, &values[v], 1, QN_DTYPE_F32)};
            kernels->matmul(&w, 0, 1, x, 1, ys);
            float expected = rounds_activations(kernels) ? bf16_round(values[v]) : values[v];
            assert_true(y == expected);
            guarded_release_all();
        }
}

/* The same weights at another address. */
static qn_matrix moved(random_state *random, const qn_matrix *w)
{
    size_t bytes = qn_matrix_row_bytes(w) * w->rows, scale_bytes = w->scales == NULL ? 0 : w->rows * w->cols / 32;
    size_t offset = random_below(random, 67);
    uint8_t *data = (uint8_t *)guarded(bytes + offset, 0) + offset;
    uint8_t *scales = (uint8_t *)guarded(scale_bytes + offset, 0) + offset;
    memcpy(data, w->data, bytes);
    if (w->scales != NULL)
        memcpy(scales, w->scales, scale_bytes);
    qn_matrix copy = *w;
    copy.data = data;
    copy.scales = w->scales == NULL ? NULL : scales;
    return copy;
}

/* y[r][n] of every activation row and weight row computed alone, then batches of 1 to 64 rows over random cuts. */
static void check_one_order(random_state *random, const qn_kernels *kernels, qn_dtype dtype, size_t cols, int unrounded)
{
    enum { N = 11 };
    qn_matrix w = random_matrix(random, dtype, N, cols, 0);
    qn_matrix copy = moved(random, &w);
    const void *x[QN_MATMUL_MAX_ROWS];
    float alone[QN_MATMUL_MAX_ROWS][N], batch[QN_MATMUL_MAX_ROWS][N];
    for (size_t r = 0; r < QN_MATMUL_MAX_ROWS; r++) {
        float *values = random_row(random, cols, 0);
        x[r] = unrounded ? values : packed_row(kernels, values, cols, dtype);
        for (size_t n = 0; n < N; n++) {
            float *y = &alone[r][n];
            if (unrounded)
                kernels->matmul_f32(&w, n, n + 1, (const float *const *)&x[r], 1, &y);
            else
                kernels->matmul(&w, n, n + 1, &x[r], 1, &y);
        }
    }
    for (size_t rows = 1; rows <= QN_MATMUL_MAX_ROWS; rows++) {
        size_t shift = random_below(random, QN_MATMUL_MAX_ROWS - rows + 1);
        size_t first = random_below(random, N), last = first + 1 + random_below(random, N - first);
        const qn_matrix *used = random_below(random, 2) == 0 ? &w : &copy;
        float *y[QN_MATMUL_MAX_ROWS];
        for (size_t r = 0; r < rows; r++)
            y[r] = batch[r];
        if (unrounded)
            kernels->matmul_f32(used, first, last, (const float *const *)x + shift, rows, y);
        else
            kernels->matmul(used, first, last, x + shift, rows, y);
        for (size_t r = 0; r < rows; r++)
            assert_memory_equal(batch[r], &alone[shift + r][first], (last - first) * sizeof(float));
    }
    guarded_release_all();
}

static void test_one_order_of_summation(void **state)
{
    (void)state;
    tested_table tables[TESTED_TABLES_MAX];
    size_t count = tested_tables(tables);
    random_state random = random_start();
    for (size_t t = 0; t < count; t++)
        for (size_t d = 0; d < DTYPES; d++) {
            const size_t cols[] = {96, 2048, 6144, 12288, 16384, random_cols(&random, dtypes[d])};
            for (size_t c = 0; c < sizeof cols / sizeof cols[0]; c++) {
                if (tables[t].set_form) /* either form goes with every second length */
                    tables[t].set_form((c + d / 3) % 2 == 0 ? QN_FORM_PAIRS : QN_FORM_WIDE);
                check_one_order(&random, tables[t].kernels, dtypes[d], cols[c], 0);
                if (tables[t].set_form)
                    tables[t].set_form(QN_FORM_UNKNOWN);
            }
            check_one_order(&random, tables[t].kernels, dtypes[d], cols[1], 1);
            check_one_order(&random, tables[t].kernels, dtypes[d], cols[5], 1);
        }
}

/* A row of activations, and packed: numbers down to 2^-126 and below, whose products with weights as small often
 * underflow. */
static const void *tiny_row(random_state *random, const qn_kernels *kernels, size_t cols, qn_dtype dtype)
{
    float *values = random_row(random, cols, 0);
    for (size_t k = 0; k < cols; k++)
        values[k] = ldexpf(values[k], -(int)random_below(random, 130));
    return packed_row(kernels, values, cols, dtype);
}

/* The two forms of many rows, of few and of one give the same bits, among subnormal numbers too. */
static void test_forms_of_a_product_agree(void **state)
{
    (void)state;
    enum { N = 9, ROWS = 13 };
    tested_table tables[TESTED_TABLES_MAX];
    size_t count = tested_tables(tables);
    random_state random = random_start();
    for (size_t t = 0; t < count; t++)
        for (int round = 0; round < 40 && tables[t].set_form; round++) {
            const qn_kernels *kernels = tables[t].kernels;
            const qn_dtype dtype = round % 2 == 0 ? QN_DTYPE_BF16 : QN_DTYPE_MXFP4;
            const size_t cols = random_cols(&random, dtype);
            qn_matrix w = random_matrix(&random, dtype, N, cols, 0);
            if (dtype == QN_DTYPE_MXFP4)
                for (size_t b = 0; b < N * cols / QN_MXFP4_BLOCK; b++)
                    ((uint8_t *)(uintptr_t)w.scales)[b] = (uint8_t)random_below(&random, 128);
            else
                for (size_t i = 0; i < N * cols; i++) {
                    uint16_t bits = qn_f32_to_bf16(ldexpf(random_normal(&random), -(int)random_below(&random, 140)));
                    memcpy((uint8_t *)(uintptr_t)w.data + 2 * i, &bits, sizeof bits);
                }
            const void *x[ROWS];
            float alone[ROWS][N], together[ROWS][N], *y[ROWS];
            tables[t].set_form(QN_FORM_PAIRS);
            for (size_t r = 0; r < ROWS; r++) {
                float *one = alone[r];
                x[r] = tiny_row(&random, kernels, cols, dtype);
                kernels->matmul(&w, 0, N, &x[r], 1, &one);
                y[r] = together[r];
            }
            for (int form = QN_FORM_PAIRS; form <= QN_FORM_WIDE; form++) {
                tables[t].set_form((qn_dot_form)form);
                kernels->matmul(&w, 0, N, x, ROWS, y);
                for (size_t r = 0; r < ROWS; r++)
                    assert_memory_equal(together[r], alone[r], sizeof alone[r]);
                for (size_t r = 0; r < ROWS; r++) {
                    kernels->matmul(&w, 0, N, &x[r], 1, &y[r]);
                    assert_memory_equal(y[r], alone[r], sizeof alone[r]);
                }
            }
            tables[t].set_form(QN_FORM_UNKNOWN);
            guarded_release_all();
        }
}

/* An MXFP4 matrix as BF16: exact for scale bytes from 2 on. */
static qn_matrix bf16_twin(const qn_matrix *w)
{
    static float row[MAX_COLS];
    uint8_t *data = guarded(w->rows * w->cols * 2, 1);
    for (size_t n = 0; n < w->rows; n++) {
        matrix_row(w, n, row);
        for (size_t k = 0; k < w->cols; k++) {
            uint16_t bits = qn_f32_to_bf16(row[k]);
            assert_true(qn_bf16_to_f32(bits) == row[k]);
            memcpy(data + 2 * (n * w->cols + k), &bits, 2);
        }
    }
    return (qn_matrix){.dtype = QN_DTYPE_BF16, .rows = w->rows, .cols = w->cols, .data = data};
}

static void test_mxfp4_equals_its_bf16_twin(void **state)
{
    (void)state;
    tested_table tables[TESTED_TABLES_MAX];
    size_t count = tested_tables(tables);
    random_state random = random_start();
    for (size_t t = 0; t < count; t++)
        for (int round = 0; round < 20; round++) {
            const qn_kernels *kernels = tables[t].kernels;
            size_t cols = random_cols(&random, QN_DTYPE_MXFP4);
            qn_matrix w = random_matrix(&random, QN_DTYPE_MXFP4, 3, cols, 1), twin = bf16_twin(&w);
            float *values = random_row(&random, cols, 1), y[3], z[3], *ys[] = {y}, *zs[] = {z};
            const void *x[] = {packed_row(kernels, values, cols, QN_DTYPE_MXFP4)};
            const void *twin_x[] = {packed_row(kernels, values, cols, QN_DTYPE_BF16)};
            kernels->matmul(&w, 0, 3, x, 1, ys);
            kernels->matmul(&twin, 0, 3, twin_x, 1, zs);
            for (size_t n = 0; n < 3; n++) {
                static float row[MAX_COLS];
                double magnitude;
                matrix_row(&w, n, row);
                exact_dot(row, values, cols, &magnitude);
                assert_true(fabsf(y[n] - z[n]) <= sum_tolerance(cols, magnitude));
            }
            guarded_release_all();
        }
}

/* Integers whose sums stay below 2^24 are never rounded, so every table and dtype gives the exact sum. */
static void test_small_integers_are_exact(void **state)
{
    (void)state;
    enum { N = 5, COLS = 1120 };
    static float row[COLS];
    tested_table tables[TESTED_TABLES_MAX];
    size_t count = tested_tables(tables);
    random_state random = random_start();
    for (size_t t = 0; t < count; t++)
        for (size_t rows = 1; rows <= 7; rows += 3) {
            qn_matrix w = random_matrix(&random, QN_DTYPE_MXFP4, N, COLS, 0);
            for (size_t b = 0; b < N * COLS / QN_MXFP4_BLOCK; b++)
                ((uint8_t *)(uintptr_t)w.scales)[b] = (uint8_t)(random_below(&random, 3) == 0 ? 1 : 128);
            qn_matrix twin = bf16_twin(&w);
            float y[7][N], twin_y[7][N], *ys[7], *twin_ys[7], *values[7];
            const void *x[7], *twin_x[7];
            for (size_t r = 0; r < rows; r++) {
                values[r] = guarded(COLS * sizeof(float), 1);
                for (size_t k = 0; k < COLS; k++)
                    values[r][k] = (float)random_below(&random, 41) - 20.0f;
                x[r] = packed_row(tables[t].kernels, values[r], COLS, QN_DTYPE_MXFP4);
                twin_x[r] = packed_row(tables[t].kernels, values[r], COLS, QN_DTYPE_BF16);
                ys[r] = y[r];
                twin_ys[r] = twin_y[r];
            }
            tables[t].kernels->matmul(&w, 0, N, x, rows, ys);
            tables[t].kernels->matmul(&twin, 0, N, twin_x, rows, twin_ys);
            for (size_t r = 0; r < rows; r++)
                for (size_t n = 0; n < N; n++) {
                    double magnitude;
                    matrix_row(&w, n, row);
                    double exact = exact_dot(row, values[r], COLS, &magnitude);
                    assert_true((double)y[r][n] == exact);
                    assert_true((double)twin_y[r][n] == exact);
                }
            guarded_release_all();
        }
}

/* One block of each scale byte that may occur, all codes: exact products at both ends of the range. */
static void test_every_scale_byte(void **state)
{
    (void)state;
    static const float values[16] = {0, .5f, 1, 1.5f, 2, 3, 4, 6, -0.f, -.5f, -1, -1.5f, -2, -3, -4, -6};
    tested_table tables[TESTED_TABLES_MAX];
    size_t count = tested_tables(tables);
    for (size_t t = 0; t < count; t++)
        for (unsigned scale = 0; scale <= 252; scale++) {
            const qn_kernels *kernels = tables[t].kernels;
            uint8_t codes[16], scales[1] = {(uint8_t)scale};
            float x[32] = {0}, y, *ys[] = {&y};
            const qn_matrix w = {.dtype = QN_DTYPE_MXFP4, .rows = 1, .cols = 32, .data = codes, .scales = scales};
            for (size_t i = 0; i < 16; i++)
                codes[i] = (uint8_t)(i * 0x11);
            for (size_t code = 0; code < 16; code++) {
                memset(x, 0, sizeof x);
                x[2 * code + 1] = scale > 127 ? 0x1p-20f : 0x1p20f;
                const void *packed[] = {packed_row(kernels, x, 32, QN_DTYPE_MXFP4)};
                kernels->matmul(&w, 0, 1, packed, 1, ys);
                float expected = scale < 2 ? 0.0f : values[code] * qn_e8m0_value(scale) * x[2 * code + 1];
                assert_true(y == expected);
                guarded_release_all();
            }
        }
}

enum { TRANSPOSED_COLS = 512 };

/* Up to as many rows and columns as the model has: 64 rows, 512 latent values. */
static void test_transposed(void **state)
{
    (void)state;
    tested_table tables[TESTED_TABLES_MAX];
    size_t count = tested_tables(tables);
    random_state random = random_start();
    for (size_t t = 0; t < count; t++)
        for (int round = 0; round < 60; round++) {
            const qn_kernels *kernels = tables[t].kernels;
            const bool large = round % 6 == 0;
            size_t n = 1 + random_below(&random, large ? 40 : 300);
            size_t rows = 1 + random_below(&random, large ? QN_MATMUL_MAX_ROWS : 9);
            size_t cols = 1 + random_below(&random, large ? TRANSPOSED_COLS : 150);
            if (round % 4 < 2)
                cols = (cols + 31) / 32 * 32; /* whole registers of pairs */
            if (round == 0) {
                rows = QN_MATMUL_MAX_ROWS;
                cols = TRANSPOSED_COLS;
            }
            qn_matrix w = random_matrix(&random, dtypes[round % 3], n, cols, random_below(&random, 3));
            size_t first = random_below(&random, n), last = first + random_below(&random, n - first + 1);
            float *x[QN_MATMUL_MAX_ROWS], *y[QN_MATMUL_MAX_ROWS], alone[TRANSPOSED_COLS], *one = alone;
            float row[TRANSPOSED_COLS];
            for (size_t r = 0; r < rows; r++) {
                x[r] = random_row(&random, last - first, 0);
                y[r] = result_row(cols);
            }
            kernels->matmul_transposed(&w, first, last, (const float *const *)x, rows, y);
            for (size_t r = 0; r < rows; r++) {
                double exact[TRANSPOSED_COLS] = {0}, magnitude[TRANSPOSED_COLS] = {0};
                float chain[TRANSPOSED_COLS] = {0};
                for (size_t i = first; i < last; i++) {
                    float a = rounds_activations(kernels) ? bf16_round(x[r][i - first]) : x[r][i - first];
                    matrix_row(&w, i, row);
                    for (size_t c = 0; c < cols; c++) {
                        exact[c] += (double)a * (double)row[c];
                        magnitude[c] += fabs((double)a * (double)row[c]);
                        chain[c] = fmaf(a, row[c], chain[c]);
                    }
                }
                assert_canary(y[r]);
                for (size_t c = 0; c < cols; c++)
                    assert_true(fabs((double)y[r][c] - exact[c]) <= sum_tolerance(128 * (last - first), magnitude[c]));
                if (rounds_activations(kernels))
                    assert_memory_equal(y[r], chain, cols * sizeof(float));
                kernels->matmul_transposed(&w, first, last, (const float *const *)x + r, 1, &one);
                assert_memory_equal(y[r], alone, cols * sizeof(float));
            }
            guarded_release_all();
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products_are_right),
        cmocka_unit_test(test_activations_are_rounded_to_nearest_even_bf16),
        cmocka_unit_test(test_one_order_of_summation),
        cmocka_unit_test(test_forms_of_a_product_agree),
        cmocka_unit_test(test_mxfp4_equals_its_bf16_twin),
        cmocka_unit_test(test_small_integers_are_exact),
        cmocka_unit_test(test_every_scale_byte),
        cmocka_unit_test(test_transposed),
    };
    print_tested_tables();
    test_seed();
    return cmocka_run_group_tests_name("matmul", tests, NULL, NULL);
}
