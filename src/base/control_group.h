/* The control groups that this process is in (cgroups v1 and v2), and the numbers that files of /proc and /sys tell. */
#ifndef QN_BASE_CONTROL_GROUP_H
#define QN_BASE_CONTROL_GROUP_H

#include <stdbool.h>
#include <stddef.h>

/* The number behind `key` at the start of a line of directory/name ("": the first line's), or SIZE_MAX. */
size_t qn_system_number(const char *directory, const char *name, const char *key);

typedef void (*qn_control_group_visitor)(void *context, const char *directory, bool second_version);

/* Visits the folder of the process's group of this controller ("memory", "cpu") and of each group above it, which
 * limits what is below. Not every folder need exist: inside a container, a group's path may not be there below the
 * mount point, which is visited all the same. `root` is "" but in tests, where it stands before /proc and /sys. */
void qn_control_groups_visit(const char *root, const char *controller, qn_control_group_visitor visit, void *context);

/* CPUs' worth of time that these groups let the process have, rounded down, at least 1; SIZE_MAX: no quota is told. */
size_t qn_cpu_quota(const char *root);

#endif
