/* What store.c (the engine's side) and store_worker.c (the store's threads) share. */
#ifndef QN_KV_STORE_INTERNAL_H
#define QN_KV_STORE_INTERNAL_H

#include <pthread.h>

#include "base/file_lock.h"
#include "kv/store.h"
#include "kv/store_header.h"
#include "kv/store_index.h"

enum {
    QN_KV_STORE_THREADS = 3,      /* reads in flight: enough to keep a disk busy while others are checked */
    QN_KV_STORE_LOST_KEYS = 1024, /* blocks remembered to be without a file */
    QN_KV_STORE_DATES = 8192,     /* files waiting to be dated */
};

typedef struct qn_kv_job qn_kv_job;
struct qn_kv_job {
    qn_kv_job *next;
    bool is_read, ok;
    qn_hash parent, key;
    int32_t *ids;          /* [block_tokens], the store's */
    const uint8_t *source; /* the caller's block: of a write */
    uint8_t *target;       /* of a read */
    void *tag;
};

typedef struct qn_kv_job_list {
    qn_kv_job *first, *last;
    size_t count;
} qn_kv_job_list;

/* A ring of hashes: the newest are kept. */
typedef struct qn_kv_hash_ring {
    qn_hash *items; /* [capacity] */
    size_t capacity, start, count;
} qn_kv_hash_ring;

typedef struct qn_kv_store_thread {
    qn_kv_store *store;
    uint8_t *buffer; /* qn_direct_buffer_new(store->buffer_bytes) */
    pthread_t thread;
} qn_kv_store_thread;

/* What is below the mutex is under it; the rest is constant once open. No file is touched and no line logged while it
 * is held, since the engine's thread waits for it. */
struct qn_kv_store {
    qn_kv_store_options options; /* dir: the store's copy */
    char *dir;
    qn_kv_header own; /* fingerprint and sizes */
    size_t file_bytes, buffer_bytes;
    qn_file_lock *lock;
    qn_kv_job *jobs; /* [QN_KV_STORE_MAX_JOBS] */
    int32_t *ids;    /* [QN_KV_STORE_MAX_JOBS, block_tokens] */
    qn_kv_store_thread threads[QN_KV_STORE_THREADS];
    size_t started;

    pthread_mutex_t mutex;
    pthread_cond_t work;    /* something to do, or closing */
    pthread_cond_t written; /* a write is done */
    qn_kv_index *index;
    qn_kv_job_list free, reads, writes, done;
    qn_kv_hash_ring lost;  /* ids of files that were not written or made room: what builds on them is of no use */
    qn_kv_hash_ring dates; /* ids of files to be dated */
    bool writing, closing;
    uint64_t paused_until_us; /* no writing before */
    uint64_t write_count, read_count, failed_read_count, eviction_count;
};

void qn_kv_job_push(qn_kv_job_list *list, qn_kv_job *job);
qn_kv_job *qn_kv_job_pop(qn_kv_job_list *list); /* NULL: empty */

void qn_kv_hash_ring_push(qn_kv_hash_ring *ring, qn_hash hash);
bool qn_kv_hash_ring_pop(qn_kv_hash_ring *ring, qn_hash *out);
bool qn_kv_hash_ring_has(const qn_kv_hash_ring *ring, qn_hash hash);

qn_kv_header qn_kv_store_header(const qn_kv_store *store, qn_hash parent, qn_hash key);

/* Under the mutex: the entry of the block with this key, in whatever state; NULL: none. */
qn_kv_entry *qn_kv_store_entry(const qn_kv_store *store, qn_hash key);

/* Under the mutex, which is given up while files are removed: removes entries until a file of `bytes` fits. False when
 * nothing may go any more (QN_FAILED) or a file could not be removed. */
bool qn_kv_store_make_room(qn_kv_store *store, uint64_t bytes, qn_error *err);

void *qn_kv_store_thread_main(void *thread); /* a qn_kv_store_thread's */

#endif
