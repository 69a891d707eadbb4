/* Where memory lies on machines of several NUMA nodes.
 *
 * Left alone, the system puts a page on the node of the thread that touches it first. Weights are touched by a few
 * threads that read files, and would fill one node, whose memory all threads then wait for while the others' is idle.
 * Interleaved, pages go round the nodes, and every thread reads from all of them at once.
 *
 * A policy is a thread's: pages that it touches first follow it, and threads that it starts begin with it; this
 * thread's own is set back at the end. So a load runs between qn_numa_begin and qn_numa_end, and threads that were not
 * started there, but touch first what the load left to them (blocks of a KV cache, pages of mapped files), join it.
 *
 *   AUTO        interleaves if the CPUs that compute are of more than one node, over the nodes that have some of them
 *               and whose memory the process may use. Where the system does not let it, a line says so
 *   OFF         leaves it to the system
 *   INTERLEAVE  over all nodes whose memory the process may use, those without CPUs too; an error where the system does
 *               not let it; with one node there is nothing to do, and a line says so
 *
 * A policy that the process was started with (numactl) is kept, with a line, however it is asked for. Nodes are read
 * from /proc/self/status and /sys/devices/system/node, which containers show, and not by a call that they forbid. */
#ifndef QN_BASE_NUMA_H
#define QN_BASE_NUMA_H

#include <stdbool.h>
#include <stddef.h>

#include "base/cpu_binding.h"
#include "base/error.h"

typedef enum qn_numa { QN_NUMA_AUTO, QN_NUMA_OFF, QN_NUMA_INTERLEAVE } qn_numa;

enum { QN_NUMA_MAX_NODES = 1024, QN_NUMA_MASK_WORDS = QN_NUMA_MAX_NODES / (8 * (int)sizeof(unsigned long)) };

/* What is asked of the system; other ones in tests, for machines of several nodes. */
typedef struct qn_numa_system {
    const char *root;                                            /* "", or what stands before /proc and /sys */
    int (*get_policy)(int *mode);                                /* of this thread; 0, or an errno */
    int (*set_policy)(int mode, const unsigned long *node_mask); /* [QN_NUMA_MASK_WORDS], or NULL; 0, or an errno */
} qn_numa_system;

/* Start from {0}: leaves memory to the system. */
typedef struct qn_numa_policy {
    const qn_numa_system *system;
    bool interleaves;
    unsigned long node_mask[QN_NUMA_MASK_WORDS];
} qn_numa_policy;

/* Chooses, tells it in a line on a machine of several nodes, and sets this thread's policy. binding: of the threads
 * that compute. system: NULL: the one that runs. QN_RESOURCE, with field "numa": INTERLEAVE, and the system does not
 * let it or does not tell its nodes; or out of memory. */
qn_status qn_numa_begin(qn_numa how, const qn_cpu_binding *binding, const qn_numa_system *system, qn_numa_policy *out,
                        qn_error *err);

/* Sets this thread's policy, as it had none before; and takes it off again. Do nothing where it is left to the system.
 */
void qn_numa_join(const qn_numa_policy *policy);
void qn_numa_end(const qn_numa_policy *policy);

#endif
