/* A shared amount that threads take from and give back, so that all of them together never hold more than it. */
#ifndef QN_SERVER_BUDGET_H
#define QN_SERVER_BUDGET_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

typedef struct qn_budget {
    pthread_mutex_t mutex; /* of all below */
    pthread_cond_t changed;
    size_t total, taken;
    uint64_t next_ticket, served;
} qn_budget;

void qn_budget_init(qn_budget *budget, size_t total);
void qn_budget_destroy(qn_budget *budget); /* once nobody holds or waits */

/* Waits, in order of arrival, until `amount` is free; who asks for more than the total gets all of it, alone. Returns
 * what was taken: the caller gives it back, from any thread, and takes no more before that. */
size_t qn_budget_take(qn_budget *budget, size_t amount);
void qn_budget_give(qn_budget *budget, size_t taken);

#endif
