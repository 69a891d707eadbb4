#include "engine/sizing.h"

#include "base/amounts.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/size.h"
#include "base/system_memory.h"
#include "engine/memory.h"

enum { DEFAULT_BLOCK_TOKENS = 128 };

/* What the sizes depend on while they are chosen. */
typedef struct sizing {
    const qn_engine *engine;
    const qn_engine_options *options;
    qn_kv_layout layout;
    size_t available; /* bytes; 0: not known */
    size_t saved;     /* of the weights' bytes, by packing: 0: they are not packed */
    size_t weights;   /* their bytes, packed if they will be */
    size_t chosen;    /* tokens of a sequence */
    size_t model_len; /* that, while the pool's size is chosen; 0 while it is chosen itself */
} sizing;

qn_batch_sizes qn_engine_batch_sizes(const qn_engine *engine)
{
    return (qn_batch_sizes){.max_rows = engine->max_rows,
                            .max_num_seqs = engine->max_num_seqs,
                            .max_drafts = engine->max_drafts,
                            .threads = qn_pool_threads(engine->pool),
                            .keep_draft_logits = engine->trace_drafts};
}

static size_t store_bytes(const sizing *s)
{
    const qn_kv_store_options store = {.block_bytes = s->layout.block_bytes,
                                       .block_tokens = s->layout.block_tokens,
                                       .max_bytes = s->options->kv_store_bytes};
    return s->options->kv_store_dir != NULL && s->options->prefix_caching ? qn_kv_store_bytes(&store) : 0;
}

/* Step buffers, and what seats, the prefix cache and the store need, for sequences of so many tokens and so many
 * blocks. */
static size_t own_bytes(const qn_engine *engine, const sizing *s, size_t model_len, size_t blocks)
{
    const qn_batch_sizes sizes = qn_engine_batch_sizes(engine);
    size_t tables = engine->max_num_seqs * 2 * qn_ceil_div(model_len, s->layout.block_tokens) * sizeof(int32_t);
    return qn_model_measure(engine->model, model_len) + qn_batch_bytes(engine->config, &sizes) + tables +
           store_bytes(s) + (engine->prefix_caching ? qn_prefix_cache_bytes(blocks, s->layout.block_tokens) : 0);
}

/* qn_memory_cost: blocks and buffers, for one sequence of so many tokens while the context's length is chosen, then for
 * a pool of so many. */
static bool context_bytes(void *context, size_t tokens, size_t *bytes)
{
    const sizing *s = context;
    size_t blocks = qn_ceil_div(tokens, s->layout.block_tokens);
    return qn_size_mul(blocks, s->layout.block_bytes, bytes) &&
           qn_size_add(*bytes, own_bytes(s->engine, s, s->model_len == 0 ? tokens : s->model_len, blocks), bytes);
}

size_t qn_wanted_model_len(const qn_engine *engine, const qn_engine_options *options)
{
    size_t trained = engine->config->max_position_embeddings;
    if (options->max_model_len > 0) {
        return options->max_model_len;
    }
    return options->needed_tokens > 0 ? qn_min_size(options->needed_tokens, trained) : trained;
}

static qn_status choose_context(sizing *s, qn_error *err)
{
    const qn_engine *engine = s->engine;
    const qn_engine_options *options = s->options;
    size_t available = s->available;
    size_t trained = engine->config->max_position_embeddings;
    size_t wanted = qn_wanted_model_len(engine, options);
    if (wanted > trained) {
        return qn_fail_field(err, QN_USAGE, "max-model-len",
                             "--max-model-len: %zu exceeds the model's max_position_embeddings: give at most %zu",
                             wanted, trained);
    }
    size_t fits = available == 0
                      ? wanted
                      : qn_memory_fit(wanted, s->layout.block_tokens, s->weights, available, context_bytes, s);
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
    s->chosen = wanted;
    return QN_OK;
}

/* --kv-cache-memory says how many blocks there are; a context that was not asked for is cut to them. */
static qn_status take_given_blocks(sizing *s, size_t *blocks, qn_error *err)
{
    const qn_engine_options *options = s->options;
    size_t available = s->available;
    size_t given = options->kv_cache_bytes / s->layout.block_bytes, block_tokens = s->layout.block_tokens, bytes;
    if (given > INT32_MAX) {
        return qn_fail_field(err, QN_USAGE, "kv-cache-memory", "--kv-cache-memory: %zu blocks are too many: give less",
                             given);
    }
    if (given < 1 || (options->max_model_len > 0 && given < qn_ceil_div(s->chosen, block_tokens))) {
        size_t least = options->max_model_len > 0 ? qn_ceil_div(s->chosen, block_tokens) : 1;
        return qn_fail_field(err, QN_USAGE, "kv-cache-memory",
                             "--kv-cache-memory: %zu bytes hold %zu blocks of %zu tokens and %zu are needed: give at "
                             "least %zu bytes%s",
                             options->kv_cache_bytes, given, block_tokens, least, least * s->layout.block_bytes,
                             options->max_model_len > 0 ? ", or a smaller --max-model-len" : "");
    }
    if (given * block_tokens < s->chosen) {
        qn_log("max_model_len: cut from %zu to %zu tokens, which is what --kv-cache-memory holds", s->chosen,
               given * block_tokens);
        s->chosen = given * block_tokens;
    }
    s->model_len = s->chosen;
    if (available > 0 && (!context_bytes(s, given * block_tokens, &bytes) || bytes > available)) {
        return qn_fail_field(err, QN_RESOURCE, "kv-cache-memory",
                             "--kv-cache-memory: %zu bytes and the step's buffers are more than the memory that is "
                             "left: give less",
                             options->kv_cache_bytes);
    }
    *blocks = given;
    return QN_OK;
}

/* How many blocks: as said, or for every seat a sequence of full length as far as memory holds them, one at least. */
static qn_status choose_blocks(sizing *s, size_t *blocks, qn_error *err)
{
    const qn_engine *engine = s->engine;
    size_t available = s->available;
    if (s->options->kv_cache_bytes > 0) {
        return take_given_blocks(s, blocks, err);
    }
    s->model_len = s->chosen;
    size_t block_tokens = s->layout.block_tokens, least = qn_ceil_div(s->chosen, block_tokens);
    size_t wanted = qn_min_size(least * engine->max_num_seqs, INT32_MAX);
    size_t fits = available == 0
                      ? wanted
                      : qn_memory_fit(wanted * block_tokens, block_tokens, s->weights, available, context_bytes, s) /
                            block_tokens;
    *blocks = qn_max_size(least, qn_min_size(fits, wanted));
    return QN_OK;
}

/* Tells what becomes of dense weights, and why. */
static qn_status tell_packing(const sizing *s, bool resident, qn_error *err)
{
    qn_pack_dense pack = s->options->pack_dense;
    char saved[QN_MEMORY_TEXT_BYTES];
    if (pack == QN_PACK_ON && !resident) {
        return qn_fail_field(err, s->options->load == QN_LOAD_MAPPED ? QN_USAGE : QN_RESOURCE, "pack-dense",
                             "--pack-dense: on: mapped weights can't be packed: leave the option out, or %s",
                             s->options->load == QN_LOAD_MAPPED ? "--load mapped" : "give a smaller --max-model-len");
    }
    if (pack == QN_PACK_OFF) {
        qn_log("pack-dense: off, as --pack-dense says");
    } else if (!resident) {
        qn_log("pack-dense: off: weights are mapped");
    } else if (!qn_load_packs_dense(s->options->load, pack, s->engine->kernels)) {
        qn_log("pack-dense: off: the kernels of %s are no faster with packed weights", s->engine->kernels->name);
    } else if (s->saved == 0) {
        qn_log("pack-dense: off: no dense matrix of BF16 is wide enough");
    } else {
        qn_log("pack-dense: on%s: dense BF16 weights take 12 bits, without loss: %s less to hold and to read",
               pack == QN_PACK_ON ? ", as --pack-dense says" : "", qn_memory_text(s->saved, saved));
    }
    return QN_OK;
}

/* Chooses where the weights are, and tells it. */
static qn_status choose_load(const sizing *s, const qn_memory_plan *plan, bool *resident, qn_error *err)
{
    qn_load load = s->options->load;
    char sum[QN_MEMORY_TEXT_BYTES], available[QN_MEMORY_TEXT_BYTES];
    bool known = plan->available_bytes > 0, fits = known && qn_memory_plan_fits(plan);
    qn_memory_text(plan->weight_bytes + plan->kv_bytes + plan->step_bytes, sum);
    qn_memory_text(plan->available_bytes, available);
    if (load == QN_LOAD_RESIDENT && known && !fits) {
        return qn_fail_field(err, QN_RESOURCE, "load",
                             "--load: resident weights and the rest take %s, more than nine tenths of the %s that are "
                             "available: leave the option out, or give a smaller --max-model-len",
                             sum, available);
    }
    *resident = load == QN_LOAD_RESIDENT || (load == QN_LOAD_AUTO && fits);
    if (load != QN_LOAD_AUTO) {
        qn_log("load: weights %s, as --load says", *resident ? "resident" : "mapped");
    } else if (fits) {
        qn_log("load: weights resident: memory suffices");
    } else if (known) {
        qn_log("load: weights mapped: all of it takes %s, more than nine tenths of the %s that are available", sum,
               available);
    } else {
        qn_log("load: weights mapped: how much memory there is is not known");
    }
    return QN_OK;
}

static qn_status plan_memory(const sizing *s, size_t blocks, qn_engine_sizes *sizes, qn_error *err)
{
    const qn_engine *engine = s->engine;
    qn_memory_plan plan = {.weight_bytes = s->weights,
                           .kv_tokens = blocks * s->layout.block_tokens,
                           .kv_block_tokens = s->layout.block_tokens,
                           .max_model_len = s->chosen,
                           .step_bytes = own_bytes(engine, s, s->chosen, blocks),
                           .step_rows = engine->max_rows,
                           .available_bytes = s->available};
    const qn_expert_cache *cache = qn_model_expert_cache(engine->model);
    if (cache != NULL) {
        plan.cache_bytes = qn_expert_cache_memory(cache);
        plan.cached_experts = qn_expert_cache_room(cache);
        plan.experts = qn_expert_cache_count(cache);
    }
    if (!qn_size_mul(blocks, s->layout.block_bytes, &plan.kv_bytes)) {
        return qn_fail_field(err, QN_RESOURCE, "max-model-len",
                             "--max-model-len: a KV cache of %zu tokens can't be addressed: give fewer", s->chosen);
    }
    if (s->options->load != QN_LOAD_RESIDENT && !(plan.available_bytes > 0 && qn_memory_plan_fits(&plan))) {
        plan.weight_bytes += s->saved; /* they will be mapped */
    }
    qn_memory_plan_log(&plan);
    qn_status status = choose_load(s, &plan, &sizes->resident, err);
    sizes->packs = sizes->resident && s->saved > 0;
    return status == QN_OK ? tell_packing(s, sizes->resident, err) : status;
}

qn_status qn_engine_choose_sizes(const qn_engine *engine, const qn_engine_options *options, qn_engine_sizes *out,
                                 qn_error *err)
{
    sizing s = {.engine = engine, .options = options, .available = qn_memory_available("")};
    const qn_expert_cache *cache = qn_model_expert_cache(engine->model);
    if (cache != NULL && s.available > 0) {
        s.available += qn_expert_cache_memory(cache); /* taken already, and counted with the weights */
    }
    s.saved = qn_load_packs_dense(options->load, options->pack_dense, engine->kernels)
                  ? qn_model_packing_saves(engine->model)
                  : 0;
    s.weights = qn_model_weight_bytes(engine->model) - s.saved;
    size_t block_tokens = options->block_size > 0 ? options->block_size : DEFAULT_BLOCK_TOKENS, blocks = 0;
    qn_status status = qn_model_kv_layout(engine->model, block_tokens, &s.layout, err);
    if (status == QN_OK) {
        status = choose_context(&s, err);
    }
    if (status == QN_OK) {
        status = choose_blocks(&s, &blocks, err);
    }
    *out = (qn_engine_sizes){.layout = s.layout, .max_model_len = s.chosen, .blocks = blocks};
    return status == QN_OK ? plan_memory(&s, blocks, out, err) : status;
}
