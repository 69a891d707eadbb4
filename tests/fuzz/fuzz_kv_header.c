/* room: kv */
/* covers: src/kv/store_header.c */
/* max_len: 8300 */

/* The head of a stored KV block from anywhere. The first byte tells what follows:
 *
 *   'r'   a file's first bytes as they are
 *   's'   the same, with zeros behind and a checksum made to fit, so that mutations reach what is behind that check
 *
 * What is taken must have sizes that fit its file, and come back the same from its own fields. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kv/store_header.h"

enum { CHECKSUM_AT = 8, BODY_AT = 24, TOKENS_AT = 40, IDS_AT = 112, LARGEST_IN_ONE_PAGE = 996 };

static void hold(int condition)
{
    if (!condition)
        abort();
}

static void come_back(const uint8_t *data, const qn_kv_header *header)
{
    int32_t ids[QN_KV_FILE_MAX_TOKENS];
    uint8_t again[QN_KV_HEADER_MAX_BYTES];
    size_t file_bytes = 0, header_bytes = qn_kv_header_bytes(header->block_tokens);
    hold(qn_kv_file_bytes(header->block_bytes, header->block_tokens, &file_bytes));
    hold(file_bytes == header_bytes + qn_kv_payload_bytes(header->block_bytes) && header_bytes <= sizeof again);
    memcpy(ids, data + IDS_AT, header->block_tokens * sizeof *ids);
    hold(qn_kv_header_has_ids(data, ids, header->block_tokens));
    qn_kv_header_encode(header, ids, again);
    /* what lies behind the ids need not be zeros */
    hold(memcmp(again + BODY_AT, data + BODY_AT, IDS_AT - BODY_AT + header->block_tokens * sizeof *ids) == 0);
    qn_hash id = qn_kv_header_id(header), parent_id = qn_kv_header_parent_id(header);
    hold(qn_hash_equal(id, parent_id) == qn_hash_equal(header->key, header->parent));
}

static void parse(const uint8_t *data, size_t bytes)
{
    qn_kv_header header;
    qn_error err = {0};
    qn_status status = qn_kv_header_parse(data, bytes, "f", &header, &err);
    if (status == QN_OK)
        come_back(data, &header);
    else
        hold(status == QN_BAD_INPUT && status == err.status && strncmp(err.message, "f: ", 3) == 0);
}

static void seal(uint8_t *data)
{
    uint64_t tokens;
    memcpy(&tokens, data + TOKENS_AT, sizeof tokens);
    size_t header_bytes = tokens > LARGEST_IN_ONE_PAGE ? QN_KV_HEADER_MAX_BYTES : QN_KV_FILE_ALIGNMENT;
    qn_hash hash = qn_hash_bytes(data + BODY_AT, header_bytes - BODY_AT);
    memcpy(data + CHECKSUM_AT, &hash.low, 8);
    memcpy(data + CHECKSUM_AT + 8, &hash.high, 8);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0)
        return 0;
    if (data[0] == 'r') {
        parse(data + 1, bytes - 1);
    } else if (data[0] == 's') {
        static uint8_t file[QN_KV_HEADER_MAX_BYTES];
        size_t given = bytes - 1 < sizeof file ? bytes - 1 : sizeof file;
        memset(file, 0, sizeof file);
        memcpy(file, data + 1, given);
        seal(file);
        parse(file, sizeof file);
    }
    return 0;
}
