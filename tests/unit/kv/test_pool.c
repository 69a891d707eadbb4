/* Blocks are handed out once each, live as long as somebody holds them, and never overlap; kept ones live on until they
 * are the oldest and needed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/fault.h"
#include "base/system_memory.h"
#include "kv/pool.h"

enum { BLOCKS = 5 };

static qn_kv_layout small_layout(void)
{
    static const bool has_indexer[2] = {true, false};
    qn_kv_layout layout;
    qn_error err;
    assert_int_equal(qn_kv_layout_make(QN_DTYPE_BF16, 16, 2, 12, 4, 6, has_indexer, &layout, &err), QN_OK);
    return layout;
}

static void test_takes_each_block_once(void **state)
{
    (void)state;
    qn_kv_layout layout = small_layout();
    qn_kv_pool *pool;
    qn_error err;
    assert_int_equal(qn_kv_pool_new(&layout, BLOCKS, false, &pool, &err), QN_OK);
    assert_int_equal(qn_kv_pool_block_count(pool), BLOCKS);
    assert_int_equal(qn_kv_pool_free_count(pool), BLOCKS);
    assert_true(qn_kv_pool_bytes(pool) >= BLOCKS * layout.block_bytes);
    assert_int_equal(qn_kv_pool_layout(pool)->block_bytes, layout.block_bytes);

    int32_t blocks[BLOCKS], extra;
    for (int i = 0; i < BLOCKS; i++) {
        assert_int_equal(qn_kv_pool_take(pool, &blocks[i], &err), QN_OK);
        assert_int_equal(blocks[i], i);
        assert_int_equal((uintptr_t)qn_kv_pool_block(pool, blocks[i]) % 4096, 0);
        memset(qn_kv_pool_block(pool, blocks[i]), i + 1, layout.block_bytes);
    }
    assert_int_equal(qn_kv_pool_take(pool, &extra, &err), QN_RESOURCE);
    assert_non_null(strstr(err.message, "all 5 blocks of 16 tokens are in use"));
    for (int i = 0; i < BLOCKS; i++) {
        assert_int_equal(qn_kv_pool_block(pool, blocks[i])[0], i + 1);
        assert_int_equal(qn_kv_pool_block(pool, blocks[i])[layout.block_bytes - 1], i + 1);
    }
    qn_kv_pool_release(pool, blocks[3]);
    assert_int_equal(qn_kv_pool_free_count(pool), 1);
    assert_int_equal(qn_kv_pool_take(pool, &extra, &err), QN_OK);
    assert_int_equal(extra, blocks[3]);
    qn_kv_pool_free(pool);
}

static void test_counts_references(void **state)
{
    (void)state;
    qn_kv_layout layout = small_layout();
    qn_kv_pool *pool;
    qn_error err;
    int32_t block;
    assert_int_equal(qn_kv_pool_new(&layout, 1, false, &pool, &err), QN_OK);
    assert_int_equal(qn_kv_pool_take(pool, &block, &err), QN_OK);
    qn_kv_pool_retain(pool, block);
    qn_kv_pool_release(pool, block);
    assert_int_equal(qn_kv_pool_free_count(pool), 0);
    qn_kv_pool_release(pool, block);
    assert_int_equal(qn_kv_pool_free_count(pool), 1);
    qn_kv_pool_free(pool);
    qn_kv_pool_free(NULL);
}

typedef struct witness {
    qn_kv_pool *pool;
    int32_t evicted[16];
    size_t count;
    uint8_t first_byte; /* of the last one */
} witness;

static void note_eviction(void *context, int32_t block)
{
    witness *w = context;
    w->evicted[w->count++] = block;
    w->first_byte = qn_kv_pool_block(w->pool, block)[0];
}

static qn_kv_pool *pool_of_kept(witness *w)
{
    qn_kv_layout layout = small_layout();
    qn_error err;
    int32_t block;
    *w = (witness){0};
    assert_int_equal(qn_kv_pool_new(&layout, BLOCKS, false, &w->pool, &err), QN_OK);
    qn_kv_pool_on_evict(w->pool, note_eviction, w);
    for (int i = 0; i < BLOCKS; i++) {
        assert_int_equal(qn_kv_pool_take(w->pool, &block, &err), QN_OK);
        qn_kv_pool_block(w->pool, block)[0] = (uint8_t)(10 + block);
        qn_kv_pool_keep(w->pool, block);
    }
    return w->pool;
}

static void assert_counts(const qn_kv_pool *pool, size_t free_count, size_t available)
{
    assert_int_equal(qn_kv_pool_free_count(pool), free_count);
    assert_int_equal(qn_kv_pool_available(pool), available);
    assert_int_equal(qn_kv_pool_referenced(pool), BLOCKS - available);
    assert_float_equal(qn_kv_pool_usage(pool), (double)(BLOCKS - available) / BLOCKS, 1e-9);
}

static void test_evicts_what_was_out_of_use_longest(void **state)
{
    (void)state;
    witness w;
    qn_kv_pool *pool = pool_of_kept(&w);
    qn_error err;
    int32_t block;
    assert_counts(pool, 0, 0);
    assert_int_equal(qn_kv_pool_take(pool, &block, &err), QN_RESOURCE); /* kept and referenced */
    static const int32_t order[] = {3, 1, 4, 0};
    for (int i = 0; i < 4; i++)
        qn_kv_pool_release(pool, order[i]);
    assert_counts(pool, 0, 4);
    qn_kv_pool_retain(pool, 3); /* the oldest becomes the youngest */
    qn_kv_pool_retain(pool, 3);
    assert_counts(pool, 0, 3);
    qn_kv_pool_release(pool, 3);
    assert_counts(pool, 0, 3);
    qn_kv_pool_release(pool, 3);
    static const int32_t evicted[] = {1, 4, 0, 3};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(w.count, i);
        assert_int_equal(qn_kv_pool_take(pool, &block, &err), QN_OK);
        assert_int_equal(block, evicted[i]);
        assert_int_equal(w.evicted[i], block);
        assert_int_equal(w.first_byte, 10 + block);
        assert_int_equal(qn_kv_pool_references(pool, block), 1);
    }
    assert_int_equal(qn_kv_pool_take(pool, &block, &err), QN_RESOURCE);
    assert_int_equal(w.count, 4);
    qn_kv_pool_release(pool, 1); /* no longer kept */
    assert_counts(pool, 1, 1);
    qn_kv_pool_free(pool);
}

static void test_takes_free_blocks_before_it_evicts(void **state)
{
    (void)state;
    witness w;
    qn_kv_pool *pool = pool_of_kept(&w);
    qn_error err;
    int32_t block;
    qn_kv_pool_release(pool, 2);
    qn_kv_pool_release(pool, 0);
    qn_kv_pool_forget(pool, 0); /* unreferenced: free at once */
    qn_kv_pool_forget(pool, 4); /* referenced: free later */
    assert_counts(pool, 1, 2);
    qn_kv_pool_release(pool, 4);
    assert_counts(pool, 2, 3);
    assert_int_equal(qn_kv_pool_require(pool, 3, &err), QN_OK);
    assert_int_equal(qn_kv_pool_require(pool, 4, &err), QN_RESOURCE);
    assert_non_null(strstr(err.message, "2 of 5 blocks of 16 tokens are in use and 4 more are wanted"));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(qn_kv_pool_take(pool, &block, &err), QN_OK);
        assert_true(block == 0 || block == 4);
    }
    assert_int_equal(w.count, 0);
    qn_kv_pool_on_evict(pool, NULL, NULL); /* nobody is told, and the block is taken all the same */
    assert_int_equal(qn_kv_pool_take(pool, &block, &err), QN_OK);
    assert_int_equal(block, 2);
    assert_int_equal(w.count, 0);
    qn_kv_pool_free(pool);
}

static void test_hidden_rows(void **state)
{
    (void)state;
    qn_kv_layout layout = small_layout();
    qn_kv_pool *pool;
    qn_error err;
    assert_int_equal(qn_kv_pool_new(&layout, 2, false, &pool, &err), QN_OK);
    for (int32_t block = 0; block < 2; block++) {
        float *hidden = qn_kv_block_hidden(pool, block);
        assert_int_equal((uintptr_t)hidden % 64, 0);
        assert_ptr_equal(hidden, qn_kv_pool_block(pool, block) + layout.hidden_offset);
        for (size_t i = 0; i < layout.hidden_width; i++)
            hidden[i] = (float)block;
    }
    assert_true(qn_kv_block_hidden(pool, 0)[5] == 0 && qn_kv_block_hidden(pool, 1)[5] == 1);
    qn_kv_pool_free(pool);
}

static void test_prefaults(void **state)
{
    (void)state;
    qn_kv_layout layout = small_layout();
    qn_kv_pool *pool = NULL;
    qn_error err;
    assert_int_equal(qn_kv_pool_new(&layout, BLOCKS, true, &pool, &err), QN_OK);
    for (int32_t block = 0; block < BLOCKS; block++) {
        for (size_t i = 0; i < layout.block_bytes; i++)
            assert_int_equal(qn_kv_pool_block(pool, block)[i], 0);
    }
    qn_kv_pool_free(pool);

    pool = NULL;
    qn_fault_arm(QN_FAULT_WRITE, 1); /* the system has no pages left */
    assert_int_equal(qn_kv_pool_new(&layout, BLOCKS, true, &pool, &err), QN_RESOURCE);
    qn_fault_disarm();
    assert_null(pool);
    assert_non_null(strstr(err.message, "resident"));

    /* more than there is, is not even tried */
    size_t available = qn_memory_available("");
    if (available == 0)
        return;
    layout.block_bytes = available / 4096 / 2 * 4096;
    assert_int_equal(qn_kv_pool_new(&layout, 4, true, &pool, &err), QN_RESOURCE);
    assert_non_null(strstr(err.message, "are available: use a smaller cache"));
    assert_null(pool);
}

static void test_refuses_sizes(void **state)
{
    (void)state;
    qn_kv_layout layout = small_layout();
    qn_kv_pool *pool;
    qn_error err;
    assert_int_equal(qn_kv_pool_new(&layout, 0, false, &pool, &err), QN_USAGE);
    assert_int_equal(qn_kv_pool_new(&layout, (size_t)INT32_MAX + 1, false, &pool, &err), QN_USAGE);
    layout.block_bytes = SIZE_MAX / 2;
    assert_int_equal(qn_kv_pool_new(&layout, 3, false, &pool, &err), QN_RESOURCE);
}

static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    qn_kv_layout layout = small_layout();
    for (int prefault = 0; prefault < 2; prefault++) {
        bool failed = true;
        long nth = 0;
        while (failed) {
            qn_kv_pool *pool = NULL;
            qn_error err;
            qn_fault_arm(QN_FAULT_ALLOC, ++nth);
            qn_status status = qn_kv_pool_new(&layout, BLOCKS, prefault, &pool, &err);
            failed = qn_fault_seen(QN_FAULT_ALLOC) >= nth;
            qn_fault_disarm();
            /* asking the system for its memory may fail and be done without */
            assert_true(status == (failed ? QN_RESOURCE : QN_OK) || (prefault && status == QN_OK));
            assert_int_equal(pool == NULL, status != QN_OK);
            qn_kv_pool_free(pool);
        }
        assert_true(nth > 7);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_takes_each_block_once),
        cmocka_unit_test(test_counts_references),
        cmocka_unit_test(test_evicts_what_was_out_of_use_longest),
        cmocka_unit_test(test_takes_free_blocks_before_it_evicts),
        cmocka_unit_test(test_hidden_rows),
        cmocka_unit_test(test_prefaults),
        cmocka_unit_test(test_refuses_sizes),
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
