/* Memory is cut into slots of one expert each (expert_slot.h).
 *
 * A slot belongs to an expert from the moment its reads start. It can be given away when it is not held and none of its
 * reads is under way; the one with the least heat is. The heat of a use grows by a constant factor from step to step,
 * which is the same as letting all others fade. */
#include "model/expert_cache.h"

#include <assert.h>
#include <string.h>

#include "base/async_reader.h"
#include "base/clock.h"
#include "base/huge_memory.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/prefault.h"
#include "base/size.h"
#include "base/system_memory.h"
#include "checkpoint/view_map.h"
#include "model/expert_slot.h"

enum { NO_SLOT = -1 };

static const double HEAT_LIMIT = 1e200, FADING_STEPS = 2048;

struct qn_expert_cache {
    const qn_weights *weights;
    qn_view_map map;
    qn_direct_reader **files; /* [map.count] */
    qn_async_reader *reader;
    size_t experts, served_layers;      /* of a layer; layers that are served */
    size_t part_bytes[QN_EXPERT_PARTS]; /* 0: this part does not exist (scales of BF16) */
    size_t slot_bytes, slot_count;
    qn_huge_memory memory;
    qn_expert_slot *slots;
    int32_t *slot_of; /* [layers * experts], or NO_SLOT */
    double *heat;     /* [layers * experts] */
    double warmth;    /* of a use now */
    uint64_t holds;
    int32_t *held; /* of each expert that was asked for last its slot, or NO_SLOT */
    size_t held_count;
    int32_t *hopes; /* slots that are read ahead since the last hold */
    size_t hope_count;
    qn_expert_cache_figures figures;
};

static void poll_reader(qn_expert_cache *cache)
{
    qn_async_reader_poll(cache->reader);
    cache->figures.bytes_read = qn_async_reader_bytes(cache->reader);
}

static const qn_mlp_weights *first_sparse(const qn_weights *weights)
{
    for (size_t i = 0; i < weights->layer_count; i++) {
        if (weights->layers[i].experts.count > 0)
            return &weights->layers[i].experts;
    }
    return NULL;
}

size_t qn_expert_cache_bytes(const qn_weights *weights, size_t experts)
{
    const qn_mlp_weights *w = first_sparse(weights);
    const uint8_t *data[QN_EXPERT_PARTS];
    size_t bytes[QN_EXPERT_PARTS], all;
    if (!w)
        return 0;
    qn_expert_parts_of(w, 0, data, bytes);
    return qn_size_mul(qn_expert_slot_bytes(bytes), experts, &all) ? all : SIZE_MAX;
}

bool qn_expert_cache_serves(const qn_expert_cache *cache, size_t layer)
{
    const qn_mlp_weights *w = &cache->weights->layers[layer].experts;
    const uint8_t *data[QN_EXPERT_PARTS];
    size_t bytes[QN_EXPERT_PARTS];
    if (w->count == 0)
        return false;
    qn_expert_parts_of(w, 0, data, bytes);
    return memcmp(bytes, cache->part_bytes, sizeof bytes) == 0;
}

/* Touched now, so that what starts does not run out of memory later. */
static qn_status make_memory(qn_expert_cache *cache, qn_error *err)
{
    size_t available = qn_memory_available("");
    size_t bytes = cache->slot_bytes * cache->slot_count; /* at most what was asked for */
    if (available > 0 && bytes > available)
        return qn_fail_field(err, QN_RESOURCE, "expert-cache",
                             "--expert-cache: %zu bytes are asked for and %zu of memory are available: give less",
                             bytes, available);
    qn_status status = qn_huge_memory_new(bytes, true, "expert cache", &cache->memory, err);
    return status == QN_OK ? qn_prefault(cache->memory.data, bytes, "expert cache", err) : status;
}

static qn_status make_tables(qn_expert_cache *cache, qn_error *err)
{
    size_t all = cache->weights->layer_count * cache->experts;
    cache->slots = qn_alloc_zero(cache->slot_count, sizeof *cache->slots);
    cache->held = qn_alloc_zero(cache->slot_count, sizeof *cache->held);
    cache->hopes = qn_alloc_zero(cache->slot_count, sizeof *cache->hopes);
    cache->slot_of = qn_alloc_zero(all, sizeof *cache->slot_of);
    cache->heat = qn_alloc_zero(all, sizeof *cache->heat);
    if (!cache->slots || !cache->held || !cache->hopes || !cache->slot_of || !cache->heat)
        return qn_fail_memory(err, "table of experts",
                              cache->slot_count * sizeof *cache->slots + all * sizeof *cache->heat);
    for (size_t i = 0; i < all; i++)
        cache->slot_of[i] = NO_SLOT;
    for (size_t i = 0; i < cache->slot_count; i++) {
        qn_expert_slot *s = &cache->slots[i];
        uint8_t *at = cache->memory.data + i * cache->slot_bytes;
        qn_expert_slot_make(s, cache->part_bytes, at);
    }
    return QN_OK;
}

static qn_status make(qn_expert_cache *cache, const qn_checkpoint *checkpoint, size_t bytes, uint64_t patience_us,
                      qn_error *err)
{
    const qn_mlp_weights *w = first_sparse(cache->weights);
    const uint8_t *data[QN_EXPERT_PARTS];
    if (!w)
        return qn_fail_field(err, QN_USAGE, "expert-cache",
                             "--expert-cache: this model has no routed experts: leave it out");
    qn_expert_parts_of(w, 0, data, cache->part_bytes);
    cache->experts = w->count;
    cache->slot_bytes = qn_expert_slot_bytes(cache->part_bytes);
    for (size_t i = 0; i < cache->weights->layer_count; i++)
        cache->served_layers += qn_expert_cache_serves(cache, i);
    size_t all = qn_expert_cache_count(cache);
    size_t least = qn_min_size(4 * qn_checkpoint_config(checkpoint)->num_experts_per_tok, 2 * cache->experts);
    cache->slot_count = qn_min_size(bytes / cache->slot_bytes, qn_max_size(all, least));
    if (cache->slot_count < least)
        return qn_fail_field(err, QN_USAGE, "expert-cache",
                             "--expert-cache: %zu bytes hold %zu experts, and %zu are the least: give at least %zu",
                             bytes, cache->slot_count, least, least * cache->slot_bytes);
    cache->warmth = 1;
    cache->holds = 1; /* so that no slot counts as wanted */
    qn_status status = qn_view_map_make(checkpoint, &cache->map, err);
    if (status == QN_OK)
        status = qn_view_map_open_files(&cache->map, "expert cache", &cache->files, err);
    if (status == QN_OK)
        status = qn_async_reader_new(QN_EXPERT_READS, patience_us, &cache->reader, err);
    if (status == QN_OK)
        status = make_memory(cache, err);
    return status == QN_OK ? make_tables(cache, err) : status;
}

qn_status qn_expert_cache_new(const qn_checkpoint *checkpoint, const qn_weights *weights, size_t bytes,
                              uint64_t patience_us, qn_expert_cache **out, qn_error *err)
{
    qn_expert_cache *cache = qn_alloc_zero(1, sizeof *cache);
    if (!cache)
        return qn_fail_memory(err, "expert cache", sizeof *cache);
    cache->weights = weights;
    qn_status status = make(cache, checkpoint, bytes, patience_us, err);
    if (status != QN_OK) {
        qn_expert_cache_free(cache);
        return status;
    }
    *out = cache;
    return QN_OK;
}

void qn_expert_cache_free(qn_expert_cache *cache)
{
    if (!cache)
        return;
    bool ended = qn_async_reader_free(cache->reader);
    qn_view_map_close_files(&cache->map, cache->files);
    qn_view_map_free(&cache->map);
    if (ended)
        qn_huge_memory_free(&cache->memory);
    else
        qn_log("expert cache: its %zu bytes stay taken: a read from the disk never ended", cache->memory.bytes);
    qn_free(cache->slots);
    qn_free(cache->held);
    qn_free(cache->hopes);
    qn_free(cache->slot_of);
    qn_free(cache->heat);
    qn_free(cache);
}

size_t qn_expert_cache_memory(const qn_expert_cache *cache)
{
    return cache->memory.bytes;
}

size_t qn_expert_cache_disk_bytes(const qn_expert_cache *cache)
{
    size_t bytes = 0;
    for (size_t p = 0; p < QN_EXPERT_PARTS; p++)
        bytes += cache->part_bytes[p];
    return bytes * qn_expert_cache_count(cache);
}

size_t qn_expert_cache_count(const qn_expert_cache *cache)
{
    return cache->served_layers * cache->experts;
}

const size_t *qn_expert_cache_part_bytes(const qn_expert_cache *cache)
{
    return cache->part_bytes;
}

size_t qn_expert_cache_room(const qn_expert_cache *cache)
{
    return cache->slot_count;
}

size_t qn_expert_cache_most(const qn_expert_cache *cache)
{
    return cache->slot_count / 2;
}

const qn_expert_cache_figures *qn_expert_cache_figures_of(const qn_expert_cache *cache)
{
    return &cache->figures;
}

/* The slot to be given away, or NULL: all are held, wanted next, or being read into. */
static qn_expert_slot *find_victim(qn_expert_cache *cache)
{
    qn_expert_slot *best = NULL;
    for (size_t i = 0; i < cache->slot_count; i++) {
        qn_expert_slot *s = &cache->slots[i];
        if (s->held || s->wanted == cache->holds || qn_expert_slot_is_under_way(s))
            continue;
        if (!s->owned)
            return s;
        double heat = cache->heat[s->expert], least = best ? cache->heat[best->expert] : 0;
        if (!best || heat < least || (heat <= least && s->used < best->used))
            best = s;
    }
    return best;
}

static void give(qn_expert_cache *cache, qn_expert_slot *s, size_t layer, size_t id)
{
    if (s->owned)
        cache->slot_of[s->expert] = NO_SLOT;
    s->expert = layer * cache->experts + id;
    s->owned = true;
    s->ahead = s->dropped = false;
    cache->slot_of[s->expert] = (int32_t)(s - cache->slots);
    const uint8_t *data[QN_EXPERT_PARTS];
    size_t bytes[QN_EXPERT_PARTS];
    qn_expert_parts_of(&cache->weights->layers[layer].experts, id, data, bytes);
    for (size_t p = 0; p < QN_EXPERT_PARTS; p++) {
        qn_async_read *part = &s->parts[p];
        size_t file = 0;
        part->state = QN_ASYNC_IDLE;
        part->got = 0;
        if (part->bytes == 0)
            continue;
        bool found = qn_view_map_find(&cache->map, data[p], &file, &part->offset);
        assert(found); /* the weights are the checkpoint's views */
        (void)found;
        part->file = cache->files[file];
    }
}

static qn_expert_slot *slot_of(const qn_expert_cache *cache, size_t layer, int32_t id)
{
    int32_t at = cache->slot_of[layer * cache->experts + (size_t)id];
    return at == NO_SLOT ? NULL : &cache->slots[at];
}

static void hold_slot(qn_expert_cache *cache, qn_expert_slot *s, size_t at)
{
    s->held = true;
    s->told = false;
    s->used = cache->holds;
    cache->held[at] = (int32_t)(s - cache->slots);
}

static void let_go(qn_expert_cache *cache)
{
    for (size_t i = 0; i < cache->held_count; i++) {
        if (cache->held[i] != NO_SLOT)
            cache->slots[cache->held[i]].held = false;
    }
    cache->held_count = 0;
}

/* Guesses that are not being read yet would only be in the way of what turned out to be needed. */
static void forget_hopes(qn_expert_cache *cache)
{
    qn_async_reader_forget_hoped(cache->reader);
    for (size_t i = 0; i < cache->hope_count; i++) {
        qn_expert_slot *s = &cache->slots[cache->hopes[i]];
        if (!qn_expert_slot_is_untouched(s)) {
            cache->figures.ahead++;
            continue;
        }
        cache->slot_of[s->expert] = NO_SLOT;
        s->owned = s->ahead = false;
        s->wanted = 0;
    }
    cache->hope_count = 0;
}

/* Counts the step's uses, and holds what is there or on its way. */
static void note_uses(qn_expert_cache *cache, size_t layer, const int32_t *experts, size_t count)
{
    cache->held_count = count;
    cache->holds++;
    cache->warmth *= 1 + 1 / (FADING_STEPS * (double)cache->served_layers);
    if (cache->warmth > HEAT_LIMIT) {
        for (size_t i = 0; i < cache->weights->layer_count * cache->experts; i++)
            cache->heat[i] /= cache->warmth;
        cache->warmth = 1;
    }
    for (size_t i = 0; i < count; i++) {
        cache->heat[layer * cache->experts + (size_t)experts[i]] += cache->warmth;
        qn_expert_slot *s = slot_of(cache, layer, experts[i]);
        cache->held[i] = NO_SLOT;
        if (!s) {
            cache->figures.misses++;
            continue;
        }
        if (qn_expert_slot_is_there(s))
            cache->figures.hits++;
        else
            cache->figures.late++;
        if (s->ahead) {
            cache->figures.ahead_used++;
            cache->figures.bytes_missed += qn_expert_slot_read_bytes(s);
        }
        s->ahead = false;
        hold_slot(cache, s, i);
    }
}

static qn_status read_missing(qn_expert_cache *cache, size_t layer, const int32_t *experts, size_t count, qn_error *err)
{
    for (size_t i = 0; i < count; i++) {
        qn_expert_slot *s = slot_of(cache, layer, experts[i]);
        while (!s) {
            s = find_victim(cache);
            if (s) {
                give(cache, s, layer, (size_t)experts[i]);
                hold_slot(cache, s, i);
                cache->figures.bytes_missed += qn_expert_slot_read_bytes(s);
                break;
            }
            qn_status status = qn_async_reader_wait_any(cache->reader, NULL, err);
            if (status != QN_OK)
                return status;
        }
        qn_expert_slot_start(s, cache->reader, true);
    }
    poll_reader(cache);
    return QN_OK;
}

/* *awaited: a read that is still to be waited for, or NULL. */
static qn_status tell_arrivals(qn_expert_cache *cache, int32_t *arrived, size_t *count, const qn_async_read **awaited,
                               qn_error *err)
{
    *count = 0;
    *awaited = NULL;
    for (size_t i = 0; i < cache->held_count; i++) {
        qn_expert_slot *s = &cache->slots[cache->held[i]];
        const qn_async_read *failed = s->told ? NULL : qn_expert_slot_failed(s);
        if (failed)
            return qn_async_reader_wait(cache->reader, failed, err);
        if (s->told)
            continue;
        if (qn_expert_slot_is_there(s)) {
            s->told = true;
            qn_expert_slot_drop_copies(s);
            arrived[(*count)++] = (int32_t)i;
        } else if (!*awaited) {
            *awaited = qn_expert_slot_unread(s);
        }
    }
    return QN_OK;
}

qn_status qn_expert_cache_arrivals(qn_expert_cache *cache, bool waits, int32_t *arrived, size_t *count, qn_error *err)
{
    const qn_async_read *awaited;
    poll_reader(cache);
    qn_status status = tell_arrivals(cache, arrived, count, &awaited, err);
    if (*count > 0 || !awaited || !waits)
        return status;
    uint64_t started = qn_now_ns();
    while (status == QN_OK && *count == 0) {
        status = qn_async_reader_wait_any(cache->reader, awaited, err);
        poll_reader(cache);
        if (status == QN_OK)
            status = tell_arrivals(cache, arrived, count, &awaited, err);
    }
    cache->figures.waited_ns += qn_now_ns() - started;
    return status;
}

qn_status qn_expert_cache_hold(qn_expert_cache *cache, size_t layer, const int32_t *experts, size_t count,
                               qn_expert_views *views, qn_error *err)
{
    let_go(cache);
    forget_hopes(cache);
    poll_reader(cache);
    note_uses(cache, layer, experts, count);
    uint64_t started = qn_now_ns();
    qn_status status = read_missing(cache, layer, experts, count, err);
    cache->figures.waited_ns += qn_now_ns() - started;
    for (size_t i = 0; i < count && status == QN_OK; i++)
        views[i] = qn_expert_slot_views(slot_of(cache, layer, experts[i]), &cache->weights->layers[layer].experts,
                                        (size_t)experts[i]);
    return status;
}

void qn_expert_cache_want(qn_expert_cache *cache, size_t layer, const int32_t *experts, size_t count)
{
    forget_hopes(cache);
    for (size_t i = 0; i < count; i++) {
        qn_expert_slot *s = slot_of(cache, layer, experts[i]);
        if (s)
            s->wanted = cache->holds;
    }
    for (size_t i = 0; i < count; i++) {
        qn_expert_slot *s = slot_of(cache, layer, experts[i]);
        if (s) { /* there, or begun and left */
            if (!qn_expert_slot_failed(s))
                qn_expert_slot_start(s, cache->reader, false);
            continue;
        }
        s = find_victim(cache);
        if (!s)
            break;
        give(cache, s, layer, (size_t)experts[i]);
        s->ahead = true;
        s->used = s->wanted = cache->holds;
        cache->hopes[cache->hope_count++] = (int32_t)(s - cache->slots);
        qn_expert_slot_start(s, cache->reader, false);
    }
    poll_reader(cache);
}

void qn_expert_cache_poll(qn_expert_cache *cache)
{
    poll_reader(cache);
}

size_t qn_expert_cache_lacks(const qn_expert_cache *cache, size_t layer, const int32_t *experts, size_t count)
{
    size_t lacks = 0;
    for (size_t i = 0; i < count; i++)
        lacks += !slot_of(cache, layer, experts[i]);
    return lacks;
}
