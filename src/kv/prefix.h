/* The prefix cache: full blocks found again by the tokens they hold and all tokens before.
 *
 * Blocks are hashed in a chain (XXH3-128): a root made from the model's fingerprint and a salt, and for each block the
 * hash of its predecessor's key and its own token ids. A key therefore names a block's whole history. A hash is no
 * proof, and XXH3 resists no attacker: on every hit the token ids and the predecessor's key are compared as well, and
 * what differs is a miss.
 *
 * An entry lives as long as the pool keeps its block (kv/pool.h): eviction removes it. Who refers to a block refers to
 * those before it too, and releases them later; so a block is evicted before its predecessors, except where two
 * sequences computed the same prefix at the same time and one's end was inserted behind the other's beginning: such an
 * end may outlive it, is not found meanwhile, and is found again once the beginning is back.
 *
 * All memory is allocated at creation. Owned by the engine's thread, as the pool is. */
#ifndef QN_KV_PREFIX_H
#define QN_KV_PREFIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "kv/pool.h"

typedef struct qn_prefix_cache qn_prefix_cache;

/* The key before a sequence's first block. fingerprint: all that changes a bit of what blocks hold; its length counts.
 * salt: a text, NULL for none; two salts, and a salt (be it "") and none, have different roots. */
qn_hash qn_prefix_root(const void *fingerprint, size_t bytes, const char *salt);
/* The key of a block of ids[block_tokens] behind the block (or root) of key `parent`. block_tokens is at most 1024. */
qn_hash qn_prefix_next(qn_hash parent, const int32_t *ids, size_t block_tokens);

/* An empty cache over the pool's blocks, which becomes the owner of the pool's kept blocks; the pool outlives it. */
qn_status qn_prefix_cache_new(qn_kv_pool *pool, qn_prefix_cache **out, qn_error *err);
void qn_prefix_cache_free(qn_prefix_cache *cache); /* forgets all entries; NULL is fine */
/* What a cache over `block_count` blocks allocates. */
size_t qn_prefix_cache_bytes(size_t block_count, size_t block_tokens);

/* The longest run of cached blocks from the front, at most `blocks`: keys[blocks], ids[blocks * block_tokens]; parent:
 * the key before keys[0]. out[0..result): the blocks, each with a new reference that is the caller's. */
size_t qn_prefix_find(qn_prefix_cache *cache, qn_hash parent, const qn_hash *keys, const int32_t *ids, size_t blocks,
                      int32_t *out);
/* The length of the same run, without references. *unreferenced: how many of its blocks nobody refers to, which are
 * those that finding them would take from qn_kv_pool_available. */
size_t qn_prefix_peek(const qn_prefix_cache *cache, qn_hash parent, const qn_hash *keys, const int32_t *ids,
                      size_t blocks, size_t *unreferenced);

/* A full block, computed and referenced by the caller and not in the cache yet, is kept and found from now on. Where
 * the same prefix is cached already, in another block, nothing happens. True: the prefix is cached now. False: its key
 * belongs to other tokens (a collision); nothing happened, and blocks behind this one must not be inserted, as they
 * would be found behind those other tokens. */
bool qn_prefix_insert(qn_prefix_cache *cache, qn_hash parent, qn_hash key, const int32_t *ids, int32_t block);

/* Removes all entries: unreferenced blocks are free, others are so when their last reference goes. */
void qn_prefix_clear(qn_prefix_cache *cache);
size_t qn_prefix_count(const qn_prefix_cache *cache); /* entries */

#endif
