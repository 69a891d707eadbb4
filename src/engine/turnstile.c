/* A mutex promises no order, so waiters queue in a list, and the one that leaves hands its turn to the first of them:
 * nobody who comes in between can overtake. */
#include "engine/turnstile.h"

#include <stddef.h>
#include <time.h>

enum { POLL_NS = 50 * 1000 * 1000, SECOND_NS = 1000 * 1000 * 1000 };

struct qn_turnstile_waiter {
    pthread_cond_t called;
    bool has_turn;
    qn_turnstile_waiter *next;
};

void qn_turnstile_init(qn_turnstile *turnstile)
{
    pthread_mutex_init(&turnstile->mutex, NULL); /* with default attributes it can't fail */
    turnstile->taken = false;
    turnstile->first = turnstile->last = NULL;
}

void qn_turnstile_destroy(qn_turnstile *turnstile)
{
    pthread_mutex_destroy(&turnstile->mutex);
}

static void join_queue(qn_turnstile *t, qn_turnstile_waiter *waiter)
{
    if (t->last == NULL) {
        t->first = waiter;
    } else {
        t->last->next = waiter;
    }
    t->last = waiter;
}

static void leave_queue(qn_turnstile *t, qn_turnstile_waiter *waiter)
{
    qn_turnstile_waiter *before = NULL;
    qn_turnstile_waiter **link = &t->first;
    while (*link != waiter) {
        before = *link;
        link = &before->next;
    }
    *link = waiter->next;
    if (t->last == waiter) {
        t->last = before;
    }
}

static void wait_a_while(qn_turnstile *t, qn_turnstile_waiter *waiter)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += POLL_NS;
    if (until.tv_nsec >= SECOND_NS) {
        until.tv_nsec -= SECOND_NS;
        until.tv_sec++;
    }
    pthread_cond_timedwait(&waiter->called, &t->mutex, &until);
}

/* The mutex is held, but not while still_wanted runs. Returns with the turn (true) or out of the queue (false). */
static bool wait_for_turn(qn_turnstile *t, qn_turnstile_waiter *waiter, bool (*still_wanted)(void *), void *context)
{
    while (!waiter->has_turn) {
        wait_a_while(t, waiter);
        if (waiter->has_turn || still_wanted == NULL) {
            continue;
        }
        pthread_mutex_unlock(&t->mutex);
        bool wanted = still_wanted(context);
        pthread_mutex_lock(&t->mutex);
        if (!wanted && !waiter->has_turn) {
            leave_queue(t, waiter);
            return false;
        }
    }
    return true;
}

bool qn_turnstile_enter(qn_turnstile *turnstile, bool (*still_wanted)(void *context), void *context)
{
    bool inside = true;
    pthread_mutex_lock(&turnstile->mutex);
    if (turnstile->taken) {
        qn_turnstile_waiter waiter = {.has_turn = false, .next = NULL};
        pthread_condattr_t attributes;
        pthread_condattr_init(&attributes);
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        pthread_cond_init(&waiter.called, &attributes);
        pthread_condattr_destroy(&attributes);
        join_queue(turnstile, &waiter);
        inside = wait_for_turn(turnstile, &waiter, still_wanted, context);
        pthread_cond_destroy(&waiter.called);
    } else {
        turnstile->taken = true;
    }
    pthread_mutex_unlock(&turnstile->mutex);
    return inside;
}

void qn_turnstile_leave(qn_turnstile *turnstile)
{
    pthread_mutex_lock(&turnstile->mutex);
    qn_turnstile_waiter *next = turnstile->first;
    if (next == NULL) {
        turnstile->taken = false;
    } else {
        turnstile->first = next->next;
        if (turnstile->first == NULL) {
            turnstile->last = NULL;
        }
        next->has_turn = true;
        pthread_cond_signal(&next->called);
    }
    pthread_mutex_unlock(&turnstile->mutex);
}
