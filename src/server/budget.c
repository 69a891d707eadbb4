/* In order of arrival, or a large taker could wait for ever behind a stream of small ones. */
#include "server/budget.h"

void qn_budget_init(qn_budget *budget, size_t total)
{
    *budget = (qn_budget){.total = total};
    pthread_mutex_init(&budget->mutex, NULL);
    pthread_cond_init(&budget->changed, NULL);
}

void qn_budget_destroy(qn_budget *budget)
{
    pthread_cond_destroy(&budget->changed);
    pthread_mutex_destroy(&budget->mutex);
}

size_t qn_budget_take(qn_budget *budget, size_t amount)
{
    size_t wanted = amount < budget->total ? amount : budget->total;
    pthread_mutex_lock(&budget->mutex);
    uint64_t ticket = budget->next_ticket++;
    while (ticket != budget->served || wanted > budget->total - budget->taken) {
        pthread_cond_wait(&budget->changed, &budget->mutex);
    }
    budget->served++;
    budget->taken += wanted;
    pthread_cond_broadcast(&budget->changed);
    pthread_mutex_unlock(&budget->mutex);
    return wanted;
}

void qn_budget_give(qn_budget *budget, size_t taken)
{
    pthread_mutex_lock(&budget->mutex);
    budget->taken -= taken;
    pthread_cond_broadcast(&budget->changed);
    pthread_mutex_unlock(&budget->mutex);
}
