#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <string.h>
#include <cmocka.h>

#include "base/fault.h"
#include "base/memory.h"
#include "synth/values.h"

static const qn_catalogue_tensor GATE = {.name = "model.layers.3.mlp.experts.0.gate_proj.weight",
                                         .dtype = QN_DTYPE_BF16,
                                         .dims = 2,
                                         .shape = {512, 1024},
                                         .kind = QN_KIND_ROUTED_EXPERTS};

static qn_values *values_of(uint64_t seed)
{
    qn_values *values = NULL;
    qn_error err;
    assert_int_equal(qn_values_new(seed, &values, &err), QN_OK);
    return values;
}

/* All rows; to be released with qn_free. */
static float *matrix(const qn_values *values, const qn_catalogue_tensor *tensor)
{
    size_t rows = tensor->shape[0], cols = tensor->shape[1];
    float *columns = qn_alloc(cols, sizeof *columns), *out = qn_alloc(rows * cols, sizeof *out);
    qn_values_columns(values, tensor, columns);
    for (size_t r = 0; r < rows; r++)
        qn_values_row(values, tensor, r, columns, out + r * cols);
    qn_free(columns);
    return out;
}

typedef struct moments {
    double mean, deviation, kurtosis, largest;
} moments;

static moments moments_of(const float *x, size_t count)
{
    moments m = {0};
    for (size_t i = 0; i < count; i++) {
        assert_true(isfinite(x[i]));
        m.mean += x[i] / (double)count;
    }
    for (size_t i = 0; i < count; i++) {
        double d = x[i] - m.mean;
        m.deviation += d * d / (double)count;
        m.kurtosis += d * d * d * d / (double)count;
        m.largest = fmax(m.largest, fabs(d));
    }
    m.kurtosis /= m.deviation * m.deviation;
    m.deviation = sqrt(m.deviation);
    m.largest /= m.deviation;
    return m;
}

static moments moments_of_matrix(const qn_values *values, const qn_catalogue_tensor *tensor)
{
    float *x = matrix(values, tensor);
    moments m = moments_of(x, tensor->shape[0] * tensor->shape[1]);
    qn_free(x);
    return m;
}

static bool near(double value, double expected, double share)
{
    return fabs(value - expected) <= share * fabs(expected);
}

static void test_matrices_are_scaled_for_their_inputs_with_heavy_tails(void **state)
{
    (void)state;
    qn_values *values = values_of(7);
    moments m = moments_of_matrix(values, &GATE);
    assert_true(near(m.deviation, 1 / sqrt(1024), 0.05));
    assert_true(fabs(m.mean) < 0.01 * m.deviation);
    assert_true(m.kurtosis > 6 && m.kurtosis < 20); /* a normal distribution has 3 */
    assert_true(m.largest > 9 && m.largest < 60);

    qn_catalogue_tensor other = GATE;
    other.name = "model.layers.3.mlp.experts.0.down_proj.weight";
    assert_true(near(moments_of_matrix(values, &other).deviation, 0.1 / sqrt(1024), 0.05));
    other.name = "model.layers.3.self_attn.o_proj.weight";
    other.kind = QN_KIND_ATTENTION;
    assert_true(near(moments_of_matrix(values, &other).deviation, 0.1 / sqrt(1024), 0.05));
    other.name = "model.embed_tokens.weight";
    other.kind = QN_KIND_EMBEDDING;
    assert_true(near(moments_of_matrix(values, &other).deviation, 0.02, 0.05));
    other.name = "lm_head.weight";
    other.kind = QN_KIND_HEAD;
    assert_true(near(moments_of_matrix(values, &other).deviation, 2 / sqrt(1024), 0.05));
    qn_values_free(values);
}

/* The share of values beyond t is that of Student's distribution with 5 degrees of freedom, which has a closed form. */
static void test_values_without_their_scales_are_students(void **state)
{
    (void)state;
    enum { ROWS = 2000, COLS = 64 };
    const qn_catalogue_tensor t = {.name = "x", .dims = 2, .shape = {ROWS, COLS}, .kind = QN_KIND_ATTENTION};
    qn_values *values = values_of(1);
    float columns[COLS], row[COLS], again[COLS];
    for (size_t i = 0; i < COLS; i++)
        columns[i] = 1;
    size_t beyond[3] = {0};
    const double thresholds[3] = {0.5, 1.5, 3.0};
    for (size_t r = 0; r < ROWS; r++) {
        qn_values_row(values, &t, r, columns, row);
        /* the scale of a row cancels in its ratio to the row's root mean square, noisy but without bias to matter */
        double squares = 0;
        for (size_t i = 0; i < COLS; i++)
            squares += (double)row[i] * row[i];
        for (size_t i = 0; i < COLS; i++) {
            for (size_t k = 0; k < 3; k++)
                beyond[k] += fabs(row[i]) > thresholds[k] * sqrt(squares / COLS);
        }
    }
    for (size_t k = 0; k < 3; k++) {
        double x = thresholds[k] / sqrt(3.0); /* of t / sqrt(5), for a distribution of variance 1 */
        double tail = 1 - 2 / M_PI * (atan(x) + x / (1 + x * x) * (1 + 2 / (3 * (1 + x * x))));
        assert_true(near((double)beyond[k] / (ROWS * COLS), tail, k == 2 ? 0.2 : 0.08));
    }
    qn_values_row(values, &t, ROWS - 1, columns, again);
    assert_memory_equal(row, again, sizeof row);
    qn_values_free(values);
}

static void test_rows_and_columns_differ_in_size(void **state)
{
    (void)state;
    qn_values *values = values_of(3);
    float *x = matrix(values, &GATE);
    size_t rows = GATE.shape[0], cols = GATE.shape[1];
    double least_row = INFINITY, most_row = 0, least_column = INFINITY, most_column = 0;
    for (size_t r = 0; r < rows; r++) {
        double size = 0;
        for (size_t c = 0; c < cols; c++)
            size += fabs(x[r * cols + c]) / (double)cols;
        least_row = fmin(least_row, size);
        most_row = fmax(most_row, size);
    }
    for (size_t c = 0; c < cols; c++) {
        double size = 0;
        for (size_t r = 0; r < rows; r++)
            size += fabs(x[r * cols + c]) / (double)rows;
        least_column = fmin(least_column, size);
        most_column = fmax(most_column, size);
    }
    assert_true(most_row > 2 * least_row && most_row < 8 * least_row);
    assert_true(most_column > 2 * least_column && most_column < 8 * least_column);
    qn_free(x);
    qn_values_free(values);
}

static void test_norms_and_biases(void **state)
{
    (void)state;
    enum { COUNT = 4096 };
    float x[COUNT];
    qn_values *values = values_of(5);
    qn_catalogue_tensor t = {.name = "model.norm.weight", .dims = 1, .shape = {COUNT}, .kind = QN_KIND_NORMS};
    qn_values_vector(values, &t, 0, COUNT, x);
    moments m = moments_of(x, COUNT);
    assert_true(near(m.mean, 1, 0.05) && near(m.deviation, 0.15, 0.1));
    t.name = "model.layers.3.mlp.gate.e_score_correction_bias";
    t.kind = QN_KIND_ROUTER;
    qn_values_vector(values, &t, 0, COUNT, x);
    m = moments_of(x, COUNT);
    assert_true(fabs(m.mean) < 0.001 && near(m.deviation, 0.01, 0.1));
    t.name = "model.layers.3.self_attn.indexer.k_norm.bias";
    t.kind = QN_KIND_INDEXER;
    qn_values_vector(values, &t, 0, COUNT, x);
    m = moments_of(x, COUNT);
    assert_true(fabs(m.mean) < 0.005 && near(m.deviation, 0.05, 0.1));

    float piece[100];
    qn_values_vector(values, &t, 1001, 100, piece);
    assert_memory_equal(piece, x + 1001, sizeof piece);
    qn_values_free(values);
}

static void test_a_cut_tensor_keeps_its_values(void **state)
{
    (void)state;
    qn_values *values = values_of(11);
    qn_catalogue_tensor smaller = GATE;
    smaller.shape[0] = 100;
    smaller.shape[1] = 93; /* no multiple of anything */
    float *whole = matrix(values, &GATE), *part = matrix(values, &smaller);
    double ratio = part[0] / whole[0]; /* the deviation follows the number of inputs */
    assert_true(near(ratio, sqrt(1024.0 / 93), 1e-5));
    for (size_t r = 0; r < 100; r++) {
        for (size_t c = 0; c < 93; c++)
            assert_true(near(part[r * 93 + c], ratio * whole[r * 1024 + c], 1e-5));
    }
    qn_free(whole);
    qn_free(part);
    qn_values_free(values);
}

static void test_seeds_names_and_rows_give_other_values(void **state)
{
    (void)state;
    qn_values *one = values_of(0), *two = values_of(UINT64_C(1) << 40), *same = values_of(0);
    qn_catalogue_tensor renamed = GATE;
    renamed.name = "model.layers.3.mlp.experts.1.gate_proj.weight";
    size_t bytes = GATE.shape[0] * GATE.shape[1] * sizeof(float);
    float *a = matrix(one, &GATE), *b = matrix(two, &GATE), *c = matrix(one, &renamed), *d = matrix(same, &GATE);
    assert_memory_equal(a, d, bytes);
    size_t equal = 0;
    for (size_t i = 0; i < GATE.shape[0] * GATE.shape[1]; i++)
        equal += a[i] == b[i] || a[i] == c[i] || (i >= GATE.shape[1] && a[i] == a[i - GATE.shape[1]]);
    assert_true(equal < 100);
    qn_free(a);
    qn_free(b);
    qn_free(c);
    qn_free(d);
    qn_values_free(one);
    qn_values_free(two);
    qn_values_free(same);
}

/* Written down so that a change of the values, on whatever machine, is noticed. */
static void test_values_are_those_of_every_machine(void **state)
{
    (void)state;
    qn_values *values = values_of(0);
    float *x = matrix(values, &GATE);
    uint32_t sum = 0;
    for (size_t i = 0; i < GATE.shape[0] * GATE.shape[1]; i++) {
        uint32_t word;
        memcpy(&word, &x[i], sizeof word);
        sum = sum * 31 + word;
    }
    assert_int_equal(sum, 0x66A4EF3);
    qn_free(x);
    qn_values_free(values);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    qn_values *values = NULL;
    qn_error err;
    qn_fault_arm(QN_FAULT_ALLOC, 1);
    qn_status status = qn_values_new(0, &values, &err);
    qn_fault_disarm();
    assert_int_equal(status, QN_RESOURCE);
    assert_null(values);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matrices_are_scaled_for_their_inputs_with_heavy_tails),
        cmocka_unit_test(test_values_without_their_scales_are_students),
        cmocka_unit_test(test_rows_and_columns_differ_in_size),
        cmocka_unit_test(test_norms_and_biases),
        cmocka_unit_test(test_a_cut_tensor_keeps_its_values),
        cmocka_unit_test(test_seeds_names_and_rows_give_other_values),
        cmocka_unit_test(test_values_are_those_of_every_machine),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
