/* One at a time, in order of arrival: what lets several threads share an engine that computes one request. */
#ifndef QN_ENGINE_TURNSTILE_H
#define QN_ENGINE_TURNSTILE_H

#include <pthread.h>
#include <stdbool.h>

typedef struct qn_turnstile_waiter qn_turnstile_waiter;

/* Any thread may call. Start with qn_turnstile_init; nobody may be inside or waiting at destroy. */
typedef struct qn_turnstile {
    pthread_mutex_t mutex;
    bool taken;
    qn_turnstile_waiter *first, *last; /* in order of arrival; each lives on its thread's stack */
} qn_turnstile;

void qn_turnstile_init(qn_turnstile *turnstile);
void qn_turnstile_destroy(qn_turnstile *turnstile);

/* Waits for the caller's turn. While it waits, still_wanted(context) is asked every 50 ms or so (NULL: always wanted);
 * false gives the place in the queue up, and enter returns false: the caller is not inside. */
bool qn_turnstile_enter(qn_turnstile *turnstile, bool (*still_wanted)(void *context), void *context);
/* The one inside lets the next in. */
void qn_turnstile_leave(qn_turnstile *turnstile);

#endif
