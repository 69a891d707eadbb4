/* Prefixes are found by their tokens and history alone, whatever their hashes say, and live as long as their blocks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/fault.h"
#include "kv/prefix.h"
#include "kv/sequence.h"

enum { BLOCKS = 6, BLOCK_TOKENS = 16 };

typedef struct rig {
    qn_kv_pool *pool;
    qn_prefix_cache *cache;
    qn_hash root, keys[BLOCKS];
    int32_t ids[BLOCKS * BLOCK_TOKENS];
} rig;

static qn_error err;

static void hash_chain(rig *r)
{
    for (size_t i = 0; i < BLOCKS; i++)
        r->keys[i] = qn_prefix_next(i == 0 ? r->root : r->keys[i - 1], r->ids + i * BLOCK_TOKENS, BLOCK_TOKENS);
}

static rig rig_open(void)
{
    static const bool has_indexer[1] = {true};
    qn_kv_layout layout;
    rig r = {.root = qn_prefix_root("model", 5, NULL)};
    assert_int_equal(qn_kv_layout_make(QN_DTYPE_F32, BLOCK_TOKENS, 1, 8, 4, 3, has_indexer, &layout, &err), QN_OK);
    assert_int_equal(qn_kv_pool_new(&layout, BLOCKS, false, &r.pool, &err), QN_OK);
    assert_int_equal(qn_prefix_cache_new(r.pool, &r.cache, &err), QN_OK);
    for (size_t i = 0; i < BLOCKS * BLOCK_TOKENS; i++)
        r.ids[i] = (int32_t)(i * 7919 % 1000);
    hash_chain(&r);
    return r;
}

static void rig_close(rig *r)
{
    qn_prefix_cache_free(r->cache);
    assert_int_equal(qn_kv_pool_free_count(r->pool), BLOCKS);
    qn_kv_pool_free(r->pool);
}

/* Takes blocks for the first `blocks` of the chain and inserts them. */
static void compute(rig *r, qn_kv_sequence *sequence, size_t blocks)
{
    assert_int_equal(qn_kv_sequence_init(sequence, r->pool, BLOCKS * BLOCK_TOKENS, &err), QN_OK);
    assert_int_equal(qn_kv_sequence_reserve(sequence, blocks * BLOCK_TOKENS, &err), QN_OK);
    for (size_t i = 0; i < blocks; i++) {
        assert_true(qn_prefix_insert(r->cache, i == 0 ? r->root : r->keys[i - 1], r->keys[i], r->ids + i * BLOCK_TOKENS,
                                     sequence->blocks[i]));
    }
}

static size_t peek(const rig *r, size_t *unreferenced)
{
    return qn_prefix_peek(r->cache, r->root, r->keys, r->ids, BLOCKS, unreferenced);
}

static void test_roots_differ(void **state)
{
    (void)state;
    const qn_hash roots[] = {
        qn_prefix_root("model", 5, NULL), qn_prefix_root("model", 6, NULL), qn_prefix_root("model", 5, ""),
        qn_prefix_root("model", 5, "a"),  qn_prefix_root("model", 5, "b"),  qn_prefix_root("modela", 6, NULL),
        qn_prefix_root("modela", 6, ""),  qn_prefix_root("", 0, "model"),   qn_prefix_root("", 0, NULL),
    };
    enum { COUNT = sizeof roots / sizeof roots[0] };
    for (size_t i = 0; i < COUNT; i++) {
        for (size_t j = 0; j < COUNT; j++)
            assert_int_equal(qn_hash_equal(roots[i], roots[j]), i == j);
    }
    assert_true(qn_hash_equal(roots[3], qn_prefix_root("model", 5, "a")));
}

static void test_keys_name_the_history(void **state)
{
    (void)state;
    int32_t ids[2 * BLOCK_TOKENS] = {1, 2, 3};
    qn_hash root = qn_prefix_root("m", 1, NULL), key = qn_prefix_next(root, ids, BLOCK_TOKENS);
    assert_true(qn_hash_equal(key, qn_prefix_next(root, ids, BLOCK_TOKENS)));
    assert_false(qn_hash_equal(key, qn_prefix_next(root, ids, 2 * BLOCK_TOKENS)));
    assert_false(qn_hash_equal(key, qn_prefix_next(key, ids, BLOCK_TOKENS)));
    for (size_t i = 0; i < BLOCK_TOKENS; i++) {
        ids[i]++;
        assert_false(qn_hash_equal(key, qn_prefix_next(root, ids, BLOCK_TOKENS)));
        ids[i]--;
    }
}

static void test_shares_a_prefix(void **state)
{
    (void)state;
    rig r = rig_open();
    qn_kv_sequence first, second;
    size_t unreferenced;
    int32_t found[BLOCKS];
    assert_int_equal(peek(&r, &unreferenced), 0);
    compute(&r, &first, 4);
    assert_int_equal(qn_prefix_count(r.cache), 4);
    assert_int_equal(peek(&r, &unreferenced), 4);
    assert_int_equal(unreferenced, 0);

    assert_int_equal(qn_prefix_find(r.cache, r.root, r.keys, r.ids, 3, found), 3); /* no more than asked for */
    assert_memory_equal(found, first.blocks, 3 * sizeof found[0]);
    assert_int_equal(qn_kv_sequence_init(&second, r.pool, 5 * BLOCK_TOKENS, &err), QN_OK);
    qn_kv_sequence_adopt(&second, found, 3);
    assert_int_equal(second.block_count, 3);
    assert_int_equal(qn_kv_pool_references(r.pool, found[0]), 2);
    assert_ptr_equal(qn_kv_latent_row(&second, 0, 40), qn_kv_latent_row(&first, 0, 40));

    qn_kv_sequence_free(&first);
    assert_int_equal(qn_kv_pool_available(r.pool), 3);
    assert_int_equal(qn_kv_pool_free_count(r.pool), 2);
    assert_int_equal(peek(&r, &unreferenced), 4);
    assert_int_equal(unreferenced, 1);
    assert_int_equal(qn_kv_sequence_reserve(&second, 5 * BLOCK_TOKENS, &err), QN_OK);
    qn_kv_sequence_free(&second);
    assert_int_equal(qn_kv_pool_referenced(r.pool), 0);
    assert_int_equal(peek(&r, &unreferenced), 4);
    assert_int_equal(unreferenced, 4);

    /* another root, or another token in the second block */
    assert_int_equal(qn_prefix_find(r.cache, r.keys[0], r.keys, r.ids, BLOCKS, found), 0);
    r.ids[BLOCK_TOKENS + 3]++;
    hash_chain(&r);
    assert_int_equal(peek(&r, &unreferenced), 1);
    rig_close(&r);
}

/* The end of a prefix goes before its beginning, and a prefix used since goes last. */
static void test_evicts_from_the_end(void **state)
{
    (void)state;
    rig r = rig_open();
    qn_kv_sequence sequence;
    size_t unreferenced;
    compute(&r, &sequence, BLOCKS);
    qn_kv_sequence_free(&sequence);
    for (size_t left = BLOCKS; left > 0; left--) {
        int32_t block;
        assert_int_equal(peek(&r, &unreferenced), left);
        assert_int_equal(qn_kv_pool_take(r.pool, &block, &err), QN_OK);
        assert_int_equal(qn_prefix_count(r.cache), left - 1);
    }
    for (int32_t block = 0; block < BLOCKS; block++)
        qn_kv_pool_release(r.pool, block);
    rig_close(&r);
}

static void test_same_prefix_twice(void **state)
{
    (void)state;
    rig r = rig_open();
    qn_kv_sequence first, second;
    int32_t found[BLOCKS];
    compute(&r, &first, 2);
    compute(&r, &second, 3); /* its first two stay its own, its third continues the first's */
    assert_int_equal(qn_prefix_count(r.cache), 3);
    assert_int_equal(qn_prefix_find(r.cache, r.root, r.keys, r.ids, BLOCKS, found), 3);
    assert_int_equal(found[1], first.blocks[1]);
    assert_int_equal(found[2], second.blocks[2]);
    for (size_t i = 3; i-- > 0;)
        qn_kv_pool_release(r.pool, found[i]);
    qn_kv_sequence_free(&second);
    assert_int_equal(qn_kv_pool_free_count(r.pool), 3);
    qn_kv_sequence_free(&first);
    assert_int_equal(qn_kv_pool_free_count(r.pool), 3);
    assert_int_equal(qn_kv_pool_available(r.pool), BLOCKS);
    rig_close(&r);
}

/* Keys that collide: other tokens, or another history, are a miss, and nothing is inserted over them. */
static void test_collisions_are_misses(void **state)
{
    (void)state;
    rig r = rig_open();
    int32_t block, other, found[1], forged[BLOCK_TOKENS] = {5, 5, 5};
    size_t unreferenced;
    assert_int_equal(qn_kv_pool_take(r.pool, &block, &err), QN_OK);
    assert_int_equal(qn_kv_pool_take(r.pool, &other, &err), QN_OK);
    assert_true(qn_prefix_insert(r.cache, r.root, r.keys[0], forged, block));
    assert_int_equal(qn_prefix_find(r.cache, r.root, r.keys, r.ids, 1, found), 0);
    assert_int_equal(peek(&r, &unreferenced), 0);
    assert_false(qn_prefix_insert(r.cache, r.root, r.keys[0], r.ids, other));
    assert_false(qn_prefix_insert(r.cache, r.keys[3], r.keys[0], forged, other));
    assert_int_equal(qn_prefix_find(r.cache, r.keys[3], r.keys, forged, 1, found), 0);
    assert_int_equal(qn_prefix_find(r.cache, r.root, r.keys, forged, 1, found), 1);
    assert_int_equal(found[0], block);
    assert_int_equal(qn_prefix_count(r.cache), 1);
    qn_kv_pool_release(r.pool, block);
    qn_kv_pool_release(r.pool, block);
    qn_kv_pool_release(r.pool, other);
    assert_int_equal(qn_kv_pool_free_count(r.pool), BLOCKS - 1);
    rig_close(&r);
}

/* Keys that differ only where the table does not look share a bucket; each is found, removed and reinserted alone. */
static void test_keys_of_one_bucket(void **state)
{
    (void)state;
    rig r = rig_open();
    int32_t blocks[BLOCKS], found[1];
    for (size_t i = 0; i < BLOCKS; i++) {
        r.keys[i] = (qn_hash){.high = i, .low = 5};
        assert_int_equal(qn_kv_pool_take(r.pool, &blocks[i], &err), QN_OK);
        assert_true(qn_prefix_insert(r.cache, r.root, r.keys[i], r.ids + i * BLOCK_TOKENS, blocks[i]));
    }
    static const size_t order[BLOCKS] = {2, 5, 0, 3, 1, 4};
    for (size_t n = 0; n < BLOCKS; n++) {
        int32_t taken;
        qn_kv_pool_release(r.pool, blocks[order[n]]);
        assert_int_equal(qn_kv_pool_take(r.pool, &taken, &err), QN_OK);
        assert_int_equal(taken, blocks[order[n]]);
        for (size_t i = 0; i < BLOCKS; i++) {
            bool evicted = false;
            for (size_t k = 0; k <= n; k++)
                evicted = evicted || order[k] == i;
            assert_int_equal(qn_prefix_find(r.cache, r.root, &r.keys[i], r.ids + i * BLOCK_TOKENS, 1, found), !evicted);
            if (!evicted)
                qn_kv_pool_release(r.pool, found[0]);
        }
    }
    for (size_t i = 0; i < BLOCKS; i++)
        qn_kv_pool_release(r.pool, blocks[i]);
    rig_close(&r);
}

static void test_clear(void **state)
{
    (void)state;
    rig r = rig_open();
    qn_kv_sequence first, second;
    size_t unreferenced;
    compute(&r, &first, 3);
    qn_kv_sequence_truncate(&first, 2 * BLOCK_TOKENS);
    qn_prefix_clear(r.cache);
    assert_int_equal(qn_prefix_count(r.cache), 0);
    assert_int_equal(peek(&r, &unreferenced), 0);
    assert_int_equal(qn_kv_pool_free_count(r.pool), BLOCKS - 2);
    compute(&r, &second, 3); /* what is referenced still does not come in the way */
    qn_kv_sequence_free(&first);
    assert_int_equal(qn_kv_pool_free_count(r.pool), BLOCKS - 3);
    assert_int_equal(peek(&r, &unreferenced), 3);
    qn_kv_sequence_free(&second);
    rig_close(&r);
}

/* The cache may go before the sequences do. */
static void test_free_leaves_a_plain_pool(void **state)
{
    (void)state;
    rig r = rig_open();
    qn_kv_sequence sequence;
    compute(&r, &sequence, BLOCKS);
    qn_kv_sequence_truncate(&sequence, 2 * BLOCK_TOKENS);
    qn_prefix_cache_free(r.cache);
    assert_int_equal(qn_kv_pool_free_count(r.pool), BLOCKS - 2);
    qn_kv_sequence_free(&sequence);
    assert_int_equal(qn_prefix_cache_new(r.pool, &r.cache, &err), QN_OK);
    qn_prefix_cache_free(NULL);
    rig_close(&r);
}

static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    rig r = rig_open();
    qn_prefix_cache_free(r.cache);
    bool failed = true;
    for (long nth = 1; failed; nth++) {
        r.cache = NULL;
        qn_fault_arm(QN_FAULT_ALLOC, nth);
        qn_status status = qn_prefix_cache_new(r.pool, &r.cache, &err);
        failed = qn_fault_seen(QN_FAULT_ALLOC) >= nth;
        qn_fault_disarm();
        assert_int_equal(status, failed ? QN_RESOURCE : QN_OK);
        assert_int_equal(r.cache == NULL, failed);
    }
    assert_true(qn_prefix_cache_bytes(BLOCKS, BLOCK_TOKENS) > BLOCKS * BLOCK_TOKENS * sizeof(int32_t));
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_roots_differ),
        cmocka_unit_test(test_keys_name_the_history),
        cmocka_unit_test(test_shares_a_prefix),
        cmocka_unit_test(test_evicts_from_the_end),
        cmocka_unit_test(test_same_prefix_twice),
        cmocka_unit_test(test_collisions_are_misses),
        cmocka_unit_test(test_keys_of_one_bucket),
        cmocka_unit_test(test_clear),
        cmocka_unit_test(test_free_leaves_a_plain_pool),
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
