/* How amounts are written for people. */
#ifndef QN_BASE_AMOUNTS_H
#define QN_BASE_AMOUNTS_H

#include <stddef.h>
#include <stdint.h>

enum { QN_MEMORY_TEXT_BYTES = 32, QN_COUNT_TEXT_BYTES = 32 };

/* "12.3 GiB", "512 B"; text has room for QN_MEMORY_TEXT_BYTES. Returns text. */
const char *qn_memory_text(size_t bytes, char *text);

/* "753.3 B", "4.35 M", "12"; text has room for QN_COUNT_TEXT_BYTES. Returns text. */
const char *qn_count_text(uint64_t count, char *text);

#endif
