/* Slots map to rows of the right block; growing, shrinking and failing leave the pool's count right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/fault.h"
#include "kv/sequence.h"

enum { BLOCKS = 6, BLOCK_TOKENS = 16, LATENT = 12, INDEX = 4 };

static qn_kv_pool *small_pool(void)
{
    static const bool has_indexer[2] = {false, true};
    qn_kv_layout layout;
    qn_kv_pool *pool;
    qn_error err;
    assert_int_equal(qn_kv_layout_make(QN_DTYPE_F32, BLOCK_TOKENS, 2, LATENT, INDEX, 0, has_indexer, &layout, &err),
                     QN_OK);
    assert_int_equal(qn_kv_pool_new(&layout, BLOCKS, false, &pool, &err), QN_OK);
    return pool;
}

static void test_reserve_and_truncate(void **state)
{
    (void)state;
    qn_kv_pool *pool = small_pool();
    qn_kv_sequence a, b;
    qn_error err;
    assert_int_equal(qn_kv_sequence_init(&a, pool, 70, &err), QN_OK);
    assert_int_equal(qn_kv_sequence_init(&b, pool, 80, &err), QN_OK);
    assert_int_equal(qn_kv_sequence_reserve(&a, 17, &err), QN_OK);
    assert_int_equal(a.block_count, 2);
    assert_int_equal(qn_kv_sequence_reserve(&a, 5, &err), QN_OK); /* never shrinks */
    assert_int_equal(a.block_count, 2);
    assert_int_equal(qn_kv_sequence_reserve(&b, 48, &err), QN_OK);
    assert_int_equal(qn_kv_pool_free_count(pool), 1);

    /* two more are wanted and one is there: nothing is taken */
    assert_int_equal(qn_kv_sequence_reserve(&a, 64, &err), QN_RESOURCE);
    assert_int_equal(a.block_count, 2);
    assert_int_equal(qn_kv_pool_free_count(pool), 1);
    assert_int_equal(qn_kv_sequence_reserve(&a, 81, &err), QN_USAGE);

    qn_kv_sequence_truncate(&b, 33);
    assert_int_equal(b.block_count, 3);
    qn_kv_sequence_truncate(&b, 32);
    assert_int_equal(b.block_count, 2);
    assert_int_equal(qn_kv_sequence_reserve(&a, 64, &err), QN_OK);
    assert_int_equal(qn_kv_pool_free_count(pool), 0);

    qn_kv_sequence_free(&a);
    qn_kv_sequence_free(&b);
    assert_int_equal(qn_kv_pool_free_count(pool), BLOCKS);
    qn_kv_sequence empty = {0};
    qn_kv_sequence_free(&empty);
    qn_kv_pool_free(pool);
}

static void test_adopts_blocks(void **state)
{
    (void)state;
    qn_kv_pool *pool = small_pool();
    qn_kv_sequence sequence;
    qn_error err;
    int32_t blocks[3];
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(qn_kv_pool_take(pool, &blocks[i], &err), QN_OK);
    assert_int_equal(qn_kv_sequence_init(&sequence, pool, 64, &err), QN_OK);
    qn_kv_sequence_adopt(&sequence, blocks, 0);
    assert_int_equal(sequence.block_count, 0);
    qn_kv_sequence_adopt(&sequence, (const int32_t[]){blocks[2], blocks[0], blocks[1]}, 3);
    assert_int_equal(sequence.block_count, 3);
    for (size_t slot = 0; slot < 48; slot++) {
        const uint8_t *block = qn_kv_pool_block(pool, blocks[(slot / BLOCK_TOKENS + 2) % 3]);
        assert_ptr_equal(qn_kv_latent_row(&sequence, 0, slot), block + slot % BLOCK_TOKENS * LATENT * sizeof(float));
    }
    assert_int_equal(qn_kv_sequence_reserve(&sequence, 64, &err), QN_OK);
    qn_kv_sequence_free(&sequence);
    assert_int_equal(qn_kv_pool_free_count(pool), BLOCKS); /* the references came along */
    qn_kv_pool_free(pool);
}

static void count_eviction(void *context, int32_t block)
{
    size_t *count = context;
    (void)block;
    ++*count;
}

/* A sequence that can't grow as far as it wants evicts nothing in vain; one that can evicts the ends of others first.
 */
static void test_reserves_from_kept_blocks(void **state)
{
    (void)state;
    qn_kv_pool *pool = small_pool();
    qn_kv_sequence kept, sequence;
    qn_error err;
    size_t evictions = 0;
    qn_kv_pool_on_evict(pool, count_eviction, &evictions);
    assert_int_equal(qn_kv_sequence_init(&kept, pool, 64, &err), QN_OK);
    assert_int_equal(qn_kv_sequence_reserve(&kept, 64, &err), QN_OK);
    for (size_t i = 0; i < 4; i++)
        qn_kv_pool_keep(pool, kept.blocks[i]);
    qn_kv_sequence_truncate(&kept, 16);
    assert_int_equal(qn_kv_pool_available(pool), 5);
    assert_int_equal(qn_kv_sequence_init(&sequence, pool, 96, &err), QN_OK);
    assert_int_equal(qn_kv_sequence_reserve(&sequence, 96, &err), QN_RESOURCE);
    assert_int_equal(sequence.block_count, 0);
    assert_int_equal(evictions, 0);
    assert_int_equal(qn_kv_sequence_reserve(&sequence, 80, &err), QN_OK);
    assert_int_equal(evictions, 3);
    static const int32_t expected[] = {4, 5, 3, 2, 1}; /* the free ones, then the kept ones from the end */
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(sequence.blocks[i], expected[i]);
    qn_kv_sequence_free(&kept);
    qn_kv_sequence_free(&sequence);
    qn_kv_pool_free(pool);
}

/* Every row of two interleaved sequences keeps what was written to it. */
static void test_rows_are_distinct(void **state)
{
    (void)state;
    qn_kv_pool *pool = small_pool();
    qn_kv_sequence sequences[2];
    qn_error err;
    for (size_t s = 0; s < 2; s++)
        assert_int_equal(qn_kv_sequence_init(&sequences[s], pool, 48, &err), QN_OK);
    for (size_t tokens = 16; tokens <= 48; tokens += 16) {
        assert_int_equal(qn_kv_sequence_reserve(&sequences[0], tokens, &err), QN_OK);
        assert_int_equal(qn_kv_sequence_reserve(&sequences[1], tokens, &err), QN_OK);
    }
    for (size_t s = 0; s < 2; s++) {
        for (size_t slot = 0; slot < 48; slot++) {
            memset(qn_kv_latent_row(&sequences[s], 0, slot), (int)(s * 100 + slot), LATENT * sizeof(float));
            memset(qn_kv_latent_row(&sequences[s], 1, slot), (int)(s * 100 + slot + 1), LATENT * sizeof(float));
            memset(qn_kv_index_row(&sequences[s], 1, slot), (int)(s * 100 + slot + 2), INDEX * sizeof(float));
        }
    }
    for (size_t s = 0; s < 2; s++) {
        for (size_t slot = 0; slot < 48; slot++) {
            int value = (int)(s * 100 + slot);
            const uint8_t *rows[3] = {qn_kv_latent_row(&sequences[s], 0, slot),
                                      qn_kv_latent_row(&sequences[s], 1, slot),
                                      qn_kv_index_row(&sequences[s], 1, slot)};
            for (int i = 0; i < 3; i++) {
                assert_int_equal(rows[i][0], value + i);
                assert_int_equal(rows[i][(i == 2 ? INDEX : LATENT) * sizeof(float) - 1], value + i);
            }
        }
        qn_kv_sequence_free(&sequences[s]);
    }
    qn_kv_pool_free(pool);
}

static void test_lists_rows(void **state)
{
    (void)state;
    qn_kv_pool *pool = small_pool();
    qn_kv_sequence first, sequence;
    qn_error err;
    assert_int_equal(qn_kv_sequence_init(&first, pool, 16, &err), QN_OK);
    assert_int_equal(qn_kv_sequence_init(&sequence, pool, 80, &err), QN_OK);
    assert_int_equal(qn_kv_sequence_reserve(&sequence, 16, &err), QN_OK);
    assert_int_equal(qn_kv_sequence_reserve(&first, 16, &err), QN_OK); /* its blocks are no longer neighbours */
    assert_int_equal(qn_kv_sequence_reserve(&sequence, 80, &err), QN_OK);
    const int32_t positions[] = {0, 1, 14, 15, 31, 50, 78};
    const void *rows[79];
    qn_kv_latent_rows(&sequence, 1, 1, positions, 7, rows);
    for (size_t i = 0; i < 7; i++)
        assert_ptr_equal(rows[i], qn_kv_latent_row(&sequence, 1, (size_t)positions[i] + 1));
    qn_kv_latent_rows(&sequence, 0, 1, NULL, 79, rows);
    for (size_t i = 0; i < 79; i++)
        assert_ptr_equal(rows[i], qn_kv_latent_row(&sequence, 0, i + 1));
    qn_kv_sequence_free(&first);
    qn_kv_sequence_free(&sequence);
    qn_kv_pool_free(pool);
}

static void test_allocation_may_fail(void **state)
{
    (void)state;
    qn_kv_pool *pool = small_pool();
    qn_kv_sequence sequence = {0};
    qn_error err;
    qn_fault_arm(QN_FAULT_ALLOC, 1);
    assert_int_equal(qn_kv_sequence_init(&sequence, pool, 48, &err), QN_RESOURCE);
    qn_fault_disarm();
    qn_kv_sequence_free(&sequence);
    assert_int_equal(qn_kv_sequence_init(&sequence, pool, SIZE_MAX, &err), QN_USAGE);
    qn_kv_pool_free(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reserve_and_truncate),
        cmocka_unit_test(test_adopts_blocks),
        cmocka_unit_test(test_reserves_from_kept_blocks),
        cmocka_unit_test(test_rows_are_distinct),
        cmocka_unit_test(test_lists_rows),
        cmocka_unit_test(test_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
