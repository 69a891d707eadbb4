/* Tiles: every output with every block of rows exactly once, and threads that end together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "base/size.h"
#include "kernels/kernels.h"
#include "model/tiles.h"

enum { MOST_MEMBERS = 20, MOST_OUTPUTS = 3000, MOST_BLOCKS = 4, MOST_THREADS = 128 };

static size_t cut_loop(const qn_tiled *members, size_t count, size_t threads, qn_tiles *tiles)
{
    qn_cut cut;
    size_t items = 0;
    qn_cut_begin(&cut, threads);
    for (size_t i = 0; i < count; i++)
        qn_cut_add(&cut, &members[i]);
    for (size_t i = count; i-- > 0;) {
        tiles[i] = qn_cut_last(&cut, &members[i]);
        items += tiles[i].items;
    }
    return items;
}

static uint32_t drawn(uint64_t seed, uint32_t *counter)
{
    uint32_t at[4] = {(*counter)++, 0, 0, 0}, key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)}, out[4];
    qn_philox4x32_10(at, key, out);
    return out[0];
}

static void check_member(const qn_tiled *member, const qn_tiles *tiles)
{
    static uint8_t met[MOST_OUTPUTS][MOST_BLOCKS];
    memset(met, 0, sizeof met);
    size_t previous = 0;
    for (size_t item = 0; item < tiles->items; item++) {
        const qn_tile tile = qn_tile_of(tiles, item);
        assert_true(tile.first < tile.last && tile.last <= member->outputs);
        assert_true(tile.last - tile.first <= QN_TILE_OUTPUTS);
        assert_true(tile.row_block * QN_MATMUL_MAX_ROWS < member->rows);
        assert_true(tile.first >= previous); /* ascending, a tile's blocks of rows next to each other */
        previous = tile.first;
        for (size_t n = tile.first; n < tile.last; n++)
            met[n][tile.row_block]++;
    }
    for (size_t n = 0; n < member->outputs; n++)
        for (size_t b = 0; b * QN_MATMUL_MAX_ROWS < member->rows; b++)
            if (met[n][b] != 1)
                fail_msg("output %zu of %zu met block %zu %u times", n, member->outputs, b, met[n][b]);
}

static void test_every_output_meets_every_block_once(void **state)
{
    (void)state;
    const uint64_t seed = qn_random_seed();
    print_message("seed %llu\n", (unsigned long long)seed);
    uint32_t counter = 0;
    for (int round = 0; round < 300; round++) {
        qn_tiled members[MOST_MEMBERS];
        qn_tiles tiles[MOST_MEMBERS];
        size_t count = 1 + drawn(seed, &counter) % MOST_MEMBERS, threads = 1 + drawn(seed, &counter) % MOST_THREADS;
        for (size_t i = 0; i < count; i++)
            members[i] = (qn_tiled){.outputs = 1 + drawn(seed, &counter) % MOST_OUTPUTS,
                                    .row_bytes = drawn(seed, &counter) % 40000,
                                    .streams = 1 + drawn(seed, &counter) % 3,
                                    .rows = 1 + drawn(seed, &counter) % (MOST_BLOCKS * QN_MATMUL_MAX_ROWS)};
        cut_loop(members, count, threads, tiles);
        for (size_t i = 0; i < count; i++)
            check_member(&members[i], &tiles[i]);
    }
}

/* How long the loop takes over how long it would if work could be divided at will, when every thread takes the next
 * item as soon as it is free and a byte takes each the same time. */
static double stretch(const qn_tiled *members, size_t count, size_t threads)
{
    qn_tiles tiles[MOST_MEMBERS];
    double busy[MOST_THREADS] = {0}, work = 0, end = 0;
    cut_loop(members, count, threads, tiles);
    for (size_t i = 0; i < count; i++) {
        for (size_t item = 0; item < tiles[i].items; item++) {
            const qn_tile tile = qn_tile_of(&tiles[i], item);
            double bytes = (double)((tile.last - tile.first) * members[i].row_bytes);
            size_t next = 0;
            for (size_t t = 1; t < threads; t++)
                next = busy[t] < busy[next] ? t : next;
            busy[next] += bytes;
            work += bytes;
        }
    }
    for (size_t t = 0; t < threads; t++)
        end = busy[t] > end ? busy[t] : end;
    return end / (work / (double)threads);
}

/* The loops of a decode step with GLM-5.3's sizes: BF16 projections; gate and up, then down, of eight experts in MXFP4
 * and the shared one. More threads than tiles can't end together: the bounds for many are loose. */
static void test_threads_end_together(void **state)
{
    (void)state;
    enum { MXFP4_6144 = 6144 / 2 + 6144 / 32, MXFP4_2048 = 2048 / 2 + 2048 / 32, BF16_2048 = 4096 };
    static const size_t threads[] = {2, 3, 4, 7, 8, 12, 16, 24, 32, 48, 60, 64, 96, 128};
    for (size_t rows = 1; rows <= 16; rows *= 4) {
        qn_tiled input[] = {{2048, 12288, 1, rows}, {576, 12288, 1, rows}, {128, 12288, 1, rows}, {32, 12288, 1, rows}};
        qn_tiled queries[] = {{16384, 4096, 1, rows}, {4096, 4096, 1, rows}};
        qn_tiled output = {6144, 32768, 1, rows}, head = {154880, 12288, 1, rows}, gates[9];
        qn_tiled down = {6144, 8 * MXFP4_2048 + BF16_2048, 9, rows};
        for (size_t g = 0; g < 9; g++)
            gates[g] = (qn_tiled){2048, g < 8 ? 2 * MXFP4_6144 : 2 * 12288, 2, rows};
        const struct {
            const char *name;
            const qn_tiled *members;
            size_t count;
        } loops[] = {{"input", input, 4},    {"queries", queries, 2}, {"output", &output, 1},
                     {"gate, up", gates, 9}, {"down", &down, 1},      {"head", &head, 1}};
        for (size_t l = 0; l < sizeof loops / sizeof *loops; l++) {
            for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
                double most = threads[t] <= 16 ? 1.04 : rows <= 4 ? 1.11 : 1.5;
                double is = stretch(loops[l].members, loops[l].count, threads[t]);
                if (is > most)
                    fail_msg("%s, %zu rows, %zu threads: %.3f times as long as it had to be", loops[l].name, rows,
                             threads[t], is);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_output_meets_every_block_once),
        cmocka_unit_test(test_threads_end_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
