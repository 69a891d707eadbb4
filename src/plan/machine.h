/* The machine that a plan is for: memory, NUMA nodes, the disk of a folder. */
#ifndef QN_PLAN_MACHINE_H
#define QN_PLAN_MACHINE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { QN_PLAN_MAX_NODES = 64 };

typedef struct qn_numa_node {
    unsigned id;
    size_t cpus;
    uint64_t total_bytes, free_bytes;
} qn_numa_node;

typedef struct qn_machine {
    uint64_t available_bytes; /* base/system_memory.h; 0: unknown */
    qn_numa_node node[QN_PLAN_MAX_NODES];
    size_t node_count; /* 0: the system does not tell; nodes without memory are left out */
} qn_machine;

/* `root` is "" but in tests, where it stands before /proc and /sys. Beyond QN_PLAN_MAX_NODES nodes are left out. */
void qn_machine_read(const char *root, qn_machine *out);

typedef struct qn_disk_space {
    uint64_t total_bytes, free_bytes; /* free: for this user */
} qn_disk_space;

qn_status qn_disk_space_of(const char *folder, qn_disk_space *out, qn_error *err);

#endif
