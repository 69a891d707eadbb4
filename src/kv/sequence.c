/* A sequence's block table: slots to addresses, and blocks taken and given back as the sequence grows and shrinks. */
#include "kv/sequence.h"

#include <assert.h>

#include "base/memory.h"
#include "base/size.h"

static size_t blocks_of(const qn_kv_pool *pool, size_t tokens)
{
    return qn_ceil_div(tokens, qn_kv_pool_layout(pool)->block_tokens);
}

qn_status qn_kv_sequence_init(qn_kv_sequence *sequence, qn_kv_pool *pool, size_t max_tokens, qn_error *err)
{
    size_t max_blocks = blocks_of(pool, max_tokens), block_count = qn_kv_pool_block_count(pool);
    if (max_blocks > block_count)
        return qn_fail(err, QN_USAGE, "sequence of %zu tokens: the KV cache holds %zu: make the cache larger",
                       max_tokens, block_count * qn_kv_pool_layout(pool)->block_tokens);
    int32_t *blocks = qn_alloc(max_blocks, sizeof *blocks);
    if (!blocks)
        return qn_fail_memory(err, "block table of a sequence", max_blocks * sizeof *blocks);
    *sequence = (qn_kv_sequence){.pool = pool, .blocks = blocks, .max_blocks = max_blocks};
    return QN_OK;
}

void qn_kv_sequence_free(qn_kv_sequence *sequence)
{
    qn_kv_sequence_truncate(sequence, 0);
    qn_free(sequence->blocks);
    *sequence = (qn_kv_sequence){0};
}

void qn_kv_sequence_adopt(qn_kv_sequence *sequence, const int32_t *blocks, size_t count)
{
    assert(sequence->block_count == 0 && count <= sequence->max_blocks);
    for (size_t i = 0; i < count; i++)
        sequence->blocks[i] = blocks[i];
    sequence->block_count = count;
}

qn_status qn_kv_sequence_reserve(qn_kv_sequence *sequence, size_t tokens, qn_error *err)
{
    size_t wanted = blocks_of(sequence->pool, tokens);
    if (wanted > sequence->max_blocks)
        return qn_fail(err, QN_USAGE, "sequence: %zu tokens: its cache was opened for %zu", tokens,
                       sequence->max_blocks * qn_kv_pool_layout(sequence->pool)->block_tokens);
    if (wanted <= sequence->block_count)
        return QN_OK;
    qn_status status = qn_kv_pool_require(sequence->pool, wanted - sequence->block_count, err);
    while (status == QN_OK && sequence->block_count < wanted) {
        status = qn_kv_pool_take(sequence->pool, &sequence->blocks[sequence->block_count], err);
        sequence->block_count += status == QN_OK;
    }
    return status;
}

void qn_kv_sequence_truncate(qn_kv_sequence *sequence, size_t tokens)
{
    if (sequence->block_count == 0)
        return;
    size_t kept = blocks_of(sequence->pool, tokens);
    while (sequence->block_count > kept)
        qn_kv_pool_release(sequence->pool, sequence->blocks[--sequence->block_count]);
}

static uint8_t *row_in_block(const qn_kv_sequence *sequence, size_t slot, size_t offset, size_t width)
{
    const qn_kv_layout *layout = qn_kv_pool_layout(sequence->pool);
    size_t block = slot / layout->block_tokens;
    assert(block < sequence->block_count);
    return qn_kv_pool_block(sequence->pool, sequence->blocks[block]) + offset +
           slot % layout->block_tokens * width * (qn_dtype_bits(layout->dtype) / 8);
}

uint8_t *qn_kv_latent_row(const qn_kv_sequence *sequence, size_t layer, size_t slot)
{
    const qn_kv_layout *layout = qn_kv_pool_layout(sequence->pool);
    return row_in_block(sequence, slot, layout->latent_offset[layer], layout->latent_width);
}

uint8_t *qn_kv_index_row(const qn_kv_sequence *sequence, size_t layer, size_t slot)
{
    const qn_kv_layout *layout = qn_kv_pool_layout(sequence->pool);
    assert(layout->index_offset[layer] != SIZE_MAX);
    return row_in_block(sequence, slot, layout->index_offset[layer], layout->index_width);
}

void qn_kv_latent_rows(const qn_kv_sequence *sequence, size_t layer, size_t first_slot, const int32_t *positions,
                       size_t count, const void **rows)
{
    const qn_kv_layout *layout = qn_kv_pool_layout(sequence->pool);
    size_t row_bytes = layout->latent_width * (qn_dtype_bits(layout->dtype) / 8), mask = layout->block_tokens - 1;
    unsigned shift = (unsigned)__builtin_ctzll(layout->block_tokens);
    const uint8_t *region = qn_kv_pool_block(sequence->pool, 0) + layout->latent_offset[layer];
    for (size_t i = 0; i < count; i++) {
        size_t slot = first_slot + (positions ? (size_t)positions[i] : i);
        assert(slot >> shift < sequence->block_count);
        rows[i] = region + (size_t)sequence->blocks[slot >> shift] * layout->block_bytes + (slot & mask) * row_bytes;
    }
}
