/* How much memory the system has for this process. */
#ifndef QN_BASE_SYSTEM_MEMORY_H
#define QN_BASE_SYSTEM_MEMORY_H

#include <stddef.h>

/* How much of what is available is planned with: a tenth stays free for the rest of the system and the process's own
 * small things. */
#define QN_USABLE_MEMORY_SHARE 0.9

/* Bytes that this process may still take: the smaller of the system's MemAvailable and, for every control group (v1 and
 * v2) that the process is in, its limit less what it uses and can't drop: the page cache of files counts as free in
 * both. `root` is "" but in tests, where it stands before /proc and /sys. 0 when the system does not tell. */
size_t qn_memory_available(const char *root);

#endif
