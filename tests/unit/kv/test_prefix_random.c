/* Random sequences that share prefixes, against a model that is too simple to be wrong: who refers to which block, what
 * is cached in which order of disuse, what is evicted and what is found. Blocks are filled when they are inserted and
 * looked at whenever they are found. Half of the runs cut the keys to a few bits, so that they collide all the time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "kv/prefix.h"
#include "kv/sequence.h"

enum { BLOCKS = 11, BLOCK_TOKENS = 16, SEQUENCES = 4, MAX_LENGTH = 6, SALTS = 3, STEPS = 4000, RUNS = 24 };

/* What the model knows of a block. */
typedef struct model_block {
    int references;
    bool kept;
    qn_hash key, parent;
    int32_t letter; /* stands for the block's ids */
    uint64_t tag;   /* stands for what was computed: the whole history, in the block's first and last bytes */
} model_block;

typedef struct live_sequence {
    bool open, stopped; /* stopped: a collision was met, nothing more is inserted */
    qn_kv_sequence kv;
    qn_hash root, keys[MAX_LENGTH];
    int32_t letters[MAX_LENGTH], ids[MAX_LENGTH * BLOCK_TOKENS];
    uint64_t tags[MAX_LENGTH];
} live_sequence;

typedef struct world {
    uint64_t random, key_mask;
    qn_kv_pool *pool;
    qn_prefix_cache *cache;
    live_sequence sequences[SEQUENCES];
    model_block blocks[BLOCKS];
    int32_t unused[BLOCKS]; /* kept without references, the oldest first */
    size_t unused_count, hits, evictions, collisions;
} world;

static qn_error err;

static size_t pick(world *w, size_t count)
{
    w->random = w->random * 6364136223846793005U + 1442695040888963407U;
    return (size_t)(w->random >> 33) % count;
}

/* The model's own operations. */

static bool model_is_free(const world *w, int32_t block)
{
    return w->blocks[block].references == 0 && !w->blocks[block].kept;
}

static size_t model_free_count(const world *w)
{
    size_t count = 0;
    for (int32_t block = 0; block < BLOCKS; block++)
        count += model_is_free(w, block);
    return count;
}

static void model_unlist(world *w, int32_t block)
{
    size_t at = 0;
    while (w->unused[at] != block)
        at++;
    w->unused_count--;
    memmove(&w->unused[at], &w->unused[at + 1], (w->unused_count - at) * sizeof w->unused[0]);
}

static void model_retain(world *w, int32_t block)
{
    if (w->blocks[block].references++ == 0)
        model_unlist(w, block);
}

static void model_release(world *w, int32_t block)
{
    if (--w->blocks[block].references == 0 && w->blocks[block].kept)
        w->unused[w->unused_count++] = block;
}

static int32_t model_lookup(const world *w, qn_hash key)
{
    for (int32_t block = 0; block < BLOCKS; block++) {
        if (w->blocks[block].kept && qn_hash_equal(w->blocks[block].key, key))
            return block;
    }
    return -1;
}

static bool model_matches(const world *w, int32_t block, qn_hash parent, int32_t letter)
{
    return qn_hash_equal(w->blocks[block].parent, parent) && w->blocks[block].letter == letter;
}

static qn_hash parent_of(const live_sequence *s, size_t i)
{
    return i == 0 ? s->root : s->keys[i - 1];
}

/* Both worlds agree on every count and reference. */
static void compare(const world *w)
{
    size_t free_count = model_free_count(w), kept = 0;
    assert_int_equal(qn_kv_pool_free_count(w->pool), free_count);
    assert_int_equal(qn_kv_pool_available(w->pool), free_count + w->unused_count);
    assert_int_equal(qn_kv_pool_referenced(w->pool), BLOCKS - free_count - w->unused_count);
    for (int32_t block = 0; block < BLOCKS; block++) {
        assert_int_equal(qn_kv_pool_references(w->pool, block), w->blocks[block].references);
        kept += w->blocks[block].kept;
    }
    assert_int_equal(qn_prefix_count(w->cache), kept);
}

static uint64_t tag_at(uint8_t *bytes)
{
    uint64_t tag;
    memcpy(&tag, bytes, sizeof tag);
    return tag;
}

static uint8_t *last_bytes(world *w, int32_t block)
{
    return (uint8_t *)(qn_kv_block_hidden(w->pool, block) + 2);
}

static void assert_holds(world *w, int32_t block, uint64_t tag)
{
    assert_true(tag_at(qn_kv_pool_block(w->pool, block)) == tag);
    assert_true(tag_at(last_bytes(w, block)) == tag);
}

/* Looks a new sequence's prefix up, compares with the model, and adopts what was found. */
static void open_sequence(world *w, live_sequence *s)
{
    static const char *const salts[SALTS] = {NULL, "", "x"};
    size_t salt = pick(w, SALTS), unreferenced, expected = 0, expected_unreferenced = 0;
    *s = (live_sequence){.open = true, .root = qn_prefix_root("fingerprint", 11, salts[salt])};
    uint64_t tag = salt;
    for (size_t i = 0; i < MAX_LENGTH; i++) {
        s->letters[i] = (int32_t)pick(w, 4) / 3; /* mostly the same */
        for (int32_t j = 0; j < BLOCK_TOKENS; j++)
            s->ids[i * BLOCK_TOKENS + (size_t)j] = s->letters[i] * 1000 + j;
        qn_hash key = qn_prefix_next(parent_of(s, i), s->ids + i * BLOCK_TOKENS, BLOCK_TOKENS);
        s->keys[i] = (qn_hash){.high = key.high & w->key_mask, .low = key.low & w->key_mask};
        s->tags[i] = tag = tag * 31 + (uint64_t)s->letters[i] + 7;
    }
    size_t wanted = pick(w, MAX_LENGTH + 1);
    int32_t found[MAX_LENGTH], expected_blocks[MAX_LENGTH];
    while (expected < wanted) {
        int32_t block = model_lookup(w, s->keys[expected]);
        if (block < 0 || !model_matches(w, block, parent_of(s, expected), s->letters[expected]))
            break;
        expected_unreferenced += w->blocks[block].references == 0;
        expected_blocks[expected++] = block;
    }
    assert_int_equal(qn_prefix_peek(w->cache, s->root, s->keys, s->ids, wanted, &unreferenced), expected);
    assert_int_equal(unreferenced, expected_unreferenced);
    compare(w);
    assert_int_equal(qn_prefix_find(w->cache, s->root, s->keys, s->ids, wanted, found), expected);
    for (size_t i = 0; i < expected; i++) {
        assert_int_equal(found[i], expected_blocks[i]);
        assert_holds(w, found[i], w->blocks[found[i]].tag);
        if (w->key_mask == UINT64_MAX)
            assert_true(w->blocks[found[i]].tag == s->tags[i]);
        model_retain(w, found[i]);
        w->hits++;
    }
    assert_int_equal(qn_kv_sequence_init(&s->kv, w->pool, MAX_LENGTH * BLOCK_TOKENS, &err), QN_OK);
    qn_kv_sequence_adopt(&s->kv, found, expected);
}

/* One more block, which must be the one that the model says. False: there is none. */
static bool take_block(world *w, live_sequence *s)
{
    bool any_free = model_free_count(w) > 0;
    qn_status status = qn_kv_sequence_reserve(&s->kv, (s->kv.block_count + 1) * BLOCK_TOKENS, &err);
    assert_int_equal(status, any_free || w->unused_count > 0 ? QN_OK : QN_RESOURCE);
    if (status != QN_OK)
        return false;
    int32_t block = s->kv.blocks[s->kv.block_count - 1];
    if (any_free) {
        assert_true(model_is_free(w, block));
    } else {
        assert_int_equal(block, w->unused[0]);
        assert_holds(w, block, w->blocks[block].tag); /* nobody wrote to it meanwhile */
        model_unlist(w, block);
        w->evictions++;
    }
    w->blocks[block] = (model_block){.references = 1};
    return true;
}

static void insert_last(world *w, live_sequence *s)
{
    size_t i = s->kv.block_count - 1;
    int32_t block = s->kv.blocks[i], there = model_lookup(w, s->keys[i]);
    bool expected = there < 0 || model_matches(w, there, parent_of(s, i), s->letters[i]);
    assert_int_equal(qn_prefix_insert(w->cache, parent_of(s, i), s->keys[i], s->ids + i * BLOCK_TOKENS, block),
                     expected);
    if (there < 0) {
        w->blocks[block] = (model_block){.references = 1,
                                         .kept = true,
                                         .key = s->keys[i],
                                         .parent = parent_of(s, i),
                                         .letter = s->letters[i],
                                         .tag = s->tags[i]};
    }
    w->collisions += !expected;
    s->stopped = !expected;
}

static void extend(world *w, live_sequence *s)
{
    if (s->kv.block_count == MAX_LENGTH || !take_block(w, s))
        return;
    size_t i = s->kv.block_count - 1;
    memcpy(qn_kv_pool_block(w->pool, s->kv.blocks[i]), &s->tags[i], sizeof s->tags[i]);
    memcpy(last_bytes(w, s->kv.blocks[i]), &s->tags[i], sizeof s->tags[i]);
    if (!s->stopped && pick(w, 8) > 0)
        insert_last(w, s);
}

static void shrink(world *w, live_sequence *s, size_t blocks)
{
    for (size_t i = s->kv.block_count; i-- > blocks;)
        model_release(w, s->kv.blocks[i]);
    qn_kv_sequence_truncate(&s->kv, blocks * BLOCK_TOKENS);
}

static void close_sequence(world *w, live_sequence *s)
{
    shrink(w, s, 0);
    qn_kv_sequence_free(&s->kv);
    s->open = false;
}

static void clear(world *w)
{
    qn_prefix_clear(w->cache);
    for (int32_t block = 0; block < BLOCKS; block++)
        w->blocks[block].kept = false;
    w->unused_count = 0;
}

static void step(world *w)
{
    live_sequence *s = &w->sequences[pick(w, SEQUENCES)];
    size_t action = pick(w, 400);
    if (action == 0)
        clear(w);
    else if (!s->open)
        open_sequence(w, s);
    else if (action < 100)
        close_sequence(w, s);
    else if (action < 130)
        shrink(w, s, pick(w, s->kv.block_count + 1));
    else
        extend(w, s);
    compare(w);
}

/* At last everything is evicted, in the model's order. */
static void drain(world *w)
{
    for (size_t i = 0; i < SEQUENCES; i++) {
        if (w->sequences[i].open)
            close_sequence(w, &w->sequences[i]);
    }
    size_t free_count = model_free_count(w);
    for (size_t i = 0; i < BLOCKS; i++) {
        int32_t block;
        assert_int_equal(qn_kv_pool_take(w->pool, &block, &err), QN_OK);
        if (i >= free_count)
            assert_int_equal(block, w->unused[i - free_count]);
    }
    assert_int_equal(qn_prefix_count(w->cache), 0);
}

static void test_random_sequences(void **state)
{
    (void)state;
    static const bool has_indexer[1] = {true};
    qn_kv_layout layout;
    size_t hits = 0, evictions = 0, collisions = 0;
    assert_int_equal(qn_kv_layout_make(QN_DTYPE_F32, BLOCK_TOKENS, 1, 8, 4, 4, has_indexer, &layout, &err), QN_OK);
    uint64_t seed = qn_random_seed();
    print_message("seed %llu\n", (unsigned long long)seed);
    for (uint64_t run = 0; run < RUNS; run++) {
        world w = {.random = seed + run * 7919, .key_mask = run % 2 == 0 ? UINT64_MAX : 3};
        assert_int_equal(qn_kv_pool_new(&layout, BLOCKS, false, &w.pool, &err), QN_OK);
        assert_int_equal(qn_prefix_cache_new(w.pool, &w.cache, &err), QN_OK);
        for (size_t i = 0; i < STEPS; i++)
            step(&w);
        drain(&w);
        qn_prefix_cache_free(w.cache);
        qn_kv_pool_free(w.pool);
        hits += w.hits;
        evictions += w.evictions;
        collisions += w.collisions;
        assert_true(w.key_mask != UINT64_MAX || w.collisions == 0);
    }
    print_message("%zu hits, %zu evictions, %zu collisions\n", hits, evictions, collisions);
    assert_true(hits > 0 && evictions > 0 && collisions > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_sequences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
