#include "base/clock.h"

#include <time.h>

uint64_t qn_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

uint64_t qn_thread_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int64_t qn_unix_seconds(void)
{
    return (int64_t)time(NULL);
}

double qn_per_second(size_t count, uint64_t us)
{
    return us > 0 ? (double)count * 1e6 / (double)us : 0.0;
}
