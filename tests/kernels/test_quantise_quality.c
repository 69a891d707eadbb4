/* What the scale rules cost: the squared error of the encoder on the shipped model's routed experts and on synthetic
 * weights, as a table and held to a bound. Beside it stands the best that the format allows, found by trying every
 * scale of every block and every code of every element in double: no encoder has a smaller squared error. */
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
#include "unit/kernels/support.h"

enum { BLOCK = QN_MXFP4_BLOCK, COLS = 2048, ROWS = 64 };

/* Sums of squared errors. */
typedef struct errors {
    double ocp;          /* rounding to nearest with the OCP scale */
    double least;        /* QN_SCALE_LEAST_ERROR */
    double no_smaller;   /* the better of the OCP scale and the next larger one */
    double best_of_all;  /* of every scale */
    double within_three; /* of the OCP scale and its two neighbours */
    double power;        /* sum of squared weights */
} errors;

static double decoded_error(const uint8_t *codes, uint8_t scale, const float *x)
{
    double sum = 0.0;
    for (size_t j = 0; j < BLOCK; j++) {
        unsigned code = codes[j / 2] >> (j % 2 * 4) & 15;
        double error = (double)x[j] - (double)qn_e2m1_value(code) * (double)qn_e8m0_value(scale);
        sum += error * error;
    }
    return sum;
}

/* Each element takes the nearest of the values that codes have at this scale; the sign costs nothing. */
static double least_error_at(uint8_t scale, const float *x)
{
    double sum = 0.0, values[8];
    for (unsigned code = 0; code < 8; code++)
        values[code] = (double)qn_e2m1_value(code) * (double)qn_e8m0_value(scale);
    for (size_t j = 0; j < BLOCK; j++) {
        double magnitude = fabs((double)x[j]), least = magnitude;
        for (unsigned code = 1; code < 8; code++) {
            double error = fabs(magnitude - values[code]);
            least = error < least ? error : least;
        }
        sum += least * least;
    }
    return sum;
}

static void add_block(errors *sums, const float *x)
{
    uint8_t codes[BLOCK / 2], scale, moved;
    assert_true(qn_kernels_scalar.quantise_mxfp4(codes, &scale, x, NULL, 1, QN_SCALE_OCP) == QN_ALL_FINITE);
    double ocp = decoded_error(codes, scale, x);
    qn_kernels_scalar.quantise_mxfp4(codes, &moved, x, NULL, 1, QN_SCALE_LEAST_ERROR);
    double least = decoded_error(codes, moved, x), best = INFINITY;
    /* further off than 12 either every element is rounded to zero or all but zeros saturate */
    for (int byte = scale > 14 ? scale - 12 : 2; byte <= scale + 12; byte++)
        best = fmin(best, least_error_at((uint8_t)byte, x));
    assert_true(least <= best * (1.0 + 1e-5));
    double up = least_error_at((uint8_t)(scale + 1), x);
    sums->ocp += ocp;
    sums->least += least;
    sums->no_smaller += fmin(ocp, up);
    sums->within_three += fmin(fmin(ocp, up), least_error_at((uint8_t)(scale - 1), x));
    sums->best_of_all += best;
    for (size_t j = 0; j < BLOCK; j++)
        sums->power += (double)x[j] * (double)x[j];
}

static void report(const char *what, const errors *sums)
{
    printf("%-34s ocp %.5f of the power; of ocp: {0,+1} %.4f, {-1,0,+1} %.4f, any scale %.4f, least error %.4f\n", what,
           sums->ocp / sums->power, sums->no_smaller / sums->ocp, sums->within_three / sums->ocp,
           sums->best_of_all / sums->ocp, sums->least / sums->ocp);
    assert_true(sums->least <= sums->best_of_all * (1.0 + 1e-6));
}

/* ---- synthetic weights ---- */

static double uniform(random_state *random)
{
    return ((double)(random_bits(random) >> 11) + 0.5) * 0x1p-53;
}

/* Box and Muller, 1958. */
static double gaussian(random_state *random)
{
    double radius = sqrt(-2.0 * log(uniform(random)));
    return radius * cos(6.283185307179586 * uniform(random));
}

/* Student's t; 0 degrees of freedom stand for the normal distribution. */
static double student_t(random_state *random, int freedom)
{
    double sum = 0.0, x = gaussian(random);
    for (int i = 0; i < freedom; i++) {
        double g = gaussian(random);
        sum += g * g;
    }
    return freedom == 0 ? x : x / sqrt(sum / freedom);
}

/* The rows' scales are spread over two octaves, so that nothing depends on where a power of two lies. */
static errors synthetic(int freedom)
{
    random_state random = {20250 + (uint64_t)freedom};
    errors sums = {0};
    for (size_t row = 0; row < ROWS; row++) {
        double scale = 0.02 * exp2(2.0 * uniform(&random));
        for (size_t at = 0; at < COLS; at += BLOCK) {
            float x[BLOCK];
            for (size_t j = 0; j < BLOCK; j++)
                x[j] = bf16_round((float)(scale * student_t(&random, freedom)));
            add_block(&sums, x);
        }
    }
    return sums;
}

static void test_error_on_heavy_tails(void **state)
{
    (void)state;
    errors t4 = synthetic(4), t5 = synthetic(5), t8 = synthetic(8), normal = synthetic(0);
    report("Student t, 4 degrees of freedom", &t4);
    report("Student t, 5 degrees of freedom", &t5);
    report("Student t, 8 degrees of freedom", &t8);
    report("normal, scales by row", &normal);
    assert_true(t4.least <= 0.95 * t4.ocp);
    assert_true(t5.least <= 0.95 * t5.ocp);
    assert_true(normal.least < normal.ocp);
}

/* ---- weighted by importance ---- */

/* Squared errors times the mean squares of the inputs: what comes out of the layer. */
typedef struct weighted_errors {
    double ocp, least, weighted;
} weighted_errors;

static double input_weighted_error(const float *x, const float *squares, const float *importance, qn_scale_rule rule)
{
    uint8_t codes[BLOCK / 2], scale;
    double sum = 0.0;
    assert_true(qn_kernels_scalar.quantise_mxfp4(codes, &scale, x, importance, 1, rule) == QN_ALL_FINITE);
    for (size_t j = 0; j < BLOCK; j++) {
        unsigned code = codes[j / 2] >> (j % 2 * 4) & 15;
        double error = (double)x[j] - (double)qn_e2m1_value(code) * (double)qn_e8m0_value(scale);
        sum += error * error * (double)squares[j];
    }
    return sum;
}

/* The mean squares of the inputs are log-normal, spread is the deviation of their logarithm. */
static weighted_errors with_uneven_inputs(int freedom, double spread)
{
    random_state random = {977 + (uint64_t)freedom};
    weighted_errors sums = {0};
    float squares[COLS], x[BLOCK];
    for (size_t i = 0; i < COLS; i++)
        squares[i] = (float)exp(spread * gaussian(&random));
    for (size_t row = 0; row < ROWS; row++) {
        for (size_t at = 0; at < COLS; at += BLOCK) {
            for (size_t j = 0; j < BLOCK; j++)
                x[j] = bf16_round((float)(0.02 * student_t(&random, freedom)));
            const float *of_block = squares + at;
            double least = input_weighted_error(x, of_block, NULL, QN_SCALE_LEAST_ERROR);
            double weighted = input_weighted_error(x, of_block, of_block, QN_SCALE_LEAST_ERROR);
            assert_true(weighted <= least * (1.0 + 1e-5));
            sums.ocp += input_weighted_error(x, of_block, NULL, QN_SCALE_OCP);
            sums.least += least;
            sums.weighted += weighted;
        }
    }
    return sums;
}

static void test_weighted_error_on_uneven_inputs(void **state)
{
    (void)state;
    for (int freedom = 4; freedom >= 0; freedom -= 4) {
        for (int halves = 0; halves <= 4; halves++) {
            weighted_errors sums = with_uneven_inputs(freedom, halves / 2.0);
            printf("%-8s spread %.1f: of ocp: least error %.4f, weighted %.4f\n", freedom ? "t4" : "normal",
                   halves / 2.0, sums.least / sums.ocp, sums.weighted / sums.ocp);
            assert_true(halves > 0 || sums.weighted == sums.least);
            assert_true(halves < 3 || sums.weighted <= 0.98 * sums.least);
        }
    }
}

/* ---- the shipped model ---- */

static void add_tensor(errors *sums, const qn_tensor *tensor)
{
    enum { MAX_COLS = 4096 };
    qn_matrix matrix = {
        .dtype = tensor->dtype, .rows = tensor->shape[0], .cols = tensor->shape[1], .data = tensor->data};
    float row[MAX_COLS];
    assert_true(tensor->dims == 2 && matrix.cols <= MAX_COLS && matrix.cols % BLOCK == 0);
    for (size_t r = 0; r < matrix.rows; r++) {
        qn_matrix_row_to_f32(&matrix, r, row);
        for (size_t at = 0; at < matrix.cols; at += BLOCK)
            add_block(sums, row + at);
    }
}

static void test_error_on_the_shipped_model(void **state)
{
    (void)state;
    qn_safetensors *file = NULL;
    qn_error err;
    assert_int_equal(qn_safetensors_open("models/quern-tiny/model.safetensors", &file, &err), QN_OK);
    errors sums = {0};
    size_t tensors = 0;
    for (size_t i = 0; i < qn_safetensors_count(file); i++)
        if (strstr(qn_safetensors_at(file, i)->name, ".mlp.experts.") != NULL) {
            add_tensor(&sums, qn_safetensors_at(file, i));
            tensors++;
        }
    assert_true(tensors > 0);
    report("quern-tiny, routed experts", &sums);
    assert_true(sums.least <= 0.95 * sums.ocp);
    qn_safetensors_close(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_error_on_heavy_tails),
        cmocka_unit_test(test_weighted_error_on_uneven_inputs),
        cmocka_unit_test(test_error_on_the_shipped_model),
    };
    return cmocka_run_group_tests_name("quantise_quality", tests, NULL, NULL);
}
