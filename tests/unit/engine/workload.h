/* Random workloads for the engine: requests of all kinds, made from one number, and what became of them. */
#ifndef QN_TESTS_ENGINE_WORKLOAD_H
#define QN_TESTS_ENGINE_WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "engine/engine.h"
#include "engine/job.h"
#include "unit/engine/support.h"

enum {
    WORKLOAD_MAX_ASKS = 16,
    WORKLOAD_MAX_PROMPT = 320,
    WORKLOAD_MAX_BIASES = 6,
    WORKLOAD_MAX_STOPS = 3,
    WORKLOAD_DIR_BYTES = 64,
    NEVER = 1 << 30
};

/* A toy grammar: which tokens may follow is a hash of all tokens before. */
typedef struct toy_mask {
    uint32_t multiplier;
    size_t vocab;
    size_t only_end_from; /* tokens of the answer; from there on only an end token may come */
    size_t fails_from;    /* and from there on it fails */
    const int32_t *ends;
    size_t end_count;
} toy_mask;

/* Counts what an on_step listener sees; the engine's thread's. */
typedef struct step_witness {
    size_t tokens;
    bool wrong;
} step_witness;

/* One request, with all that it points to, and how its reader behaves. */
typedef struct ask {
    qn_request request;
    int32_t prompt[WORKLOAD_MAX_PROMPT];
    int32_t stop_tokens[QN_MAX_STOP_TOKENS];
    qn_logit_bias biases[WORKLOAD_MAX_BIASES];
    const char *stops[WORKLOAD_MAX_STOPS];
    toy_mask mask;
    step_witness witness;
    bool by_job;              /* read as tokens, not as text */
    size_t submitter;         /* the thread that sends it */
    uint64_t due_us;          /* from the workload's beginning to its submission, if the thread gets there in time */
    uint64_t cancel_after_us; /* from submission; NEVER */
    size_t cancel_at_tokens;  /* so many are read; NEVER */
    size_t cancel_at_prompt;  /* so many prompt tokens are computed; NEVER */
    bool cancel_answered;     /* by_job: as one whose answer is complete */
} ask;

typedef struct workload {
    uint64_t seed;
    qn_engine_options options;
    const char *isa; /* NULL: the best */
    bool text;       /* the shipped model, with a tokenizer */
    size_t blocks;   /* of the cache */
    size_t ask_count, submitters;
    uint64_t stop_after_us; /* the engine is stopped so long after the beginning; NEVER */
    int rounds;             /* 2: a second engine does it again, with what the first left in the store */
    char store_dir[WORKLOAD_DIR_BYTES];
    ask asks[WORKLOAD_MAX_ASKS];
} workload;

/* Made from seed alone. prompts: arrays of ids that text prompts are cut from. */
workload *workload_make(uint64_t seed, const json_t *prompts);
void workload_free(workload *w); /* removes its store */

/* To stderr: the options and the request, in a few lines. */
void workload_describe(const workload *w, const ask *a);

/* What came of a request. */
typedef struct answer {
    bool accepted;  /* the engine took it */
    bool cancelled; /* its reader called it off */
    bool ended;     /* its end was read */
    qn_job_end end;
    int stop_index; /* of the stop string that matched; -1 */
    qn_buffer tokens, logprobs, ranks, prompt_logprobs, prompt_ranks;
    qn_buffer text[2];  /* by channel */
    qn_buffer channels; /* in the order in which they spoke, once for each stretch */
    qn_timings timings;
} answer;

void answer_free(answer *a);

/* The request alone; engine is idle. */
void run_alone(qn_engine *engine, const workload *w, const ask *a, answer *out);

/* All of them at once: out[ask_count]. Never waits for longer than a limit: prints what the engine does, and aborts. */
void run_together(qn_engine *engine, const workload *w, uint64_t limit_us, answer *out);

/* Is `got` the request's answer, or, where something called it off, the beginning of it? NULL: yes; else what differs.
 */
const char *answer_differs(const workload *w, const ask *a, const answer *alone, const answer *got);

#endif
