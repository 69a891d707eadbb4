/* The counters of the fault injector. They are the one process-wide state of base: the wrappers that ask have no
 * context to carry it in, and a test that arms a point owns the whole process while it runs. */
#include "base/fault.h"

#include <stdatomic.h>

static atomic_bool armed;
static atomic_long failing[QN_FAULT_KINDS]; /* the call that fails; 0: none */
static atomic_long seen[QN_FAULT_KINDS];

void qn_fault_arm(qn_fault_kind kind, long nth)
{
    atomic_store(&seen[kind], 0);
    atomic_store(&failing[kind], nth);
    atomic_store(&armed, true);
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
    return atomic_fetch_add(&seen[kind], 1) + 1 == atomic_load(&failing[kind]);
}
