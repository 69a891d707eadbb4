/* One allocation for all blocks, a reference count for each, and a stack of the free ones.
 *
 * The blocks come from calloc and not from qn_alloc_aligned: a pool of many gigabytes is then mapped at once but
 * becomes resident only as blocks are first used. */
#include "kv/pool.h"

#include <assert.h>

#include "base/memory.h"

enum { BLOCK_ALIGNMENT = 64 };

struct qn_kv_pool {
    qn_kv_layout layout;
    size_t block_count, free_count, bytes;
    void *allocation;
    uint8_t *blocks;      /* allocation, aligned: [block_count][layout.block_bytes] */
    int32_t *references;  /* [block_count]; 0: free */
    int32_t *free_blocks; /* [block_count], the first free_count are free; taken from the end */
};

static qn_status allocate_blocks(qn_kv_pool *pool, qn_error *err)
{
    size_t bytes;
    if (!qn_size_mul(pool->block_count, pool->layout.block_bytes, &bytes) ||
        !qn_size_add(bytes, BLOCK_ALIGNMENT - 1, &bytes))
        return qn_fail(err, QN_RESOURCE, "KV cache: %zu blocks of %zu bytes cannot be addressed: use fewer",
                       pool->block_count, pool->layout.block_bytes);
    pool->bytes = bytes;
    pool->allocation = qn_alloc_zero(bytes, 1);
    if (!pool->allocation)
        return qn_fail_memory(err, "KV cache", bytes);
    uintptr_t start = (uintptr_t)pool->allocation;
    pool->blocks = (uint8_t *)pool->allocation + (BLOCK_ALIGNMENT - start % BLOCK_ALIGNMENT) % BLOCK_ALIGNMENT;
    pool->references = qn_alloc_zero(pool->block_count, sizeof *pool->references);
    pool->free_blocks = qn_alloc(pool->block_count, sizeof *pool->free_blocks);
    if (!pool->references || !pool->free_blocks)
        return qn_fail_memory(err, "KV block table", pool->block_count * 2 * sizeof(int32_t));
    return QN_OK;
}

qn_status qn_kv_pool_new(const qn_kv_layout *layout, size_t block_count, qn_kv_pool **out, qn_error *err)
{
    if (block_count < 1 || block_count > INT32_MAX)
        return qn_fail(err, QN_USAGE, "KV cache: %zu blocks: use 1 to %d", block_count, INT32_MAX);
    qn_kv_pool *pool = qn_alloc_zero(1, sizeof *pool);
    if (!pool)
        return qn_fail_memory(err, "KV cache", sizeof *pool);
    pool->layout = *layout;
    pool->block_count = block_count;
    qn_status status = allocate_blocks(pool, err);
    if (status != QN_OK) {
        qn_kv_pool_free(pool);
        return status;
    }
    /* the lowest block is taken first */
    for (size_t i = 0; i < block_count; i++)
        pool->free_blocks[i] = (int32_t)(block_count - 1 - i);
    pool->free_count = block_count;
    *out = pool;
    return QN_OK;
}

void qn_kv_pool_free(qn_kv_pool *pool)
{
    if (!pool)
        return;
    qn_free(pool->allocation);
    qn_free(pool->references);
    qn_free(pool->free_blocks);
    qn_free(pool);
}

const qn_kv_layout *qn_kv_pool_layout(const qn_kv_pool *pool)
{
    return &pool->layout;
}

size_t qn_kv_pool_block_count(const qn_kv_pool *pool)
{
    return pool->block_count;
}

size_t qn_kv_pool_free_count(const qn_kv_pool *pool)
{
    return pool->free_count;
}

size_t qn_kv_pool_bytes(const qn_kv_pool *pool)
{
    return pool->bytes + pool->block_count * (sizeof *pool->references + sizeof *pool->free_blocks);
}

qn_status qn_kv_pool_take(qn_kv_pool *pool, int32_t *block, qn_error *err)
{
    if (pool->free_count == 0)
        return qn_fail(err, QN_RESOURCE,
                       "KV cache: all %zu blocks of %zu tokens are in use: use a larger cache or fewer "
                       "and shorter sequences",
                       pool->block_count, pool->layout.block_tokens);
    *block = pool->free_blocks[--pool->free_count];
    assert(pool->references[*block] == 0);
    pool->references[*block] = 1;
    return QN_OK;
}

void qn_kv_pool_retain(qn_kv_pool *pool, int32_t block)
{
    assert(block >= 0 && (size_t)block < pool->block_count && pool->references[block] > 0);
    pool->references[block]++;
}

void qn_kv_pool_release(qn_kv_pool *pool, int32_t block)
{
    assert(block >= 0 && (size_t)block < pool->block_count && pool->references[block] > 0);
    if (--pool->references[block] == 0)
        pool->free_blocks[pool->free_count++] = block;
}

uint8_t *qn_kv_pool_block(qn_kv_pool *pool, int32_t block)
{
    return pool->blocks + (size_t)block * pool->layout.block_bytes;
}
