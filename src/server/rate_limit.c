#include "server/rate_limit.h"

#include <math.h>
#include <pthread.h>
#include <stddef.h>

#include "base/memory.h"
#include "base/random.h"

enum { SETS = 1024, WAYS = 8 };

typedef struct bucket {
    uint64_t client, at_us; /* at_us 0: nobody's */
    double requests;        /* at that time */
} bucket;

struct qn_rate_limit {
    pthread_mutex_t mutex; /* of the buckets */
    uint64_t seed;         /* so that nobody can choose with whom to share a set */
    double per_us, burst;
    bucket buckets[SETS][WAYS];
};

qn_status qn_rate_limit_new(unsigned per_minute, unsigned burst, qn_rate_limit **out, qn_error *err)
{
    qn_rate_limit *limit = qn_alloc_zero(1, sizeof *limit);
    if (limit == NULL) {
        return qn_fail_memory(err, "rate limit", sizeof *limit);
    }
    pthread_mutex_init(&limit->mutex, NULL);
    limit->seed = qn_random_seed();
    limit->per_us = per_minute / 60e6;
    limit->burst = burst;
    *out = limit;
    return QN_OK;
}

void qn_rate_limit_free(qn_rate_limit *limit)
{
    if (limit != NULL) {
        pthread_mutex_destroy(&limit->mutex);
        qn_free(limit);
    }
}

static size_t set_of(const qn_rate_limit *limit, uint64_t client)
{
    const uint32_t counter[4] = {(uint32_t)client, (uint32_t)(client >> 32), 0, 0};
    const uint32_t key[2] = {(uint32_t)limit->seed, (uint32_t)(limit->seed >> 32)};
    uint32_t mixed[4];
    qn_philox4x32_10(counter, key, mixed);
    return mixed[0] % SETS;
}

/* What is in a bucket now; a clock that another thread read earlier counts as the same time. */
static double fill(const qn_rate_limit *limit, const bucket *b, uint64_t now_us)
{
    if (b->at_us == 0) {
        return limit->burst;
    }
    double passed_us = now_us > b->at_us ? (double)(now_us - b->at_us) : 0;
    return fmin(limit->burst, b->requests + passed_us * limit->per_us);
}

/* The client's bucket, or the fullest of its set, made the client's. */
static bucket *find(qn_rate_limit *limit, uint64_t client, uint64_t now_us)
{
    bucket *set = limit->buckets[set_of(limit, client)];
    bucket *fullest = &set[0];
    for (size_t i = 0; i < WAYS; i++) {
        if (set[i].at_us != 0 && set[i].client == client) {
            return &set[i];
        }
        if (fill(limit, &set[i], now_us) > fill(limit, fullest, now_us)) {
            fullest = &set[i];
        }
    }
    *fullest = (bucket){.client = client, .at_us = now_us, .requests = limit->burst};
    return fullest;
}

unsigned qn_rate_limit_take(qn_rate_limit *limit, uint64_t client, uint64_t now_us)
{
    unsigned wait_s = 0;
    pthread_mutex_lock(&limit->mutex);
    bucket *b = find(limit, client, now_us);
    b->requests = fill(limit, b, now_us);
    b->at_us = now_us > b->at_us ? now_us : b->at_us;
    if (b->requests >= 1) {
        b->requests -= 1;
    } else {
        wait_s = (unsigned)fmax(1, ceil((1 - b->requests) / limit->per_us / 1e6));
    }
    pthread_mutex_unlock(&limit->mutex);
    return wait_s;
}
