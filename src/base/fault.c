/* The counters of the fault injector. They are the one process-wide state of base: the wrappers that ask have no
 * context to carry it in, and a test that arms a point owns the whole process while it runs. */
#include "base/fault.h"

#include <stdatomic.h>

static atomic_bool armed;
static atomic_long failing[QN_FAULT_KINDS]; /* the call that fails; 0: none */
static atomic_bool lasting[QN_FAULT_KINDS]; /* and those behind it */
static atomic_long seen[QN_FAULT_KINDS];

static void arm(qn_fault_kind kind, long nth, bool lasts)
{
    atomic_store(&seen[kind], 0);
    atomic_store(&lasting[kind], lasts);
    atomic_store(&failing[kind], nth);
    atomic_store(&armed, true);
}

void qn_fault_arm(qn_fault_kind kind, long nth)
{
    arm(kind, nth, false);
}

void qn_fault_arm_from(qn_fault_kind kind, long nth)
{
    arm(kind, nth, true);
}

void qn_fault_disarm(void)
{
    atomic_store(&armed, false);
    for (int kind = 0; kind < QN_FAULT_KINDS; kind++)
        atomic_store(&failing[kind], 0);
}

long qn_fault_seen(qn_fault_kind kind)
{
    return atomic_load(&seen[kind]);
}

bool qn_fault_hit(qn_fault_kind kind)
{
    if (!atomic_load_explicit(&armed, memory_order_relaxed))
        return false;
    long nth = atomic_load(&failing[kind]), now = atomic_fetch_add(&seen[kind], 1) + 1;
    return now == nth || (nth > 0 && now > nth && atomic_load(&lasting[kind]));
}
