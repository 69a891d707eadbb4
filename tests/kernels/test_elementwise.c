/* Norm, activation, sums of rows and cached rows: every table against the reference, and that against double. */
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

enum { MAX_COUNT = 8192 };

static float *random_values(random_state *random, size_t count, float spread)
{
    float *x = guarded(count * sizeof *x, random_below(random, 2) == 0);
    for (size_t i = 0; i < count; i++)
        x[i] = spread * random_normal(random);
    return x;
}

static size_t random_count(random_state *random)
{
    return 1 + random_below(random, random_below(random, 4) == 0 ? MAX_COUNT : 70);
}

/* |a - b| in units of the last place of b. */
static double ulps(float a, double b)
{
    int exponent;
    frexp(b, &exponent);
    return fabs((double)a - b) / ldexp(1.0, exponent - 24 < -149 ? -149 : exponent - 24);
}

static void test_rms_norm(void **state)
{
    (void)state;
    tested_table tables[TESTED_TABLES_MAX];
    size_t table_count = tested_tables(tables);
    random_state random = random_start();
    for (int round = 0; round < 300; round++) {
        size_t count = random_count(&random);
        float *x = random_values(&random, count, 3.0f), *weight = random_values(&random, count, 1.0f);
        float *expected = guarded(count * sizeof(float), 1), eps = round % 2 == 0 ? 1e-5f : 1e-6f;
        qn_kernels_scalar.rms_norm(expected, x, weight, count, eps);
        double squares = 0.0;
        for (size_t i = 0; i < count; i++)
            squares += (double)x[i] * (double)x[i];
        double factor = 1.0 / sqrt(squares / (double)count + (double)eps);
        for (size_t i = 0; i < count; i++)
            assert_true(ulps(expected[i], (double)x[i] * factor * (double)weight[i]) <= 4.0);
        for (size_t t = 0; t < table_count; t++) {
            float *out = guarded(count * sizeof(float), 1);
            tables[t].kernels->rms_norm(out, x, weight, count, eps);
            assert_memory_equal(out, expected, count * sizeof(float));
            memcpy(out, x, count * sizeof(float));
            tables[t].kernels->rms_norm(out, out, weight, count, eps);
            assert_memory_equal(out, expected, count * sizeof(float));
        }
        guarded_release_all();
    }
}

static void check_silu(const qn_kernels *kernels, const float *gate, const float *up, size_t count)
{
    float *out = guarded(count * sizeof(float), 1), *in_place = guarded(count * sizeof(float), 1);
    kernels->silu_multiply(out, gate, up, count);
    for (size_t i = 0; i < count; i++) {
        double exact = (double)gate[i] / (1.0 + exp(-(double)gate[i])) * (double)up[i];
        /* where exp(-gate) overflows float32, from gate = -88.7 down, the result is zero instead of some 1e-36 */
        assert_true(ulps(out[i], exact) <= 6.0 || fabs((double)out[i] - exact) < 2e-36);
    }
    memcpy(in_place, gate, count * sizeof(float));
    kernels->silu_multiply(in_place, in_place, up, count);
    assert_memory_equal(in_place, out, count * sizeof(float));
    memcpy(in_place, up, count * sizeof(float));
    kernels->silu_multiply(in_place, gate, in_place, count);
    assert_memory_equal(in_place, out, count * sizeof(float));
    for (size_t i = 0; i < count; i++) {
        float alone;
        kernels->silu_multiply(&alone, gate + i, up + i, 1);
        assert_memory_equal(&alone, out + i, sizeof alone);
    }
}

static void test_silu_multiply(void **state)
{
    (void)state;
    tested_table tables[TESTED_TABLES_MAX];
    size_t table_count = tested_tables(tables);
    random_state random = random_start();
    for (size_t t = 0; t < table_count; t++) {
        for (int round = 0; round < 200; round++) {
            size_t count = random_count(&random);
            float *gate = random_values(&random, count, round % 3 == 0 ? 30.0f : 4.0f);
            check_silu(tables[t].kernels, gate, random_values(&random, count, 1.0f), count);
            guarded_release_all();
        }
        const float edges[] = {0.0f, -0.0f, 88.0f, -88.0f, 3e38f, -3e38f, 1e-40f, INFINITY};
        float out[8];
        tables[t].kernels->silu_multiply(out, edges, (const float[]){1, 1, 1, 1, 1, 1, 1, 1}, 8);
        assert_true(out[0] == 0.0f && out[1] == 0.0f && out[2] == 88.0f);
        assert_true(ulps(out[3], -88.0 * exp(-88.0)) <= 4.0);
        assert_true(out[4] == 3e38f && out[5] == 0.0f && out[6] == 0.5f * 1e-40f && out[7] == INFINITY);
        const float nan[1] = {NAN}, one[1] = {1.0f};
        tables[t].kernels->silu_multiply(out, nan, one, 1);
        assert_true(isnan(out[0]));
    }
}

static void test_axpy(void **state)
{
    (void)state;
    tested_table tables[TESTED_TABLES_MAX];
    size_t table_count = tested_tables(tables);
    random_state random = random_start();
    for (int round = 0; round < 300; round++) {
        size_t count = random_count(&random);
        float *x = random_values(&random, count, 1.0f), *y = random_values(&random, count, 1.0f);
        float a = random_normal(&random);
        for (size_t t = 0; t < table_count; t++) {
            float *out = guarded(count * sizeof(float), 1);
            memcpy(out, y, count * sizeof(float));
            tables[t].kernels->axpy(out, a, x, count);
            for (size_t i = 0; i < count; i++)
                assert_true(out[i] == fmaf(a, x[i], y[i]));
        }
        guarded_release_all();
    }
}

static void test_store_row(void **state)
{
    (void)state;
    static const uint32_t special[] = {0,          0x80000000, 0x7f800000, 0xff800000, 0x7f7fffff, 0x00000001,
                                       0x007fffff, 0x3f808000, 0x3f818000, 0x3f808001, 0x7fc00000, 0x7f800001};
    tested_table tables[TESTED_TABLES_MAX];
    size_t table_count = tested_tables(tables);
    random_state random = random_start();
    for (int round = 0; round < 300; round++) {
        size_t count = random_count(&random);
        float *x = random_values(&random, count, 1.0f);
        for (size_t i = 0; i < count; i++)
            if (random_below(&random, 8) == 0)
                memcpy(&x[i], &special[random_below(&random, sizeof special / sizeof special[0])], 4);
        for (size_t t = 0; t < table_count; t++) {
            const qn_kernels *kernels = tables[t].kernels;
            size_t bytes = count * qn_dtype_bits(kernels->kv_dtype) / 8;
            uint8_t *row = guarded(bytes, 1);
            kernels->store_row(row, x, count);
            if (kernels->kv_dtype == QN_DTYPE_F32) {
                assert_memory_equal(row, x, bytes);
                continue;
            }
            for (size_t i = 0; i < count; i++) {
                uint16_t bits;
                memcpy(&bits, row + 2 * i, 2);
                assert_true(isnan(x[i]) ? isnan(qn_bf16_to_f32(bits)) : bits == qn_f32_to_bf16(x[i]));
            }
        }
        guarded_release_all();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rms_norm),
        cmocka_unit_test(test_silu_multiply),
        cmocka_unit_test(test_axpy),
        cmocka_unit_test(test_store_row),
    };
    print_tested_tables();
    test_seed();
    return cmocka_run_group_tests_name("elementwise", tests, NULL, NULL);
}
