/* What the system tells in /proc and /sys. A file that is not there says nothing, and is no error: the smallest of what
 * is told counts. */
#include "base/system_memory.h"

#include <stdint.h>
#include <stdio.h>

#include "base/control_group.h"
#include "base/size.h"

enum { PATH_BYTES = 4096 };

/* What one control group leaves, or SIZE_MAX. Pages of files that nobody uses at the moment count as free. */
static size_t group_available(const char *directory, const char *limit_file, const char *usage_file,
                              const char *inactive_key)
{
    size_t limit = qn_system_number(directory, limit_file, "");
    size_t usage = qn_system_number(directory, usage_file, "");
    if (limit == SIZE_MAX || usage == SIZE_MAX) {
        return SIZE_MAX;
    }
    size_t inactive = qn_system_number(directory, "memory.stat", inactive_key);
    usage -= inactive == SIZE_MAX || inactive > usage ? 0 : inactive;
    return limit > usage ? limit - usage : 0;
}

static void take_smallest(void *context, const char *directory, bool second_version)
{
    size_t *available = context;
    size_t here = second_version ? group_available(directory, "memory.max", "memory.current", "inactive_file ")
                                 : group_available(directory, "memory.limit_in_bytes", "memory.usage_in_bytes",
                                                   "total_inactive_file ");
    *available = qn_min_size(*available, here);
}

size_t qn_memory_available(const char *root)
{
    char proc[PATH_BYTES];
    if ((size_t)snprintf(proc, sizeof proc, "%s/proc", root) >= sizeof proc) {
        return 0;
    }
    size_t kibibytes = qn_system_number(proc, "meminfo", "MemAvailable:");
    size_t available = kibibytes == SIZE_MAX || kibibytes > SIZE_MAX / 1024 ? SIZE_MAX : kibibytes * 1024;
    qn_control_groups_visit(root, "memory", take_smallest, &available);
    return available == SIZE_MAX ? 0 : available;
}
