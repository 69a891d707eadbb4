/* Time: a monotonic microsecond clock for measuring, and Unix seconds for `created` fields. */
#ifndef QN_BASE_CLOCK_H
#define QN_BASE_CLOCK_H

#include <stdint.h>

uint64_t qn_now_us(void);
int64_t qn_unix_seconds(void);

#endif
