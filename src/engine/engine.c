/* Opening and closing. The order matters twice: what can be refused cheaply is looked at first (flags, tokenizer,
 * template), so that a slip shows before a long load; and the context's length is chosen, and all sizes are logged,
 * before the large buffers are allocated. */
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/size.h"
#include "base/system_memory.h"
#include "engine/engine_internal.h"
#include "engine/memory.h"

enum { DEFAULT_MAX_ROWS = 512, DEFAULT_BLOCK_TOKENS = 128 };

/* What the sizes depend on while they are chosen. */
typedef struct sizing {
    const qn_engine *engine;
    qn_kv_layout layout;
} sizing;

/* The engine's own buffers for a context of so many tokens. */
static size_t own_bytes(const qn_engine *engine, size_t tokens)
{
    const qn_config *config = engine->config;
    size_t rows = engine->max_rows, logit_rows = engine->max_drafts + 1;
    size_t bytes = tokens * sizeof(int32_t) + rows * config->hidden_size * sizeof(float) +
                   logit_rows * config->vocab_size * sizeof(float) + qn_sampler_bytes(config->vocab_size);
    return engine->max_drafts == 0 ? bytes : bytes + qn_drafter_bytes(config, engine->max_drafts, rows);
}

static bool kv_bytes(const sizing *s, size_t tokens, size_t *bytes)
{
    return qn_size_mul(qn_ceil_div(tokens, s->layout.block_tokens), s->layout.block_bytes, bytes);
}

/* qn_memory_cost: the cache and the buffers. */
static bool context_bytes(void *context, size_t tokens, size_t *bytes)
{
    const sizing *s = context;
    size_t step = qn_model_measure(s->engine->model, tokens) + own_bytes(s->engine, tokens);
    return kv_bytes(s, tokens, bytes) && qn_size_add(*bytes, step, bytes);
}

static size_t wanted_model_len(const qn_engine *engine, const qn_engine_options *options)
{
    size_t trained = engine->config->max_position_embeddings;
    if (options->max_model_len > 0) {
        return options->max_model_len;
    }
    return options->needed_tokens > 0 ? qn_min_size(options->needed_tokens, trained) : trained;
}

static qn_status choose_context(qn_engine *engine, const qn_engine_options *options, sizing *s, size_t available,
                                qn_error *err)
{
    size_t trained = engine->config->max_position_embeddings, weights = qn_model_weight_bytes(engine->model);
    size_t wanted = wanted_model_len(engine, options);
    if (wanted > trained) {
        return qn_fail_field(err, QN_USAGE, "max-model-len",
                             "--max-model-len: %zu exceeds the model's max_position_embeddings: give at most %zu",
                             wanted, trained);
    }
    size_t fits = available == 0 ? wanted
                                 : qn_memory_fit(wanted, s->layout.block_tokens, weights, available, context_bytes, s);
    size_t bytes;
    if (fits < wanted && options->max_model_len > 0) {
        if (!context_bytes(s, wanted, &bytes) || bytes > available) {
            return qn_fail_field(
                err, QN_RESOURCE, "max-model-len",
                "--max-model-len: the cache of %zu tokens is larger than the memory that is left: give "
                "at most about %zu",
                wanted, fits);
        }
        qn_log("memory: --max-model-len %zu takes more than is left beside the weights: about %zu would fit", wanted,
               fits);
    } else if (fits < wanted) {
        qn_log("max_model_len: cut from %zu to %zu tokens, which is what memory holds: --max-model-len sets it", wanted,
               fits);
        wanted = fits;
    }
    engine->max_model_len = wanted;
    return QN_OK;
}

static qn_status log_plan(const qn_engine *engine, const sizing *s, size_t available, qn_error *err)
{
    qn_memory_plan plan = {.weight_bytes = qn_model_weight_bytes(engine->model),
                           .kv_tokens = engine->max_model_len,
                           .kv_block_tokens = s->layout.block_tokens,
                           .step_bytes = qn_model_measure(engine->model, engine->max_model_len) +
                                         own_bytes(engine, engine->max_model_len),
                           .step_rows = engine->max_rows,
                           .available_bytes = available};
    if (!kv_bytes(s, engine->max_model_len, &plan.kv_bytes)) {
        return qn_fail_field(err, QN_RESOURCE, "max-model-len",
                             "--max-model-len: a KV cache of %zu tokens can't be addressed: give fewer",
                             engine->max_model_len);
    }
    qn_memory_plan_log(&plan);
    return QN_OK;
}

static qn_status allocate_buffers(qn_engine *engine, qn_error *err)
{
    const qn_config *config = engine->config;
    size_t rows = engine->max_drafts + 1;
    engine->tokens = qn_alloc(engine->max_model_len, sizeof *engine->tokens);
    engine->hidden = qn_alloc_aligned(engine->max_rows, config->hidden_size * sizeof(float));
    engine->logits = qn_alloc_aligned(rows, config->vocab_size * sizeof(float));
    engine->hidden_rows = qn_alloc(rows, sizeof *engine->hidden_rows);
    engine->logit_rows = qn_alloc(rows, sizeof *engine->logit_rows);
    if (engine->tokens == NULL || engine->hidden == NULL || engine->logits == NULL || engine->hidden_rows == NULL ||
        engine->logit_rows == NULL) {
        return qn_fail_memory(err, "step buffers", own_bytes(engine, engine->max_model_len));
    }
    for (size_t i = 0; i < rows; i++) {
        engine->logit_rows[i] = engine->logits + i * config->vocab_size;
    }
    qn_status status = qn_sampler_new(config->vocab_size, &engine->sampler, err);
    if (status == QN_OK && engine->max_drafts > 0) {
        status = qn_drafter_new(engine->model, engine->max_drafts, engine->max_rows, &engine->drafter, err);
    }
    return status;
}

/* Chooses the context's length, logs what the run will hold, and allocates it. */
static qn_status open_memory(qn_engine *engine, const qn_engine_options *options, qn_error *err)
{
    sizing s = {.engine = engine};
    size_t block_tokens = options->block_size > 0 ? options->block_size : DEFAULT_BLOCK_TOKENS;
    size_t available = qn_memory_available("");
    qn_status status = qn_model_kv_layout(engine->model, block_tokens, &s.layout, err);
    if (status == QN_OK) {
        status = choose_context(engine, options, &s, available, err);
    }
    if (status == QN_OK) {
        status = log_plan(engine, &s, available, err);
    }
    if (status == QN_OK) {
        status = qn_model_reserve(engine->model, engine->max_model_len, err);
    }
    if (status == QN_OK) {
        status = qn_kv_pool_new(&s.layout, qn_ceil_div(engine->max_model_len, block_tokens), false, &engine->blocks,
                                err);
    }
    if (status == QN_OK) {
        status = qn_kv_sequence_init(&engine->sequence, engine->blocks, engine->max_model_len, err);
    }
    return status == QN_OK ? allocate_buffers(engine, err) : status;
}

static qn_status open_text(qn_engine *engine, const qn_engine_options *options, qn_error *err)
{
    engine->think_begin = engine->think_end = -1;
    if (options->without_text) {
        return QN_OK;
    }
    qn_status status = qn_tokenizer_open(options->model_dir, &engine->tokenizer, err);
    if (status != QN_OK) {
        return status;
    }
    if (qn_tokenizer_size(engine->tokenizer) > engine->config->vocab_size) {
        return qn_fail(
            err, QN_BAD_INPUT,
            "%s: its tokenizer has %zu tokens and config.json's vocab_size is %zu: they don't belong together",
            options->model_dir, qn_tokenizer_size(engine->tokenizer), engine->config->vocab_size);
    }
    engine->think_begin = qn_tokenizer_find_added(engine->tokenizer, "<think>");
    engine->think_end = qn_tokenizer_find_added(engine->tokenizer, "</think>");
    return qn_chat_open(options->model_dir, options->chat_template, &engine->chat, err);
}

static qn_status read_generation_config(qn_engine *engine, const qn_engine_options *options, qn_error *err)
{
    qn_status status = qn_generation_config_read(options->model_dir, engine->config, &engine->generation, err);
    if (status == QN_OK && options->override_generation_config != NULL) {
        status = qn_generation_config_apply(&engine->generation, options->override_generation_config,
                                            engine->config->vocab_size, "--override-generation-config", true, err);
        if (status == QN_BAD_INPUT) {
            err->status = status = QN_USAGE;
        }
    }
    return status;
}

static qn_status open_model(qn_engine *engine, const qn_engine_options *options, qn_error *err)
{
    const qn_kernels *kernels;
    qn_status status = qn_kernels_from_environment(&kernels, err);
    if (status == QN_OK) {
        status = qn_pool_new(options->threads, &engine->pool, err);
    }
    if (status != QN_OK) {
        return status;
    }
    qn_model_options model = {.kernels = kernels,
                              .pool = engine->pool,
                              .max_rows = engine->max_rows,
                              .max_context_tokens = 0,
                              .mla_norm_eps = options->mla_norm_eps,
                              .dsa_dense_below = options->dsa_dense_below};
    return qn_model_open(engine->checkpoint, &model, &engine->model, err);
}

static qn_status check_speculation(const qn_engine *engine, const qn_engine_options *options, qn_error *err)
{
    if (options->num_speculative_tokens < 0 || options->num_speculative_tokens > QN_MAX_SPECULATIVE_TOKENS) {
        return qn_fail_field(err, QN_USAGE, "speculative-config",
                             "num_speculative_tokens: %d is out of range: give 0 to %d",
                             options->num_speculative_tokens, QN_MAX_SPECULATIVE_TOKENS);
    }
    if (options->num_speculative_tokens > 0 && engine->config->num_nextn_predict_layers == 0) {
        return qn_fail_field(err, QN_USAGE, "speculative-config",
                             "--speculative-config: the checkpoint has no MTP layer (num_nextn_predict_layers is 0): "
                             "leave the option out");
    }
    return QN_OK;
}

static qn_status open_parts(qn_engine *engine, const qn_engine_options *options, qn_error *err)
{
    qn_status status = qn_checkpoint_open(options->model_dir, &engine->checkpoint, err);
    if (status != QN_OK) {
        return status;
    }
    engine->config = qn_checkpoint_config(engine->checkpoint);
    status = check_speculation(engine, options, err);
    if (status == QN_OK) {
        status = open_text(engine, options, err);
    }
    if (status == QN_OK) {
        status = read_generation_config(engine, options, err);
    }
    if (status != QN_OK) {
        return status;
    }
    engine->trust_content_tokens = options->trust_content_tokens;
    engine->max_drafts = (size_t)options->num_speculative_tokens;
    size_t rows = options->max_num_batched_tokens > 0 ? options->max_num_batched_tokens : DEFAULT_MAX_ROWS;
    rows = qn_min_size(rows, wanted_model_len(engine, options));
    if (options->max_num_batched_tokens > 0 && options->max_num_batched_tokens <= engine->max_drafts) {
        qn_log("max_num_batched_tokens: raised from %zu to %zu, the rows of a step with %zu drafts",
               options->max_num_batched_tokens, engine->max_drafts + 1, engine->max_drafts);
    }
    engine->max_rows = rows > engine->max_drafts ? rows : engine->max_drafts + 1;
    status = open_model(engine, options, err);
    return status == QN_OK ? open_memory(engine, options, err) : status;
}

qn_status qn_engine_open(const qn_engine_options *options, qn_engine **out, qn_error *err)
{
    uint64_t start = qn_now_us();
    qn_engine *engine = qn_alloc_zero(1, sizeof *engine);
    if (engine == NULL) {
        return qn_fail_memory(err, "engine", sizeof *engine);
    }
    qn_turnstile_init(&engine->turnstile);
    qn_status status = open_parts(engine, options, err);
    if (status != QN_OK) {
        qn_engine_close(engine);
        return status;
    }
    engine->load_us = qn_now_us() - start;
    *out = engine;
    return QN_OK;
}

void qn_engine_close(qn_engine *engine)
{
    if (engine == NULL) {
        return;
    }
    qn_drafter_free(engine->drafter);
    qn_sampler_free(engine->sampler);
    qn_free(engine->tokens);
    qn_free(engine->hidden);
    qn_free(engine->logits);
    qn_free(engine->hidden_rows);
    qn_free(engine->logit_rows);
    qn_kv_sequence_free(&engine->sequence);
    qn_kv_pool_free(engine->blocks);
    qn_model_close(engine->model);
    qn_chat_free(engine->chat);
    qn_tokenizer_free(engine->tokenizer);
    qn_checkpoint_close(engine->checkpoint);
    qn_pool_free(engine->pool);
    qn_turnstile_destroy(&engine->turnstile);
    qn_free(engine);
}

const qn_config *qn_engine_config(const qn_engine *engine)
{
    return engine->config;
}

const qn_tokenizer *qn_engine_tokenizer(const qn_engine *engine)
{
    return engine->tokenizer;
}

const qn_chat *qn_engine_chat(const qn_engine *engine)
{
    return engine->chat;
}

size_t qn_engine_max_model_len(const qn_engine *engine)
{
    return engine->max_model_len;
}

uint64_t qn_engine_load_us(const qn_engine *engine)
{
    return engine->load_us;
}

qn_sampling qn_engine_default_sampling(const qn_engine *engine)
{
    return engine->generation.sampling;
}

const int32_t *qn_engine_eos(const qn_engine *engine, size_t *count)
{
    *count = engine->generation.eos_count;
    return engine->generation.eos_token_id;
}
