/* The head of a stored KV block's file. All numbers are little-endian.
 *
 *   0   "quernKV1"
 *   8   checksum [16]: XXH3-128 of the header from byte 24 to its end
 *   24  header_bytes, block_bytes, block_tokens [8 each]
 *   48  fingerprint, parent, key, payload checksum [16 each]; a hash is its low half, then its high one
 *   112 ids [block_tokens, int32]
 *   ..  zeros up to header_bytes, the next multiple of 4096
 *
 * Behind it the payload: the block, with zeros up to a multiple of 4096, so that files are read and written past the
 * page cache. The payload's checksum covers those too: together with the header's, every byte of a file is checked. */
#ifndef QN_KV_STORE_HEADER_H
#define QN_KV_STORE_HEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/hash.h"

enum { QN_KV_FILE_ALIGNMENT = 4096, QN_KV_FILE_MAX_TOKENS = 1024, QN_KV_HEADER_MAX_BYTES = 2 * QN_KV_FILE_ALIGNMENT };

typedef struct qn_kv_header {
    size_t block_bytes, block_tokens;
    qn_hash fingerprint, parent, key, payload_checksum;
} qn_kv_header;

size_t qn_kv_header_bytes(size_t block_tokens);
size_t qn_kv_payload_bytes(size_t block_bytes);

/* Both of these added; false when sizes are beyond what a file may have (1..1024 tokens, up to 1 TiB). */
bool qn_kv_file_bytes(size_t block_bytes, size_t block_tokens, size_t *out);

/* out [qn_kv_header_bytes]. */
void qn_kv_header_encode(const qn_kv_header *header, const int32_t *ids, uint8_t *out);

/* Reads the head of a file from its first `bytes` bytes; `name` is for the error, QN_BAD_INPUT, in whatever way they
 * are not a header. Nothing is said of the payload. */
qn_status qn_kv_header_parse(const uint8_t *data, size_t bytes, const char *name, qn_kv_header *out, qn_error *err);

/* Whether the header that was parsed from data carries these ids [block_tokens]. */
bool qn_kv_header_has_ids(const uint8_t *data, const int32_t *ids, size_t block_tokens);

/* What a file is named by: key, fingerprint and sizes in one, so that blocks of different models never meet. The
 * parent's file has the id of the same header with the parent's key. */
qn_hash qn_kv_header_id(const qn_kv_header *header);
qn_hash qn_kv_header_parent_id(const qn_kv_header *header);

#endif
