/* The checksum comes first so that it can cover the rest in one piece; what lies before it is compared to the only
 * values that it may have. */
#include "kv/store_header.h"

#include <string.h>

#include "base/size.h"

enum {
    MAGIC_BYTES = 8,
    AT_CHECKSUM = 8,
    AT_HEADER_BYTES = 24,
    AT_BLOCK_BYTES = 32,
    AT_BLOCK_TOKENS = 40,
    AT_FINGERPRINT = 48,
    AT_PARENT = 64,
    AT_KEY = 80,
    AT_PAYLOAD_CHECKSUM = 96,
    AT_IDS = 112,
    ID_INPUT_BYTES = 48
};
static const char MAGIC[MAGIC_BYTES + 1] = "quernKV1";
static const uint64_t MAX_BLOCK_BYTES = (uint64_t)1 << 40;

static void put(uint8_t *at, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t get(const uint8_t *at, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
}

static void put_hash(uint8_t *at, qn_hash hash)
{
    put(at, hash.low, 8);
    put(at + 8, hash.high, 8);
}

static qn_hash get_hash(const uint8_t *at)
{
    return (qn_hash){.low = get(at, 8), .high = get(at + 8, 8)};
}

size_t qn_kv_header_bytes(size_t block_tokens)
{
    return qn_ceil_div(AT_IDS + 4 * block_tokens, QN_KV_FILE_ALIGNMENT) * QN_KV_FILE_ALIGNMENT;
}

size_t qn_kv_payload_bytes(size_t block_bytes)
{
    return qn_ceil_div(block_bytes, QN_KV_FILE_ALIGNMENT) * QN_KV_FILE_ALIGNMENT;
}

bool qn_kv_file_bytes(size_t block_bytes, size_t block_tokens, size_t *out)
{
    if (block_bytes < 1 || block_bytes > MAX_BLOCK_BYTES || block_tokens < 1 || block_tokens > QN_KV_FILE_MAX_TOKENS)
        return false;
    *out = qn_kv_header_bytes(block_tokens) + qn_kv_payload_bytes(block_bytes);
    return true;
}

void qn_kv_header_encode(const qn_kv_header *header, const int32_t *ids, uint8_t *out)
{
    size_t bytes = qn_kv_header_bytes(header->block_tokens);
    memset(out, 0, bytes);
    memcpy(out, MAGIC, MAGIC_BYTES);
    put(out + AT_HEADER_BYTES, bytes, 8);
    put(out + AT_BLOCK_BYTES, header->block_bytes, 8);
    put(out + AT_BLOCK_TOKENS, header->block_tokens, 8);
    put_hash(out + AT_FINGERPRINT, header->fingerprint);
    put_hash(out + AT_PARENT, header->parent);
    put_hash(out + AT_KEY, header->key);
    put_hash(out + AT_PAYLOAD_CHECKSUM, header->payload_checksum);
    for (size_t i = 0; i < header->block_tokens; i++)
        put(out + AT_IDS + 4 * i, (uint32_t)ids[i], 4);
    put_hash(out + AT_CHECKSUM, qn_hash_bytes(out + AT_HEADER_BYTES, bytes - AT_HEADER_BYTES));
}

static qn_status fail_damaged(qn_error *err, const char *name, const char *reason)
{
    return qn_fail(err, QN_BAD_INPUT, "%s: %s: its block is computed again", name, reason);
}

qn_status qn_kv_header_parse(const uint8_t *data, size_t bytes, const char *name, qn_kv_header *out, qn_error *err)
{
    if (bytes < AT_IDS)
        return fail_damaged(err, name, "ends inside of its header");
    if (memcmp(data, MAGIC, MAGIC_BYTES - 1) != 0)
        return fail_damaged(err, name, "is no KV block");
    if (data[MAGIC_BYTES - 1] != (uint8_t)MAGIC[MAGIC_BYTES - 1])
        return fail_damaged(err, name, "is a KV block in the format of another version of quern");
    uint64_t header_bytes = get(data + AT_HEADER_BYTES, 8), block_bytes = get(data + AT_BLOCK_BYTES, 8);
    uint64_t block_tokens = get(data + AT_BLOCK_TOKENS, 8);
    size_t file_bytes;
    if (!qn_kv_file_bytes(block_bytes, block_tokens, &file_bytes) || header_bytes != qn_kv_header_bytes(block_tokens))
        return fail_damaged(err, name, "tells sizes that no KV block has");
    if (bytes < header_bytes)
        return fail_damaged(err, name, "ends inside of its header");
    qn_hash checksum = qn_hash_bytes(data + AT_HEADER_BYTES, header_bytes - AT_HEADER_BYTES);
    if (!qn_hash_equal(checksum, get_hash(data + AT_CHECKSUM)))
        return fail_damaged(err, name, "is damaged (checksum of the header)");
    *out = (qn_kv_header){.block_bytes = block_bytes,
                          .block_tokens = block_tokens,
                          .fingerprint = get_hash(data + AT_FINGERPRINT),
                          .parent = get_hash(data + AT_PARENT),
                          .key = get_hash(data + AT_KEY),
                          .payload_checksum = get_hash(data + AT_PAYLOAD_CHECKSUM)};
    return QN_OK;
}

bool qn_kv_header_has_ids(const uint8_t *data, const int32_t *ids, size_t block_tokens)
{
    for (size_t i = 0; i < block_tokens; i++) {
        if (get(data + AT_IDS + 4 * i, 4) != (uint32_t)ids[i])
            return false;
    }
    return true;
}

static qn_hash id_of(const qn_kv_header *header, qn_hash key)
{
    uint8_t input[ID_INPUT_BYTES];
    put_hash(input, key);
    put_hash(input + 16, header->fingerprint);
    put(input + 32, header->block_bytes, 8);
    put(input + 40, header->block_tokens, 8);
    return qn_hash_bytes(input, sizeof input);
}

qn_hash qn_kv_header_id(const qn_kv_header *header)
{
    return id_of(header, header->key);
}

qn_hash qn_kv_header_parent_id(const qn_kv_header *header)
{
    return id_of(header, header->parent);
}
