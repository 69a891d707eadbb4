/* What is asked of the engine, and what is told of it. */
#ifndef QN_ENGINE_REQUEST_H
#define QN_ENGINE_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sampling/sampler.h"
#include "schedule/drafts.h"

enum { QN_MAX_STOP_TOKENS = 64, QN_MAX_SPECULATIVE_TOKENS = QN_MAX_DRAFT_DEPTH };

/* Which tokens may come next: grammars and the like. `fill` sets bit t % 64 of allowed[t / 64] for each token t that
 * may follow the answer's `count` tokens (drafts that are not verified yet among them) and is a pure function of them;
 * the words come zeroed. It is called on compute threads, for several positions of one request at once. Where it fails
 * the request fails: QN_RESOURCE for want of memory, QN_USAGE by what it asks for itself. Where no token may follow,
 * the answer ends as QN_FINISH_STOP with min_tokens that it has not reached or ignore_eos, and fails otherwise. fill
 * NULL: all may come. */
typedef struct qn_token_mask {
    void *context;
    qn_status (*fill)(void *context, const int32_t *answer, size_t count, uint64_t *allowed);
} qn_token_mask;

/* One step of one request, for traces and tests. */
typedef struct qn_step {
    size_t position;       /* in the sequence, of the first token emitted: the one that the first draft guesses */
    const int32_t *drafts; /* proposed for this step */
    size_t draft_count, accepted;
    const int32_t *tokens; /* emitted this step: accepted + 1, fewer where the answer ends among them */
    size_t token_count;
    const float *const *logits;       /* of the target, accepted + 1 rows [vocab_size] */
    const float *const *draft_logits; /* of the MTP layer, draft_count rows; NULL without trace_drafts */
} qn_step;

/* Called on the engine's thread, once for each step after the prompt's; false cancels. NULL: nobody. */
typedef struct qn_trace {
    void *context;
    bool (*on_step)(void *context, const qn_step *step);
} qn_trace;

typedef struct qn_request {
    const int32_t *prompt_ids; /* at least one */
    size_t prompt_count;
    qn_sampling sampling;
    size_t max_tokens;             /* 0: up to max_model_len */
    size_t min_tokens;             /* no end token, no stop token and no stop string before so many */
    const int32_t *stop_token_ids; /* these end the answer like an end token, whatever ignore_eos says */
    size_t stop_token_count;
    bool ignore_eos;
    int32_t priority;       /* with by_priority, lower goes first */
    uint64_t timeout_us;    /* from submission to the end of the answer; 0: none */
    const char *cache_salt; /* computed prefixes are shared among equal salts only; NULL: none */
    bool has_logprobs, has_prompt_logprobs;
    size_t logprobs, prompt_logprobs; /* with has_: besides the token's own, of so many of the most probable, at most
                                         QN_MAX_LOGPROBS; of prompt tokens from the second on */
    qn_token_mask mask;               /* its context lives until the job has ended */
    qn_trace trace;                   /* the same */

    /* For who turns tokens into text (engine/stream.h); the engine's thread does not read them. */
    const char *const *stop; /* stop strings, UTF-8, not empty */
    size_t stop_count;
    bool raw_text;     /* a completion: all text is content as it is; else reasoning and content are split, trimmed */
    bool in_reasoning; /* not raw: the prompt ends inside <think>, output starts as reasoning */
    bool mid_text;     /* not raw: the prompt ends within a text that the output goes on with */
    const struct qn_tool_list *tools; /* not raw: their calls are told apart (text/tool_list.h); NULL: none */
    bool show_progress;               /* a bar for a long prompt when stderr is a terminal */
} qn_request;

typedef enum qn_finish { QN_FINISH_STOP, QN_FINISH_LENGTH, QN_FINISH_CANCELLED, QN_FINISH_REPETITION } qn_finish;

/* "stop", "length", "cancelled", "repetition". */
const char *qn_finish_name(qn_finish finish);

/* Where a request's time went, and what it took. */
typedef struct qn_timings {
    uint64_t queue_us;       /* from submission until it was first computed */
    uint64_t prefill_us;     /* from then until its first token */
    uint64_t decode_us;      /* from then until its last */
    uint64_t longest_gap_us; /* between tokens of the answer: the longest wait for the next */
    size_t prompt_tokens;
    size_t cached_tokens;     /* of the prompt, found computed, in memory or on disk */
    size_t completion_tokens; /* as the engine counted them: an answer cut at a stop string has fewer */
    size_t steps;             /* calls of the model after the prompt's */
    size_t drafts_proposed, drafts_accepted;
    size_t preemptions; /* how often it was put back because the cache was full */
} qn_timings;

#endif
