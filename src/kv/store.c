/* The engine's side of the store: opening, closing, and handing jobs over and back.
 *
 * One mutex, held for moments only. Jobs come from a fixed set and go from list to list: free, queued, done, free. A
 * block that is queued for writing is in the index at once, so that it is found, and its parent can't be evicted before
 * it. */
#include "kv/store.h"

#include <stdio.h>
#include <string.h>

#include "base/amounts.h"
#include "base/clock.h"
#include "base/direct_reader.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/progress.h"
#include "base/thread.h"
#include "kv/store_file.h"
#include "kv/store_folder.h"
#include "kv/store_internal.h"

static const uint64_t DEFAULT_RETRY_US = 60000000;
static const int64_t DATE_INTERVAL_NS = (int64_t)60 * 1000000000; /* of one file, by touches */

void qn_kv_job_push(qn_kv_job_list *list, qn_kv_job *job)
{
    job->next = NULL;
    if (list->last)
        list->last->next = job;
    else
        list->first = job;
    list->last = job;
    list->count++;
}

qn_kv_job *qn_kv_job_pop(qn_kv_job_list *list)
{
    qn_kv_job *job = list->first;
    if (!job)
        return NULL;
    list->first = job->next;
    if (!list->first)
        list->last = NULL;
    list->count--;
    return job;
}

void qn_kv_hash_ring_push(qn_kv_hash_ring *ring, qn_hash hash)
{
    ring->items[(ring->start + ring->count) % ring->capacity] = hash;
    if (ring->count < ring->capacity)
        ring->count++;
    else
        ring->start = (ring->start + 1) % ring->capacity;
}

bool qn_kv_hash_ring_pop(qn_kv_hash_ring *ring, qn_hash *out)
{
    if (ring->count == 0)
        return false;
    *out = ring->items[ring->start];
    ring->start = (ring->start + 1) % ring->capacity;
    ring->count--;
    return true;
}

bool qn_kv_hash_ring_has(const qn_kv_hash_ring *ring, qn_hash hash)
{
    for (size_t i = 0; i < ring->count; i++) {
        if (qn_hash_equal(ring->items[(ring->start + i) % ring->capacity], hash))
            return true;
    }
    return false;
}

static void hash_ring_remove(qn_kv_hash_ring *ring, qn_hash hash)
{
    size_t kept = 0;
    for (size_t i = 0; i < ring->count; i++) {
        qn_hash item = ring->items[(ring->start + i) % ring->capacity];
        if (!qn_hash_equal(item, hash))
            ring->items[(ring->start + kept++) % ring->capacity] = item;
    }
    ring->count = kept;
}

static bool hash_ring_new(qn_kv_hash_ring *ring, size_t capacity)
{
    ring->capacity = capacity;
    ring->items = qn_alloc(capacity, sizeof *ring->items);
    return ring->items != NULL;
}

qn_kv_header qn_kv_store_header(const qn_kv_store *store, qn_hash parent, qn_hash key)
{
    qn_kv_header header = store->own;
    header.parent = parent;
    header.key = key;
    return header;
}

qn_kv_entry *qn_kv_store_entry(const qn_kv_store *store, qn_hash key)
{
    qn_kv_header header = qn_kv_store_header(store, key, key);
    return qn_kv_index_find(store->index, qn_kv_header_id(&header));
}

static qn_status check_options(const qn_kv_store_options *options, size_t *file_bytes, qn_error *err)
{
    if (!qn_kv_file_bytes(options->block_bytes, options->block_tokens, file_bytes))
        return qn_fail(err, QN_INTERNAL,
                       "KV store: blocks of %zu tokens in %zu bytes: 1 to %d tokens, up to 1 TiB can be",
                       options->block_tokens, options->block_bytes, QN_KV_FILE_MAX_TOKENS);
    if (options->max_bytes < *file_bytes)
        return qn_fail(err, QN_USAGE, "KV store %s: a bound of %llu bytes: one block takes %zu: allow more",
                       options->dir, (unsigned long long)options->max_bytes, *file_bytes);
    return QN_OK;
}

static qn_status take_lock(qn_kv_store *store, qn_error *err)
{
    char *path = qn_path_join(store->dir, QN_KV_LOCK_NAME), holder[QN_LOCK_HOLDER_BYTES] = "";
    if (!path)
        return qn_fail_memory(err, "KV store", strlen(store->dir));
    qn_status status = qn_file_lock_try(path, QN_LOCK_EXCLUSIVE, &store->lock, holder, err);
    qn_free(path);
    if (status == QN_OK && !store->lock)
        return qn_fail(err, QN_RESOURCE, "%s: is the KV store of %s already: give each server a folder of its own",
                       store->dir, holder);
    return status;
}

size_t qn_kv_store_bytes(const qn_kv_store_options *options)
{
    size_t file_bytes;
    if (!qn_kv_file_bytes(options->block_bytes, options->block_tokens, &file_bytes)) {
        return 0;
    }
    /* an entry with its allocation's own, and its places in the heap and the tables */
    size_t entry = sizeof(qn_kv_entry) + 6 * sizeof(void *);
    return QN_KV_STORE_THREADS * qn_direct_buffer_bytes(file_bytes) +
           QN_KV_STORE_MAX_JOBS * (sizeof(qn_kv_job) + options->block_tokens * sizeof(int32_t)) +
           (size_t)(options->max_bytes / file_bytes) * entry;
}

static qn_status allocate(qn_kv_store *store, qn_error *err)
{
    uint64_t files = store->options.max_bytes / store->file_bytes;
    store->buffer_bytes = qn_direct_buffer_bytes(store->file_bytes);
    store->index = qn_kv_index_new(files < SIZE_MAX ? (size_t)files : SIZE_MAX);
    store->jobs = qn_alloc_zero(QN_KV_STORE_MAX_JOBS, sizeof *store->jobs);
    store->ids = qn_alloc_zero(QN_KV_STORE_MAX_JOBS * store->own.block_tokens, sizeof *store->ids);
    bool all = store->index && store->jobs && store->ids && hash_ring_new(&store->lost, QN_KV_STORE_LOST_KEYS) &&
               hash_ring_new(&store->dates, QN_KV_STORE_DATES);
    for (size_t i = 0; all && i < QN_KV_STORE_THREADS; i++) {
        store->threads[i] = (qn_kv_store_thread){.store = store, .buffer = qn_direct_buffer_new(store->buffer_bytes)};
        all = store->threads[i].buffer != NULL;
    }
    if (!all)
        return qn_fail_memory(err, "KV store", QN_KV_STORE_THREADS * (unsigned long long)store->buffer_bytes);
    for (size_t i = 0; i < QN_KV_STORE_MAX_JOBS; i++) {
        store->jobs[i].ids = store->ids + i * store->own.block_tokens;
        qn_kv_job_push(&store->free, &store->jobs[i]);
    }
    return QN_OK;
}

static qn_status start_threads(qn_kv_store *store, qn_error *err)
{
    qn_status status = QN_OK;
    for (; store->started < QN_KV_STORE_THREADS && status == QN_OK; store->started += status == QN_OK) {
        qn_kv_store_thread *self = &store->threads[store->started];
        status = qn_thread_start(&self->thread, "kv-store", qn_kv_store_thread_main, self, err);
    }
    return status;
}

static void tell(const qn_kv_store *store)
{
    char size[QN_MEMORY_TEXT_BYTES], bound[QN_MEMORY_TEXT_BYTES];
    size_t blocks = qn_kv_index_blocks(store->index);
    uint64_t own_bytes = (uint64_t)blocks * store->file_bytes, bytes = qn_kv_index_bytes(store->index);
    char others[QN_MEMORY_TEXT_BYTES + 64] = "";
    if (bytes > own_bytes) {
        qn_memory_text((size_t)(bytes - own_bytes), size);
        snprintf(others, sizeof others, ", and %s of other models, builds or options", size);
    }
    qn_log("KV store: %s: %zu blocks, %s of at most %s, %zu tokens%s", store->dir, blocks,
           qn_memory_text((size_t)own_bytes, size), qn_memory_text((size_t)store->options.max_bytes, bound),
           blocks * store->own.block_tokens, others);
}

/* The folder is locked before anything in it is looked at. */
static qn_status fill(qn_kv_store *store, qn_error *err)
{
    qn_status status = qn_kv_folder_make(store->dir, err);
    if (status == QN_OK)
        status = take_lock(store, err);
    if (status == QN_OK)
        status = allocate(store, err);
    if (status == QN_OK)
        status = qn_kv_folder_read(store->dir, &store->own, store->index, err);
    if (status == QN_OK)
        status = start_threads(store, err);
    if (status != QN_OK)
        return status;
    pthread_mutex_lock(&store->mutex);
    qn_error reason;
    bool fits = qn_kv_store_make_room(store, 0, &reason);
    if (!fits)
        store->paused_until_us = qn_now_us() + store->options.retry_us;
    pthread_mutex_unlock(&store->mutex);
    if (!fits)
        qn_log("KV store: holds more than its bound: %s", reason.message);
    tell(store);
    return QN_OK;
}

qn_status qn_kv_store_open(const qn_kv_store_options *options, qn_kv_store **out, qn_error *err)
{
    size_t file_bytes;
    qn_status status = check_options(options, &file_bytes, err);
    if (status != QN_OK)
        return status;
    qn_kv_store *store = qn_alloc_zero(1, sizeof *store);
    if (!store)
        return qn_fail_memory(err, "KV store", sizeof *store);
    pthread_mutex_init(&store->mutex, NULL);
    pthread_cond_init(&store->work, NULL);
    pthread_cond_init(&store->written, NULL);
    store->options = *options;
    if (options->retry_us == 0)
        store->options.retry_us = DEFAULT_RETRY_US;
    store->file_bytes = file_bytes;
    store->own = (qn_kv_header){.block_bytes = options->block_bytes,
                                .block_tokens = options->block_tokens,
                                .fingerprint = options->fingerprint};
    store->dir = qn_strdup(options->dir);
    store->options.dir = store->dir;
    status = store->dir ? fill(store, err) : qn_fail_memory(err, "KV store", strlen(options->dir));
    if (status != QN_OK) {
        qn_kv_store_close(store);
        return status;
    }
    *out = store;
    return QN_OK;
}

/* Tells how far it is when there is something to wait for. */
static void finish_writes(qn_kv_store *store)
{
    pthread_mutex_lock(&store->mutex);
    store->closing = true;
    pthread_cond_broadcast(&store->work);
    size_t total = store->writes.count + store->writing, left = total;
    if (total > 0 && store->started > 0) {
        qn_progress progress;
        pthread_mutex_unlock(&store->mutex);
        qn_progress_start(&progress, "writing KV blocks", "blocks", total);
        while (left > 0) {
            qn_progress_update(&progress, total - left);
            pthread_mutex_lock(&store->mutex);
            while (store->writes.count + store->writing == left)
                pthread_cond_wait(&store->written, &store->mutex);
            left = store->writes.count + store->writing;
            pthread_mutex_unlock(&store->mutex);
        }
        qn_progress_finish(&progress);
        pthread_mutex_lock(&store->mutex);
    }
    pthread_mutex_unlock(&store->mutex);
}

void qn_kv_store_close(qn_kv_store *store)
{
    if (!store)
        return;
    finish_writes(store);
    for (size_t i = 0; i < store->started; i++)
        pthread_join(store->threads[i].thread, NULL);
    for (size_t i = 0; i < QN_KV_STORE_THREADS; i++)
        qn_direct_buffer_free(store->threads[i].buffer, store->buffer_bytes);
    pthread_cond_destroy(&store->written);
    pthread_cond_destroy(&store->work);
    pthread_mutex_destroy(&store->mutex);
    qn_kv_index_free(store->index);
    qn_file_lock_release(store->lock);
    qn_free(store->lost.items);
    qn_free(store->dates.items);
    qn_free(store->ids);
    qn_free(store->jobs);
    qn_free(store->dir);
    qn_free(store);
}

size_t qn_kv_store_find(qn_kv_store *store, const qn_hash *keys, size_t count)
{
    size_t found = 0;
    pthread_mutex_lock(&store->mutex);
    for (; found < count; found++) {
        const qn_kv_entry *entry = qn_kv_store_entry(store, keys[found]);
        if (!entry || entry->state == QN_KV_ENTRY_REMOVING)
            break;
    }
    pthread_mutex_unlock(&store->mutex);
    return found;
}

void qn_kv_store_touch(qn_kv_store *store, const qn_hash *keys, size_t count)
{
    pthread_mutex_lock(&store->mutex);
    for (size_t i = 0; i < count; i++) {
        qn_kv_entry *entry = qn_kv_store_entry(store, keys[i]);
        if (!entry || entry->state != QN_KV_ENTRY_STORED)
            continue;
        qn_kv_index_touch(store->index, entry, qn_kv_index_tick(store->index));
        if (entry->recency_ns - entry->dated_ns >= DATE_INTERVAL_NS) {
            entry->dated_ns = entry->recency_ns;
            qn_kv_hash_ring_push(&store->dates, entry->id);
            pthread_cond_signal(&store->work);
        }
    }
    pthread_mutex_unlock(&store->mutex);
}

/* A job in `list`, under the mutex. */
static void queue(qn_kv_store *store, qn_kv_job_list *list, qn_kv_job what, const int32_t *ids)
{
    qn_kv_job *job = qn_kv_job_pop(&store->free);
    what.ids = job->ids;
    *job = what;
    memcpy(job->ids, ids, store->own.block_tokens * sizeof *ids);
    qn_kv_job_push(list, job);
    if (what.is_read || !store->writing) /* who writes goes on with the next */
        pthread_cond_signal(&store->work);
}

static bool queue_write(qn_kv_store *store, const qn_kv_job *what, const int32_t *ids)
{
    qn_kv_header header = qn_kv_store_header(store, what->parent, what->key);
    qn_hash id = qn_kv_header_id(&header), parent_id = qn_kv_header_parent_id(&header);
    if (qn_kv_index_find(store->index, id) || qn_now_us() < store->paused_until_us)
        return false;
    if (qn_kv_hash_ring_has(&store->lost, parent_id)) {
        if (!qn_kv_hash_ring_has(&store->lost, id))
            qn_kv_hash_ring_push(&store->lost, id);
        return false;
    }
    if (!store->free.first || store->writes.count >= QN_KV_STORE_MAX_WRITES ||
        !qn_kv_index_add(store->index, id, parent_id, false))
        return false;
    hash_ring_remove(&store->lost, id);
    queue(store, &store->writes, *what, ids);
    return true;
}

bool qn_kv_store_write(qn_kv_store *store, qn_hash parent, qn_hash key, const int32_t *ids, const uint8_t *block,
                       void *tag)
{
    const qn_kv_job what = {.parent = parent, .key = key, .source = block, .tag = tag};
    pthread_mutex_lock(&store->mutex);
    bool queued = queue_write(store, &what, ids);
    pthread_mutex_unlock(&store->mutex);
    return queued;
}

bool qn_kv_store_read(qn_kv_store *store, qn_hash parent, qn_hash key, const int32_t *ids, uint8_t *block, void *tag)
{
    const qn_kv_job what = {.is_read = true, .parent = parent, .key = key, .target = block, .tag = tag};
    pthread_mutex_lock(&store->mutex);
    qn_kv_entry *entry = qn_kv_store_entry(store, key);
    bool queued = entry && entry->state != QN_KV_ENTRY_REMOVING && store->free.first;
    if (queued) {
        qn_kv_index_touch(store->index, entry, qn_kv_index_tick(store->index));
        queue(store, &store->reads, what, ids);
    }
    pthread_mutex_unlock(&store->mutex);
    return queued;
}

size_t qn_kv_store_take_done(qn_kv_store *store, qn_kv_store_done *out, size_t max)
{
    size_t taken = 0;
    pthread_mutex_lock(&store->mutex);
    for (qn_kv_job *job; taken < max && (job = qn_kv_job_pop(&store->done)) != NULL; taken++) {
        out[taken] = (qn_kv_store_done){.tag = job->tag, .is_read = job->is_read, .ok = job->ok};
        qn_kv_job_push(&store->free, job);
    }
    pthread_mutex_unlock(&store->mutex);
    return taken;
}

void qn_kv_store_get_state(qn_kv_store *store, qn_kv_store_state *out)
{
    pthread_mutex_lock(&store->mutex);
    *out = (qn_kv_store_state){.blocks = qn_kv_index_blocks(store->index),
                               .bytes = qn_kv_index_bytes(store->index),
                               .writes = store->write_count,
                               .reads = store->read_count,
                               .failed_reads = store->failed_read_count,
                               .evictions = store->eviction_count};
    pthread_mutex_unlock(&store->mutex);
}
