/* Memory made resident before it is used, so that what starts does not run out of memory later. */
#ifndef QN_BASE_PREFAULT_H
#define QN_BASE_PREFAULT_H

#include <stddef.h>

#include "base/error.h"

/* Makes the pages of [start, start + bytes) resident and writable, in huge pages where the system gives some; what they
 * hold does not change. QN_RESOURCE, naming `what`, when the system has no memory for them. Any thread that owns the
 * memory. */
qn_status qn_prefault(void *start, size_t bytes, const char *what, qn_error *err);

/* The part of it for kernels that cannot populate memory (Linux before 5.14): writes one byte of each page. */
void qn_touch_pages(void *start, size_t bytes);

#endif
