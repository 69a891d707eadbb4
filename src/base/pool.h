/* The compute pool: a fixed set of threads that run one parallel loop at a time.
 *
 * The caller's thread is worker 0. Only one thread may call qn_pool_run at a time (the engine's); it returns
 * when every item has run. Items are handed out dynamically in ascending order, so no result may depend on
 * which worker runs an item: scratch is per worker, output per item. */
#ifndef QN_BASE_POOL_H
#define QN_BASE_POOL_H

#include <stddef.h>

#include "base/error.h"

typedef struct qn_pool qn_pool;

enum { QN_POOL_MAX_THREADS = 1024 };

/* The CPUs this process may run on; 1 when the system does not tell. */
size_t qn_cpu_count(void);

/* threads: 1..QN_POOL_MAX_THREADS; 0: as many as the CPUs this process may run on. */
qn_status qn_pool_new(size_t threads, qn_pool **out, qn_error *err);
void qn_pool_free(qn_pool *pool); /* NULL is fine; joins the threads */
size_t qn_pool_threads(const qn_pool *pool);

/* Runs body(context, item, worker) for item 0..items-1; worker < qn_pool_threads. */
typedef void (*qn_pool_body)(void *context, size_t item, size_t worker);
void qn_pool_run(qn_pool *pool, size_t items, qn_pool_body body, void *context);

#endif
