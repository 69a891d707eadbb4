/* What the files of the engine share: the engine itself. */
#ifndef QN_ENGINE_ENGINE_INTERNAL_H
#define QN_ENGINE_ENGINE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cpu_binding.h"
#include "base/hash.h"
#include "base/numa.h"
#include "base/pool.h"
#include "engine/batch.h"
#include "engine/engine.h"
#include "engine/generation_config.h"
#include "engine/job_internal.h"
#include "engine/outbox.h"
#include "kv/prefix.h"
#include "kv/store.h"
#include "schedule/cost.h"
#include "schedule/drafts.h"

/* A seat at the table of running requests, with what is allocated for one at open. */
struct qn_slot {
    qn_job *job; /* NULL: free */
    qn_kv_sequence sequence;
    float *draft_state[2]; /* [hidden_size] each: what the next draft comes from, and room for the one after */
    qn_mtp_selection draft_selection;
    bool can_draft; /* draft_state[0] is of the last position computed */
    float *pending; /* [QN_PENDING_ROWS, hidden_size]: of positions whose MTP entries are put off */
    size_t pending_start, pending_count;
    int32_t *adopted;            /* [blocks of max_model_len]: room to find a prefix in */
    size_t loads;                /* reads of the store under way */
    size_t load_first, load_end; /* the blocks that they fill; an end comes down to the first that failed */
};

struct qn_engine {
    qn_cpu_binding *binding; /* of the pool's threads and the engine's own, which is the pool's thread 0 */
    qn_numa_policy numa;     /* of the threads that load and compute */
    qn_pool *pool;
    const qn_kernels *kernels;
    qn_checkpoint *checkpoint;
    qn_tokenizer *tokenizer;        /* NULL: without text */
    qn_chat *chat;                  /* NULL: without text */
    int32_t think_begin, think_end; /* token ids; -1: none */
    bool trust_content_tokens;
    qn_model *model;
    const qn_config *config;
    qn_generation_config generation;
    size_t max_model_len, max_rows, max_drafts, max_num_seqs, max_queue;
    bool prefix_caching, trace_drafts;
    qn_repetition_limits repetition;
    uint64_t load_us;

    /* Shared with other threads, under the mutex. */
    pthread_mutex_t mutex;
    pthread_cond_t wake;  /* of the engine's thread: something came */
    pthread_cond_t quiet; /* the engine's thread has gone to sleep */
    pthread_t thread;
    bool thread_runs, draining, stopping, measuring;
    bool nudged;  /* the engine's thread is to look around */
    bool working; /* it does not sleep: what is its own below is in use */
    qn_job *incoming_first, **incoming_last;
    size_t waiting_count, running_count, active_count;
    uint64_t next_arrival;
    qn_metrics *metrics; /* has its own */
    atomic_uint_fast64_t step_started_us;

    /* The engine's thread's (or, while measuring, the caller's). */
    qn_kv_pool *blocks;
    qn_prefix_cache *prefixes; /* NULL: without prefix_caching */
    qn_kv_store *store;        /* NULL: none */
    size_t store_pins;         /* blocks that the store is writing */
    qn_hash fingerprint;       /* of all that changes a bit of a block, but tokens and salt */
    qn_job *waiting;           /* in the order in which they are admitted */
    qn_slot *slots;            /* [max_num_seqs] */
    qn_slot **running;         /* [max_num_seqs], the first running_count in order of admission */
    qn_cost cost;
    qn_fairness fairness;
    qn_draft_costs draft_costs;
    qn_batch batch;
    uint64_t plan; /* number of the step that is planned */

    /* For the warning about an MTP layer that guesses nothing. */
    size_t first_drafts, first_drafts_accepted;
    bool warned_of_acceptance;
};

/* Tokens of a block of the cache. */
static inline size_t qn_engine_block_tokens(const qn_engine *engine)
{
    return qn_kv_pool_layout(engine->blocks)->block_tokens;
}

/* ---- loop.c ---- */

/* With the mutex held: starts the engine's thread unless it runs. */
qn_status qn_loop_start(qn_engine *engine, qn_error *err);
/* The engine's thread looks around: any thread. */
void qn_loop_wake(qn_engine *engine);
/* Ends the thread and every job. */
void qn_loop_stop(qn_engine *engine);

/* Measuring commands compute on the caller's thread: begin waits until no request is left and keeps new ones out. Until
 * the end that thread is bound like the engine's own, which sleeps, and its memory lies like that one's. */
qn_status qn_measuring_begin(qn_engine *engine, qn_error *err);
void qn_measuring_end(qn_engine *engine);

/* ---- generate.c ---- */

/* Is every id a token of the model's vocabulary? QN_USAGE with this field ("": none) tells the first of `what` that
 * isn't. */
qn_status qn_check_ids(const qn_engine *engine, const char *what, const char *field, const int32_t *ids, size_t count,
                       qn_error *err);

/* ---- admission.c: slots, prefixes, the store ---- */

/* Gives waiting jobs slots as far as seats and blocks allow. */
void qn_admit(qn_engine *engine, uint64_t now_us);
/* Takes the slot and the blocks back; the job waits again (qn_preempt) or is about to be finished (qn_vacate). */
void qn_vacate(qn_engine *engine, qn_job *job);
void qn_preempt(qn_engine *engine, qn_job *job);
/* Puts a job where it belongs in the waiting list. */
void qn_enlist(qn_engine *engine, qn_job *job);
/* Blocks that the job has filled since the last call become known to the prefix cache and go to the store. */
void qn_share_blocks(qn_engine *engine, qn_job *job);
/* What the store has done meanwhile. */
void qn_collect_stored(qn_engine *engine);

/* ---- step_plan.c, step.c ---- */

/* Who gets how many rows, with the cache slots for them; into engine->batch. 0 parts: nothing can run now. */
void qn_plan_step(qn_engine *engine, uint64_t now_us);
/* Computes what is planned, hands out what comes of it, and ends what is over. */
void qn_run_step(qn_engine *engine);

#endif
