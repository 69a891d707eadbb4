#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/thread.h"

typedef struct seen {
    sigset_t blocked;
} seen;

static void *look(void *context)
{
    seen *s = context;
    pthread_sigmask(SIG_SETMASK, NULL, &s->blocked);
    return NULL;
}

static void test_signals_are_for_others_but_not_its_own_faults(void **state)
{
    (void)state;
    seen s;
    sigset_t before, after;
    pthread_t thread;
    qn_error err;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    assert_int_equal(qn_thread_start(&thread, "a-name-that-is-too-long", look, &s, &err), QN_OK);
    pthread_join(thread, NULL);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    assert_int_equal(sigismember(&s.blocked, SIGTERM), 1);
    assert_int_equal(sigismember(&s.blocked, SIGINT), 1);
    assert_int_equal(sigismember(&s.blocked, SIGWINCH), 1);
    assert_int_equal(sigismember(&s.blocked, SIGBUS), 0);
    assert_int_equal(sigismember(&s.blocked, SIGSEGV), 0);
    assert_int_equal(sigismember(&after, SIGTERM), sigismember(&before, SIGTERM));
}

static void test_failure_is_told(void **state)
{
    (void)state;
    pthread_t thread;
    qn_error err;
    qn_fault_arm(QN_FAULT_ALLOC, 1);
    assert_int_equal(qn_thread_start(&thread, "x", look, NULL, &err), QN_RESOURCE);
    qn_fault_disarm();
    assert_non_null(strstr(err.message, "thread x: "));
}

typedef struct gate {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool open;
} gate;

static void gate_init(gate *g)
{
    pthread_mutex_init(&g->mutex, NULL);
    qn_cond_init(&g->changed);
    g->open = false;
}

static void gate_destroy(gate *g)
{
    pthread_cond_destroy(&g->changed);
    pthread_mutex_destroy(&g->mutex);
}

static void *open_gate(void *context)
{
    gate *g = context;
    pthread_mutex_lock(&g->mutex);
    g->open = true;
    pthread_cond_signal(&g->changed);
    pthread_mutex_unlock(&g->mutex);
    return NULL;
}

static void test_a_wait_ends_at_its_time(void **state)
{
    (void)state;
    gate g;
    gate_init(&g);
    pthread_mutex_lock(&g.mutex);
    uint64_t deadline_us = qn_now_us() + 1500;
    while (qn_cond_wait_until(&g.changed, &g.mutex, deadline_us)) { /* it may wake for no reason */
    }
    assert_true(qn_now_us() >= deadline_us);
    assert_false(qn_cond_wait_until(&g.changed, &g.mutex, 1)); /* long ago */
    pthread_mutex_unlock(&g.mutex);
    gate_destroy(&g);
}

static void test_a_wait_ends_when_it_is_signalled(void **state)
{
    (void)state;
    gate g;
    pthread_t thread;
    qn_error err;
    gate_init(&g);
    pthread_mutex_lock(&g.mutex);
    assert_int_equal(qn_thread_start(&thread, "opener", open_gate, &g, &err), QN_OK);
    uint64_t deadline_us = qn_now_us() + (uint64_t)3600 * 1000000; /* never reached */
    while (!g.open) {
        assert_true(qn_cond_wait_until(&g.changed, &g.mutex, deadline_us));
    }
    pthread_mutex_unlock(&g.mutex);
    pthread_join(thread, NULL);
    gate_destroy(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_signals_are_for_others_but_not_its_own_faults),
        cmocka_unit_test(test_failure_is_told),
        cmocka_unit_test(test_a_wait_ends_at_its_time),
        cmocka_unit_test(test_a_wait_ends_when_it_is_signalled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
