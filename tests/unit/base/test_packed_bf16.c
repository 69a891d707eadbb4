#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/packed_bf16.h"
#include "base/pool.h"
#include "base/size.h"

/* splitmix64 (Steele, Lea, Flood 2014) */
static size_t random_below(uint64_t *random, size_t limit)
{
    uint64_t z = *random += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (size_t)((z ^ (z >> 31)) % limit);
}

/* A BF16 matrix of its own, and its packed form. */
typedef struct pair {
    uint16_t *values;
    qn_matrix from, packed;
    void *block;
    size_t bytes;
    bool is_packed;
    size_t exceptions;
} pair;

static pair make_pair(size_t rows, size_t cols)
{
    pair p = {.values = qn_alloc_zero(rows * cols, sizeof *p.values)};
    size_t most = qn_packed_bf16_most_bytes(rows, cols);
    assert_true(most > 0);
    p.block = qn_alloc_aligned(most, 1);
    assert_true(p.values && p.block);
    p.from = (qn_matrix){.dtype = QN_DTYPE_BF16, .rows = rows, .cols = cols, .data = (const uint8_t *)p.values};
    return p;
}

static void pack(pair *p)
{
    qn_bf16_packing packing;
    qn_bf16_packing_start(&packing, p->from.rows, p->from.cols, p->block);
    bool done = qn_bf16_packing_rows(&packing, 0, p->from.rows, p->from.data);
    p->is_packed = qn_bf16_packing_finish(&packing, &p->packed, &p->bytes);
    assert_int_equal(done, p->is_packed);
    p->exceptions = packing.exception_count;
}

static void free_pair(pair *p)
{
    qn_free(p->values);
    qn_free(p->block);
}

/* Weights as models have them: normal, of the given standard deviation. */
static uint16_t normal_weight(uint64_t *random, float deviation)
{
    float sum = 0;
    for (int i = 0; i < 12; i++)
        sum += (float)random_below(random, 1 << 24) * 0x1p-24f - 0.5f;
    return qn_f32_to_bf16(sum * deviation);
}

static void assert_row(const pair *p, const qn_matrix *packed, size_t row, size_t of_packed)
{
    uint16_t *got = qn_alloc(p->from.cols, sizeof *got);
    const uint16_t *expected = p->values + row * p->from.cols;
    assert_non_null(got);
    qn_packed_row_to_bf16(packed, of_packed, 0, p->from.cols, got);
    assert_memory_equal(got, expected, p->from.cols * sizeof *got);
    /* a piece in the middle */
    size_t at = p->from.cols / 2 / QN_PACKED_GROUP * QN_PACKED_GROUP, count = qn_min_size(p->from.cols - at, 131);
    memset(got, 0xA5, p->from.cols * sizeof *got);
    qn_packed_row_to_bf16(packed, of_packed, at, count, got);
    assert_memory_equal(got, expected + at, count * sizeof *got);
    if (count < p->from.cols)
        assert_int_equal(got[count], 0xA5A5);
    qn_free(got);
}

static void assert_all_rows(const pair *p)
{
    assert_true(p->is_packed);
    for (size_t row = 0; row < p->from.rows; row++)
        assert_row(p, &p->packed, row, row);
}

static void test_weights_come_back_in_every_bit(void **state)
{
    (void)state;
    enum { ROWS = 30 };
    static const size_t cols[] = {128, 250, 512, 1000, 2048, 6144, 16384};
    uint64_t random = 7;
    for (size_t c = 0; c < sizeof cols / sizeof *cols; c++) {
        pair p = make_pair(ROWS, cols[c]);
        for (size_t i = 0; i < ROWS * cols[c]; i++)
            p.values[i] = normal_weight(&random, i % 7 == 0 ? 0.1f : 0.5f);
        pack(&p);
        assert_all_rows(&p);
        free_pair(&p);
    }
}

/* Rows of one exponent each would hide a wrong window; here a row holds 15 in turn, and the matrix all of them. */
static void test_every_exponent_and_mantissa_fits_some_window(void **state)
{
    (void)state;
    enum { ROWS = 256, COLS = 512 };
    pair p = make_pair(ROWS, COLS);
    for (size_t row = 0; row < ROWS; row++)
        for (size_t i = 0; i < COLS; i++) {
            size_t exponent = row < 1 || row > 241 ? 0 : row + i % 15;
            p.values[row * COLS + i] = (uint16_t)((i * 37 + row) % 2 << 15 | exponent << 7 | (i + 31 * row) % 128);
        }
    pack(&p);
    assert_int_equal(p.exceptions, 0);
    assert_int_equal(p.bytes, ROWS * (COLS / 128 * 192 + 8));
    assert_all_rows(&p);
    for (size_t row = 1; row <= 241; row++)
        assert_int_equal(p.packed.sides[row].window, row);
    free_pair(&p);
}

static void test_zeros_and_subnormals_are_no_exceptions(void **state)
{
    (void)state;
    enum { ROWS = 4, COLS = 256 };
    pair p = make_pair(ROWS, COLS);
    for (size_t i = 0; i < (size_t)ROWS * COLS; i++)
        p.values[i] = (uint16_t)(i % 2 << 15 | (i % 3 == 0 ? 0x3F80 : i / 3 % 128));
    pack(&p);
    assert_int_equal(p.exceptions, 0);
    assert_all_rows(&p);
    free_pair(&p);
}

/* Tiny, huge, infinite and NaN values, at the ends of groups and of a short last one. */
static void test_exceptions_come_back_where_they_were(void **state)
{
    (void)state;
    enum { ROWS = 64, COLS = 1000 };
    static const uint16_t odd[] = {0x7F80, 0xFF80, 0x7FC1, 0xFFFF, 0x0080, 0x8081, 0x7F7F, 0x2000};
    static const size_t places[] = {0, 31, 32, 127, 128, 895, 896, 999};
    uint64_t random = 8;
    pair p = make_pair(ROWS, COLS);
    for (size_t i = 0; i < (size_t)ROWS * COLS; i++)
        p.values[i] = (uint16_t)(0x3C00 + random_below(&random, 0x700));
    for (size_t row = 0; row < ROWS; row++)
        if (row % 8 != 1)
            p.values[row * COLS + places[row % 8]] = odd[row / 8];
    for (size_t i = 0; i < 6; i++)
        p.values[(size_t)9 * COLS + places[i]] = odd[i];
    pack(&p);
    assert_int_equal(p.exceptions, 56 + 6);
    assert_int_equal(p.packed.sides[9].count, 6);
    assert_int_equal(p.packed.sides[1].count, 0);
    assert_int_equal(p.bytes, ROWS * (8 * 192 + 8) + 62 * 4);
    assert_int_equal(p.bytes, qn_matrix_bytes(&p.packed));
    assert_all_rows(&p);
    free_pair(&p);
}

static void test_one_exception_too_many_is_not_packed(void **state)
{
    (void)state;
    enum { ROWS = 16, COLS = 640, MOST = ROWS * COLS / QN_PACKED_RARE };
    pair p = make_pair(ROWS, COLS);
    for (size_t i = 0; i < (size_t)ROWS * COLS; i++)
        p.values[i] = 0x3F80;
    for (size_t i = 0; i < MOST; i++)
        p.values[(size_t)5 * COLS + 3 * i] = 0x7F00;
    pack(&p);
    assert_int_equal(p.exceptions, MOST);
    assert_int_equal(p.bytes, qn_packed_bf16_most_bytes(ROWS, COLS));
    assert_all_rows(&p);
    p.values[(size_t)15 * COLS + 639] = 0x0080;
    pack(&p);
    assert_false(p.is_packed);
    assert_int_equal(p.exceptions, MOST + 1);
    free_pair(&p);
}

static void test_a_hopeless_matrix_is_given_up_early(void **state)
{
    (void)state;
    enum { ROWS = 8, COLS = 1024 };
    pair p = make_pair(ROWS, COLS);
    for (size_t i = 0; i < (size_t)ROWS * COLS; i++)
        p.values[i] = (uint16_t)(i * 40503);
    qn_bf16_packing packing;
    qn_bf16_packing_start(&packing, ROWS, COLS, p.block);
    assert_false(qn_bf16_packing_rows(&packing, 0, 1, p.from.data));
    assert_false(qn_bf16_packing_rows(&packing, 1, ROWS, p.from.data + 2 * COLS));
    assert_true(packing.exception_count < (size_t)2 * COLS);
    assert_false(qn_bf16_packing_pays(&packing));
    assert_false(qn_bf16_packing_finish(&packing, &p.packed, &p.bytes));
    free_pair(&p);
}

static void test_shapes_that_do_not_pay(void **state)
{
    (void)state;
    static const size_t none[][2] = {{0, 128},         {10, 0},  {10, 96},          {10, 129},       {10, 65536},
                                     {SIZE_MAX, 6144}, {10, 64}, {SIZE_MAX / 2, 2}, {1u << 31, 6144}};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_int_equal(qn_packed_bf16_most_bytes(none[i][0], none[i][1]), 0);
    assert_int_equal(qn_packed_bf16_most_bytes(10, 128), 10 * (192 + 8) + 5 * 4);
    assert_int_equal(qn_packed_bf16_most_bytes(2048, 6144), 2048 * (48 * 192 + 8) + 2048 * 24 * 4);
    assert_true(qn_packed_bf16_most_bytes(154880, 6144) > 0);
    assert_true(qn_packed_bf16_most_bytes(1, 65535) > 0);
}

static void test_any_cut_of_rows_and_any_place(void **state)
{
    (void)state;
    enum { ROWS = 21, COLS = 2000 };
    uint64_t random = 9;
    pair p = make_pair(ROWS, COLS);
    for (size_t i = 0; i < (size_t)ROWS * COLS; i++)
        p.values[i] = random_below(&random, 2000) == 0 ? 0x0100 : normal_weight(&random, 1);
    pack(&p);
    assert_all_rows(&p);
    assert_true(p.exceptions > 0);
    uint8_t *copy = qn_alloc_aligned(p.bytes, 1);
    assert_non_null(copy);
    memcpy(copy, p.block, p.bytes);
    qn_matrix moved = p.packed;
    moved.data = copy;
    moved.sides = (const qn_packed_side *)(const void *)(copy + ROWS * qn_packed_row_bytes(COLS));
    memset(p.block, 0xA5, p.bytes);
    for (size_t first = 0; first < ROWS; first += 4) {
        qn_matrix part = qn_matrix_rows(&moved, first, qn_min_size(4, ROWS - first));
        float values[COLS];
        for (size_t row = 0; row < part.rows; row++) {
            assert_row(&p, &part, first + row, row);
            qn_matrix_row_to_f32(&part, row, values);
            for (size_t i = 0; i < COLS; i++)
                assert_true(values[i] == qn_bf16_to_f32(p.values[(first + row) * COLS + i]));
        }
    }
    qn_free(copy);
    free_pair(&p);
}

typedef struct crowd {
    qn_bf16_packing packing;
    const qn_matrix *from;
    atomic_size_t failed;
} crowd;

static void pack_one_row(void *context, size_t item, size_t worker)
{
    (void)worker;
    crowd *c = context;
    if (!qn_bf16_packing_rows(&c->packing, item, item + 1, c->from->data + item * qn_matrix_row_bytes(c->from)))
        c->failed++;
}

static void test_rows_packed_by_many_threads(void **state)
{
    (void)state;
    enum { ROWS = 500, COLS = 1300 };
    uint64_t random = 10;
    qn_error err;
    qn_pool *pool;
    assert_int_equal(qn_pool_new(4, &pool, &err), QN_OK);
    pair p = make_pair(ROWS, COLS);
    for (size_t i = 0; i < (size_t)ROWS * COLS; i++)
        p.values[i] = random_below(&random, 2000) == 0 ? 0x7F00 : normal_weight(&random, 1);
    crowd c = {.from = &p.from};
    qn_bf16_packing_start(&c.packing, ROWS, COLS, p.block);
    qn_pool_run(pool, ROWS, pack_one_row, &c);
    p.is_packed = qn_bf16_packing_finish(&c.packing, &p.packed, &p.bytes);
    assert_int_equal(c.failed, 0);
    assert_all_rows(&p);
    for (size_t i = 0; i < (size_t)ROWS * COLS; i++)
        p.values[i] = (uint16_t)random_below(&random, 65536);
    qn_bf16_packing_start(&c.packing, ROWS, COLS, p.block);
    qn_pool_run(pool, ROWS, pack_one_row, &c);
    assert_true(c.failed > ROWS / 2);
    assert_false(qn_bf16_packing_finish(&c.packing, &p.packed, &p.bytes));
    free_pair(&p);
    qn_pool_free(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weights_come_back_in_every_bit),
        cmocka_unit_test(test_every_exponent_and_mantissa_fits_some_window),
        cmocka_unit_test(test_zeros_and_subnormals_are_no_exceptions),
        cmocka_unit_test(test_exceptions_come_back_where_they_were),
        cmocka_unit_test(test_one_exception_too_many_is_not_packed),
        cmocka_unit_test(test_a_hopeless_matrix_is_given_up_early),
        cmocka_unit_test(test_shapes_that_do_not_pay),
        cmocka_unit_test(test_any_cut_of_rows_and_any_place),
        cmocka_unit_test(test_rows_packed_by_many_threads),
    };
    return cmocka_run_group_tests_name("packed_bf16", tests, NULL, NULL);
}
