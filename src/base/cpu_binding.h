/* Binding of the threads that compute to CPUs of this machine, read by hwloc.
 *
 *   "none"    the system places the threads, and moves them as it sees fit
 *   "auto"    each thread has a core of its own, NUMA node by node (base/cpu_plan.h); where there are more threads than
 *             cores, or than the quota of the control group pays for, a line tells that they are not bound
 *   "0-3,8"   each thread has a CPU of this list
 *
 * Binding keeps two threads off the two CPUs of one core while another core is idle, and keeps each at its caches and
 * its node's memory. It is not the default, as it can hurt wherever anything else computes on the machine: a loop ends
 * when its last thread does, and one that is bound waits for its CPU, a time slice of milliseconds, while another CPU
 * may be free; and two processes that bind by themselves choose the same cores. What it gains was not measured on
 * machines where it should.
 *
 * Only the threads that it is asked for are ever bound, from the moment that they are: no other inherits it. Whoever
 * makes a binding decides what is allowed: the CPUs that its thread may use then. */
#ifndef QN_BASE_CPU_BINDING_H
#define QN_BASE_CPU_BINDING_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct hwloc_bitmap_s; /* hwloc.h brings much along that readers of this have no use for */

typedef struct qn_cpu_binding qn_cpu_binding;

/* how: as above; NULL: "none". threads: that are to compute; 0: as many as suit. A line tells what was chosen, but for
 * "none". The calling thread is bound for a moment, to see whether it can be. QN_USAGE with field "cpu-binding": no
 * such way, a list of CPUs that this process may not use, or fewer CPUs than threads. QN_RESOURCE: out of memory, or
 * the system (a container's filter of its calls) lets no thread be bound. */
qn_status qn_cpu_binding_new(const char *how, size_t threads, qn_cpu_binding **out, qn_error *err);
void qn_cpu_binding_free(qn_cpu_binding *binding); /* NULL is fine */

/* How many threads are to compute; 0: not chosen here. */
size_t qn_cpu_binding_threads(const qn_cpu_binding *binding);

/* The CPUs that compute: those that threads are bound to, else all that this thread may use, into `out`. QN_RESOURCE.
 */
qn_status qn_cpu_binding_cpus(const qn_cpu_binding *binding, struct hwloc_bitmap_s *out, qn_error *err);

/* Binds a thread, thread number `worker` of those that compute; does nothing where none are bound. False, with a line:
 * the system refuses (since it let the binding be made, a CPU has gone); the thread goes on where it was. Any thread.
 * In tests, counts as an allocation that may fail (base/fault.h). */
bool qn_cpu_binding_bind(const qn_cpu_binding *binding, size_t worker, pthread_t thread);

/* Lets a thread that was bound run on all CPUs that are allowed. */
void qn_cpu_binding_release(const qn_cpu_binding *binding, pthread_t thread);

#endif
