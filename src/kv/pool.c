/* One allocation for all blocks, a reference count for each, a stack of the free ones, and a list of the kept ones that
 * nobody refers to.
 *
 * The blocks come from calloc and not from qn_alloc_aligned: a pool of many gigabytes is then mapped at once but
 * becomes resident only as blocks are first used, or where it is prefaulted without being written twice.
 *
 * The list is doubly linked through two arrays and closed by a block that does not exist, number block_count: behind it
 * stands the oldest block and before it the youngest, so that linking and unlinking know no ends. */
#include "kv/pool.h"

#include <assert.h>

#include "base/memory.h"
#include "base/prefault.h"
#include "base/system_memory.h"

struct qn_kv_pool {
    qn_kv_layout layout;
    size_t block_count, free_count, unused_count, bytes;
    void *allocation;
    uint8_t *blocks;          /* allocation, aligned: [block_count][layout.block_bytes] */
    int32_t *references;      /* [block_count] */
    bool *kept;               /* [block_count] */
    int32_t *free_blocks;     /* [block_count], the first free_count are free; taken from the end */
    int32_t *older, *younger; /* [block_count + 1], of the unused_count blocks that are kept without references */
    void (*evict)(void *context, int32_t block);
    void *evict_context;
};

static qn_status allocate_blocks(qn_kv_pool *pool, bool prefault, qn_error *err)
{
    size_t bytes;
    if (!qn_size_mul(pool->block_count, pool->layout.block_bytes, &bytes) ||
        !qn_size_add(bytes, QN_KV_BLOCK_ALIGNMENT - 1, &bytes))
        return qn_fail(err, QN_RESOURCE, "KV cache: %zu blocks of %zu bytes cannot be addressed: use fewer",
                       pool->block_count, pool->layout.block_bytes);
    /* past a control group's limit the kernel does not refuse but kills; 0: the system does not tell */
    size_t available = prefault ? qn_memory_available("") : 0;
    if (available > 0 && bytes > available)
        return qn_fail(err, QN_RESOURCE, "KV cache: %zu bytes: %zu are available: use a smaller cache", bytes,
                       available);
    pool->bytes = bytes;
    pool->allocation = qn_alloc_zero(bytes, 1);
    if (!pool->allocation)
        return qn_fail_memory(err, "KV cache", bytes);
    size_t past = (uintptr_t)pool->allocation % QN_KV_BLOCK_ALIGNMENT;
    pool->blocks = (uint8_t *)pool->allocation + (QN_KV_BLOCK_ALIGNMENT - past) % QN_KV_BLOCK_ALIGNMENT;
    return prefault ? qn_prefault(pool->blocks, pool->block_count * pool->layout.block_bytes, "KV cache", err) : QN_OK;
}

static size_t table_bytes(const qn_kv_pool *pool)
{
    return pool->block_count * (sizeof *pool->references + sizeof *pool->kept + sizeof *pool->free_blocks) +
           (pool->block_count + 1) * (sizeof *pool->older + sizeof *pool->younger);
}

static qn_status allocate_tables(qn_kv_pool *pool, qn_error *err)
{
    pool->references = qn_alloc_zero(pool->block_count, sizeof *pool->references);
    pool->kept = qn_alloc_zero(pool->block_count, sizeof *pool->kept);
    pool->free_blocks = qn_alloc(pool->block_count, sizeof *pool->free_blocks);
    pool->older = qn_alloc_zero(pool->block_count + 1, sizeof *pool->older);
    pool->younger = qn_alloc_zero(pool->block_count + 1, sizeof *pool->younger);
    if (!pool->references || !pool->kept || !pool->free_blocks || !pool->older || !pool->younger)
        return qn_fail_memory(err, "KV block table", table_bytes(pool));
    /* the lowest block is taken first */
    for (size_t i = 0; i < pool->block_count; i++)
        pool->free_blocks[i] = (int32_t)(pool->block_count - 1 - i);
    pool->free_count = pool->block_count;
    pool->older[pool->block_count] = pool->younger[pool->block_count] = (int32_t)pool->block_count;
    return QN_OK;
}

qn_status qn_kv_pool_new(const qn_kv_layout *layout, size_t block_count, bool prefault, qn_kv_pool **out, qn_error *err)
{
    if (block_count < 1 || block_count > INT32_MAX)
        return qn_fail(err, QN_USAGE, "KV cache: %zu blocks: use 1 to %d", block_count, INT32_MAX);
    qn_kv_pool *pool = qn_alloc_zero(1, sizeof *pool);
    if (!pool)
        return qn_fail_memory(err, "KV cache", sizeof *pool);
    pool->layout = *layout;
    pool->block_count = block_count;
    qn_status status = allocate_blocks(pool, prefault, err);
    if (status == QN_OK)
        status = allocate_tables(pool, err);
    if (status != QN_OK) {
        qn_kv_pool_free(pool);
        return status;
    }
    *out = pool;
    return QN_OK;
}

void qn_kv_pool_free(qn_kv_pool *pool)
{
    if (!pool)
        return;
    qn_free(pool->allocation);
    qn_free(pool->references);
    qn_free(pool->kept);
    qn_free(pool->free_blocks);
    qn_free(pool->older);
    qn_free(pool->younger);
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

size_t qn_kv_pool_available(const qn_kv_pool *pool)
{
    return pool->free_count + pool->unused_count;
}

size_t qn_kv_pool_referenced(const qn_kv_pool *pool)
{
    return pool->block_count - qn_kv_pool_available(pool);
}

double qn_kv_pool_usage(const qn_kv_pool *pool)
{
    return (double)qn_kv_pool_referenced(pool) / (double)pool->block_count;
}

size_t qn_kv_pool_bytes(const qn_kv_pool *pool)
{
    return pool->bytes + table_bytes(pool);
}

static void link_youngest(qn_kv_pool *pool, int32_t block)
{
    int32_t end = (int32_t)pool->block_count, youngest = pool->older[end];
    pool->older[block] = youngest;
    pool->younger[block] = end;
    pool->younger[youngest] = pool->older[end] = block;
    pool->unused_count++;
}

static void unlink_block(qn_kv_pool *pool, int32_t block)
{
    pool->younger[pool->older[block]] = pool->younger[block];
    pool->older[pool->younger[block]] = pool->older[block];
    pool->unused_count--;
}

qn_status qn_kv_pool_require(const qn_kv_pool *pool, size_t count, qn_error *err)
{
    if (count <= qn_kv_pool_available(pool))
        return QN_OK;
    if (qn_kv_pool_available(pool) == 0)
        return qn_fail(err, QN_RESOURCE,
                       "KV cache: all %zu blocks of %zu tokens are in use: use a larger cache or fewer "
                       "and shorter sequences",
                       pool->block_count, pool->layout.block_tokens);
    return qn_fail(err, QN_RESOURCE,
                   "KV cache: %zu of %zu blocks of %zu tokens are in use and %zu more are wanted: use a larger cache "
                   "or fewer and shorter sequences",
                   qn_kv_pool_referenced(pool), pool->block_count, pool->layout.block_tokens, count);
}

static int32_t evict_oldest(qn_kv_pool *pool)
{
    int32_t block = pool->younger[pool->block_count];
    unlink_block(pool, block);
    pool->kept[block] = false;
    if (pool->evict)
        pool->evict(pool->evict_context, block);
    return block;
}

qn_status qn_kv_pool_take(qn_kv_pool *pool, int32_t *block, qn_error *err)
{
    qn_status status = qn_kv_pool_require(pool, 1, err);
    if (status != QN_OK)
        return status;
    *block = pool->free_count > 0 ? pool->free_blocks[--pool->free_count] : evict_oldest(pool);
    assert(pool->references[*block] == 0 && !pool->kept[*block]);
    pool->references[*block] = 1;
    return QN_OK;
}

void qn_kv_pool_retain(qn_kv_pool *pool, int32_t block)
{
    assert((size_t)block < pool->block_count && (pool->references[block] > 0 || pool->kept[block]));
    if (pool->references[block]++ == 0)
        unlink_block(pool, block);
}

void qn_kv_pool_release(qn_kv_pool *pool, int32_t block)
{
    assert((size_t)block < pool->block_count && pool->references[block] > 0);
    if (--pool->references[block] > 0)
        return;
    if (pool->kept[block])
        link_youngest(pool, block);
    else
        pool->free_blocks[pool->free_count++] = block;
}

size_t qn_kv_pool_references(const qn_kv_pool *pool, int32_t block)
{
    assert((size_t)block < pool->block_count);
    return (size_t)pool->references[block];
}

void qn_kv_pool_keep(qn_kv_pool *pool, int32_t block)
{
    assert((size_t)block < pool->block_count && pool->references[block] > 0);
    pool->kept[block] = true;
}

void qn_kv_pool_forget(qn_kv_pool *pool, int32_t block)
{
    assert((size_t)block < pool->block_count && pool->kept[block]);
    pool->kept[block] = false;
    if (pool->references[block] > 0)
        return;
    unlink_block(pool, block);
    pool->free_blocks[pool->free_count++] = block;
}

void qn_kv_pool_on_evict(qn_kv_pool *pool, void (*evict)(void *context, int32_t block), void *context)
{
    assert(!evict || !pool->evict);
    pool->evict = evict;
    pool->evict_context = context;
}

uint8_t *qn_kv_pool_block(qn_kv_pool *pool, int32_t block)
{
    return pool->blocks + (size_t)block * pool->layout.block_bytes;
}

float *qn_kv_block_hidden(qn_kv_pool *pool, int32_t block)
{
    assert((size_t)block < pool->block_count && pool->layout.hidden_offset != SIZE_MAX);
    return (float *)(void *)(qn_kv_pool_block(pool, block) + pool->layout.hidden_offset);
}
