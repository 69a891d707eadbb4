/* Large memory in large pages: an anonymous mapping for which 2 MiB pages are asked.
 *
 * Streaming through memory of 4 KiB pages is a quarter slower on common machines. The system may refuse large pages, or
 * have none free: qn_huge_memory_in_huge_pages tells what was got. Pages come into being, zeroed, when they are first
 * touched; any thread may use the memory. */
#ifndef QN_BASE_HUGE_MEMORY_H
#define QN_BASE_HUGE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { QN_HUGE_PAGE_BYTES = 2 << 20 };

/* Start from {0}. */
typedef struct qn_huge_memory {
    uint8_t *data; /* aligned to QN_HUGE_PAGE_BYTES */
    size_t bytes;
    void *mapping; /* what lies around it */
    size_t mapping_bytes;
} qn_huge_memory;

/* huge: 2 MiB pages are asked for, else refused. QN_RESOURCE, with `what` in its sentence. In tests, counts as an
 * allocation that may fail (base/fault.h). */
qn_status qn_huge_memory_new(size_t bytes, bool huge, const char *what, qn_huge_memory *out, qn_error *err);
void qn_huge_memory_free(qn_huge_memory *memory); /* {0} is fine */

/* How many bytes lie in 2 MiB pages by now, as /proc/self/smaps has it; 0 where the system does not tell. */
size_t qn_huge_memory_in_huge_pages(const qn_huge_memory *memory);

#endif
