/* Reading large files once, past the page cache.
 *
 * A file that is read once at the speed of its disk has no use for the page cache: O_DIRECT saves the copy and leaves
 * the memory to others. Where the file system refuses it (tmpfs, some network ones) reads go through the cache and drop
 * their pages behind them, and qn_direct_reader_is_buffered says so, for the caller to tell once. Never maps: a file
 * that was cut off or has vanished is an error that names it, not a SIGBUS.
 *
 * One reader may be used by several threads at once, each with buffers of its own. */
#ifndef QN_BASE_DIRECT_READER_H
#define QN_BASE_DIRECT_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/file.h"

/* Requests start and end at multiples of this, whatever the block size of the disk. */
enum { QN_DIRECT_ALIGNMENT = 4096 };

typedef struct qn_direct_reader qn_direct_reader;

/* Refuses what is not a regular file (QN_BAD_INPUT). */
qn_status qn_direct_reader_open(const char *path, qn_direct_reader **out, qn_error *err);
void qn_direct_reader_close(qn_direct_reader *reader); /* NULL is fine */

const char *qn_direct_reader_path(const qn_direct_reader *reader);
int qn_direct_reader_descriptor(const qn_direct_reader *reader); /* for reads by other means; stays the reader's */
uint64_t qn_direct_reader_bytes(const qn_direct_reader *reader); /* size at open */
const qn_file_identity *qn_direct_reader_identity(const qn_direct_reader *reader); /* at open */
bool qn_direct_reader_is_buffered(const qn_direct_reader *reader);

/* What a buffer must have for reads of up to `bytes` bytes at any offset. */
size_t qn_direct_buffer_bytes(size_t bytes);
/* Such a buffer, aligned; released with qn_direct_buffer_free. NULL when out of memory. */
void *qn_direct_buffer_new(size_t buffer_bytes);
void qn_direct_buffer_free(void *buffer, size_t buffer_bytes); /* NULL is fine */

/* A request for bytes [offset, offset + bytes) is widened to whole blocks: so many bytes come before, and so many are
 * asked for in all. */
size_t qn_direct_bytes_before(uint64_t offset);
size_t qn_direct_widened(uint64_t offset, size_t bytes);

/* QN_BAD_INPUT: the file ends at this byte, before what was to be read. */
qn_status qn_direct_fail_cut_off(const qn_direct_reader *reader, uint64_t end, qn_error *err);

/* Reads bytes [offset, offset + bytes) into `buffer`; *data points at the first of them, inside of it. A file that ends
 * before: QN_BAD_INPUT, with its name. A failing read: QN_RESOURCE. */
qn_status qn_direct_read(qn_direct_reader *reader, uint64_t offset, size_t bytes, void *buffer, const uint8_t **data,
                         qn_error *err);

/* The page cache need not keep this range of the file, as far as it has it: for files that are also mapped. */
void qn_direct_reader_drop(const qn_direct_reader *reader, uint64_t offset, uint64_t bytes);

#endif
