/* The queue in front of the engine: one inside at a time, in order of arrival, and one may give its place up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "engine/turnstile.h"

enum { THREADS = 8 };

typedef struct visitor {
    qn_turnstile *turnstile;
    atomic_int *asked;   /* how often a waiting thread was asked whether it still wants its turn */
    atomic_bool wanted;  /* the answer */
    int *order;          /* written inside the turnstile only */
    int *inside, *count; /* likewise */
    int name;
    bool entered;
    pthread_t thread;
} visitor;

static bool still_wanted(void *context)
{
    visitor *v = context;
    atomic_fetch_add(v->asked, 1);
    return atomic_load(&v->wanted);
}

static void *visit(void *context)
{
    visitor *v = context;
    v->entered = qn_turnstile_enter(v->turnstile, still_wanted, v);
    if (v->entered) {
        assert_int_equal(++*v->inside, 1);
        sched_yield();
        v->order[(*v->count)++] = v->name;
        --*v->inside;
        qn_turnstile_leave(v->turnstile);
    }
    return NULL;
}

/* A waiting thread is in the queue by the time it is asked. */
static void wait_until_asked(visitor *v)
{
    while (atomic_load(v->asked) == 0) {
        sched_yield();
    }
}

static void in_order_of_arrival(void **state)
{
    (void)state;
    qn_turnstile turnstile;
    qn_turnstile_init(&turnstile);
    visitor visitors[THREADS];
    atomic_int asked[THREADS];
    int order[THREADS] = {0}, inside = 0, count = 0;
    assert_true(qn_turnstile_enter(&turnstile, NULL, NULL));
    for (int i = 0; i < THREADS; i++) {
        atomic_init(&asked[i], 0);
        visitors[i] = (visitor){
            .turnstile = &turnstile, .asked = &asked[i], .order = order, .inside = &inside, .count = &count, .name = i};
        atomic_init(&visitors[i].wanted, true);
        assert_int_equal(pthread_create(&visitors[i].thread, NULL, visit, &visitors[i]), 0);
        wait_until_asked(&visitors[i]);
    }
    /* One in the middle, the first and the last lose interest. */
    static const int leavers[] = {3, 0, THREADS - 1};
    for (int i = 0; i < 3; i++) {
        atomic_store(&visitors[leavers[i]].wanted, false);
        pthread_join(visitors[leavers[i]].thread, NULL);
        assert_false(visitors[leavers[i]].entered);
    }
    qn_turnstile_leave(&turnstile);
    static const int stayers[] = {1, 2, 4, 5, 6};
    for (int i = 0; i < 5; i++) {
        pthread_join(visitors[stayers[i]].thread, NULL);
        assert_true(visitors[stayers[i]].entered);
    }
    assert_int_equal(count, 5);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(order[i], stayers[i]);
    }
    /* Free again, and with an empty queue. */
    assert_true(qn_turnstile_enter(&turnstile, NULL, NULL));
    qn_turnstile_leave(&turnstile);
    qn_turnstile_destroy(&turnstile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_order_of_arrival),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
