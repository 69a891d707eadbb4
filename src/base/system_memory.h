/* How much memory the system has for this process. */
#ifndef QN_BASE_SYSTEM_MEMORY_H
#define QN_BASE_SYSTEM_MEMORY_H

#include <stddef.h>

/* Bytes that this process may still take: the smaller of the system's MemAvailable and, for every control group (v1 and
 * v2) that the process is in, its limit less what it uses and can't drop: the page cache of files counts as free in
 * both. `root` is "" but in tests, where it stands before /proc and /sys. 0 when the system does not tell. */
size_t qn_memory_available(const char *root);

#endif
