/* Threads of a library's own: they take no signals, which are for the threads that wait for them; but for those that an
 * instruction of theirs raises, such as SIGBUS where a mapped file was cut off. */
#ifndef QN_BASE_THREAD_H
#define QN_BASE_THREAD_H

#include <pthread.h>

/* Starts main(context) on a thread of this name (at most 15 bytes are kept); returns 0 or pthread_create's error. In
 * tests, counts as an allocation that may fail (base/fault.h). */
int qn_thread_start(pthread_t *thread, const char *name, void *(*main)(void *context), void *context);

#endif
