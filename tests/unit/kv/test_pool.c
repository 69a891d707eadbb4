/* Blocks are handed out once each, live as long as somebody holds them, and never overlap. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/fault.h"
#include "kv/pool.h"

enum { BLOCKS = 5 };

static qn_kv_layout small_layout(void)
{
    static const bool has_indexer[2] = {true, false};
    qn_kv_layout layout;
    qn_error err;
    assert_int_equal(qn_kv_layout_make(QN_DTYPE_BF16, 16, 2, 12, 4, 0, has_indexer, &layout, &err), QN_OK);
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
        assert_int_equal((uintptr_t)qn_kv_pool_block(pool, blocks[i]) % 64, 0);
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
    for (long nth = 1;; nth++) {
        qn_kv_pool *pool = NULL;
        qn_error err;
        qn_fault_arm(QN_FAULT_ALLOC, nth);
        qn_status status = qn_kv_pool_new(&layout, BLOCKS, false, &pool, &err);
        bool failed = qn_fault_seen(QN_FAULT_ALLOC) >= nth;
        qn_fault_disarm();
        qn_kv_pool_free(pool);
        if (!failed) {
            assert_int_equal(status, QN_OK);
            assert_true(nth > 3);
            return;
        }
        assert_int_equal(status, QN_RESOURCE);
        assert_null(pool);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_takes_each_block_once),
        cmocka_unit_test(test_counts_references),
        cmocka_unit_test(test_refuses_sizes),
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
