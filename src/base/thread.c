#include "base/thread.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/fault.h"

/* 0 or pthread_create's error. */
static int create(pthread_t *thread, void *(*main)(void *context), void *context)
{
    /* What a thread raises by its own instruction: blocked, the kernel kills the process without a word. */
    static const int own_faults[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL};
    sigset_t all, before;
    if (qn_fault_hit(QN_FAULT_ALLOC)) {
        return EAGAIN;
    }
    sigfillset(&all);
    for (size_t i = 0; i < sizeof own_faults / sizeof own_faults[0]; i++) {
        sigdelset(&all, own_faults[i]);
    }
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(thread, NULL, main, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

qn_status qn_thread_start(pthread_t *thread, const char *name, void *(*main)(void *context), void *context,
                          qn_error *err)
{
    char kept[16];
    int failed = create(thread, main, context);
    if (failed != 0) {
        return qn_fail(err, QN_RESOURCE, "thread %s: %s: use fewer threads, or raise the limit on them", name,
                       strerror(failed));
    }
    snprintf(kept, sizeof kept, "%s", name);
    pthread_setname_np(*thread, kept);
    return QN_OK;
}

void qn_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attributes);
    pthread_condattr_destroy(&attributes);
}

bool qn_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *mutex, uint64_t deadline_us)
{
    const struct timespec deadline = {.tv_sec = (time_t)(deadline_us / 1000000),
                                      .tv_nsec = (long)(deadline_us % 1000000) * 1000};
    return pthread_cond_timedwait(cond, mutex, &deadline) != ETIMEDOUT;
}
