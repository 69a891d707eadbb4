/* Grouping of (row, expert) pairs, against a search for each expert. The sums are held to the goldens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/random.h"
#include "model/mlp.h"

enum { MAX_ROWS = 37, MAX_TAKEN = 5, MAX_EXPERTS = 19 };

static uint32_t draw(uint32_t *counter, uint64_t seed)
{
    uint32_t out[4], at[4] = {(*counter)++, 0, 0, 0}, key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    qn_philox4x32_10(at, key, out);
    return out[0];
}

/* `per_row` distinct ids in ascending order for each row. */
static void draw_taken(int32_t *taken, size_t rows, size_t per_row, size_t experts, uint32_t *counter, uint64_t seed)
{
    for (size_t r = 0; r < rows; r++) {
        size_t left = per_row;
        for (size_t e = 0; e < experts && left > 0; e++)
            if (draw(counter, seed) % (experts - e) < left)
                taken[r * per_row + per_row - left--] = (int32_t)e;
    }
}

static void check_grouping(const int32_t *taken, const float *weights, size_t rows, size_t per_row, size_t experts)
{
    size_t first[MAX_EXPERTS + 1], pair = 0;
    int32_t row[MAX_ROWS * MAX_TAKEN];
    float weight[MAX_ROWS * MAX_TAKEN];
    qn_grouping out = {first, row, weight};
    qn_group_by_expert(taken, weights, rows, per_row, experts, &out);
    for (size_t e = 0; e < experts; e++) {
        assert_int_equal(first[e], pair);
        for (size_t i = 0; i < rows * per_row; i++) {
            if (taken[i] != (int32_t)e)
                continue;
            assert_int_equal(row[pair], i / per_row);
            assert_true(weight[pair] == weights[i]);
            pair++;
        }
    }
    assert_int_equal(first[experts], pair);
    assert_int_equal(pair, rows * per_row);
}

static void test_groups_rows_by_expert(void **state)
{
    (void)state;
    uint64_t seed = qn_random_seed();
    uint32_t counter = 0;
    int32_t taken[MAX_ROWS * MAX_TAKEN];
    float weights[MAX_ROWS * MAX_TAKEN];
    printf("seed %llu\n", (unsigned long long)seed);
    for (int round = 0; round < 200; round++) {
        size_t rows = 1 + draw(&counter, seed) % MAX_ROWS, per_row = 1 + draw(&counter, seed) % MAX_TAKEN;
        size_t experts = per_row + draw(&counter, seed) % (MAX_EXPERTS - per_row + 1);
        draw_taken(taken, rows, per_row, experts, &counter, seed);
        for (size_t i = 0; i < rows * per_row; i++)
            weights[i] = (float)i;
        check_grouping(taken, weights, rows, per_row, experts);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_groups_rows_by_expert)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
