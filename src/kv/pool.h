/* A pool of KV blocks, allocated once, handed out with reference counts. Owned by the engine's thread.
 *
 * A block is free, referenced, or kept: a kept block holds a cached prefix (kv/prefix.h). When its last reference goes
 * it does not become free but the youngest of a list in order of disuse; qn_kv_pool_take evicts the oldest of that list
 * when no block is free. What is released later is evicted later: who releases a sequence's blocks from the last to the
 * first, as qn_kv_sequence_truncate does, has the end of a prefix evicted before its beginning, without which the end
 * is of no use.
 *
 * Every call but qn_kv_pool_new takes constant time and allocates nothing. */
#ifndef QN_KV_POOL_H
#define QN_KV_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kv/layout.h"

typedef struct qn_kv_pool qn_kv_pool;

/* Blocks start at multiples of QN_KV_BLOCK_ALIGNMENT bytes, zeroed. With prefault all their pages are made resident at
 * once, in huge pages where the system has them; QN_RESOURCE when that much memory is not available. Without it pages
 * become resident as they are first written. */
qn_status qn_kv_pool_new(const qn_kv_layout *layout, size_t block_count, bool prefault, qn_kv_pool **out,
                         qn_error *err);
void qn_kv_pool_free(qn_kv_pool *pool); /* NULL is fine; references need not be given back before */

const qn_kv_layout *qn_kv_pool_layout(const qn_kv_pool *pool);
size_t qn_kv_pool_block_count(const qn_kv_pool *pool);
size_t qn_kv_pool_free_count(const qn_kv_pool *pool); /* free blocks alone */
size_t qn_kv_pool_available(const qn_kv_pool *pool);  /* what can be taken: free, or kept without references */
size_t qn_kv_pool_referenced(const qn_kv_pool *pool); /* all others */
double qn_kv_pool_usage(const qn_kv_pool *pool);      /* the referenced blocks' share of all, 0 to 1 */
size_t qn_kv_pool_bytes(const qn_kv_pool *pool);

/* QN_RESOURCE, with the sentence of a full cache, when fewer than `count` blocks are available. Takes none. */
qn_status qn_kv_pool_require(const qn_kv_pool *pool, size_t count, qn_error *err);
/* A block with one reference, a free one or else the evicted one that was out of use longest; what it holds is
 * undefined. QN_RESOURCE when none is available. */
qn_status qn_kv_pool_take(qn_kv_pool *pool, int32_t *block, qn_error *err);
/* One more reference to a block that has some or is kept. */
void qn_kv_pool_retain(qn_kv_pool *pool, int32_t block);
void qn_kv_pool_release(qn_kv_pool *pool, int32_t block);
size_t qn_kv_pool_references(const qn_kv_pool *pool, int32_t block);

/* Keeps a referenced block from now on, until it is evicted or forgotten. */
void qn_kv_pool_keep(qn_kv_pool *pool, int32_t block);
/* A kept block is so no longer; without references it is free. No eviction is told. */
void qn_kv_pool_forget(qn_kv_pool *pool, int32_t block);
/* Has `evict` called with each block that is evicted, before its taker gets it; it may read the block's contents and
 * may not call the pool. The pool has one such owner of kept blocks at a time; NULL: none any more. */
void qn_kv_pool_on_evict(qn_kv_pool *pool, void (*evict)(void *context, int32_t block), void *context);

uint8_t *qn_kv_pool_block(qn_kv_pool *pool, int32_t block);
/* The block's row [layout.hidden_width] of final norms; the layout must have one. */
float *qn_kv_block_hidden(qn_kv_pool *pool, int32_t block);

#endif
