/* A pool of KV blocks, allocated once, handed out with reference counts. Owned by the engine's thread. */
#ifndef QN_KV_POOL_H
#define QN_KV_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "kv/layout.h"

typedef struct qn_kv_pool qn_kv_pool;

qn_status qn_kv_pool_new(const qn_kv_layout *layout, size_t block_count, qn_kv_pool **out, qn_error *err);
void qn_kv_pool_free(qn_kv_pool *pool); /* NULL is fine */

const qn_kv_layout *qn_kv_pool_layout(const qn_kv_pool *pool);
size_t qn_kv_pool_block_count(const qn_kv_pool *pool);
size_t qn_kv_pool_free_count(const qn_kv_pool *pool);
size_t qn_kv_pool_bytes(const qn_kv_pool *pool);

/* A block with one reference; QN_RESOURCE when none is free. */
qn_status qn_kv_pool_take(qn_kv_pool *pool, int32_t *block, qn_error *err);
void qn_kv_pool_retain(qn_kv_pool *pool, int32_t block);
void qn_kv_pool_release(qn_kv_pool *pool, int32_t block);
uint8_t *qn_kv_pool_block(qn_kv_pool *pool, int32_t block);

#endif
