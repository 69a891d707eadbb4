/* Who gets a seat: slots, blocks, and the prefixes that need not be computed.
 *
 * A waiting job is given a slot when one is free and the blocks it will need for what is known of it are there, besides
 * those that running prompts still need; so a prompt is rarely begun and put back. It waits for another's prompt to be
 * computed where that is about to fill the very block it needs next: several requests with one beginning compute it
 * once. */
#include <string.h>

#include "base/size.h"
#include "engine/engine_internal.h"

void qn_enlist(qn_engine *engine, qn_job *job)
{
    qn_job **at = &engine->waiting;
    const qn_place own = {.priority = job->request.priority, .arrival = job->arrival};
    while (*at != NULL && qn_waiting_order(&own, &(qn_place){(*at)->request.priority, (*at)->arrival},
                                           engine->fairness.limits.by_priority) > 0) {
        at = &(*at)->next;
    }
    job->next = *at;
    *at = job;
    job->state = QN_JOB_WAITING;
}

static qn_hash key_before(const qn_engine *engine, const qn_job *job, size_t block)
{
    return block == 0 ? qn_prefix_root(&engine->fingerprint, sizeof engine->fingerprint, job->request.cache_salt)
                      : job->keys[block - 1];
}

/* Keys of the full blocks among the first `tokens` tokens. */
static void extend_keys(qn_engine *engine, qn_job *job, size_t tokens)
{
    size_t block_tokens = qn_engine_block_tokens(engine);
    while ((job->key_count + 1) * block_tokens <= tokens) {
        size_t block = job->key_count;
        job->keys[block] = qn_prefix_next(key_before(engine, job, block), job->tokens + block * block_tokens,
                                          block_tokens);
        job->key_count++;
    }
}

/* Is a running job about to fill the block of this key, by computing it or from the store? */
static bool comes_soon(const qn_engine *engine, size_t block, qn_hash key)
{
    for (size_t i = 0; i < engine->running_count; i++) {
        const qn_job *job = engine->running[i]->job;
        if (!job->alone_in_cache && block < job->key_count && block >= job->inserted &&
            job->computed < job->length - 1 && qn_hash_equal(job->keys[block], key)) {
            return true;
        }
    }
    return false;
}

/* Blocks that running jobs will still take for the tokens they have and a block of further ones: a job that is admitted
 * should not be put back when those before it have moved on by a few tokens. */
static size_t promised_blocks(const qn_engine *engine)
{
    size_t promised = 0, block_tokens = qn_engine_block_tokens(engine);
    for (size_t i = 0; i < engine->running_count; i++) {
        const qn_slot *slot = engine->running[i];
        size_t needed = qn_ceil_div(qn_min_size(slot->job->length + 1 + block_tokens, slot->job->limit), block_tokens);
        promised += needed > slot->sequence.block_count ? needed - slot->sequence.block_count : 0;
    }
    return promised;
}

static qn_slot *free_slot(qn_engine *engine)
{
    for (size_t i = 0; i < engine->max_num_seqs; i++) {
        if (engine->slots[i].job == NULL) {
            return &engine->slots[i];
        }
    }
    return NULL;
}

static void set_counts(qn_engine *engine, ptrdiff_t waiting, ptrdiff_t running)
{
    pthread_mutex_lock(&engine->mutex);
    engine->waiting_count = (size_t)((ptrdiff_t)engine->waiting_count + waiting);
    engine->running_count = (size_t)((ptrdiff_t)engine->running_count + running);
    pthread_mutex_unlock(&engine->mutex);
}

static void seat(qn_engine *engine, qn_job *job, qn_slot *slot, uint64_t now_us)
{
    job->slot = slot;
    job->state = QN_JOB_RUNNING;
    job->next = NULL;
    job->computed = job->inserted = job->stored = 0;
    job->draft_count = 0;
    slot->job = job;
    slot->can_draft = false;
    slot->pending_count = 0;
    slot->loads = 0;
    engine->running[engine->running_count] = slot;
    set_counts(engine, -1, 1);
    if (job->admitted_us == 0) {
        job->admitted_us = now_us;
        job->timings.queue_us = now_us - job->submitted_us;
    }
}

/* Makes a full block of the job known to the prefix cache. False: its key is other tokens', and the job shares no more
 * blocks. */
static bool insert_block(qn_engine *engine, qn_job *job, size_t block)
{
    bool inserted = qn_prefix_insert(engine->prefixes, key_before(engine, job, block), job->keys[block],
                                     job->tokens + block * qn_engine_block_tokens(engine),
                                     job->slot->sequence.blocks[block]);
    job->alone_in_cache = job->alone_in_cache || !inserted;
    return inserted;
}

/* The prefix is there up to so many blocks: computing goes on behind it. */
static void skip_prefix(qn_engine *engine, qn_job *job, size_t blocks, size_t stored)
{
    size_t block_tokens = qn_engine_block_tokens(engine);
    bool first_time = job->timings.preemptions == 0;
    job->computed = blocks * block_tokens;
    job->inserted = blocks;
    job->resumed = blocks > 0;
    if (first_time) {
        job->timings.cached_tokens = qn_min_size(job->computed, job->request.prompt_count);
        qn_metrics_on_admission(engine->metrics, job->request.prompt_count, job->timings.cached_tokens,
                                stored * block_tokens, job->timings.queue_us);
    }
    qn_job_tell_progress(job);
}

/* The store's reads are known by their slot and the block of its sequence that they fill. */
enum { TAG_BLOCK_BITS = 32 };

static void *read_tag(const qn_engine *engine, const qn_slot *slot, size_t block)
{
    return (void *)(((uintptr_t)(slot - engine->slots) << TAG_BLOCK_BITS) | block);
}

/* Asks the store for blocks behind the `found` that are in memory. True: reads are under way. */
static bool begin_loading(qn_engine *engine, qn_job *job, size_t found, size_t most)
{
    qn_slot *slot = job->slot;
    size_t stored = engine->store == NULL || found >= most
                        ? 0
                        : qn_kv_store_find(engine->store, job->keys + found, most - found);
    qn_error err;
    if (stored == 0 ||
        qn_kv_sequence_reserve(&slot->sequence, (found + stored) * qn_engine_block_tokens(engine), &err) != QN_OK) {
        return false;
    }
    slot->load_first = slot->load_end = found;
    slot->loads = 0;
    for (size_t i = found; i < found + stored; i++) {
        uint8_t *block = qn_kv_pool_block(engine->blocks, slot->sequence.blocks[i]);
        if (!qn_kv_store_read(engine->store, key_before(engine, job, i), job->keys[i],
                              job->tokens + i * qn_engine_block_tokens(engine), block, read_tag(engine, slot, i))) {
            break;
        }
        slot->loads++;
        slot->load_end++;
    }
    if (slot->loads == 0) {
        qn_kv_sequence_truncate(&slot->sequence, found * qn_engine_block_tokens(engine));
        return false;
    }
    job->state = QN_JOB_LOADING;
    return true;
}

/* The blocks that came from the store, up to the first that did not, are the prefix. */
static void end_loading(qn_engine *engine, qn_job *job)
{
    qn_slot *slot = job->slot;
    size_t blocks = slot->load_end;
    qn_kv_sequence_truncate(&slot->sequence, blocks * qn_engine_block_tokens(engine));
    for (size_t i = slot->load_first; i < blocks && insert_block(engine, job, i); i++) {
    }
    job->state = QN_JOB_RUNNING;
    skip_prefix(engine, job, blocks, blocks - slot->load_first);
}

static void take_read(qn_engine *engine, uintptr_t tag, bool ok)
{
    qn_slot *slot = &engine->slots[tag >> TAG_BLOCK_BITS];
    size_t block = tag & UINT32_MAX;
    if (!ok) {
        slot->load_end = qn_min_size(slot->load_end, block);
    }
    if (--slot->loads == 0) {
        end_loading(engine, slot->job);
    }
}

void qn_collect_stored(qn_engine *engine)
{
    enum { AT_ONCE = 32 };
    qn_kv_store_done done[AT_ONCE];
    size_t count;
    while (engine->store != NULL && (count = qn_kv_store_take_done(engine->store, done, AT_ONCE)) > 0) {
        for (size_t i = 0; i < count; i++) {
            if (!done[i].is_read) {
                qn_kv_pool_release(engine->blocks, (int32_t)(intptr_t)done[i].tag);
                engine->store_pins--;
                continue;
            }
            take_read(engine, (uintptr_t)done[i].tag, done[i].ok);
        }
    }
}

/* Blocks of the job's prefix that may be taken as they are: full ones, and at least one token is left to compute. */
static size_t shareable_blocks(const qn_engine *engine, const qn_job *job)
{
    return job->alone_in_cache ? 0 : (job->length - 1) / qn_engine_block_tokens(engine);
}

typedef enum verdict { ADMITTED, DEFERRED, NO_ROOM } verdict;

static verdict try_admit(qn_engine *engine, qn_job *job, uint64_t now_us)
{
    size_t block_tokens = qn_engine_block_tokens(engine), most = shareable_blocks(engine, job), found = 0,
           unreferenced = 0;
    if (most > 0) {
        extend_keys(engine, job, job->length);
        found = qn_prefix_peek(engine->prefixes, key_before(engine, job, 0), job->keys, job->tokens, most,
                               &unreferenced);
    }
    if (found < most && comes_soon(engine, found, job->keys[found])) {
        return DEFERRED;
    }
    size_t needed = qn_ceil_div(job->length + 1, block_tokens) - found + unreferenced + promised_blocks(engine);
    if (needed > qn_kv_pool_available(engine->blocks) && engine->running_count > 0) {
        return NO_ROOM;
    }
    qn_slot *slot = free_slot(engine);
    seat(engine, job, slot, now_us);
    if (found > 0) {
        found = qn_prefix_find(engine->prefixes, key_before(engine, job, 0), job->keys, job->tokens, found,
                               slot->adopted);
        qn_kv_sequence_adopt(&slot->sequence, slot->adopted, found);
        if (engine->store != NULL) {
            qn_kv_store_touch(engine->store, job->keys, found);
        }
    }
    if (!begin_loading(engine, job, found, most)) {
        skip_prefix(engine, job, found, 0);
    }
    return ADMITTED;
}

void qn_admit(qn_engine *engine, uint64_t now_us)
{
    for (qn_job **at = &engine->waiting; *at != NULL && engine->running_count < engine->max_num_seqs;) {
        qn_job *job = *at, *next = job->next;
        switch (try_admit(engine, job, now_us)) {
        case ADMITTED:
            *at = next;
            break;
        case DEFERRED:
            at = &job->next;
            break;
        case NO_ROOM: /* nobody overtakes it */
            return;
        }
    }
}

void qn_vacate(qn_engine *engine, qn_job *job)
{
    qn_slot *slot = job->slot;
    size_t i = 0;
    qn_kv_sequence_truncate(&slot->sequence, 0);
    while (engine->running[i] != slot) {
        i++;
    }
    memmove(engine->running + i, engine->running + i + 1, (engine->running_count - 1 - i) * sizeof *engine->running);
    slot->job = NULL;
    job->slot = NULL;
    job->state = QN_JOB_RUNNING;
    set_counts(engine, 0, -1);
}

void qn_preempt(qn_engine *engine, qn_job *job)
{
    qn_vacate(engine, job);
    job->timings.preemptions++;
    job->draft_count = 0;
    qn_metrics_on_preemption(engine->metrics);
    qn_enlist(engine, job);
    set_counts(engine, 1, 0);
}

/* Gives a block to the store, which holds it until it is written; not more than half the cache at once, so that a slow
 * disk never keeps all of it from requests. False: not now. */
static bool store_block(qn_engine *engine, qn_job *job, size_t block)
{
    int32_t own = job->slot->sequence.blocks[block];
    if (qn_kv_store_find(engine->store, &job->keys[block], 1) == 1) {
        return true;
    }
    if (engine->store_pins >= qn_kv_pool_block_count(engine->blocks) / 2 ||
        !qn_kv_store_write(engine->store, key_before(engine, job, block), job->keys[block],
                           job->tokens + block * qn_engine_block_tokens(engine), qn_kv_pool_block(engine->blocks, own),
                           (void *)(intptr_t)own)) {
        return false;
    }
    qn_kv_pool_retain(engine->blocks, own);
    engine->store_pins++;
    return true;
}

/* In order, for a block is of no use without those before it; what can't be given now is tried again after later steps.
 * A prefix that was found in memory is looked at as well: its maker may have had no time to give all of it. */
static void store_blocks(qn_engine *engine, qn_job *job)
{
    while (engine->store != NULL && job->stored < job->inserted && store_block(engine, job, job->stored)) {
        job->stored++;
    }
}

void qn_share_blocks(qn_engine *engine, qn_job *job)
{
    size_t block_tokens = qn_engine_block_tokens(engine);
    if (job->alone_in_cache) {
        return;
    }
    extend_keys(engine, job, job->computed);
    while ((job->inserted + 1) * block_tokens <= job->computed && insert_block(engine, job, job->inserted)) {
        job->inserted++;
    }
    store_blocks(engine, job);
}
