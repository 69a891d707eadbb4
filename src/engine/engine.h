/* The engine: a model directory opened, and requests answered from it.
 *
 * Joins checkpoint, model, cache, tokenizer, chat template and sampler. One request runs at a time; callers on several
 * threads wait their turn in order of arrival. Speculation (MTP) never changes what comes out (DESIGN 3.3, 4). */
#ifndef QN_ENGINE_ENGINE_H
#define QN_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "sampling/sampler.h"
#include "model/model.h"
#include "text/chat.h"
#include "text/output.h"
#include "text/tokenizer.h"

typedef struct qn_engine qn_engine;

enum { QN_MAX_SPECULATIVE_TOKENS = 16, QN_ENGINE_MAX_ROWS = 65536 };

typedef struct qn_engine_options {
    const char *model_dir;
    const char *chat_template;     /* file; NULL: the checkpoint's own */
    size_t threads;                /* 0: all CPUs */
    size_t max_model_len;          /* 0: max_position_embeddings, or what memory holds, told in a line */
    size_t needed_tokens;          /* with max_model_len 0: no request will hold more than this; 0: not known */
    size_t max_num_batched_tokens; /* rows of one step (prompt chunk); 0: default 512 */
    size_t block_size;             /* 0: 128 */
    int num_speculative_tokens;    /* drafts a step; 0: off; needs an MTP layer */
    float mla_norm_eps;            /* 0: 1e-6 */
    size_t dsa_dense_below;
    bool trust_content_tokens;
    const json_t *override_generation_config; /* over the checkpoint's generation_config.json; NULL: nothing */
    bool without_text;                        /* model only: no tokenizer, no template (eval logits on ids) */
} qn_engine_options;

/* Logs what the run will hold (model, KV, step buffers) before it allocates it. */
qn_status qn_engine_open(const qn_engine_options *options, qn_engine **out, qn_error *err);
void qn_engine_close(qn_engine *engine); /* NULL is fine; no request may be running */

const qn_config *qn_engine_config(const qn_engine *engine);
const qn_tokenizer *qn_engine_tokenizer(const qn_engine *engine); /* NULL: without_text */
const qn_chat *qn_engine_chat(const qn_engine *engine);
size_t qn_engine_max_model_len(const qn_engine *engine);
uint64_t qn_engine_load_us(const qn_engine *engine);

/* What the checkpoint's generation_config.json asks for, over vLLM's defaults (temperature 1, top_p 1, top_k off, min_p
 * 0); do_sample false means greedy. The seed is 0: the caller sets one. */
qn_sampling qn_engine_default_sampling(const qn_engine *engine);

/* The tokens that end an answer: config.json's and generation_config.json's. */
const int32_t *qn_engine_eos(const qn_engine *engine, size_t *count);

/* messages (JSON array) -> prompt ids, template and tokenizer as the options say; request text forges no token. */
qn_status qn_engine_chat_prompt(const qn_engine *engine, const json_t *messages, const json_t *tools,
                                const json_t *kwargs, qn_tokens *out, qn_error *err);

/* Does the answer to this prompt start inside of a <think> block: is the last of its <think> and </think> tokens a
 * <think>? For qn_request.in_reasoning. */
bool qn_engine_opens_reasoning(const qn_engine *engine, const int32_t *prompt_ids, size_t count);

typedef struct qn_request {
    const int32_t *prompt_ids; /* at least one */
    size_t prompt_count;
    qn_sampling sampling;
    size_t max_tokens;       /* 0: up to max_model_len */
    const char *const *stop; /* stop strings, UTF-8, not empty */
    size_t stop_count;
    bool ignore_eos;
    bool raw_text;      /* a completion: all text is content as it is; else reasoning and content are split, trimmed */
    bool in_reasoning;  /* not raw: the prompt ends inside <think>, output starts as reasoning */
    bool show_progress; /* a bar for a long prompt when stderr is a terminal */
} qn_request;

typedef enum qn_finish { QN_FINISH_STOP, QN_FINISH_LENGTH, QN_FINISH_CANCELLED } qn_finish;

/* One step's news on one channel. Text is whole characters, stop strings never leak; special tokens are not shown. */
typedef struct qn_output {
    qn_channel channel;
    const char *text; /* not empty; a NUL behind */
    size_t bytes;
    size_t reasoning_tokens; /* of the answer so far */
} qn_output;

/* One step of generation, for traces and tests. */
typedef struct qn_step {
    size_t position;       /* in the sequence, of the first token emitted: the one that the first draft guesses */
    const int32_t *drafts; /* proposed this step */
    size_t draft_count, accepted;
    const int32_t *tokens; /* emitted this step: accepted + 1, fewer where the answer ends among them */
    size_t token_count;
    const float *const *logits;       /* of the target, accepted + 1 rows [vocab_size] */
    const float *const *draft_logits; /* of the MTP layer, draft_count rows */
} qn_step;

/* Each returns false to cancel. All may be NULL. Called on the thread that called qn_engine_generate; they must not
 * call it again. */
typedef struct qn_listener {
    void *context;
    bool (*on_start)(void *context); /* the prompt is computed */
    bool (*on_output)(void *context, const qn_output *output);
    bool (*on_step)(void *context, const qn_step *step);
    bool (*on_idle)(void *context); /* while waiting for its turn and between chunks of a prompt: still wanted? */
} qn_listener;

typedef struct qn_result {
    qn_finish finish;
    const char *stop_matched;                       /* one of request->stop, or NULL */
    size_t prompt_tokens, completion_tokens;        /* the EOS token counts */
    size_t reasoning_tokens;                        /* of the completion; 0 for raw text */
    int32_t *tokens;                                /* completion_tokens ids; released by qn_result_free */
    size_t drafts_proposed, drafts_accepted, steps; /* steps: calls of the model after the prompt's */
    uint64_t queue_us, prefill_us, decode_us;
} qn_result;

/* Does the context hold a prompt and an answer: one token at least, max_tokens where that is not 0? QN_USAGE with field
 * "messages", or with max_tokens_field: the name by which the user knows max_tokens, for the sentence too. */
qn_status qn_engine_check_length(const qn_engine *engine, size_t prompt_count, size_t max_tokens,
                                 const char *max_tokens_field, qn_error *err);

/* Runs the request to its end; any thread may call, each waits its turn. The prompt and max_tokens must fit
 * max_model_len (QN_USAGE, field "max_tokens" or "messages"): max_tokens 0 takes what is left. A cancelled request is
 * QN_OK with result->finish saying so. On failure there is nothing to release; QN_FAILED names the layer whose values
 * are not finite. */
qn_status qn_engine_generate(qn_engine *engine, const qn_request *request, const qn_listener *listener,
                             qn_result *result, qn_error *err);
void qn_result_free(qn_result *result);

#endif
