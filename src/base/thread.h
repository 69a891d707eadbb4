/* Threads of a library's own, and conditions that a thread waits for until a time.
 *
 * Such threads take no signals, which are for the threads that wait for them; but for those that an instruction of
 * theirs raises, such as SIGBUS where a mapped file was cut off. */
#ifndef QN_BASE_THREAD_H
#define QN_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* Starts main(context) on a thread of this name (at most 15 bytes are kept), to be joined by the caller. QN_RESOURCE,
 * with the name in its sentence: the system has none left. In tests, counts as an allocation that may fail
 * (base/fault.h). */
qn_status qn_thread_start(pthread_t *thread, const char *name, void *(*main)(void *context), void *context,
                          qn_error *err);

/* A condition whose waits may end at a time of base/clock.h's monotonic clock, whatever is done to the date meanwhile.
 * Destroyed by pthread_cond_destroy. */
void qn_cond_init(pthread_cond_t *cond);

/* Waits as pthread_cond_wait does, mutex held, until qn_now_us() reaches deadline_us at the latest; false: it did. */
bool qn_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *mutex, uint64_t deadline_us);

#endif
