/* Where things lie in a KV block: a block holds `block_tokens` slots for every layer, contiguous, so that a block can
 * be shared, hashed and stored as one piece.
 *
 * Per layer: latent rows [block_tokens, latent_width] (c then RoPE'd k_r), and in layers with an indexer its keys
 * [block_tokens, index_width]; elements are BF16 or F32 (kernels' kv_dtype). Behind the layers, where hidden_width is
 * not 0, one float32 row [hidden_width]: the target's final norm at the block's last position. The MTP layer's entry in
 * the slot behind the block is made from it, so a sequence can go on behind blocks that another one computed.
 * Each region starts at a multiple of 64 bytes, and a block's size is a multiple of 4096: from an aligned start every
 * block can be read and written past the page cache. */
#ifndef QN_KV_LAYOUT_H
#define QN_KV_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/dtype.h"
#include "base/error.h"

enum { QN_KV_MAX_LAYERS = 1025, QN_KV_BLOCK_ALIGNMENT = 4096 };

typedef struct qn_kv_layout {
    qn_dtype dtype;
    size_t block_tokens, layer_count, latent_width, index_width, hidden_width;
    size_t latent_offset[QN_KV_MAX_LAYERS]; /* bytes from the block's start */
    size_t index_offset[QN_KV_MAX_LAYERS];  /* SIZE_MAX: the layer has no indexer */
    size_t hidden_offset;                   /* SIZE_MAX: no such row */
    size_t block_bytes;
} qn_kv_layout;

/* has_indexer[layer_count]; block_tokens a power of two, 16..1024 (else QN_USAGE); hidden_width 0: no such row. */
qn_status qn_kv_layout_make(qn_dtype dtype, size_t block_tokens, size_t layer_count, size_t latent_width,
                            size_t index_width, size_t hidden_width, const bool *has_indexer, qn_kv_layout *out,
                            qn_error *err);

#endif
