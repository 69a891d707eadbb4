/* Attention and the indexer's scores: the reference against double precision, every table against the reference, and
 * the independence of a head from the others and of a result from the place of its keys. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/ref/ref.h"
#include "tables.h"
#include "unit/kernels/support.h"

enum { MAX_KEYS = 400, MAX_HEADS = 64, MAX_DIM = 640, MAX_QUERIES = 9 };

/* One problem; keys and queries hold BF16 values, so that a table that rounds them computes the same. */
typedef struct problem {
    size_t heads, latent, rope, count;
    float scale;
    float *q, *keys; /* [heads, latent + rope], [count, latent + rope] */
} problem;

static problem random_problem(random_state *random)
{
    static const size_t shapes[][2] = {{512, 64}, {64, 16}, {64, 64}, {128, 0}, {13, 3}, {100, 29}, {1, 1}, {33, 7}};
    size_t shape = random_below(random, sizeof shapes / sizeof shapes[0]);
    problem p = {.latent = shapes[shape][0], .rope = shapes[shape][1]};
    p.heads = 1 + random_below(random, random_below(random, 6) == 0 ? 64 : 9);
    p.count = 1 + random_below(random, random_below(random, 2) == 0 ? MAX_KEYS : 70);
    size_t dim = p.latent + p.rope;
    p.scale = (1.0f + 3.0f * fabsf(random_float(random))) / sqrtf((float)dim);
    p.q = guarded(p.heads * dim * sizeof(float), 1);
    p.keys = guarded(p.count * dim * sizeof(float), 1);
    for (size_t i = 0; i < p.heads * dim; i++)
        p.q[i] = bf16_round(random_normal(random));
    for (size_t i = 0; i < p.count * dim; i++)
        p.keys[i] = bf16_round(random_normal(random));
    return p;
}

/* The keys as the table caches them, each in a place of its own in one run of memory. */
static void cache_keys(random_state *random, const qn_kernels *kernels, const problem *p, const void **rows)
{
    size_t dim = p->latent + p->rope, bytes = dim * qn_dtype_bits(kernels->kv_dtype) / 8;
    /* whole rows with gaps, the last one flush with the guard page */
    size_t stride = bytes + bytes % 4 + 4 * random_below(random, 5);
    uint8_t *memory = guarded((p->count - 1) * stride + bytes, 1);
    for (size_t i = 0; i < p->count; i++) {
        uint8_t *row = memory + (p->count - 1 - i) * stride;
        kernels->store_row(row, p->keys + i * dim, dim);
        rows[i] = row;
    }
}

static void attend(random_state *random, const qn_kernels *kernels, const problem *p, float *out)
{
    const void *rows[MAX_KEYS];
    cache_keys(random, kernels, p, rows);
    size_t bytes = (kernels->attend_scratch_bytes(p->heads, p->latent, p->rope) + 63) / 64 * 64;
    kernels->attend(out, p->q, p->heads, p->latent, p->rope, p->scale, rows, p->count, guarded(bytes, 1));
}

/* Softmax attention in double; *reach is the largest sum of absolute products behind a score. */
static void exact_attend(const problem *p, size_t h, double *out, double *reach)
{
    size_t dim = p->latent + p->rope;
    double scores[MAX_KEYS], largest = -INFINITY, sum = 0.0;
    *reach = 0.0;
    for (size_t i = 0; i < p->count; i++) {
        double score = 0.0, magnitude = 0.0;
        for (size_t c = 0; c < dim; c++) {
            double product = (double)p->q[h * dim + c] * (double)p->keys[i * dim + c] * (double)p->scale;
            score += product;
            magnitude += fabs(product);
        }
        scores[i] = score;
        largest = fmax(largest, score);
        *reach = fmax(*reach, magnitude);
    }
    memset(out, 0, p->latent * sizeof *out);
    for (size_t i = 0; i < p->count; i++) {
        double e = exp(scores[i] - largest);
        sum += e;
        for (size_t c = 0; c < p->latent; c++)
            out[c] += e * (double)p->keys[i * dim + c];
    }
    for (size_t c = 0; c < p->latent; c++)
        out[c] /= sum;
}

static void check_attend(random_state *random, const qn_kernels *kernels, const problem *p)
{
    float *out = guarded(p->heads * p->latent * sizeof(float), 1);
    float *expected = guarded(p->heads * p->latent * sizeof(float), 1);
    attend(random, kernels, p, out);
    attend(random, &qn_kernels_scalar, p, expected);
    for (size_t h = 0; h < p->heads; h++) {
        double exact[MAX_DIM], reach;
        exact_attend(p, h, exact, &reach);
        /* an error of a score moves its probability by as much; values are below 3 */
        double tolerance = 3.0 * (0x1p-21 + 0x1p-22 * reach);
        for (size_t c = 0; c < p->latent; c++) {
            assert_true(fabs((double)out[h * p->latent + c] - exact[c]) <= tolerance);
            assert_true(fabs((double)out[h * p->latent + c] - (double)expected[h * p->latent + c]) <= tolerance);
        }
    }
}

/* Each head alone, its keys elsewhere, gives the same bits. */
static void check_heads_alone(random_state *random, const qn_kernels *kernels, const problem *p)
{
    size_t dim = p->latent + p->rope;
    float *out = guarded(p->heads * p->latent * sizeof(float), 1), *alone = guarded(p->latent * sizeof(float), 1);
    attend(random, kernels, p, out);
    for (size_t h = 0; h < p->heads; h++) {
        problem one = *p;
        one.heads = 1;
        one.q = p->q + h * dim;
        attend(random, kernels, &one, alone);
        assert_memory_equal(alone, out + h * p->latent, p->latent * sizeof(float));
    }
}

/* The forms in which a table multiplies agree in every bit, with products too small for normal numbers too. */
static void test_both_forms_of_attend(void **state)
{
    (void)state;
    tested_table tables[TESTED_TABLES_MAX];
    size_t count = tested_tables(tables);
    random_state random = random_start();
    for (size_t t = 0; t < count; t++)
        for (int round = 0; round < 20 && tables[t].set_form; round++) {
            problem p = random_problem(&random);
            size_t dim = p.latent + p.rope, bytes = p.heads * p.latent * sizeof(float);
            int exponent = round % 2 == 0 ? 0 : 100 + (int)random_below(&random, 40);
            for (size_t i = 0; i < p.heads * dim; i++)
                p.q[i] = ldexpf(p.q[i], -exponent);
            p.scale = ldexpf(p.scale, exponent < 120 ? exponent : 120);
            float *out[] = {guarded(bytes, 1), guarded(bytes, 1)};
            for (size_t form = 0; form < 2; form++) {
                tables[t].set_form(form == 0 ? QN_FORM_PAIRS : QN_FORM_WIDE);
                attend(&random, tables[t].kernels, &p, out[form]);
            }
            tables[t].set_form(QN_FORM_UNKNOWN);
            assert_memory_equal(out[0], out[1], bytes);
            guarded_release_all();
        }
}

static void test_attend(void **state)
{
    (void)state;
    tested_table tables[TESTED_TABLES_MAX];
    size_t count = tested_tables(tables);
    random_state random = random_start();
    for (size_t t = 0; t < count; t++)
        for (int round = 0; round < 40; round++) {
            problem p = random_problem(&random);
            check_attend(&random, tables[t].kernels, &p);
            if (p.heads < 10)
                check_heads_alone(&random, tables[t].kernels, &p);
            guarded_release_all();
        }
}

/* Scores far apart: the running maximum moves late and early, probabilities underflow, one key takes all. */
static void test_attend_with_extreme_scores(void **state)
{
    (void)state;
    tested_table tables[TESTED_TABLES_MAX];
    size_t count = tested_tables(tables);
    random_state random = random_start();
    for (size_t t = 0; t < count; t++)
        for (int round = 0; round < 20; round++) {
            problem p = random_problem(&random);
            size_t dim = p.latent + p.rope;
            p.count = p.count < 200 ? p.count : 200; /* so that all multiples of 8 below are BF16 values */
            for (size_t i = 0; i < p.count; i++)
                p.keys[i * dim + dim - 1] = (float)(8 * (int)(round % 2 == 0 ? i : p.count - i));
            for (size_t h = 0; h < p.heads; h++)
                p.q[h * dim + dim - 1] = 4.0f;
            p.scale = 1.0f;
            float *out = guarded(p.heads * p.latent * sizeof(float), 1);
            attend(&random, tables[t].kernels, &p, out);
            size_t winner = round % 2 == 0 ? p.count - 1 : 0;
            for (size_t h = 0; h < p.heads && p.rope > 0; h++)
                for (size_t c = 0; c < p.latent; c++)
                    assert_true(isfinite(out[h * p.latent + c]));
            if (p.rope > 0 && p.latent < 20)
                for (size_t c = 0; c < p.latent; c++)
                    assert_true(fabsf(out[c] - p.keys[winner * dim + c]) <= 0x1p-20f * fabsf(out[c]) + 1e-3f);
            guarded_release_all();
        }
}

/* Scores of queries q [queries, heads, dim] with weights [queries, heads], all buffers guarded. */
static void index_scores(const qn_kernels *kernels, float *const *scores, const float *q, const float *weights,
                         size_t queries, size_t heads, size_t dim, const void *keys, size_t key_count)
{
    const void *packed[MAX_QUERIES];
    const float *weight_rows[MAX_QUERIES];
    const size_t bytes = (kernels->index_packed_bytes(heads, dim) + 63) / 64 * 64;
    for (size_t t = 0; t < queries; t++) {
        void *row = guarded(bytes, 1);
        kernels->index_pack(row, q + t * heads * dim, heads, dim);
        packed[t] = row;
        weight_rows[t] = weights + t * heads;
    }
    void *scratch = guarded((kernels->index_scratch_bytes(dim) + 63) / 64 * 64, 1);
    kernels->index_scores(scores, packed, weight_rows, queries, heads, dim, keys, key_count, scratch);
}

static void test_index_scores(void **state)
{
    (void)state;
    tested_table tables[TESTED_TABLES_MAX];
    size_t count = tested_tables(tables);
    random_state random = random_start();
    for (size_t t = 0; t < count; t++)
        for (int round = 0; round < 40; round++) {
            const qn_kernels *kernels = tables[t].kernels;
            static const size_t dims[] = {128, 64, 32, 200, 7, 256};
            size_t heads = 1 + random_below(&random, 33), dim = dims[random_below(&random, 6)];
            size_t keys = 1 + random_below(&random, 150);
            float *q = guarded(heads * dim * sizeof(float), 1), *weights = guarded(heads * sizeof(float), 1);
            float *wide = guarded(keys * dim * sizeof(float), 1);
            for (size_t i = 0; i < heads * dim; i++)
                q[i] = bf16_round(random_normal(&random));
            for (size_t i = 0; i < keys * dim; i++)
                wide[i] = bf16_round(random_normal(&random));
            for (size_t h = 0; h < heads; h++)
                weights[h] = random_normal(&random);
            size_t row_bytes = dim * qn_dtype_bits(kernels->kv_dtype) / 8;
            uint8_t *rows = guarded(keys * row_bytes, 1);
            for (size_t i = 0; i < keys; i++)
                kernels->store_row(rows + i * row_bytes, wide + i * dim, dim);

            float *scores = guarded(keys * sizeof(float), 1), *expected = guarded(keys * sizeof(float), 1);
            index_scores(kernels, &scores, q, weights, 1, heads, dim, rows, keys);
            index_scores(&qn_kernels_scalar, &expected, q, weights, 1, heads, dim, wide, keys);
            for (size_t i = 0; i < keys; i++) {
                double exact = 0.0, reach = 0.0;
                for (size_t h = 0; h < heads; h++) {
                    double dot = 0.0, magnitude = 0.0;
                    for (size_t c = 0; c < dim; c++) {
                        dot += (double)q[h * dim + c] * (double)wide[i * dim + c];
                        magnitude += fabs((double)q[h * dim + c] * (double)wide[i * dim + c]);
                    }
                    exact += (double)weights[h] * fmax(dot, 0.0) / sqrt((double)dim);
                    reach += fabs((double)weights[h]) * magnitude / sqrt((double)dim);
                }
                assert_true(fabs((double)scores[i] - exact) <= 0x1p-22 * reach);
                assert_true(fabs((double)scores[i] - (double)expected[i]) <= 0x1p-22 * reach);
            }
            size_t cut = random_below(&random, keys);
            float *alone = guarded((keys - cut) * sizeof(float), 1);
            index_scores(kernels, &alone, q, weights, 1, heads, dim, rows + cut * row_bytes, keys - cut);
            assert_memory_equal(alone, scores + cut, (keys - cut) * sizeof(float));
            guarded_release_all();
        }
}

/* Queries together have the scores of each alone, to the bit; zeros, infinities and NaN among the keys stay theirs. */
static void test_index_scores_of_several_queries(void **state)
{
    (void)state;
    tested_table tables[TESTED_TABLES_MAX];
    size_t count = tested_tables(tables);
    random_state random = random_start();
    for (size_t t = 0; t < count; t++)
        for (int round = 0; round < 30; round++) {
            const qn_kernels *kernels = tables[t].kernels;
            static const size_t dims[] = {128, 64, 200, 7, 256, 300};
            static const float special[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 0x1p-130f};
            size_t heads = 1 + random_below(&random, 33), dim = dims[random_below(&random, 6)];
            size_t keys = 1 + random_below(&random, 130), queries = 1 + random_below(&random, MAX_QUERIES);
            float *q = guarded(queries * heads * dim * sizeof(float), 1);
            float *weights = guarded(queries * heads * sizeof(float), 1), *key = guarded(dim * sizeof(float), 1);
            for (size_t i = 0; i < queries * heads * dim; i++)
                q[i] = random_normal(&random);
            for (size_t i = 0; i < queries * heads; i++)
                weights[i] = random_normal(&random);
            size_t row_bytes = dim * qn_dtype_bits(kernels->kv_dtype) / 8;
            uint8_t *rows = guarded(keys * row_bytes, 1);
            for (size_t i = 0; i < keys; i++) {
                for (size_t c = 0; c < dim; c++)
                    key[c] = random_below(&random, 1000) == 0 ? special[random_below(&random, 6)]
                                                              : random_normal(&random);
                kernels->store_row(rows + i * row_bytes, key, dim);
            }
            float *together[MAX_QUERIES], *alone = guarded(keys * sizeof(float), 1);
            for (size_t i = 0; i < queries; i++)
                together[i] = guarded(keys * sizeof(float), 1);
            index_scores(kernels, together, q, weights, queries, heads, dim, rows, keys);
            for (size_t i = 0; i < queries; i++) {
                index_scores(kernels, &alone, q + i * heads * dim, weights + i * heads, 1, heads, dim, rows, keys);
                assert_memory_equal(alone, together[i], keys * sizeof(float));
            }
            guarded_release_all();
        }
}

static void test_both_forms_of_index_scores(void **state)
{
    (void)state;
    tested_table tables[TESTED_TABLES_MAX];
    size_t count = tested_tables(tables);
    random_state random = random_start();
    for (size_t t = 0; t < count; t++)
        for (int round = 0; round < 30 && tables[t].set_form; round++) {
            const qn_kernels *kernels = tables[t].kernels;
            static const size_t dims[] = {128, 64, 200, 7, 256, 300};
            size_t heads = 1 + random_below(&random, 33), dim = dims[random_below(&random, 6)];
            size_t keys = 1 + random_below(&random, 130), row_bytes = dim * 2;
            float *q = guarded(heads * dim * sizeof(float), 1), *key = guarded(dim * sizeof(float), 1);
            float *weights = guarded(heads * sizeof(float), 1);
            int exponent = round % 2 == 0 ? 0 : 100 + (int)random_below(&random, 40);
            for (size_t i = 0; i < heads * dim; i++)
                q[i] = ldexpf(random_normal(&random), -exponent);
            for (size_t i = 0; i < heads; i++)
                weights[i] = random_normal(&random);
            uint8_t *rows = guarded(keys * row_bytes, 1);
            for (size_t i = 0; i < keys; i++) {
                for (size_t c = 0; c < dim; c++)
                    key[c] = random_normal(&random);
                kernels->store_row(rows + i * row_bytes, key, dim);
            }
            float *scores[] = {guarded(keys * sizeof(float), 1), guarded(keys * sizeof(float), 1)};
            for (size_t form = 0; form < 2; form++) {
                tables[t].set_form(form == 0 ? QN_FORM_PAIRS : QN_FORM_WIDE);
                index_scores(kernels, &scores[form], q, weights, 1, heads, dim, rows, keys);
            }
            tables[t].set_form(QN_FORM_UNKNOWN);
            assert_memory_equal(scores[0], scores[1], keys * sizeof(float));
            guarded_release_all();
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attend),
        cmocka_unit_test(test_attend_with_extreme_scores),
        cmocka_unit_test(test_both_forms_of_attend),
        cmocka_unit_test(test_index_scores),
        cmocka_unit_test(test_index_scores_of_several_queries),
        cmocka_unit_test(test_both_forms_of_index_scores),
    };
    print_tested_tables();
    test_seed();
    return cmocka_run_group_tests_name("attention", tests, NULL, NULL);
}
