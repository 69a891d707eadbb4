/* The store's threads: each takes what is most urgent, reads before a write before dates of files. One of them writes
 * at a time, so that writes are done in order, parents before what builds on them.
 *
 * An entry whose file is being removed stays in the index until it is gone: no write of the same block can come
 * between, and lose its new file to the removal. */
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "kv/store_file.h"
#include "kv/store_internal.h"

/* Gives the mutex up meanwhile. A file that cannot be removed keeps its entry, since it keeps its space. */
static bool remove_file(qn_kv_store *store, qn_kv_entry *entry, qn_error *err)
{
    qn_hash id = entry->id;
    qn_kv_index_set_removing(store->index, entry);
    pthread_mutex_unlock(&store->mutex);
    bool gone = qn_kv_file_remove(store->dir, id, err);
    pthread_mutex_lock(&store->mutex);
    if (gone)
        qn_kv_index_erase(store->index, entry);
    return gone;
}

bool qn_kv_store_make_room(qn_kv_store *store, uint64_t bytes, qn_error *err)
{
    while (qn_kv_index_bytes(store->index) > store->options.max_bytes - bytes) {
        qn_kv_entry *victim = qn_kv_index_victim(store->index);
        if (!victim) {
            qn_fail(err, QN_FAILED, "%s: all its blocks are in use by others: allow more space, or empty it",
                    store->dir);
            return false;
        }
        qn_kv_hash_ring_push(&store->lost, victim->id);
        if (!remove_file(store, victim, err))
            return false;
        store->eviction_count++;
    }
    return true;
}

/* The first read whose block is not still waiting to be written. */
static qn_kv_job *take_read(qn_kv_store *store)
{
    qn_kv_job *before = NULL;
    for (qn_kv_job *job = store->reads.first; job; before = job, job = job->next) {
        const qn_kv_entry *entry = qn_kv_store_entry(store, job->key);
        if (entry && entry->state == QN_KV_ENTRY_QUEUED)
            continue;
        if (!before)
            return qn_kv_job_pop(&store->reads);
        before->next = job->next;
        if (store->reads.last == job)
            store->reads.last = before;
        store->reads.count--;
        return job;
    }
    return NULL;
}

/* Gives the mutex up for the call. */
static void finish(qn_kv_store *store, qn_kv_job *job, bool ok)
{
    job->ok = ok;
    qn_kv_job_push(&store->done, job);
    pthread_mutex_unlock(&store->mutex);
    if (store->options.wake)
        store->options.wake(store->options.wake_context);
    pthread_mutex_lock(&store->mutex);
}

/* Gives the mutex up for the line. */
static void log_line(qn_kv_store *store, const char *what, const qn_error *err)
{
    pthread_mutex_unlock(&store->mutex);
    qn_log("%s%s", what, err->message);
    pthread_mutex_lock(&store->mutex);
}

/* The entry's file failed a check or a read. */
static void drop_bad(qn_kv_store *store, const qn_kv_job *job, qn_error *reason)
{
    qn_kv_entry *entry = qn_kv_store_entry(store, job->key);
    if (!entry || entry->state != QN_KV_ENTRY_STORED)
        return; /* evicted meanwhile, or another read of it was first */
    qn_error err;
    bool removed = remove_file(store, entry, &err);
    log_line(store, removed ? "KV store: removed " : "KV store: bad, and cannot be removed: ", reason);
}

static void run_read(qn_kv_store *store, qn_kv_job *job, uint8_t *buffer)
{
    qn_kv_header header = qn_kv_store_header(store, job->parent, job->key);
    const qn_kv_entry *entry = qn_kv_store_entry(store, job->key);
    bool stored = entry && entry->state == QN_KV_ENTRY_STORED;
    int64_t recency_ns = stored ? entry->recency_ns : 0;
    qn_error err = {.status = QN_FAILED};
    if (stored) {
        pthread_mutex_unlock(&store->mutex);
        qn_status status = qn_kv_file_read(store->dir, &header, job->ids, buffer, job->target, &err);
        if (status == QN_OK) {
            err.status = QN_OK;
            qn_kv_file_date(store->dir, qn_kv_header_id(&header), recency_ns);
        }
        pthread_mutex_lock(&store->mutex);
    }
    if (err.status == QN_OK)
        store->read_count++;
    else
        store->failed_read_count++;
    if (err.status == QN_BAD_INPUT)
        drop_bad(store, job, &err);
    else if (err.status == QN_RESOURCE)
        log_line(store, "KV store: ", &err);
    finish(store, job, err.status == QN_OK);
}

/* The file of the job's block, as queued: false, with err->status QN_FAILED, when that is of no use. */
static bool write_file(qn_kv_store *store, const qn_kv_job *job, int64_t recency_ns, uint8_t *buffer, qn_error *err)
{
    qn_kv_header header = qn_kv_store_header(store, job->parent, job->key);
    err->status = QN_FAILED;
    if (qn_now_us() < store->paused_until_us || qn_kv_hash_ring_has(&store->lost, qn_kv_header_parent_id(&header)) ||
        !qn_kv_store_make_room(store, store->file_bytes, err))
        return false;
    pthread_mutex_unlock(&store->mutex);
    qn_status status = qn_kv_file_write(store->dir, &header, job->ids, job->source, recency_ns, buffer, err);
    pthread_mutex_lock(&store->mutex);
    return status == QN_OK;
}

static void run_write(qn_kv_store *store, qn_kv_job *job, uint8_t *buffer)
{
    qn_error err;
    int64_t recency_ns = qn_kv_index_tick(store->index);
    bool ok = write_file(store, job, recency_ns, buffer, &err);
    qn_kv_entry *entry = qn_kv_store_entry(store, job->key);
    if (ok) {
        qn_kv_index_set_stored(store->index, entry, store->file_bytes, recency_ns);
        store->write_count++;
    } else {
        qn_kv_hash_ring_push(&store->lost, entry->id);
        qn_kv_index_erase(store->index, entry);
        if (err.status != QN_FAILED) {
            store->paused_until_us = qn_now_us() + store->options.retry_us;
            log_line(store, "KV store: writes nothing for a while: ", &err);
        }
    }
    finish(store, job, ok);
}

static bool run_date(qn_kv_store *store)
{
    qn_hash id;
    if (!qn_kv_hash_ring_pop(&store->dates, &id))
        return false;
    const qn_kv_entry *entry = qn_kv_index_find(store->index, id);
    if (!entry || entry->state != QN_KV_ENTRY_STORED)
        return true;
    int64_t recency_ns = entry->recency_ns;
    pthread_mutex_unlock(&store->mutex);
    qn_kv_file_date(store->dir, id, recency_ns);
    pthread_mutex_lock(&store->mutex);
    return true;
}

/* One thing that there is to do; false: nothing. */
static bool run_one(qn_kv_store *store, uint8_t *buffer)
{
    qn_kv_job *job = store->closing ? NULL : take_read(store);
    if (job) {
        run_read(store, job, buffer);
        return true;
    }
    if (!store->writing && (job = qn_kv_job_pop(&store->writes)) != NULL) {
        store->writing = true;
        run_write(store, job, buffer);
        store->writing = false;
        if (store->reads.count > 0 || store->closing) /* a read may wait for this block; writes are this thread's */
            pthread_cond_broadcast(&store->work);
        pthread_cond_broadcast(&store->written);
        return true;
    }
    return run_date(store);
}

void *qn_kv_store_thread_main(void *thread)
{
    qn_kv_store_thread *self = thread;
    qn_kv_store *store = self->store;
    pthread_mutex_lock(&store->mutex);
    for (;;) {
        if (run_one(store, self->buffer))
            continue;
        if (store->closing && store->writes.count == 0)
            break;
        pthread_cond_wait(&store->work, &store->mutex);
    }
    pthread_mutex_unlock(&store->mutex);
    return NULL;
}
