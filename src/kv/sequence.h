/* One sequence's cache: a table of blocks. Slot s lies in block s / block_tokens.
 *
 * In decoder layers slot = position. In the MTP layer the entry of index i (which needs token i + 1) lies in slot i +
 * 1, so that what a block holds depends on its own chain of tokens alone (prefix reuse). Rows are written by the model;
 * forgetting rows (rejected drafts) needs nothing but writing the same slots again. */
#ifndef QN_KV_SEQUENCE_H
#define QN_KV_SEQUENCE_H

#include "kv/pool.h"

typedef struct qn_kv_sequence {
    qn_kv_pool *pool;
    int32_t *blocks; /* owned; capacity max_blocks, allocated at start */
    size_t block_count, max_blocks;
} qn_kv_sequence;

/* An empty sequence that may grow to max_tokens slots; QN_USAGE when the pool holds fewer. */
qn_status qn_kv_sequence_init(qn_kv_sequence *sequence, qn_kv_pool *pool, size_t max_tokens, qn_error *err);
void qn_kv_sequence_free(qn_kv_sequence *sequence); /* releases its blocks; {0} is fine */

/* An empty sequence takes over `count` blocks, the first slots in order, and the caller's reference to each. They fit
 * in max_tokens. */
void qn_kv_sequence_adopt(qn_kv_sequence *sequence, const int32_t *blocks, size_t count);
/* Takes blocks until slots [0, tokens) exist; on failure nothing is taken or evicted. QN_RESOURCE when
 * too few blocks are available, QN_USAGE past max_tokens. */
qn_status qn_kv_sequence_reserve(qn_kv_sequence *sequence, size_t tokens, qn_error *err);
/* Releases the blocks that no slot below `tokens` needs, the last ones first (kv/pool.h says why). */
void qn_kv_sequence_truncate(qn_kv_sequence *sequence, size_t tokens);

uint8_t *qn_kv_latent_row(const qn_kv_sequence *sequence, size_t layer, size_t slot);
uint8_t *qn_kv_index_row(const qn_kv_sequence *sequence, size_t layer, size_t slot);

/* rows[i] = the latent row of slot first_slot + positions[i]; positions NULL: of slot first_slot + i. */
void qn_kv_latent_rows(const qn_kv_sequence *sequence, size_t layer, size_t first_slot, const int32_t *positions,
                       size_t count, const void **rows);

#endif
