/* A hash table whose nodes are the pool's blocks themselves: each block has at most one entry, so entries lie in arrays
 * by block, and a bucket chains block numbers. There are at least as many buckets as blocks. */
#include "kv/prefix.h"

#include <assert.h>
#include <string.h>

#include "base/memory.h"

enum { NO_BLOCK = -1, MAX_BLOCK_TOKENS = 1024 };

typedef struct entry {
    qn_hash key, parent;
    int32_t next; /* in the bucket's chain */
    bool cached;
} entry;

struct qn_prefix_cache {
    qn_kv_pool *pool;
    size_t block_count, block_tokens, bucket_count, count;
    entry *entries;   /* [block_count] */
    int32_t *ids;     /* [block_count][block_tokens] */
    int32_t *buckets; /* [bucket_count], a power of two */
};

qn_hash qn_prefix_root(const void *fingerprint, size_t bytes, const char *salt)
{
    size_t salt_bytes = salt ? strlen(salt) : 0;
    qn_hash of_fingerprint = qn_hash_bytes(fingerprint, bytes), of_salt = qn_hash_bytes(salt ? salt : "", salt_bytes);
    /* shorter than what any block is hashed from, so that no block's key is a root by design */
    const uint64_t parts[] = {bytes,      of_fingerprint.high, of_fingerprint.low, salt != NULL,
                              salt_bytes, of_salt.high,        of_salt.low};
    return qn_hash_bytes(parts, sizeof parts);
}

qn_hash qn_prefix_next(qn_hash parent, const int32_t *ids, size_t block_tokens)
{
    struct {
        uint64_t high, low;
        int32_t ids[MAX_BLOCK_TOKENS];
    } chained;
    assert(block_tokens <= MAX_BLOCK_TOKENS);
    chained.high = parent.high;
    chained.low = parent.low;
    memcpy(chained.ids, ids, block_tokens * sizeof *ids);
    return qn_hash_bytes(&chained, 2 * sizeof chained.high + block_tokens * sizeof *ids);
}

static size_t buckets_for(size_t block_count)
{
    size_t buckets = 1;
    while (buckets < block_count)
        buckets *= 2;
    return buckets;
}

size_t qn_prefix_cache_bytes(size_t block_count, size_t block_tokens)
{
    return sizeof(qn_prefix_cache) + block_count * (sizeof(entry) + block_tokens * sizeof(int32_t)) +
           buckets_for(block_count) * sizeof(int32_t);
}

static void empty_table(qn_prefix_cache *cache)
{
    for (size_t i = 0; i < cache->block_count; i++)
        cache->entries[i].cached = false;
    for (size_t i = 0; i < cache->bucket_count; i++)
        cache->buckets[i] = NO_BLOCK;
    cache->count = 0;
}

/* The end of the chain that leads to `key`: where its block's number stands, or NO_BLOCK. */
static int32_t *slot_of(const qn_prefix_cache *cache, qn_hash key)
{
    int32_t *slot = &cache->buckets[key.low & (cache->bucket_count - 1)];
    while (*slot != NO_BLOCK && !qn_hash_equal(cache->entries[*slot].key, key))
        slot = &cache->entries[*slot].next;
    return slot;
}

static void remove_block(void *context, int32_t block)
{
    qn_prefix_cache *cache = context;
    entry *removed = &cache->entries[block];
    assert(removed->cached);
    *slot_of(cache, removed->key) = removed->next;
    removed->cached = false;
    cache->count--;
}

qn_status qn_prefix_cache_new(qn_kv_pool *pool, qn_prefix_cache **out, qn_error *err)
{
    size_t block_count = qn_kv_pool_block_count(pool), block_tokens = qn_kv_pool_layout(pool)->block_tokens;
    qn_prefix_cache *cache = qn_alloc_zero(1, sizeof *cache);
    if (!cache)
        return qn_fail_memory(err, "prefix cache", sizeof *cache);
    cache->pool = pool;
    cache->block_count = block_count;
    cache->block_tokens = block_tokens;
    cache->bucket_count = buckets_for(block_count);
    cache->entries = qn_alloc(block_count, sizeof *cache->entries);
    cache->ids = qn_alloc(block_count, block_tokens * sizeof *cache->ids);
    cache->buckets = qn_alloc(cache->bucket_count, sizeof *cache->buckets);
    if (!cache->entries || !cache->ids || !cache->buckets) {
        qn_free(cache->entries);
        qn_free(cache->ids);
        qn_free(cache->buckets);
        qn_free(cache);
        return qn_fail_memory(err, "prefix cache", qn_prefix_cache_bytes(block_count, block_tokens));
    }
    empty_table(cache);
    qn_kv_pool_on_evict(pool, remove_block, cache);
    *out = cache;
    return QN_OK;
}

void qn_prefix_cache_free(qn_prefix_cache *cache)
{
    if (!cache)
        return;
    qn_prefix_clear(cache);
    qn_kv_pool_on_evict(cache->pool, NULL, NULL);
    qn_free(cache->entries);
    qn_free(cache->ids);
    qn_free(cache->buckets);
    qn_free(cache);
}

static bool is_prefix(const qn_prefix_cache *cache, int32_t block, qn_hash parent, const int32_t *ids)
{
    const int32_t *cached_ids = cache->ids + (size_t)block * cache->block_tokens;
    return qn_hash_equal(cache->entries[block].parent, parent) &&
           memcmp(cached_ids, ids, cache->block_tokens * sizeof *ids) == 0;
}

static int32_t lookup(const qn_prefix_cache *cache, qn_hash parent, qn_hash key, const int32_t *ids)
{
    int32_t block = *slot_of(cache, key);
    return block != NO_BLOCK && is_prefix(cache, block, parent, ids) ? block : NO_BLOCK;
}

size_t qn_prefix_find(qn_prefix_cache *cache, qn_hash parent, const qn_hash *keys, const int32_t *ids, size_t blocks,
                      int32_t *out)
{
    for (size_t i = 0; i < blocks; i++) {
        int32_t block = lookup(cache, i == 0 ? parent : keys[i - 1], keys[i], ids + i * cache->block_tokens);
        if (block == NO_BLOCK)
            return i;
        qn_kv_pool_retain(cache->pool, block);
        out[i] = block;
    }
    return blocks;
}

size_t qn_prefix_peek(const qn_prefix_cache *cache, qn_hash parent, const qn_hash *keys, const int32_t *ids,
                      size_t blocks, size_t *unreferenced)
{
    *unreferenced = 0;
    for (size_t i = 0; i < blocks; i++) {
        int32_t block = lookup(cache, i == 0 ? parent : keys[i - 1], keys[i], ids + i * cache->block_tokens);
        if (block == NO_BLOCK)
            return i;
        *unreferenced += qn_kv_pool_references(cache->pool, block) == 0;
    }
    return blocks;
}

bool qn_prefix_insert(qn_prefix_cache *cache, qn_hash parent, qn_hash key, const int32_t *ids, int32_t block)
{
    int32_t *slot = slot_of(cache, key);
    if (*slot != NO_BLOCK)
        return is_prefix(cache, *slot, parent, ids);
    assert(!cache->entries[block].cached);
    qn_kv_pool_keep(cache->pool, block);
    cache->entries[block] = (entry){.key = key, .parent = parent, .next = NO_BLOCK, .cached = true};
    memcpy(cache->ids + (size_t)block * cache->block_tokens, ids, cache->block_tokens * sizeof *ids);
    *slot = block;
    cache->count++;
    return true;
}

void qn_prefix_clear(qn_prefix_cache *cache)
{
    for (size_t i = 0; i < cache->block_count; i++) {
        if (cache->entries[i].cached)
            qn_kv_pool_forget(cache->pool, (int32_t)i);
    }
    empty_table(cache);
}

size_t qn_prefix_count(const qn_prefix_cache *cache)
{
    return cache->count;
}
