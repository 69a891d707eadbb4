/* A job's two sides: what its reader and the engine's thread share, under the engine's mutex, and what the engine's
 * thread alone knows of it. A job has two owners, the reader and the engine, and is freed by the second to let go.
 * Internal to this room. */
#ifndef QN_ENGINE_JOB_INTERNAL_H
#define QN_ENGINE_JOB_INTERNAL_H

#include <stdatomic.h>

#include "base/hash.h"
#include "engine/engine.h"
#include "engine/job.h"
#include "kv/sequence.h"
#include "sampling/repetition.h"
#include "sampling/token_counts.h"
#include "schedule/drafts.h"

typedef struct qn_slot qn_slot;

typedef enum qn_job_state {
    QN_JOB_WAITING, /* without a slot; preempted ones too */
    QN_JOB_LOADING, /* has a slot; blocks of its prefix come from the store */
    QN_JOB_RUNNING,
    QN_JOB_DONE
} qn_job_state;

typedef enum qn_job_wish { QN_JOB_WANTED, QN_JOB_ANSWERED, QN_JOB_UNWANTED } qn_job_wish;

struct qn_job {
    qn_engine *engine;
    qn_job *next; /* in the list that it is in */
    int owners;   /* mutex */
    int news_fd;
    atomic_int wish; /* qn_job_wish */

    /* Constant from submission on; the pointers in it are to copies that the job owns, or NULL. */
    qn_request request;
    int32_t *stop_token_ids;
    qn_logit_bias *logit_bias;
    char *cache_salt;
    size_t limit; /* tokens of prompt and answer that length never passes */
    uint64_t submitted_us;

    /* The engine's thread only, but for what is told in `shared`. */
    qn_job_state state;
    uint64_t arrival; /* order of submission */
    uint64_t planned; /* the last plan that looked at it */
    int32_t *tokens;  /* [limit + QN_MAX_SPECULATIVE_TOKENS]: prompt, answer, then drafts */
    size_t length;    /* prompt and answer */
    size_t computed;  /* positions below are in the cache */
    qn_hash *keys;    /* [limit / block_tokens]: of the full blocks of tokens, chained */
    size_t key_count;
    size_t inserted;           /* blocks, from the first on, that the prefix cache knows */
    size_t stored;             /* of them, those that the store has or was given */
    size_t prompt_logprobs_to; /* prompt tokens below have had their logprobs told */
    qn_slot *slot;             /* NULL: none */
    bool alone_in_cache;       /* its blocks are not shared: prompt logprobs need every row, its MTP entries failed, or
                                  the key of one is other tokens' */
    bool without_drafts;       /* its MTP layer failed */
    bool resumed;              /* the first step since it got its slot has a prefix behind it (computed > 0) */
    qn_token_counts *counts;   /* NULL: no penalties */
    qn_repetition guard;
    size_t draft_count; /* tokens[length ...] proposed for the next step */
    qn_draft_history history;
    uint64_t admitted_us, started_us, last_token_us;
    qn_timings timings;

    struct { /* under the engine's mutex */
        qn_buffer tokens, logprobs, ranks, prompt_logprobs, prompt_ranks;
        size_t prompt_computed;
        bool started, done;
        qn_timings timings;
        qn_job_end end;
    } shared;
};

/* The answer's tokens so far. */
static inline size_t qn_job_answered(const qn_job *job)
{
    return job->length - job->request.prompt_count;
}

/* With the mutex held: an owner lets go. */
void qn_job_drop(qn_job *job);
/* News for the reader. */
void qn_job_raise(const qn_job *job);

#endif
