/* The compute pool: a fixed set of threads that run one parallel loop at a time.
 *
 * The caller's thread is worker 0. Only one thread may call qn_pool_run at a time (the engine's); it returns
 * when every item has run. Items are handed out dynamically in ascending order, so no result may depend on
 * which worker runs an item: scratch is per worker, output per item.
 *
 * Between loops that follow each other closely threads spin, for QN_POOL_SPIN_US at most; then they sleep. So a step's
 * loops are handed on without the system's help, and a pool that nobody uses takes no time of any CPU. */
#ifndef QN_BASE_POOL_H
#define QN_BASE_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "base/cpu_binding.h"
#include "base/error.h"

typedef struct qn_pool qn_pool;

enum { QN_POOL_MAX_THREADS = 1024, QN_POOL_SPIN_US = 100 };

/* The CPUs that this process may use: those it may run on, but no more than the quota of its control group gives the
 * time of (rounded down); 1 when the system does not tell. */
size_t qn_cpu_count(void);

/* threads: 1..QN_POOL_MAX_THREADS; 0: qn_cpu_count(). With more threads than that, none ever spins. */
qn_status qn_pool_new(size_t threads, qn_pool **out, qn_error *err);
void qn_pool_free(qn_pool *pool); /* NULL is fine; joins the threads */
size_t qn_pool_threads(const qn_pool *pool);

/* Binds the pool's own threads, workers 1 and up, as `binding` has it, which is of as many threads. Where the system
 * refuses, a line says so and none of them is bound. The caller's thread is left as it is: what it binds itself for is
 * its own affair (qn_cpu_binding_bind with worker 0). */
void qn_pool_bind(qn_pool *pool, const qn_cpu_binding *binding);

/* Runs body(context, item, worker) for item 0..items-1; worker < qn_pool_threads. */
typedef void (*qn_pool_body)(void *context, size_t item, size_t worker);
void qn_pool_run(qn_pool *pool, size_t items, qn_pool_body body, void *context);

/* What the thread that runs a loop does between two of its items, as long as there is one: short, for things that are
 * to get on while it computes. NULL: nothing. Between loops, by that thread. */
typedef void (*qn_pool_chore)(void *context);
void qn_pool_set_chore(qn_pool *pool, qn_pool_chore chore, void *context);

/* What loops that more than one thread could join took since the pool was made. */
typedef struct qn_pool_figures {
    uint64_t loops;
    uint64_t loop_ns;   /* from a loop's opening until all of its items had run */
    uint64_t worked_ns; /* the part of it that threads were at items, of all threads together */
    uint64_t sleeps;    /* times that a thread had nothing to do for so long that it slept */
    size_t asleep;      /* workers, now; those that were woken and do not run yet too */
} qn_pool_figures;

/* Between loops, by the thread that runs them. */
qn_pool_figures qn_pool_get_figures(const qn_pool *pool);

#endif
