#include "server/step_watch.h"

#include <pthread.h>
#include <stdbool.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/thread.h"

enum { LOOK_AT_MOST_US = 1000000, LOOKS_A_LIMIT = 8 };

struct qn_step_watch {
    qn_step_watch_options options;
    pthread_t thread;
    pthread_mutex_t mutex; /* of `stopping` */
    pthread_cond_t wake;
    bool stopping;
};

/* With the mutex held: sleeps until the next look; false when the watch ends. */
static bool sleep_until_next_look(qn_step_watch *watch)
{
    uint64_t us = watch->options.limit_us / LOOKS_A_LIMIT + 1;
    uint64_t until_us = qn_now_us() + (us < LOOK_AT_MOST_US ? us : LOOK_AT_MOST_US);
    while (!watch->stopping && qn_cond_wait_until(&watch->wake, &watch->mutex, until_us)) {
    }
    return !watch->stopping;
}

static bool is_overdue(const qn_step_watch *watch)
{
    uint64_t started = watch->options.step_started_us(watch->options.context);
    uint64_t now = qn_now_us();
    return started != 0 && now > started && now - started > watch->options.limit_us;
}

static void *watch_main(void *context)
{
    qn_step_watch *watch = context;
    pthread_mutex_lock(&watch->mutex);
    while (sleep_until_next_look(watch)) {
        if (is_overdue(watch)) {
            qn_log("engine: one step takes longer than --step-timeout, %.3g s: it has hung, ending",
                   (double)watch->options.limit_us * 1e-6);
            watch->options.on_overdue(watch->options.context);
            break;
        }
    }
    pthread_mutex_unlock(&watch->mutex);
    return NULL;
}

static void destroy(qn_step_watch *watch)
{
    pthread_cond_destroy(&watch->wake);
    pthread_mutex_destroy(&watch->mutex);
    qn_free(watch);
}

qn_status qn_step_watch_new(const qn_step_watch_options *options, qn_step_watch **out, qn_error *err)
{
    qn_step_watch *watch = qn_alloc_zero(1, sizeof *watch);
    if (watch == NULL) {
        return qn_fail_memory(err, "step watch", sizeof *watch);
    }
    watch->options = *options;
    qn_cond_init(&watch->wake);
    pthread_mutex_init(&watch->mutex, NULL);
    qn_status status = qn_thread_start(&watch->thread, "step-watch", watch_main, watch, err);
    if (status != QN_OK) {
        destroy(watch);
        return status;
    }
    *out = watch;
    return QN_OK;
}

void qn_step_watch_free(qn_step_watch *watch)
{
    if (watch == NULL) {
        return;
    }
    pthread_mutex_lock(&watch->mutex);
    watch->stopping = true;
    pthread_cond_signal(&watch->wake);
    pthread_mutex_unlock(&watch->mutex);
    pthread_join(watch->thread, NULL);
    destroy(watch);
}
