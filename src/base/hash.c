/* The state's definition is asked of xxhash's header, so that it comes from quern's own allocator. */
#include "base/hash.h"

#include <inttypes.h>
#include <stdio.h>

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include "base/memory.h"

struct qn_hasher {
    XXH3_state_t state;
};

static qn_hash from_library(XXH128_hash_t hash)
{
    return (qn_hash){.high = hash.high64, .low = hash.low64};
}

qn_hash qn_hash_bytes(const void *data, size_t bytes)
{
    return from_library(XXH3_128bits(data, bytes));
}

bool qn_hash_equal(qn_hash a, qn_hash b)
{
    return a.high == b.high && a.low == b.low;
}

const char *qn_hash_text(qn_hash hash, char out[QN_HASH_TEXT_BYTES])
{
    snprintf(out, QN_HASH_TEXT_BYTES, "%016" PRIx64 "%016" PRIx64, hash.high, hash.low);
    return out;
}

bool qn_hash_parse(const char *text, size_t bytes, qn_hash *out)
{
    if (bytes != QN_HASH_TEXT_BYTES - 1)
        return false;
    uint64_t halves[2] = {0, 0};
    for (size_t i = 0; i < bytes; i++) {
        char c = text[i];
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
            return false;
        unsigned digit = c <= '9' ? (unsigned)(c - '0') : (unsigned)(c - 'a') + 10;
        halves[i / 16] = halves[i / 16] << 4 | digit;
    }
    *out = (qn_hash){.high = halves[0], .low = halves[1]};
    return true;
}

qn_hasher *qn_hasher_new(void)
{
    qn_hasher *hasher = qn_alloc_aligned(1, sizeof *hasher); /* the state asks for 64 bytes */
    if (hasher)
        qn_hasher_reset(hasher);
    return hasher;
}

void qn_hasher_free(qn_hasher *hasher)
{
    qn_free(hasher);
}

void qn_hasher_reset(qn_hasher *hasher)
{
    XXH3_INITSTATE(&hasher->state);
    (void)XXH3_128bits_reset(&hasher->state); /* fails for NULL only, as update does */
}

void qn_hasher_update(qn_hasher *hasher, const void *data, size_t bytes)
{
    if (bytes > 0)
        (void)XXH3_128bits_update(&hasher->state, data, bytes);
}

qn_hash qn_hasher_finish(const qn_hasher *hasher)
{
    return from_library(XXH3_128bits_digest(&hasher->state));
}
