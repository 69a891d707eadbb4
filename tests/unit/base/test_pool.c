#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/control_group.h"
#include "base/fault.h"
#include "base/memory.h"
#include "base/pool.h"
#include "base/random.h"
#include "base/size.h"

enum { MOST_ITEMS = 5000, MOST_WORKERS = 16 };

typedef struct loop {
    size_t threads;
    unsigned runs[MOST_ITEMS];             /* plain on purpose: an item that two workers ran shows under TSan */
    unsigned long by_worker[MOST_WORKERS]; /* likewise for a worker's number used by two threads */
} loop;

static void count_item(void *context, size_t item, size_t worker)
{
    loop *l = context;
    assert_true(worker < l->threads);
    l->runs[item]++;
    l->by_worker[worker] += item;
}

typedef struct chore {
    pthread_t owner;
    unsigned done;
} chore;

static void do_chore(void *context)
{
    chore *c = context;
    assert_true(pthread_equal(pthread_self(), c->owner));
    c->done++;
}

static void test_the_chore_is_done_by_who_runs_the_loop(void **state)
{
    (void)state;
    static loop l;
    for (size_t threads = 1; threads <= 4; threads++) {
        qn_pool *pool = NULL;
        qn_error err;
        chore c = {.owner = pthread_self()};
        assert_int_equal(qn_pool_new(threads, &pool, &err), QN_OK);
        qn_pool_set_chore(pool, do_chore, &c);
        l.threads = threads;
        qn_pool_run(pool, 1, count_item, &l);
        assert_int_equal(c.done, 1);
        qn_pool_run(pool, MOST_ITEMS, count_item, &l);
        assert_in_range(c.done, threads == 1 ? MOST_ITEMS + 1 : 1, MOST_ITEMS + 1);
        unsigned done = c.done;
        qn_pool_set_chore(pool, NULL, NULL);
        qn_pool_run(pool, MOST_ITEMS, count_item, &l);
        assert_int_equal(c.done, done);
        qn_pool_free(pool);
    }
}

static void test_every_item_runs_once(void **state)
{
    (void)state;
    static loop l;
    for (size_t threads = 1; threads <= 8; threads++) {
        qn_pool *pool = NULL;
        qn_error err;
        assert_int_equal(qn_pool_new(threads, &pool, &err), QN_OK);
        assert_int_equal(qn_pool_threads(pool), threads);
        static const size_t counts[] = {0, 1, 2, 3, 7, 64, MOST_ITEMS};
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            memset(&l, 0, sizeof l);
            l.threads = threads;
            qn_pool_run(pool, counts[c], count_item, &l);
            unsigned long sum = 0;
            for (size_t w = 0; w < threads; w++)
                sum += l.by_worker[w];
            assert_int_equal(sum, counts[c] * (counts[c] - (counts[c] > 0)) / 2);
            for (size_t i = 0; i < MOST_ITEMS; i++)
                assert_int_equal(l.runs[i], i < counts[c]);
        }
        qn_pool_free(pool);
    }
    qn_pool_free(NULL);
}

/* Short loops back to back, as decoding makes them: workers arrive late, leave while the next loop opens, sleep and
 * are woken. What one loop wrote the caller and the next loop read without a lock. */
static void test_many_short_loops(void **state)
{
    (void)state;
    static loop l;
    memset(&l, 0, sizeof l);
    l.threads = 4;
    qn_pool *pool = NULL;
    qn_error err;
    assert_int_equal(qn_pool_new(4, &pool, &err), QN_OK);
    enum { LOOPS = 20000, ITEMS = 5 };
    for (unsigned i = 1; i <= LOOPS; i++) {
        qn_pool_run(pool, ITEMS, count_item, &l);
        for (size_t item = 0; item < ITEMS; item++)
            if (l.runs[item] != i)
                fail_msg("loop %u ran item %zu %u times", i, item, l.runs[item] - (i - 1));
        if (i % 4000 == 0)
            usleep(2000); /* lets the workers fall asleep; nothing depends on it */
    }
    qn_pool_free(pool);
}

typedef struct meeting {
    atomic_size_t arrived;
    size_t expected;
} meeting;

static void wait_for_all(void *context, size_t item, size_t worker)
{
    (void)item;
    (void)worker;
    meeting *m = context;
    atomic_fetch_add(&m->arrived, 1);
    while (atomic_load(&m->arrived) < m->expected)
        sched_yield();
}

/* Items that wait for each other end only when every thread takes one: all do run at the same time, woken from sleep
 * or not. */
static void test_items_run_at_the_same_time(void **state)
{
    (void)state;
    qn_pool *pool = NULL;
    qn_error err;
    assert_int_equal(qn_pool_new(4, &pool, &err), QN_OK);
    for (int i = 0; i < 50; i++) {
        meeting m = {.expected = 4};
        qn_pool_run(pool, 4, wait_for_all, &m);
        assert_int_equal(atomic_load(&m.arrived), 4);
    }
    qn_pool_free(pool);
}

/* Loops of random lengths with random pauses between them, so that loops open while workers spin, go to sleep, sleep
 * and wake up; then the pool is freed in whichever of these states its workers are. */
static void test_random_loops_and_pauses(void **state)
{
    (void)state;
    static loop l;
    const uint64_t seed = qn_random_seed();
    print_message("seed %llu\n", (unsigned long long)seed);
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    for (uint32_t threads = 1; threads <= 8; threads++) {
        qn_pool *pool = NULL;
        qn_error err;
        memset(&l, 0, sizeof l);
        l.threads = threads;
        assert_int_equal(qn_pool_new(threads, &pool, &err), QN_OK);
        enum { LOOPS = 13000, ITEMS = 24 };
        unsigned expected[ITEMS] = {0};
        for (uint32_t i = 0; i < LOOPS; i++) {
            uint32_t at[4] = {i, threads, 0, 0}, out[4];
            qn_philox4x32_10(at, key, out);
            size_t items = out[0] % (ITEMS + 1);
            qn_pool_run(pool, items, count_item, &l);
            for (size_t item = 0; item < ITEMS; item++) {
                expected[item] += item < items;
                if (l.runs[item] != expected[item])
                    fail_msg("loop %u, %u threads: item %zu ran %u times, not %u", i, threads, item, l.runs[item],
                             expected[item]);
            }
            uint64_t until_us = qn_now_us() + (out[1] % 256 == 0 ? out[2] % (2 * QN_POOL_SPIN_US) : 0);
            while (qn_now_us() < until_us)
                ;
        }
        qn_pool_free(pool);
    }
}

static void wait_until_all_sleep(const qn_pool *pool)
{
    while (qn_pool_get_figures(pool).asleep < qn_pool_threads(pool) - 1)
        sched_yield();
}

/* A server without requests must take no CPU: with nothing to do, all workers go to sleep by themselves, and stay so.
 */
static void test_idle_workers_sleep(void **state)
{
    (void)state;
    static loop l = {.threads = 4};
    qn_pool *pool = NULL;
    qn_error err;
    assert_int_equal(qn_pool_new(4, &pool, &err), QN_OK);
    wait_until_all_sleep(pool);
    assert_int_equal(qn_pool_get_figures(pool).loops, 0);
    for (int i = 0; i < 20; i++) {
        qn_pool_run(pool, 8, count_item, &l);
        wait_until_all_sleep(pool);
    }
    const qn_pool_figures figures = qn_pool_get_figures(pool);
    assert_int_equal(figures.loops, 20);
    assert_true(figures.sleeps >= 3);
    qn_pool_free(pool);
}

static void spend_time(void *context, size_t item, size_t worker)
{
    (void)item;
    (void)worker;
    uint64_t until_ns = qn_now_ns() + *(const uint64_t *)context;
    while (qn_now_ns() < until_ns)
        ;
}

static void test_figures_tell_what_loops_took(void **state)
{
    (void)state;
    uint64_t ns = 20000;
    for (size_t threads = 2; threads <= 3; threads++) {
        qn_pool *pool = NULL;
        qn_error err;
        assert_int_equal(qn_pool_new(threads, &pool, &err), QN_OK);
        qn_pool_run(pool, 1, spend_time, &ns); /* nothing that others could take part in */
        assert_int_equal(qn_pool_get_figures(pool).loops, 0);
        for (uint64_t i = 1; i <= 5; i++) {
            qn_pool_run(pool, 6, spend_time, &ns);
            const qn_pool_figures f = qn_pool_get_figures(pool);
            assert_int_equal(f.loops, i);
            assert_true(f.worked_ns >= i * 6 * ns);
            assert_true(f.worked_ns <= threads * f.loop_ns);
        }
        qn_pool_free(pool);
    }
}

/* More threads than CPUs: whoever has nothing to do leaves its CPU to the others at once, and all work gets done. */
static void test_many_more_threads_than_cpus(void **state)
{
    (void)state;
    static loop l;
    memset(&l, 0, sizeof l);
    size_t threads = qn_min_size(qn_cpu_count() * 4, MOST_WORKERS);
    qn_pool *pool = NULL;
    qn_error err;
    assert_int_equal(qn_pool_new(threads, &pool, &err), QN_OK);
    l.threads = threads;
    for (unsigned i = 1; i <= 2000; i++) {
        qn_pool_run(pool, 64, count_item, &l);
        for (size_t item = 0; item < 64; item++)
            assert_int_equal(l.runs[item], i);
    }
    qn_pool_free(pool);
}

static void test_pools_that_never_ran_end(void **state)
{
    (void)state;
    qn_error err;
    for (int i = 0; i < 20; i++) {
        qn_pool *pool = NULL;
        assert_int_equal(qn_pool_new(5, &pool, &err), QN_OK);
        qn_pool_free(pool);
    }
}

static void test_zero_means_the_cpus_allowed(void **state)
{
    (void)state;
    cpu_set_t before;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    qn_pool *pool = NULL;
    qn_error err;
    assert_int_equal(qn_pool_new(0, &pool, &err), QN_OK);
    assert_int_equal(qn_pool_threads(pool), qn_min_size((size_t)CPU_COUNT(&before), qn_cpu_quota("")));
    qn_pool_free(pool);

    cpu_set_t one;
    CPU_ZERO(&one);
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &before)) {
            CPU_SET(cpu, &one);
            break;
        }
    }
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(qn_pool_new(0, &pool, &err), QN_OK);
    assert_int_equal(qn_pool_threads(pool), 1);
    qn_pool_free(pool);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

static void test_bounds_and_failures(void **state)
{
    (void)state;
    qn_pool *pool = NULL;
    qn_error err;
    assert_int_equal(qn_pool_new(QN_POOL_MAX_THREADS + 1, &pool, &err), QN_USAGE);
    assert_null(pool);
    for (long nth = 1; nth <= 2; nth++) {
        qn_fault_arm(QN_FAULT_ALLOC, nth);
        assert_int_equal(qn_pool_new(2, &pool, &err), QN_RESOURCE);
        qn_fault_disarm();
        assert_null(pool);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_item_runs_once),
        cmocka_unit_test(test_many_short_loops),
        cmocka_unit_test(test_items_run_at_the_same_time),
        cmocka_unit_test(test_random_loops_and_pauses),
        cmocka_unit_test(test_idle_workers_sleep),
        cmocka_unit_test(test_figures_tell_what_loops_took),
        cmocka_unit_test(test_many_more_threads_than_cpus),
        cmocka_unit_test(test_pools_that_never_ran_end),
        cmocka_unit_test(test_the_chore_is_done_by_who_runs_the_loop),
        cmocka_unit_test(test_zero_means_the_cpus_allowed),
        cmocka_unit_test(test_bounds_and_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
