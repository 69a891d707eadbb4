#include "base/clock.h"

#include <time.h>

static uint64_t read_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t qn_now_ns(void)
{
    return read_ns(CLOCK_MONOTONIC);
}

uint64_t qn_now_us(void)
{
    return qn_now_ns() / 1000u;
}

uint64_t qn_thread_ns(void)
{
    return read_ns(CLOCK_THREAD_CPUTIME_ID);
}

int64_t qn_unix_seconds(void)
{
    return (int64_t)time(NULL);
}

double qn_per_second(size_t count, uint64_t us)
{
    return us > 0 ? (double)count * 1e6 / (double)us : 0.0;
}
