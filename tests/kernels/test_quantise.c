/* The MXFP4 encoder: every table against the reference, and that against reference vectors and against a search over
 * all codes and all scales in double. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "checkpoint/safetensors.h"
#include "kernels/ref/ref.h"
#include "tables.h"
#include "unit/kernels/support.h"

enum { BLOCK = QN_MXFP4_BLOCK, MAX_BLOCKS = 40, BLOCKS = 5 };

/* ---- blocks to encode ---- */

/* A mixture that is heavy in its tails: a normal number, times a power of two that is often 1. */
static float heavy_tailed(random_state *random)
{
    float x = random_normal(random);
    while (random_below(random, 4) == 0)
        x *= 2.0f;
    return x;
}

static float any_finite(random_state *random)
{
    float x;
    do {
        uint32_t bits = (uint32_t)random_bits(random);
        memcpy(&x, &bits, sizeof x);
    } while (!isfinite(x));
    return x;
}

/* Halfway between two elements, or next to it. */
static float near_tie(random_state *random)
{
    static const float ties[] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f, 7.0f, 10.0f};
    float x = ties[random_below(random, sizeof ties / sizeof ties[0])];
    size_t side = random_below(random, 3);
    return side == 0 ? x : nextafterf(x, side == 1 ? 0.0f : 9.0f);
}

static void fill_block(random_state *random, float *x)
{
    size_t kind = random_below(random, 8);
    int shift = random_below(random, 3) == 0 ? (int)random_below(random, 290) - 160 : -6;
    for (size_t j = 0; j < BLOCK; j++) {
        float value = kind == 0   ? any_finite(random)
                      : kind <= 2 ? near_tie(random) * (random_below(random, 2) == 0 ? 1.0f : -1.0f)
                      : kind == 3 ? 0.0f
                      : kind <= 5 ? random_normal(random)
                                  : heavy_tailed(random);
        x[j] = kind == 0 ? value : ldexpf(value, shift);
        if (random_below(random, 16) == 0)
            x[j] = random_below(random, 2) == 0 ? 0.0f : -0.0f;
        if (!isfinite(x[j]))
            x[j] = 3e38f;
        if (kind == 7)
            x[j] = bf16_round(x[j]);
        if (!isfinite(x[j]))
            x[j] = -3e38f;
    }
}

/* Equal, mildly or wildly uneven, or zero in places. */
static void fill_importance(random_state *random, float *importance, size_t count)
{
    int spread = (int)random_below(random, 4) * 8;
    for (size_t i = 0; i < count; i++) {
        importance[i] = ldexpf(1.5f + 0.5f * random_float(random), (int)random_below(random, (size_t)spread + 1));
        if (random_below(random, 8) == 0)
            importance[i] = 0.0f;
    }
}

/* ---- the encoder once more, by search in double ---- */

static double code_value(unsigned code)
{
    static const double values[] = {0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0};
    return code & 8 ? -values[code & 7] : values[code & 7];
}

static unsigned nearest_code(double y)
{
    unsigned sign = signbit(y) ? 8 : 0, best = sign;
    double magnitude = fmin(fabs(y), 8.0);
    for (unsigned code = sign; code < sign + 8; code++) {
        double gain = fabs(magnitude - fabs(code_value(best))) - fabs(magnitude - fabs(code_value(code)));
        if (gain > 0.0 || (gain == 0.0 && code % 2 == 0))
            best = code;
    }
    return best;
}

static int ocp_byte(const float *x)
{
    double largest = 0.0;
    for (size_t j = 0; j < BLOCK; j++)
        largest = fmax(largest, fabs((double)x[j]));
    int exponent = 0;
    frexp(largest, &exponent); /* largest in [2^(exponent - 1), 2^exponent) */
    return largest == 0.0 || exponent - 1 - 2 + 127 < 0 ? 0 : exponent - 1 - 2 + 127;
}

/* The least error with this scale byte, in units of the scale 2^(unit - 127). */
static double search_error(const float *x, const float *importance, int byte, int unit)
{
    double sum = 0.0;
    for (size_t j = 0; j < BLOCK; j++) {
        double y = ldexp((double)x[j], 127 - byte);
        double error = ldexp(y - code_value(nearest_code(y)), byte - unit);
        sum += (importance != NULL ? (double)importance[j] : 1.0) * error * error;
    }
    return sum;
}

static void check_codes(const uint8_t *codes, const float *x, int byte)
{
    for (size_t j = 0; j < BLOCK; j++)
        assert_int_equal(codes[j / 2] >> (j % 2 * 4) & 15, nearest_code(ldexp((double)x[j], 127 - byte)));
}

/* ---- tests ---- */

static void test_reference_vectors(void **state)
{
    (void)state;
    qn_safetensors *file = NULL;
    qn_error err;
    assert_int_equal(qn_safetensors_open("tests/data/oracle/mxfp4-vectors.safetensors", &file, &err), QN_OK);
    const qn_tensor *input = qn_safetensors_find(file, "input"), *packed = qn_safetensors_find(file, "packed");
    const qn_tensor *scale = qn_safetensors_find(file, "scale");
    assert_true(input != NULL && packed != NULL && scale != NULL);
    size_t blocks = scale->bytes;
    assert_int_equal(input->bytes, blocks * BLOCK * 2);
    assert_int_equal(packed->bytes, blocks * BLOCK / 2);
    float *x = guarded(blocks * BLOCK * sizeof *x, 1);
    qn_matrix matrix = {.dtype = QN_DTYPE_BF16, .rows = 1, .cols = blocks * BLOCK, .data = input->data};
    qn_matrix_row_to_f32(&matrix, 0, x);
    tested_table tables[TESTED_TABLES_MAX];
    size_t table_count = tested_tables(tables);
    for (size_t t = 0; t < table_count; t++) {
        uint8_t *codes = guarded(blocks * BLOCK / 2, 1), *scales = guarded(blocks, 1);
        assert_true(tables[t].kernels->quantise_mxfp4(codes, scales, x, NULL, blocks, QN_SCALE_OCP) == QN_ALL_FINITE);
        assert_memory_equal(codes, packed->data, packed->bytes);
        assert_memory_equal(scales, scale->data, scale->bytes);
    }
    guarded_release_all();
    qn_safetensors_close(file);
}

static void test_tables_agree(void **state)
{
    (void)state;
    tested_table tables[TESTED_TABLES_MAX];
    size_t table_count = tested_tables(tables);
    random_state random = random_start();
    for (int round = 0; round < 3000; round++) {
        size_t blocks = random_below(&random, MAX_BLOCKS + 1), count = blocks * BLOCK;
        int at_end = random_below(&random, 2) == 0;
        float *x = guarded(count * sizeof *x, at_end), *importance = guarded(count * sizeof *x, at_end);
        for (size_t b = 0; b < blocks; b++)
            fill_block(&random, x + b * BLOCK);
        fill_importance(&random, importance, count);
        for (int use = 0; use < 3; use++) {
            qn_scale_rule rule = use == 0 ? QN_SCALE_OCP : QN_SCALE_LEAST_ERROR;
            const float *weights = use == 2 ? importance : NULL;
            uint8_t *expected = guarded(blocks * BLOCK / 2, at_end), *expected_scales = guarded(blocks, at_end);
            qn_kernels_scalar.quantise_mxfp4(expected, expected_scales, x, weights, blocks, rule);
            for (size_t t = 0; t < table_count; t++) {
                uint8_t *codes = guarded(blocks * BLOCK / 2, at_end), *scales = guarded(blocks, at_end);
                size_t bad = tables[t].kernels->quantise_mxfp4(codes, scales, x, weights, blocks, rule);
                assert_true(bad == QN_ALL_FINITE);
                assert_memory_equal(scales, expected_scales, blocks);
                assert_memory_equal(codes, expected, blocks * BLOCK / 2);
            }
        }
        guarded_release_all();
    }
}

static void test_nearest_codes_with_the_ocp_scale(void **state)
{
    (void)state;
    random_state random = random_start();
    for (int round = 0; round < 20000; round++) {
        float x[BLOCK];
        uint8_t codes[BLOCK / 2], scale;
        fill_block(&random, x);
        assert_true(qn_kernels_scalar.quantise_mxfp4(codes, &scale, x, NULL, 1, QN_SCALE_OCP) == QN_ALL_FINITE);
        assert_int_equal(scale, ocp_byte(x));
        check_codes(codes, x, scale);
    }
}

/* Every BF16 value of a block whose largest is 4 to 8 units: all halfway cases and their neighbours. */
static void test_every_value_is_rounded_to_nearest_even(void **state)
{
    (void)state;
    tested_table tables[TESTED_TABLES_MAX];
    size_t table_count = tested_tables(tables);
    for (unsigned bits = 0; bits < 0x4100; bits++) {
        float x[BLOCK] = {4.0f, qn_bf16_to_f32((uint16_t)bits), -qn_bf16_to_f32((uint16_t)bits)};
        x[3] = nextafterf(x[1], 0.0f);
        x[4] = nextafterf(x[2], 0.0f);
        x[5] = bits < 0x40ff ? nextafterf(x[1], 8.0f) : 0.0f;
        for (size_t t = 0; t < table_count; t++) {
            uint8_t codes[BLOCK / 2], scale;
            tables[t].kernels->quantise_mxfp4(codes, &scale, x, NULL, 1, QN_SCALE_OCP);
            assert_int_equal(scale, 127);
            check_codes(codes, x, scale);
        }
    }
}

/* The scale is the best of all that there are, whatever the importance; the float32 sums may miss a better one by
 * their rounding only. */
static void test_no_scale_has_a_smaller_error(void **state)
{
    (void)state;
    random_state random = random_start();
    int moved = 0, far = 0;
    for (int round = 0; round < 3000; round++) {
        float x[BLOCK], importance[BLOCK];
        uint8_t codes[BLOCK / 2], scale;
        fill_block(&random, x);
        fill_importance(&random, importance, BLOCK);
        const float *weights = round % 2 == 0 ? NULL : importance;
        qn_kernels_scalar.quantise_mxfp4(codes, &scale, x, weights, 1, QN_SCALE_LEAST_ERROR);
        check_codes(codes, x, scale);
        int ocp = ocp_byte(x);
        if (scale == 0) {
            assert_int_equal(ocp, 0);
            continue;
        }
        assert_in_range(scale, 2, 252);
        int unit = ocp > 2 ? ocp : 2;
        double taken = search_error(x, weights, scale, unit);
        for (int byte = 2; byte <= 252; byte++)
            assert_true(taken <= search_error(x, weights, byte, unit) * (1.0 + 1e-5) + 1e-40);
        moved += scale != unit;
        far += scale + 1 < unit;
        if (weights == NULL)
            assert_in_range(scale, unit - 1, unit + 1);
    }
    assert_true(moved > 100 && far > 10);
}

static uint8_t scale_of(const float *x, const float *importance, qn_scale_rule rule)
{
    tested_table tables[TESTED_TABLES_MAX];
    size_t table_count = tested_tables(tables);
    uint8_t codes[BLOCK / 2], scale = 0;
    for (size_t t = table_count; t-- > 0;) {
        uint8_t before = scale;
        assert_true(tables[t].kernels->quantise_mxfp4(codes, &scale, x, importance, 1, rule) == QN_ALL_FINITE);
        assert_true(t + 1 == table_count || scale == before);
        check_codes(codes, x, scale);
    }
    return scale;
}

static void test_ties_between_scales(void **state)
{
    (void)state;
    float exact[BLOCK] = {4.0f, 2.0f, -1.0f}, none[BLOCK] = {0};
    assert_int_equal(scale_of(exact, NULL, QN_SCALE_LEAST_ERROR), 127);
    float x[BLOCK] = {7.9f, 0.6f, -3.3f};
    assert_int_equal(scale_of(x, none, QN_SCALE_LEAST_ERROR), 127);
    float saturated[BLOCK] = {7.0f}; /* off by 1 from both 6 and 8 */
    assert_int_equal(scale_of(saturated, NULL, QN_SCALE_LEAST_ERROR), 127);
    /* errors of 22.25 at the OCP scale, and of 20.25 one step up and one down: the larger scale wins */
    float pair[BLOCK] = {7.5f, 0.25f}, importance[BLOCK] = {1.0f, 320.0f};
    assert_int_equal(scale_of(pair, importance, QN_SCALE_LEAST_ERROR), 128);
}

static void test_tiny_blocks(void **state)
{
    (void)state;
    float zeros[BLOCK] = {0.0f, -0.0f};
    assert_int_equal(scale_of(zeros, NULL, QN_SCALE_OCP), 0);
    assert_int_equal(scale_of(zeros, NULL, QN_SCALE_LEAST_ERROR), 0);
    for (int exponent = -149; exponent < -110; exponent++) {
        float x[BLOCK] = {ldexpf(1.0f, exponent), -ldexpf(1.0f, exponent - 1)};
        int ocp = exponent - 2 + 127 > 0 ? exponent - 2 + 127 : 0;
        assert_int_equal(scale_of(x, NULL, QN_SCALE_OCP), ocp);
        assert_int_equal(scale_of(x, NULL, QN_SCALE_LEAST_ERROR), ocp < 2 ? 2 : ocp);
    }
}

static void test_scales_that_would_not_load_are_never_taken(void **state)
{
    (void)state;
    float x[BLOCK];
    for (size_t j = 0; j < BLOCK; j++)
        x[j] = ldexpf(j % 2 == 0 ? 1.99f : -1.99f, 127);
    assert_int_equal(scale_of(x, NULL, QN_SCALE_OCP), 252);
    assert_int_equal(scale_of(x, NULL, QN_SCALE_LEAST_ERROR), 252);
    for (size_t j = 0; j < BLOCK; j++)
        x[j] *= 0.5f;
    assert_int_equal(scale_of(x, NULL, QN_SCALE_OCP), 251);
    assert_int_equal(scale_of(x, NULL, QN_SCALE_LEAST_ERROR), 252);
}

/* Values that do not matter are let go, down to the smallest scale. */
static void test_importance_drives_the_scale_down(void **state)
{
    (void)state;
    float x[BLOCK] = {6.0f}, importance[BLOCK] = {0.0f};
    for (size_t j = 1; j < BLOCK; j++) {
        x[j] = ldexpf(1.5f, -20);
        importance[j] = 1.0f;
    }
    assert_int_equal(scale_of(x, importance, QN_SCALE_OCP), 127);
    uint8_t scale = scale_of(x, importance, QN_SCALE_LEAST_ERROR);
    assert_in_range(scale, 127 - 22, 127 - 19);
    x[0] = ldexpf(1.0f, -115);
    for (size_t j = 1; j < BLOCK; j++)
        x[j] = ldexpf(1.0f, -126);
    assert_in_range(scale_of(x, importance, QN_SCALE_LEAST_ERROR), 2, 3);
}

static void test_the_first_value_that_is_no_number_is_named(void **state)
{
    (void)state;
    static const float bad[] = {INFINITY, -INFINITY, NAN, -NAN};
    tested_table tables[TESTED_TABLES_MAX];
    size_t table_count = tested_tables(tables);
    random_state random = random_start();
    for (int round = 0; round < 500; round++) {
        const size_t count = (size_t)BLOCKS * BLOCK;
        float x[BLOCKS * BLOCK], importance[BLOCKS * BLOCK];
        for (size_t b = 0; b < BLOCKS; b++)
            fill_block(&random, x + b * BLOCK);
        fill_importance(&random, importance, count);
        size_t first = random_below(&random, count);
        x[first + random_below(&random, count - first)] = bad[random_below(&random, 4)];
        x[first] = bad[random_below(&random, 4)];
        for (size_t t = 0; t < table_count; t++) {
            uint8_t codes[BLOCKS * BLOCK / 2], scales[BLOCKS], untouched[BLOCKS * BLOCK / 2];
            memset(codes, 0xEE, sizeof codes);
            memset(scales, 0xEE, sizeof scales);
            memset(untouched, 0xEE, sizeof untouched);
            size_t at = tables[t].kernels->quantise_mxfp4(codes, scales, x, round % 3 == 0 ? importance : NULL, BLOCKS,
                                                          round % 2 == 0 ? QN_SCALE_OCP : QN_SCALE_LEAST_ERROR);
            assert_int_equal(at, first);
            size_t done = first / BLOCK;
            for (size_t b = 0; b < done; b++)
                check_codes(codes + b * BLOCK / 2, x + b * BLOCK, scales[b]);
            assert_memory_equal(codes + done * BLOCK / 2, untouched, (BLOCKS - done) * BLOCK / 2);
            assert_memory_equal(scales + done, untouched, BLOCKS - done);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference_vectors),
        cmocka_unit_test(test_tables_agree),
        cmocka_unit_test(test_nearest_codes_with_the_ocp_scale),
        cmocka_unit_test(test_every_value_is_rounded_to_nearest_even),
        cmocka_unit_test(test_no_scale_has_a_smaller_error),
        cmocka_unit_test(test_ties_between_scales),
        cmocka_unit_test(test_tiny_blocks),
        cmocka_unit_test(test_scales_that_would_not_load_are_never_taken),
        cmocka_unit_test(test_importance_drives_the_scale_down),
        cmocka_unit_test(test_the_first_value_that_is_no_number_is_named),
    };
    print_tested_tables();
    test_seed();
    return cmocka_run_group_tests_name("quantise", tests, NULL, NULL);
}
