/* Opening and closing. The order matters twice: what can be refused cheaply is looked at first (flags, tokenizer,
 * template), so that a slip shows before a long load; and the context's length is chosen, and all sizes are logged,
 * before the large buffers are allocated. */
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/size.h"
#include "base/thread.h"
#include "engine/engine_internal.h"
#include "engine/fingerprint.h"
#include "engine/sizing.h"

enum { DEFAULT_MAX_ROWS = 512 };

static qn_status make_slots(qn_engine *engine, qn_error *err)
{
    size_t seqs = engine->max_num_seqs, width = engine->config->hidden_size;
    size_t blocks = qn_ceil_div(engine->max_model_len, qn_engine_block_tokens(engine));
    engine->slots = qn_alloc_zero(seqs, sizeof *engine->slots);
    engine->running = qn_alloc(seqs, sizeof *engine->running);
    if (engine->slots == NULL || engine->running == NULL) {
        return qn_fail_memory(err, "seats of requests", seqs * sizeof *engine->slots);
    }
    for (size_t i = 0; i < seqs; i++) {
        qn_slot *slot = &engine->slots[i];
        qn_status status = qn_kv_sequence_init(&slot->sequence, engine->blocks, engine->max_model_len, err);
        if (status != QN_OK) {
            return status;
        }
        slot->adopted = qn_alloc(blocks, sizeof *slot->adopted);
        if (slot->adopted == NULL) {
            return qn_fail_memory(err, "seats of requests", blocks * sizeof *slot->adopted);
        }
        if (engine->max_drafts > 0) {
            slot->draft_state[0] = engine->batch.states + 2 * i * width;
            slot->draft_state[1] = slot->draft_state[0] + width;
            slot->pending = engine->batch.pending + i * QN_PENDING_ROWS * width;
            slot->draft_selection.positions = engine->batch.selections + i * engine->config->index_topk;
        }
    }
    return QN_OK;
}

static void wake_engine(void *context)
{
    qn_loop_wake(context);
}

static qn_status open_store(qn_engine *engine, const qn_engine_options *options, qn_error *err)
{
    const qn_kv_layout *layout = qn_kv_pool_layout(engine->blocks);
    const qn_kv_store_options store = {.dir = options->kv_store_dir,
                                       .fingerprint = engine->fingerprint,
                                       .block_bytes = layout->block_bytes,
                                       .block_tokens = layout->block_tokens,
                                       .max_bytes = options->kv_store_bytes,
                                       .wake = wake_engine,
                                       .wake_context = engine};
    return qn_kv_store_open(&store, &engine->store, err);
}

static qn_status open_prefixes(qn_engine *engine, const qn_engine_options *options, qn_error *err)
{
    if (!engine->prefix_caching) {
        return QN_OK;
    }
    qn_status status = qn_prefix_cache_new(engine->blocks, &engine->prefixes, err);
    if (status == QN_OK && options->kv_store_dir != NULL) {
        status = qn_fingerprint(engine->checkpoint, engine->kernels, options, qn_engine_block_tokens(engine),
                                &engine->fingerprint, err);
    }
    return status == QN_OK && options->kv_store_dir != NULL ? open_store(engine, options, err) : status;
}

/* The weights come last: what else is needed is there by then. */
static qn_status load_weights(qn_engine *engine, const qn_engine_options *options, bool pack_dense, qn_error *err)
{
    const qn_residence_options load = {.in_background = options->load_in_background,
                                       .pack_dense = pack_dense,
                                       .wake = wake_engine,
                                       .wake_context = engine};
    qn_status status = qn_model_load(engine->model, &load, err);
    if (status == QN_RESOURCE && options->load == QN_LOAD_AUTO) {
        qn_log("load: weights mapped after all: %s", err->message);
        return QN_OK;
    }
    if (status == QN_OK && !options->load_in_background) {
        qn_model_await_load(engine->model);
    }
    return status;
}

/* Chooses the sizes, logs what the run will hold, and allocates it. */
static qn_status open_memory(qn_engine *engine, const qn_engine_options *options, qn_error *err)
{
    qn_engine_sizes sizes;
    const qn_batch_sizes batch = qn_engine_batch_sizes(engine);
    qn_status status = qn_engine_choose_sizes(engine, options, &sizes, err);
    if (status == QN_OK) {
        engine->max_model_len = sizes.max_model_len;
        status = qn_model_reserve(engine->model, sizes.max_model_len, err);
    }
    if (status == QN_OK) {
        status = qn_kv_pool_new(&sizes.layout, sizes.blocks, options->prefault, &engine->blocks, err);
    }
    if (status == QN_OK) {
        status = qn_batch_make(engine->config, &batch, &engine->batch, err);
    }
    if (status == QN_OK) {
        status = make_slots(engine, err);
    }
    if (status == QN_OK) {
        status = open_prefixes(engine, options, err);
    }
    return status == QN_OK && sizes.resident ? load_weights(engine, options, sizes.packs, err) : status;
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
    return options->without_chat ? QN_OK : qn_chat_open(options->model_dir, options->chat_template, &engine->chat, err);
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
    qn_status status = qn_kernels_from_environment(&engine->kernels, err);
    if (status == QN_OK) {
        status = qn_pool_new(qn_cpu_binding_threads(engine->binding), &engine->pool, err);
    }
    if (status != QN_OK) {
        return status;
    }
    qn_pool_bind(engine->pool, engine->binding);
    qn_model_options model = {.expert_cache_bytes = options->expert_cache_bytes,
                              .kernels = engine->kernels,
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

/* A step holds a row for every seat, and one request's drafts. */
static void take_limits(qn_engine *engine, const qn_engine_options *options)
{
    engine->trust_content_tokens = options->trust_content_tokens;
    engine->max_drafts = (size_t)options->num_speculative_tokens;
    engine->max_num_seqs = options->max_num_seqs > 0 ? options->max_num_seqs : 1;
    engine->max_queue = options->max_queue;
    engine->prefix_caching = options->prefix_caching;
    engine->repetition = options->repetition;
    engine->trace_drafts = options->trace_drafts;
    size_t rows = options->max_num_batched_tokens > 0 ? options->max_num_batched_tokens : DEFAULT_MAX_ROWS;
    size_t least = engine->max_num_seqs + engine->max_drafts;
    if (options->max_num_batched_tokens > 0 && rows < least) {
        qn_log("max_num_batched_tokens: raised from %zu to %zu, the rows of a step of %zu requests with %zu drafts",
               rows, least, engine->max_num_seqs, engine->max_drafts);
    }
    rows = qn_min_size(rows, qn_wanted_model_len(engine, options));
    engine->max_rows = qn_max_size(rows, least);
    qn_fairness_limits limits = options->fairness;
    limits.max_num_batched_tokens = engine->max_rows;
    qn_fairness_start(&engine->fairness, &limits);
    qn_cost_start(&engine->cost);
    qn_draft_costs_start(&engine->draft_costs);
}

static qn_status open_parts(qn_engine *engine, const qn_engine_options *options, qn_error *err)
{
    qn_status status = qn_cpu_binding_new(options->cpu_binding, options->threads, &engine->binding, err);
    if (status == QN_OK) {
        status = qn_numa_begin(options->numa, engine->binding, options->numa_system, &engine->numa, err);
    }
    if (status == QN_OK) {
        status = qn_checkpoint_open(options->model_dir, &engine->checkpoint, err);
    }
    if (status != QN_OK) {
        return status;
    }
    engine->config = qn_checkpoint_config(engine->checkpoint);
    status = check_speculation(engine, options, err);
    if (status == QN_OK) {
        status = qn_repetition_limits_check(&options->repetition, "--repetition-guard", err);
    }
    if (status == QN_OK) {
        status = open_text(engine, options, err);
    }
    if (status == QN_OK) {
        status = read_generation_config(engine, options, err);
    }
    if (status != QN_OK) {
        return status;
    }
    take_limits(engine, options);
    status = open_model(engine, options, err);
    return status == QN_OK ? open_memory(engine, options, err) : status;
}

static void init_shared(qn_engine *engine)
{
    pthread_mutex_init(&engine->mutex, NULL);
    qn_cond_init(&engine->wake);
    pthread_cond_init(&engine->quiet, NULL);
    engine->incoming_last = &engine->incoming_first;
}

qn_status qn_engine_open(const qn_engine_options *options, qn_engine **out, qn_error *err)
{
    uint64_t start = qn_now_us();
    qn_engine *engine = qn_alloc_zero(1, sizeof *engine);
    if (engine == NULL) {
        return qn_fail_memory(err, "engine", sizeof *engine);
    }
    init_shared(engine);
    qn_status status = qn_metrics_new(&engine->metrics, err);
    if (status == QN_OK) {
        status = open_parts(engine, options, err);
        qn_numa_end(&engine->numa); /* threads that were started until here keep to it */
    }
    if (status != QN_OK) {
        qn_engine_close(engine);
        return status;
    }
    qn_metrics_describe(engine->metrics, &(qn_metrics_config){.block_size = qn_engine_block_tokens(engine),
                                                              .blocks = qn_kv_pool_block_count(engine->blocks),
                                                              .max_model_len = engine->max_model_len,
                                                              .max_num_seqs = engine->max_num_seqs,
                                                              .prefix_caching = engine->prefix_caching});
    engine->load_us = qn_now_us() - start;
    *out = engine;
    return QN_OK;
}

void qn_engine_drain(qn_engine *engine)
{
    pthread_mutex_lock(&engine->mutex);
    engine->draining = true;
    pthread_mutex_unlock(&engine->mutex);
}

void qn_engine_stop(qn_engine *engine)
{
    qn_loop_stop(engine);
}

void qn_engine_close(qn_engine *engine)
{
    if (engine == NULL) {
        return;
    }
    qn_engine_stop(engine);
    qn_kv_store_close(engine->store); /* writes from the blocks until here */
    for (size_t i = 0; engine->slots != NULL && i < engine->max_num_seqs; i++) {
        qn_kv_sequence_free(&engine->slots[i].sequence);
        qn_free(engine->slots[i].adopted);
    }
    qn_free(engine->slots);
    qn_free(engine->running);
    qn_batch_free(&engine->batch);
    qn_prefix_cache_free(engine->prefixes);
    qn_kv_pool_free(engine->blocks);
    qn_model_close(engine->model);
    qn_chat_free(engine->chat);
    qn_tokenizer_free(engine->tokenizer);
    qn_checkpoint_close(engine->checkpoint);
    qn_pool_free(engine->pool);
    qn_cpu_binding_free(engine->binding);
    qn_metrics_free(engine->metrics);
    pthread_cond_destroy(&engine->wake);
    pthread_cond_destroy(&engine->quiet);
    pthread_mutex_destroy(&engine->mutex);
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

const qn_expert_cache *qn_engine_expert_cache(const qn_engine *engine)
{
    return qn_model_expert_cache(engine->model);
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

size_t qn_engine_max_num_seqs(const qn_engine *engine)
{
    return engine->max_num_seqs;
}

qn_engine_load qn_engine_get_load(qn_engine *engine)
{
    pthread_mutex_lock(&engine->mutex);
    const qn_engine_load load = {.running = engine->running_count, .waiting = engine->waiting_count};
    pthread_mutex_unlock(&engine->mutex);
    return load;
}

qn_residence_state qn_engine_load_state(const qn_engine *engine)
{
    return qn_model_load_state(engine->model);
}

qn_metrics *qn_engine_metrics(const qn_engine *engine)
{
    return engine->metrics;
}

uint64_t qn_engine_step_started_us(const qn_engine *engine)
{
    return atomic_load(&engine->step_started_us);
}
