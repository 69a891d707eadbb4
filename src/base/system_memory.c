/* What the system tells in /proc and /sys. A file that is not there says nothing, and is no error: the smallest of what
 * is told counts. */
#include "base/system_memory.h"

#include <stdint.h>
#include <stdio.h>

#include "base/control_group.h"
#include "base/memory.h"
#include "base/size.h"

enum { PATH_BYTES = 4096 };

/* Bytes of the group's files that the system has in memory: it drops them, those used of late too, when the group comes
 * to its limit (MemAvailable counts them as well). Files in memory alone (tmpfs) are not among them. */
static size_t droppable(const char *directory, const char *inactive_key, const char *active_key)
{
    size_t inactive = qn_system_number(directory, "memory.stat", inactive_key), all;
    size_t active = qn_system_number(directory, "memory.stat", active_key);
    return qn_size_add(inactive == SIZE_MAX ? 0 : inactive, active == SIZE_MAX ? 0 : active, &all) ? all : SIZE_MAX;
}

/* What one control group leaves, or SIZE_MAX. */
static size_t group_available(const char *directory, const char *limit_file, const char *usage_file,
                              const char *inactive_key, const char *active_key)
{
    size_t limit = qn_system_number(directory, limit_file, "");
    size_t usage = qn_system_number(directory, usage_file, "");
    if (limit == SIZE_MAX || usage == SIZE_MAX) {
        return SIZE_MAX;
    }
    usage -= qn_min_size(usage, droppable(directory, inactive_key, active_key));
    return limit > usage ? limit - usage : 0;
}

static void take_smallest(void *context, const char *directory, bool second_version)
{
    size_t *available = context;
    size_t here = second_version
                      ? group_available(directory, "memory.max", "memory.current", "inactive_file ", "active_file ")
                      : group_available(directory, "memory.limit_in_bytes", "memory.usage_in_bytes",
                                        "total_inactive_file ", "total_active_file ");
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
