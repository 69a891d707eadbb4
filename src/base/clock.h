/* Time: a monotonic clock for measuring, and Unix seconds for `created` fields. */
#ifndef QN_BASE_CLOCK_H
#define QN_BASE_CLOCK_H

#include <stddef.h>
#include <stdint.h>

uint64_t qn_now_us(void);
uint64_t qn_now_ns(void);
uint64_t qn_thread_ns(void); /* time that this thread has run: what others do on the machine hardly shows in it */
int64_t qn_unix_seconds(void);

double qn_per_second(size_t count, uint64_t us); /* 0 when no time went by */

#endif
