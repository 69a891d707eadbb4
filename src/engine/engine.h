/* The engine: a model directory opened, and requests answered from it.
 *
 * Joins checkpoint, model, cache, tokenizer, chat template and sampler. A thread of its own steps over all running
 * requests at once (engine/loop.c); neither the others of a step nor speculation (MTP) ever change what a request gets
 * (docs/engine.md). Requests come from any thread: as tokens by engine/job.h, as text by engine/stream.h, or in one
 * call by qn_engine_generate. */
#ifndef QN_ENGINE_ENGINE_H
#define QN_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/numa.h"
#include "engine/metrics.h"
#include "engine/request.h"
#include "engine/stream.h"
#include "model/expert_cache.h"
#include "model/model.h"
#include "sampling/repetition.h"
#include "sampling/sampler.h"
#include "schedule/fairness.h"
#include "text/chat.h"
#include "text/output.h"
#include "text/tokenizer.h"

typedef struct qn_engine qn_engine;

enum { QN_ENGINE_MAX_ROWS = 65536 };

typedef struct qn_engine_options {
    const char *model_dir;
    const char *chat_template;         /* file; NULL: the checkpoint's own */
    size_t threads;                    /* 0: all CPUs, or those of cpu_binding */
    const char *cpu_binding;           /* base/cpu_binding.h; NULL: "none" */
    qn_numa numa;                      /* base/numa.h: of the weights, the KV cache and the step's buffers */
    const qn_numa_system *numa_system; /* NULL, but in tests */
    qn_load load;
    qn_pack_dense pack_dense;
    bool load_in_background;       /* open does not wait for resident weights: requests use the mapping meanwhile */
    size_t max_model_len;          /* 0: max_position_embeddings, or what memory holds, told in a line */
    size_t needed_tokens;          /* with max_model_len 0: no request will hold more than this; 0: not known */
    size_t max_num_batched_tokens; /* rows of one step (prompt chunk); 0: default 512 */
    size_t block_size;             /* 0: 128 */
    int num_speculative_tokens;    /* drafts a step; 0: off; needs an MTP layer */
    float mla_norm_eps;            /* 0: 1e-6 */
    size_t dsa_dense_below;
    size_t expert_cache_bytes; /* routed experts stay on the disk, so much of them in memory; 0: all are in memory */
    bool trust_content_tokens;
    size_t max_num_seqs;         /* requests computed at once; 0: 1 */
    size_t max_queue;            /* requests that may wait besides; 0: no bound */
    size_t kv_cache_bytes;       /* of all blocks; 0: what memory holds, at most max_num_seqs * max_model_len tokens */
    bool prefault;               /* the blocks' memory is taken at open, not as it is first used */
    bool prefix_caching;         /* computed prefixes are kept and shared */
    const char *kv_store_dir;    /* and kept in this folder as well; NULL: not */
    uint64_t kv_store_bytes;     /* that it may grow to */
    qn_fairness_limits fairness; /* max_num_batched_tokens in it is not read */
    qn_repetition_limits repetition; /* {0}: no guard */
    bool trace_drafts;               /* every step makes all drafts, paying or not, and qn_step shows their logits */
    const json_t *override_generation_config; /* over the checkpoint's generation_config.json; NULL: nothing */
    bool without_text;                        /* model only: no tokenizer, no template (eval logits on ids) */
    bool without_chat;                        /* a tokenizer, no template: texts as they are (run --raw, eval ppl) */
} qn_engine_options;

/* Logs what the run will hold (model, KV, step buffers) before it allocates it. */
qn_status qn_engine_open(const qn_engine_options *options, qn_engine **out, qn_error *err);

/* Takes no more requests; those that were taken go on. */
void qn_engine_drain(qn_engine *engine);
/* Also ends those, within a step (QN_CANCELLED), and the engine's thread. */
void qn_engine_stop(qn_engine *engine);
/* Stops it if that was not done. Every job must have been released. NULL is fine. */
void qn_engine_close(qn_engine *engine);

const qn_config *qn_engine_config(const qn_engine *engine);
const qn_tokenizer *qn_engine_tokenizer(const qn_engine *engine); /* NULL: without_text */
const qn_chat *qn_engine_chat(const qn_engine *engine);           /* NULL: without_text, without_chat */
size_t qn_engine_max_model_len(const qn_engine *engine);
size_t qn_engine_max_num_seqs(const qn_engine *engine);
uint64_t qn_engine_load_us(const qn_engine *engine);
const qn_expert_cache *qn_engine_expert_cache(const qn_engine *engine); /* NULL: there is none */

/* Requests that run and that wait; any thread. */
typedef struct qn_engine_load {
    size_t running, waiting;
} qn_engine_load;
qn_engine_load qn_engine_get_load(qn_engine *engine);
qn_metrics *qn_engine_metrics(const qn_engine *engine);
qn_residence_state qn_engine_load_state(const qn_engine *engine); /* of the weights; any thread */
/* When the step that is running began (base/clock.h); 0: none is. Any thread. */
uint64_t qn_engine_step_started_us(const qn_engine *engine);

/* What the checkpoint's generation_config.json asks for, over vLLM's defaults (temperature 1, top_p 1, top_k off, min_p
 * 0); do_sample false means greedy. The seed is 0: the caller sets one. */
qn_sampling qn_engine_default_sampling(const qn_engine *engine);

/* The tokens that end an answer: config.json's and generation_config.json's. */
const int32_t *qn_engine_eos(const qn_engine *engine, size_t *count);

/* messages (JSON array) -> prompt ids, template and tokenizer as the options say; request text forges no token. */
qn_status qn_engine_chat_prompt(const qn_engine *engine, const json_t *messages, const json_t *tools,
                                const json_t *kwargs, qn_tokens *out, qn_error *err);

/* How a prompt ends: with the beginning of the assistant's next message; with the end of the last message; within that
 * message, which the answer goes on with (text/chat_continue.h). */
typedef enum qn_prompt_end { QN_PROMPT_OPENS_MESSAGE, QN_PROMPT_IS_CLOSED, QN_PROMPT_CONTINUES } qn_prompt_end;

/* The same with another end than QN_PROMPT_OPENS_MESSAGE. */
qn_status qn_engine_chat_prompt_ending(const qn_engine *engine, const json_t *messages, const json_t *tools,
                                       const json_t *kwargs, qn_prompt_end end, qn_tokens *out, qn_error *err);

/* Does the answer to this prompt start inside of a <think> block: is the last of its <think> and </think> tokens a
 * <think>? For qn_request.in_reasoning. */
bool qn_engine_opens_reasoning(const qn_engine *engine, const int32_t *prompt_ids, size_t count);

/* Each returns false to cancel. All may be NULL. Called on the thread that called qn_engine_generate, but for on_step,
 * which the engine's thread calls (engine/request.h); they must not call the engine. */
typedef struct qn_listener {
    void *context;
    bool (*on_start)(void *context); /* the prompt is computed */
    bool (*on_output)(void *context, const qn_output_event *output);
    bool (*on_step)(void *context, const qn_step *step);
    bool (*on_idle)(void *context); /* now and then while nothing is new: still wanted? */
} qn_listener;

/* Does the context hold a prompt and an answer: one token at least, max_tokens where that is not 0? QN_USAGE with field
 * "messages", or with max_tokens_field: the name by which the user knows max_tokens, for the sentence too. */
qn_status qn_engine_check_length(const qn_engine *engine, size_t prompt_count, size_t max_tokens,
                                 const char *max_tokens_field, qn_error *err);

/* Is this a request that the engine can take: prompt, lengths, sampling, stop tokens? QN_USAGE names the field. */
qn_status qn_engine_check_request(const qn_engine *engine, const qn_request *request, qn_error *err);

/* Runs the request to its end, together with those of other threads; any thread may call. The prompt and max_tokens
 * must fit max_model_len (QN_USAGE, field "max_tokens" or "messages"): max_tokens 0 takes what is left. A request that
 * a listener cancelled is QN_OK with result->finish saying so. On failure there is nothing to release; QN_FAILED names
 * the layer whose values are not finite; QN_USAGE also tells that the mask lets no token come. */
qn_status qn_engine_generate(qn_engine *engine, const qn_request *request, const qn_listener *listener,
                             qn_result *result, qn_error *err);
void qn_result_free(qn_result *result);

#endif
