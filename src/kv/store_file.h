/* One stored KV block as a file: written whole or not at all, read and checked. Any thread; one write at a time. */
#ifndef QN_KV_STORE_FILE_H
#define QN_KV_STORE_FILE_H

#include <stdint.h>

#include "kv/store_header.h"

/* Names in a store's folder. A block lies in a folder of the first two digits of its id: "ab/ab...(32 digits).kv". */
#define QN_KV_LOCK_NAME "quern-kv.lock"
#define QN_KV_TEMPORARY_NAME "quern-kv.tmp"
#define QN_KV_BLOCK_SUFFIX ".kv"

/* "dir/ab/ab....kv" to be released with qn_free; NULL when out of memory. */
char *qn_kv_file_path(const char *dir, qn_hash id);

/* Writes block [block_bytes] under the temporary name, dates it and renames it. header: all but the payload's checksum.
 * buffer: qn_direct_buffer_new of the file's bytes. What fails leaves neither file. */
qn_status qn_kv_file_write(const char *dir, const qn_kv_header *header, const int32_t *ids, const uint8_t *block,
                           int64_t recency_ns, uint8_t *buffer, qn_error *err);

/* Reads the file of header's id into buffer (qn_direct_buffer_new of qn_direct_buffer_bytes of the file's bytes),
 * checks every byte of it and that it is of this header and ids, and only then copies the block. QN_BAD_INPUT: the file
 * is of no use and may go; QN_RESOURCE: it could not be opened for want of something. */
qn_status qn_kv_file_read(const char *dir, const qn_kv_header *header, const int32_t *ids, uint8_t *buffer,
                          uint8_t *block, qn_error *err);

/* Sets the file's modification time; a failure only costs the order of eviction after a restart. */
void qn_kv_file_date(const char *dir, qn_hash id, int64_t recency_ns);

/* True when the file is gone, also when it was before. */
bool qn_kv_file_remove(const char *dir, qn_hash id, qn_error *err);

#endif
