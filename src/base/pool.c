/* One loop at a time, open for workers to join while items are left.
 *
 * Decode runs hundreds of short loops per token, so starting and ending one must cost about a microsecond: waiting
 * threads first spin, and only then sleep on a futex. Two choices keep that harmless where CPUs are short: a thread
 * spins for a bounded time, and not at all when there are more threads than CPUs to use; and the caller never waits for
 * a worker that has not joined, only for those inside the loop, so a worker that the system does not schedule holds
 * nothing up.
 *
 * `state` holds the number of workers inside, whether the loop is open, and whether the caller sleeps until it is
 * empty. A worker joins by raising the number while OPEN is set; the loop's fields are written only while it is closed
 * and empty, so nobody reads them at that time. */
#include "base/pool.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/control_group.h"
#include "base/memory.h"
#include "base/size.h"
#include "base/thread.h"

enum { SPINS_PER_CLOCK_READ = 32, CACHE_LINE = 64, LARGEST_CPU_SET = 1 << 16 };

static const uint32_t OPEN = 1u << 31, CALLER_SLEEPS = 1u << 30, INSIDE = (1u << 30) - 1;

typedef struct worker {
    _Alignas(CACHE_LINE) qn_pool *pool;
    size_t index;
    pthread_t thread;
    uint64_t worked_ns; /* written inside of loops only, so that the caller may read it between them */
} worker;

struct qn_pool {
    size_t threads;
    bool may_spin;
    worker *workers; /* [threads]; element 0 is the caller's and has no thread */
    size_t started;  /* workers[1 .. started) have threads */

    /* the loop */
    qn_pool_body body;
    void *context;
    size_t items;
    uint64_t loops, loop_ns;
    qn_pool_chore chore; /* NULL: none */
    void *chore_context;

    _Alignas(CACHE_LINE) atomic_size_t next_item;
    _Alignas(CACHE_LINE) _Atomic uint32_t state;
    _Alignas(CACHE_LINE) _Atomic uint32_t generation; /* raised at each loop and at the end; idle workers watch it */
    _Atomic uint32_t sleepers;                        /* workers asleep, or about to sleep, on generation */
    _Atomic uint64_t sleeps;
    atomic_bool stop;
};

static void futex_sleep(_Atomic uint32_t *word, uint32_t expected)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, size_t threads)
{
    int most = threads < INT_MAX ? (int)threads : INT_MAX;
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, most, NULL, NULL, 0);
}

static void relax_cpu(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* Spins until (*word & mask) differs from value, for a bounded time; false when it still does not. */
static bool spin_while_equal(const qn_pool *pool, _Atomic uint32_t *word, uint32_t mask, uint32_t value)
{
    if (!pool->may_spin)
        return (atomic_load_explicit(word, memory_order_acquire) & mask) != value;
    uint64_t end_us = qn_now_us() + QN_POOL_SPIN_US;
    do {
        for (int i = 0; i < SPINS_PER_CLOCK_READ; i++) {
            if ((atomic_load_explicit(word, memory_order_acquire) & mask) != value)
                return true;
            relax_cpu();
        }
    } while (qn_now_us() < end_us);
    return false;
}

static void do_chore(const qn_pool *pool)
{
    if (pool->chore)
        pool->chore(pool->chore_context);
}

void qn_pool_set_chore(qn_pool *pool, qn_pool_chore chore, void *context)
{
    pool->chore = chore;
    pool->chore_context = context;
}

static void run_items(qn_pool *pool, size_t index)
{
    uint64_t start = qn_now_ns();
    for (;;) {
        size_t item = atomic_fetch_add_explicit(&pool->next_item, 1, memory_order_relaxed);
        if (item >= pool->items)
            break;
        pool->body(pool->context, item, index);
        if (index == 0)
            do_chore(pool);
    }
    pool->workers[index].worked_ns += qn_now_ns() - start;
}

static bool join_loop(qn_pool *pool)
{
    uint32_t state = atomic_load_explicit(&pool->state, memory_order_relaxed);
    while (state & OPEN) {
        if (atomic_compare_exchange_weak_explicit(&pool->state, &state, state + 1, memory_order_acquire,
                                                  memory_order_relaxed))
            return true;
    }
    return false;
}

static void leave_loop(qn_pool *pool)
{
    uint32_t before = atomic_fetch_sub_explicit(&pool->state, 1, memory_order_release);
    if ((before & CALLER_SLEEPS) && (before & INSIDE) == 1)
        futex_wake(&pool->state, 1);
}

/* Waits until generation is no longer `seen`; returns the new one. */
static uint32_t wait_for_generation(qn_pool *pool, uint32_t seen)
{
    if (!spin_while_equal(pool, &pool->generation, UINT32_MAX, seen)) {
        /* Announced before the last look at generation, as the caller raises generation before it looks for sleepers:
         * one of the two sees the other. */
        atomic_fetch_add(&pool->sleepers, 1);
        atomic_fetch_add_explicit(&pool->sleeps, 1, memory_order_relaxed);
        while (atomic_load(&pool->generation) == seen)
            futex_sleep(&pool->generation, seen);
        atomic_fetch_sub(&pool->sleepers, 1);
    }
    return atomic_load(&pool->generation);
}

static void *worker_main(void *argument)
{
    worker *self = argument;
    qn_pool *pool = self->pool;
    uint32_t seen = 0;
    for (;;) {
        seen = wait_for_generation(pool, seen);
        if (atomic_load(&pool->stop))
            return NULL;
        if (join_loop(pool)) {
            run_items(pool, self->index);
            leave_loop(pool);
        }
    }
}

/* Raises generation and wakes up to `wanted` of the workers that sleep. */
static void announce(qn_pool *pool, size_t wanted)
{
    atomic_fetch_add(&pool->generation, 1);
    if (atomic_load(&pool->sleepers) > 0)
        futex_wake(&pool->generation, wanted);
}

/* Keeps workers from joining and waits for those inside. */
static void close_loop(qn_pool *pool)
{
    uint32_t state = atomic_fetch_and_explicit(&pool->state, ~OPEN, memory_order_acquire) & INSIDE;
    while (state != 0) {
        if (spin_while_equal(pool, &pool->state, UINT32_MAX, state)) {
            state = atomic_load_explicit(&pool->state, memory_order_acquire);
            continue;
        }
        state = atomic_fetch_or_explicit(&pool->state, CALLER_SLEEPS, memory_order_acquire) | CALLER_SLEEPS;
        atomic_fetch_add_explicit(&pool->sleeps, 1, memory_order_relaxed);
        while (state & INSIDE) {
            futex_sleep(&pool->state, state);
            state = atomic_load_explicit(&pool->state, memory_order_acquire);
        }
        return;
    }
}

void qn_pool_run(qn_pool *pool, size_t items, qn_pool_body body, void *context)
{
    assert((atomic_load_explicit(&pool->state, memory_order_relaxed) & (OPEN | INSIDE)) == 0);
    if (pool->threads == 1 || items <= 1) {
        for (size_t item = 0; item < items; item++) {
            body(context, item, 0);
            do_chore(pool);
        }
        return;
    }
    uint64_t start = qn_now_ns();
    pool->body = body;
    pool->context = context;
    pool->items = items;
    atomic_store_explicit(&pool->next_item, 0, memory_order_relaxed);
    atomic_store_explicit(&pool->state, OPEN, memory_order_release);
    announce(pool, items - 1);
    run_items(pool, 0);
    close_loop(pool);
    pool->loops++;
    pool->loop_ns += qn_now_ns() - start;
}

qn_pool_figures qn_pool_get_figures(const qn_pool *pool)
{
    qn_pool_figures figures = {.loops = pool->loops,
                               .loop_ns = pool->loop_ns,
                               .sleeps = atomic_load_explicit(&pool->sleeps, memory_order_relaxed),
                               .asleep = atomic_load_explicit(&pool->sleepers, memory_order_relaxed)};
    for (size_t i = 0; i < pool->threads; i++)
        figures.worked_ns += pool->workers[i].worked_ns;
    return figures;
}

size_t qn_pool_threads(const qn_pool *pool)
{
    return pool->threads;
}

static size_t cpus_allowed(void)
{
    for (int cpus = CPU_SETSIZE; cpus <= LARGEST_CPU_SET; cpus *= 2) {
        cpu_set_t *set = CPU_ALLOC((size_t)cpus);
        if (!set)
            return 1;
        size_t bytes = CPU_ALLOC_SIZE((size_t)cpus);
        int rc = sched_getaffinity(0, bytes, set), code = errno;
        size_t count = rc == 0 ? (size_t)CPU_COUNT_S(bytes, set) : 0;
        CPU_FREE(set);
        if (rc == 0)
            return count > 0 ? count : 1;
        if (code != EINVAL) /* EINVAL: the kernel's set is larger than ours */
            return 1;
    }
    return 1;
}

size_t qn_cpu_count(void)
{
    return qn_min_size(cpus_allowed(), qn_cpu_quota(""));
}

static qn_status start_workers(qn_pool *pool, qn_error *err)
{
    qn_status status = QN_OK;
    for (pool->started = 1; pool->started < pool->threads; pool->started++) {
        worker *self = &pool->workers[pool->started];
        self->pool = pool;
        self->index = pool->started;
        char name[16];
        snprintf(name, sizeof name, "compute-%u", (unsigned)pool->started);
        status = qn_thread_start(&self->thread, name, worker_main, self, err);
        if (status != QN_OK)
            break;
    }
    return status;
}

qn_status qn_pool_new(size_t threads, qn_pool **out, qn_error *err)
{
    if (threads > QN_POOL_MAX_THREADS)
        return qn_fail(err, QN_USAGE, "compute pool: %zu threads asked for: use at most %d", threads,
                       QN_POOL_MAX_THREADS);
    size_t cpus = qn_cpu_count();
    if (threads == 0)
        threads = cpus < QN_POOL_MAX_THREADS ? cpus : QN_POOL_MAX_THREADS;
    qn_pool *pool = qn_alloc_aligned(1, sizeof *pool);
    worker *workers = qn_alloc_aligned(threads, sizeof *workers);
    if (!pool || !workers) {
        qn_free(pool);
        qn_free(workers);
        return qn_fail_memory(err, "compute pool", sizeof *pool + threads * sizeof *workers);
    }
    pool->threads = threads;
    pool->may_spin = threads <= cpus;
    pool->workers = workers;
    qn_status status = start_workers(pool, err);
    if (status != QN_OK) {
        qn_pool_free(pool);
        return status;
    }
    *out = pool;
    return QN_OK;
}

void qn_pool_bind(qn_pool *pool, const qn_cpu_binding *binding)
{
    size_t bound = 1;
    while (bound < pool->threads && qn_cpu_binding_bind(binding, bound, pool->workers[bound].thread))
        bound++;
    for (size_t i = 1; bound < pool->threads && i < bound; i++)
        qn_cpu_binding_release(binding, pool->workers[i].thread);
}

void qn_pool_free(qn_pool *pool)
{
    if (!pool)
        return;
    atomic_store(&pool->stop, true);
    announce(pool, SIZE_MAX);
    for (size_t i = 1; i < pool->started; i++)
        pthread_join(pool->workers[i].thread, NULL);
    qn_free(pool->workers);
    qn_free(pool);
}
