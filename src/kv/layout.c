/* Offsets of a block's regions: per layer the latent rows, then the indexer's keys, at last the hidden row, each region
 * rounded up to 64 bytes so that kernels meet aligned rows wherever a row's own size allows. */
#include "kv/layout.h"

#include <stdint.h>

#include "base/memory.h"

enum { MIN_BLOCK_TOKENS = 16, MAX_BLOCK_TOKENS = 1024, MAX_WIDTH = 1 << 20, REGION_ALIGNMENT = 64 };

/* *end grows by `rows` rows of `width` elements, rounded up; false on overflow. */
static bool add_region(size_t rows, size_t width, qn_dtype dtype, size_t *end)
{
    size_t bytes;
    return qn_size_mul(rows, width * (qn_dtype_bits(dtype) / 8), &bytes) &&
           qn_size_add(bytes, REGION_ALIGNMENT - 1, &bytes) &&
           qn_size_add(*end, bytes / REGION_ALIGNMENT * REGION_ALIGNMENT, end);
}

qn_status qn_kv_layout_make(qn_dtype dtype, size_t block_tokens, size_t layer_count, size_t latent_width,
                            size_t index_width, size_t hidden_width, const bool *has_indexer, qn_kv_layout *out,
                            qn_error *err)
{
    if (dtype != QN_DTYPE_BF16 && dtype != QN_DTYPE_F32)
        return qn_fail(err, QN_INTERNAL, "KV layout: rows of %s: only BF16 and F32 are stored", qn_dtype_name(dtype));
    if (block_tokens < MIN_BLOCK_TOKENS || block_tokens > MAX_BLOCK_TOKENS || (block_tokens & (block_tokens - 1)) != 0)
        return qn_fail(err, QN_USAGE, "--block-size: %zu tokens: use a power of two from %d to %d", block_tokens,
                       MIN_BLOCK_TOKENS, MAX_BLOCK_TOKENS);
    if (layer_count < 1 || layer_count > QN_KV_MAX_LAYERS)
        return qn_fail(err, QN_INTERNAL, "KV layout: %zu layers: 1 to %d are supported", layer_count, QN_KV_MAX_LAYERS);
    if (latent_width < 1 || latent_width > MAX_WIDTH || index_width < 1 || index_width > MAX_WIDTH)
        return qn_fail(err, QN_INTERNAL, "KV layout: rows of %zu and %zu values: 1 to %d are supported", latent_width,
                       index_width, MAX_WIDTH);
    if (hidden_width > MAX_WIDTH)
        return qn_fail(err, QN_INTERNAL, "KV layout: hidden rows of %zu values: at most %d are supported", hidden_width,
                       MAX_WIDTH);
    *out = (qn_kv_layout){.dtype = dtype,
                          .block_tokens = block_tokens,
                          .layer_count = layer_count,
                          .latent_width = latent_width,
                          .index_width = index_width,
                          .hidden_width = hidden_width,
                          .hidden_offset = SIZE_MAX};
    size_t end = 0;
    bool fits = true;
    for (size_t layer = 0; layer < layer_count; layer++) {
        out->latent_offset[layer] = end;
        fits = fits && add_region(block_tokens, latent_width, dtype, &end);
        out->index_offset[layer] = SIZE_MAX;
        if (has_indexer[layer]) {
            out->index_offset[layer] = end;
            fits = fits && add_region(block_tokens, index_width, dtype, &end);
        }
    }
    if (hidden_width > 0) {
        out->hidden_offset = end;
        fits = fits && add_region(1, hidden_width, QN_DTYPE_F32, &end);
    }
    fits = fits && qn_size_add(end, QN_KV_BLOCK_ALIGNMENT - 1, &end);
    if (!fits)
        return qn_fail(err, QN_RESOURCE, "KV layout: a block of %zu tokens is too large to address: use smaller blocks",
                       block_tokens);
    out->block_bytes = end / QN_KV_BLOCK_ALIGNMENT * QN_KV_BLOCK_ALIGNMENT;
    return QN_OK;
}
