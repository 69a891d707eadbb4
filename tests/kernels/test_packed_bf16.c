/* Packed BF16 weights give the bits of BF16 ones: in every table and kernel, for any number of rows and cut, with any
 * exceptions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/packed_bf16.h"
#include "tables.h"
#include "unit/kernels/support.h"

enum { N = 11 };

/* How a matrix's exceptions lie. */
typedef enum exceptions { NONE, RARE, HEAVY_ROWS, ALL } exceptions;

static uint16_t random_exception(random_state *random)
{
    static const uint16_t kinds[] = {0x0080, 0x8080, 0x0101, 0x7E80, 0xFE81, 0x7F7F};
    return kinds[random_below(random, sizeof kinds / sizeof kinds[0])];
}

/* Values of exponents 120 to 131, zeros and subnormals; exceptions far from those on both sides. Their products with
 * small activations stay finite. */
static qn_matrix make_matrix(random_state *random, size_t cols, exceptions how)
{
    qn_matrix w = random_matrix(random, QN_DTYPE_BF16, N, cols, random_below(random, 3));
    for (size_t n = 0; n < N; n++)
        for (size_t k = 0; k < cols; k++) {
            uint16_t bits = (uint16_t)(random_below(random, 2) << 15 | (120 + random_below(random, 12)) << 7 |
                                       random_below(random, 128));
            bool heavy = how == ALL || (how == HEAVY_ROWS && n % 3 == 1);
            if (random_below(random, 50) == 0)
                bits &= 0x807F;
            if (how != NONE && random_below(random, heavy ? 2 : 500) == 0)
                bits = random_exception(random);
            memcpy((uint8_t *)(uintptr_t)w.data + 2 * (n * cols + k), &bits, 2);
        }
    return w;
}

/* Packed without asking whether that pays, and moved to where a guard page follows. */
static qn_matrix packed_twin(const qn_matrix *w)
{
    const size_t row_bytes = qn_packed_row_bytes(w->cols), fixed = w->rows * (row_bytes + sizeof(qn_packed_side));
    const size_t most = w->rows * w->cols;
    uint8_t *block = guarded(fixed + most * sizeof(qn_packed_exception), 0);
    qn_bf16_packing packing = {.rows = w->rows,
                               .cols = w->cols,
                               .data = block,
                               .sides = (qn_packed_side *)(void *)(block + w->rows * row_bytes),
                               .exceptions = (qn_packed_exception *)(void *)(block + fixed),
                               .most_exceptions = most};
    qn_matrix packed;
    size_t bytes;
    assert_true(qn_bf16_packing_rows(&packing, 0, w->rows, w->data));
    assert_true(qn_bf16_packing_finish(&packing, &packed, &bytes));
    uint8_t *data = guarded(bytes, 1);
    memcpy(data, block, bytes);
    packed.data = data;
    packed.sides = (const qn_packed_side *)(const void *)(data + w->rows * row_bytes);
    return packed;
}

static void assert_same_bits(const float *got, const float *expected, size_t count)
{
    assert_memory_equal(got, expected, count * sizeof *got);
}

/* Small, so that huge weights overflow nothing. */
static float *random_activations(random_state *random, size_t count)
{
    float *x = guarded(count * sizeof *x, 1);
    for (size_t i = 0; i < count; i++)
        x[i] = random_normal(random) * 0x1p-20f;
    return x;
}

static void check_products(random_state *random, const qn_kernels *kernels, size_t cols, exceptions how)
{
    qn_matrix w = make_matrix(random, cols, how), packed = packed_twin(&w);
    float *values[QN_MATMUL_MAX_ROWS], *y[QN_MATMUL_MAX_ROWS], *z[QN_MATMUL_MAX_ROWS];
    const void *x[QN_MATMUL_MAX_ROWS];
    for (size_t r = 0; r < QN_MATMUL_MAX_ROWS; r++) {
        values[r] = random_activations(random, cols);
        x[r] = packed_row(kernels, values[r], cols, qn_activations_for(QN_DTYPE_PACKED_BF16));
        y[r] = guarded(N * sizeof(float), 1);
        z[r] = guarded(N * sizeof(float), 1);
    }
    for (size_t rows = 1; rows <= QN_MATMUL_MAX_ROWS; rows += rows < 9 ? 1 : 1 + random_below(random, 12)) {
        size_t first = random_below(random, N), last = first + 1 + random_below(random, N - first);
        size_t at = random_below(random, QN_MATMUL_MAX_ROWS - rows + 1);
        kernels->matmul(&w, first, last, x + at, rows, y);
        kernels->matmul(&packed, first, last, x + at, rows, z);
        for (size_t r = 0; r < rows; r++)
            assert_same_bits(z[r], y[r], last - first);
        if (rows > 9)
            continue;
        /* a cut made on the matrix */
        qn_matrix part = qn_matrix_rows(&packed, first, last - first);
        kernels->matmul(&part, 0, last - first, x + at, rows, z);
        for (size_t r = 0; r < rows; r++)
            assert_same_bits(z[r], y[r], last - first);
        kernels->matmul_f32(&w, first, last, (const float *const *)values + at, rows, y);
        kernels->matmul_f32(&packed, first, last, (const float *const *)values + at, rows, z);
        for (size_t r = 0; r < rows; r++)
            assert_same_bits(z[r], y[r], last - first);
    }
    guarded_release_all();
}

static size_t random_cols(random_state *random)
{
    return 1 + random_below(random, random_below(random, 4) == 0 ? 3000 : 400);
}

static void check_all_sizes(exceptions how)
{
    tested_table tables[TESTED_TABLES_MAX];
    size_t count = tested_tables(tables);
    random_state random = random_start();
    for (size_t t = 0; t < count; t++) {
        static const size_t cols[] = {96, 128, 512, 2048, 6144, 12288, 16384};
        for (int form = 0; form < (tables[t].set_form ? 2 : 1); form++) {
            if (tables[t].set_form)
                tables[t].set_form(form == 0 ? QN_FORM_PAIRS : QN_FORM_WIDE);
            for (size_t c = 0; c < sizeof cols / sizeof cols[0]; c++)
                check_products(&random, tables[t].kernels, cols[c], how);
            for (int round = 0; round < 8; round++)
                check_products(&random, tables[t].kernels, random_cols(&random), how);
            if (tables[t].set_form)
                tables[t].set_form(QN_FORM_UNKNOWN);
        }
    }
}

static void test_products_without_exceptions(void **state)
{
    (void)state;
    check_all_sizes(NONE);
}

static void test_products_with_rare_exceptions(void **state)
{
    (void)state;
    check_all_sizes(RARE);
}

static void test_products_with_exception_heavy_rows(void **state)
{
    (void)state;
    check_all_sizes(HEAVY_ROWS);
}

static void test_products_where_half_of_all_are_exceptions(void **state)
{
    (void)state;
    check_all_sizes(ALL);
}

/* An exception that is infinite or not a number reaches the sums of its row, and no other. */
static void test_infinite_and_nan_weights_reach_their_row_alone(void **state)
{
    (void)state;
    static const uint16_t kinds[] = {0x7F80, 0xFF80, 0x7FC0};
    tested_table tables[TESTED_TABLES_MAX];
    size_t count = tested_tables(tables);
    random_state random = random_start();
    for (size_t t = 0; t < count; t++)
        for (size_t k = 0; k < 3; k++)
            for (size_t rows = 1; rows <= 9; rows += 4) {
                size_t cols = random_cols(&random), row = random_below(&random, N);
                qn_matrix w = make_matrix(&random, cols, NONE);
                size_t place = 2 * (row * cols + random_below(&random, cols));
                memcpy((uint8_t *)(uintptr_t)w.data + place, &kinds[k], 2);
                qn_matrix packed = packed_twin(&w);
                float y[9][N], z[9][N], *ys[9], *zs[9];
                const void *x[9];
                for (size_t r = 0; r < rows; r++) {
                    float *values = random_activations(&random, cols);
                    x[r] = packed_row(tables[t].kernels, values, cols, QN_DTYPE_BF16);
                    ys[r] = y[r];
                    zs[r] = z[r];
                }
                tables[t].kernels->matmul(&w, 0, N, x, rows, ys);
                tables[t].kernels->matmul(&packed, 0, N, x, rows, zs);
                for (size_t r = 0; r < rows; r++)
                    for (size_t n = 0; n < N; n++) {
                        assert_int_equal(z[r][n] - z[r][n] == 0, n != row);
                        if (n != row)
                            assert_same_bits(&z[r][n], &y[r][n], 1);
                    }
                guarded_release_all();
            }
}

static void test_transposed(void **state)
{
    (void)state;
    tested_table tables[TESTED_TABLES_MAX];
    size_t count = tested_tables(tables);
    random_state random = random_start();
    for (size_t t = 0; t < count; t++)
        for (int round = 0; round < 60; round++) {
            size_t cols = round % 3 == 0 ? 512 : random_cols(&random), rows = 1 + random_below(&random, 9);
            if (round % 3 == 1)
                cols = (cols + 31) / 32 * 32;
            qn_matrix w = make_matrix(&random, cols, round % 2 == 0 ? RARE : HEAVY_ROWS), packed = packed_twin(&w);
            size_t first = random_below(&random, N), last = first + random_below(&random, N - first + 1);
            float *x[QN_MATMUL_MAX_ROWS], *y[QN_MATMUL_MAX_ROWS], *z[QN_MATMUL_MAX_ROWS];
            for (size_t r = 0; r < rows; r++) {
                x[r] = random_activations(&random, last - first);
                y[r] = guarded(cols * sizeof(float), 1);
                z[r] = guarded(cols * sizeof(float), 1);
            }
            tables[t].kernels->matmul_transposed(&w, first, last, (const float *const *)x, rows, y);
            tables[t].kernels->matmul_transposed(&packed, first, last, (const float *const *)x, rows, z);
            for (size_t r = 0; r < rows; r++)
                assert_same_bits(z[r], y[r], cols);
            guarded_release_all();
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products_without_exceptions),
        cmocka_unit_test(test_products_with_rare_exceptions),
        cmocka_unit_test(test_products_with_exception_heavy_rows),
        cmocka_unit_test(test_products_where_half_of_all_are_exceptions),
        cmocka_unit_test(test_infinite_and_nan_weights_reach_their_row_alone),
        cmocka_unit_test(test_transposed),
    };
    print_tested_tables();
    test_seed();
    return cmocka_run_group_tests_name("packed_bf16", tests, NULL, NULL);
}
