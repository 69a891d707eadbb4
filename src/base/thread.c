#include "base/thread.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>

#include "base/fault.h"

int qn_thread_start(pthread_t *thread, const char *name, void *(*main)(void *context), void *context)
{
    /* What a thread raises by its own instruction: blocked, the kernel kills the process without a word. */
    static const int own_faults[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL};
    sigset_t all, before;
    char kept[16];
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
    if (failed == 0) {
        snprintf(kept, sizeof kept, "%s", name);
        pthread_setname_np(*thread, kept);
    }
    return failed;
}
