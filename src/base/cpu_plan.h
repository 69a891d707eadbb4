/* Which CPU each thread that computes is bound to: a choice from a description of the machine, and nothing else.
 *
 * By cores: thread i gets the i-th core that the process may use, and of it the first CPU that it may use. Cores are
 * counted as hwloc orders them, by where they are: those of a NUMA node follow each other, so threads that are fewer
 * than cores share as few nodes as can be. Where the system tells of no cores, or of none that
 * the process may use, each CPU counts as one.
 *
 * By a list: thread i gets the i-th CPU of the list, in ascending order. */
#ifndef QN_BASE_CPU_PLAN_H
#define QN_BASE_CPU_PLAN_H

#include <hwloc.h>
#include <stddef.h>

#include "base/error.h"

/* Released by qn_cpu_plan_free; start from {0}. */
typedef struct qn_cpu_plan {
    size_t threads; /* that compute: as many as asked for, or as many as suit */
    size_t most;    /* that could be bound */
    unsigned *cpu;  /* [threads]: the system's number of each one's CPU; NULL: threads are not bound */
} qn_cpu_plan;

/* threads: 0: one a core, no more than `quota` (base/control_group.h). More than that, and none is bound. `allowed`
 * holds the CPUs that the process may use, one at least. QN_RESOURCE: out of memory. */
qn_status qn_cpu_plan_cores(hwloc_topology_t topology, hwloc_const_cpuset_t allowed, size_t quota, size_t threads,
                            qn_cpu_plan *out, qn_error *err);

/* list: "0-3,8". threads: 0: one a CPU of the list, no more than `quota`. QN_USAGE, with field "cpu-binding": no list,
 * CPUs that are not among the allowed, or fewer of them than threads. */
qn_status qn_cpu_plan_list(const char *list, hwloc_const_cpuset_t allowed, size_t quota, size_t threads,
                           qn_cpu_plan *out, qn_error *err);

void qn_cpu_plan_free(qn_cpu_plan *plan);

#endif
