/* Fault injection for tests: make the n-th allocation, read or write fail.
 *
 * Off by default and then one relaxed atomic load per call. The counters are process-wide; a test arms a
 * point, runs the code once, and disarms. qn_fault_seen tells how many calls of the kind were made since
 * arming, so that a test can walk n = 1, 2, ... until nothing fails any more. */
#ifndef QN_BASE_FAULT_H
#define QN_BASE_FAULT_H

#include <stdbool.h>

typedef enum qn_fault_kind { QN_FAULT_ALLOC, QN_FAULT_READ, QN_FAULT_WRITE, QN_FAULT_KINDS } qn_fault_kind;

void qn_fault_arm(qn_fault_kind kind, long nth);      /* nth >= 1: that call from now on fails, once */
void qn_fault_arm_from(qn_fault_kind kind, long nth); /* that call and all behind it */
void qn_fault_disarm(void);
long qn_fault_seen(qn_fault_kind kind);

/* Called by base's own wrappers at each fallible operation: true means "pretend it failed". */
bool qn_fault_hit(qn_fault_kind kind);

#endif
