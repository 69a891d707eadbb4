/* Two files at most are in work at a time as a rule: the one that tensors are taken from, and the one before, whose
 * last tensors are under way. The thread that ends a file's last tensor puts it in its place while the others go on.
 * What is under the lock is short, but for the opening of a file, without which the others have nothing to do either.
 */
#include "convert/workers.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

#include "base/arena.h"
#include "base/memory.h"
#include "base/pool.h"
#include "base/size.h"
#include "convert/shard_file.h"
#include "convert/state.h"

enum {
    MIN_PIECE_BYTES = 512 << 10,
    MAX_PIECE_BYTES = 8 << 20,
    EXTRA_WORKERS = 6, /* wait for the disk while the others compute; a disk wants several requests at a time */
    NAMES_LIMIT_BYTES = 512 << 20
};

/* A file of the plan in work. */
typedef struct open_shard {
    size_t index; /* in the plan */
    const qn_planned_shard *planned;
    qn_file_lock *lock;
    qn_shard_file *file;
    qn_arena *names;
    size_t *first;       /* [planned->count] a tensor's first output in the file */
    size_t next, undone; /* to be taken; taken or not, and not committed */
    struct open_shard *link;
} open_shard;

typedef struct crew {
    qn_job *job;
    const size_t *shards;
    size_t count, next; /* to be opened */
    qn_shard_finished finished;
    void *context;
    pthread_mutex_t lock; /* all of this */
    open_shard *current;  /* that tensors are taken from; NULL: none */
    open_shard *all;      /* in work, to be closed in the end */
    qn_status status;     /* the first failure, and its error */
    qn_error *err;
} crew;

size_t qn_workers_for(size_t threads)
{
    return qn_min_size(threads + EXTRA_WORKERS, QN_POOL_MAX_THREADS);
}

size_t qn_piece_bytes_for(size_t workers)
{
    size_t piece = MAX_PIECE_BYTES;
    while (piece > MIN_PIECE_BYTES && workers * qn_encoder_bytes(piece) > QN_CONVERT_BUFFER_BYTES)
        piece /= 2;
    return piece;
}

static void close_shard(open_shard *shard)
{
    if (!shard)
        return;
    qn_shard_file_close(shard->file);
    qn_file_lock_release(shard->lock);
    qn_arena_free(shard->names);
    qn_free(shard->first);
    qn_free(shard);
}

/* The file's tensors, in the order of the plan; *count of them in *out, to be released. */
static qn_status declare_all(qn_job *job, open_shard *shard, qn_tensor_declaration **out, size_t *count, qn_error *err)
{
    size_t tensors = shard->planned->count;
    shard->names = qn_arena_new(NAMES_LIMIT_BYTES);
    shard->first = qn_alloc(tensors, sizeof *shard->first);
    *out = qn_alloc(tensors * QN_MAX_OUTPUTS, sizeof **out);
    if (!shard->names || !shard->first || !*out)
        return qn_fail_memory(err, shard->planned->name, tensors * QN_MAX_OUTPUTS * sizeof **out);
    *count = 0;
    for (size_t i = 0; i < tensors; i++) {
        size_t tensor = shard->planned->tensors[i];
        qn_status status = qn_encoding_declare(job->source, tensor, shard->names, *out + *count, err);
        if (status != QN_OK)
            return status;
        shard->first[i] = *count;
        *count += qn_encoding_outputs(qn_source_at(job->source, tensor));
    }
    return QN_OK;
}

static qn_status open_file(qn_job *job, open_shard *shard, qn_error *err)
{
    qn_tensor_declaration *tensors = NULL;
    size_t count = 0;
    qn_status status = declare_all(job, shard, &tensors, &count, err);
    if (status == QN_OK)
        status = qn_shard_file_open(job->options->destination, shard->planned->name, tensors, count, &shard->file, err);
    qn_free(tensors);
    return status;
}

/* Locks and opens a file of the plan; *out stays NULL where there is nothing to do for this run. */
static qn_status open_shard_of(qn_job *job, size_t index, open_shard **out, qn_error *err)
{
    const char *dst = job->options->destination;
    open_shard *shard = qn_alloc_zero(1, sizeof *shard);
    if (!shard)
        return qn_fail_memory(err, "convert", sizeof *shard);
    shard->index = index;
    shard->planned = qn_shard_plan_at(job->plan, index);
    shard->undone = shard->planned->count;
    bool done = false;
    qn_status status = qn_state_lock_file(dst, shard->planned->name, &shard->lock, job->holder, err);
    if (status == QN_OK && shard->lock)
        status = qn_shard_file_done(dst, shard->planned->name, &done, err);
    if (status == QN_OK && shard->lock && !done)
        status = open_file(job, shard, err);
    if (status == QN_OK && shard->file) {
        *out = shard;
        return QN_OK;
    }
    if (status == QN_OK) {
        job->state[index] = shard->lock ? QN_SHARD_DONE : QN_SHARD_BUSY;
        if (done)
            qn_progress_add(&job->progress, shard->planned->source_bytes);
    }
    close_shard(shard);
    return status;
}

static bool is_stopped(const crew *c)
{
    return atomic_load_explicit(c->job->encoding.stop, memory_order_relaxed);
}

/* With the lock held. */
static void fail(crew *c, qn_status status, const qn_error *err)
{
    if (c->status != QN_OK)
        return;
    c->status = status;
    *c->err = *err;
}

/* Takes the next tensor: its file and its place in it. False when there is none, or no more is to be done. With the
 * lock held. */
static bool take(crew *c, open_shard **shard, size_t *place)
{
    while (c->status == QN_OK && !is_stopped(c)) {
        if (c->current && c->current->next < c->current->planned->count) {
            *shard = c->current;
            *place = c->current->next++;
            return true;
        }
        c->current = NULL;
        if (c->next == c->count)
            return false;
        size_t index = c->shards[c->next++];
        if (c->job->state[index] != QN_SHARD_OPEN)
            continue;
        qn_error err;
        qn_status status = open_shard_of(c->job, index, &c->current, &err);
        if (status != QN_OK)
            fail(c, status, &err);
        if (c->current) {
            c->current->link = c->all;
            c->all = c->current;
        }
    }
    return false;
}

/* What an earlier run wrote of the tensor is checked, and all else written. */
static qn_status do_tensor(const crew *c, qn_encoder *encoder, open_shard *shard, size_t place, qn_error *err)
{
    qn_job *job = c->job;
    size_t tensor = shard->planned->tensors[place], first = shard->first[place];
    bool same = false;
    qn_slice slice;
    qn_status status = qn_encoder_check(encoder, tensor, shard->file, first, &same, err);
    if (status == QN_OK && !same)
        status = qn_encoder_run(encoder, tensor, shard->file, first, err);
    if (status == QN_OK)
        status = qn_source_locate(job->source, tensor, &slice, err);
    if (status != QN_OK)
        return status;
    qn_progress_add(&job->progress, qn_planned_source_bytes(qn_source_at(job->source, tensor)));
    if (same)
        return QN_OK;
    atomic_fetch_add(&job->read_bytes, slice.bytes);
    for (size_t k = 0; k < qn_encoding_outputs(qn_source_at(job->source, tensor)); k++)
        atomic_fetch_add(&job->written_bytes, qn_shard_file_tensor_bytes(shard->file, first + k));
    return QN_OK;
}

static void unlink_shard(crew *c, const open_shard *shard)
{
    open_shard **at = &c->all;
    while (*at != shard)
        at = &(*at)->link;
    *at = shard->link;
    if (c->current == shard)
        c->current = NULL;
}

/* All tensors of the file are in. Others may fail meanwhile, which does not concern it. */
static qn_status finish_shard(crew *c, open_shard *shard, qn_error *err)
{
    qn_status status = qn_shard_file_finish(shard->file, err);
    if (status != QN_OK)
        return status;
    size_t index = shard->index;
    pthread_mutex_lock(&c->lock);
    unlink_shard(c, shard);
    c->job->state[index] = QN_SHARD_DONE;
    pthread_mutex_unlock(&c->lock);
    close_shard(shard);
    return c->finished ? c->finished(c->context, index, err) : QN_OK;
}

static void work(crew *c, qn_encoder *encoder)
{
    open_shard *shard;
    size_t place;
    pthread_mutex_lock(&c->lock);
    while (take(c, &shard, &place)) {
        pthread_mutex_unlock(&c->lock);
        qn_error err;
        qn_status status = do_tensor(c, encoder, shard, place, &err);
        pthread_mutex_lock(&c->lock);
        bool last = status == QN_OK && --shard->undone == 0;
        if (last) {
            pthread_mutex_unlock(&c->lock);
            status = finish_shard(c, shard, &err);
            pthread_mutex_lock(&c->lock);
        }
        if (status != QN_OK)
            fail(c, status, &err);
    }
    pthread_mutex_unlock(&c->lock);
}

static void run_worker(void *context, size_t item, size_t worker)
{
    (void)item, (void)worker;
    crew *c = context;
    qn_encoder *encoder = NULL;
    qn_error err;
    qn_status status = qn_encoder_new(&c->job->encoding, &encoder, &err);
    if (status == QN_OK) {
        work(c, encoder);
    } else {
        pthread_mutex_lock(&c->lock);
        fail(c, status, &err);
        pthread_mutex_unlock(&c->lock);
    }
    qn_encoder_free(encoder);
}

qn_status qn_workers_run(qn_job *job, const size_t *shards, size_t count, qn_shard_finished finished, void *context,
                         qn_error *err)
{
    qn_pool *pool = NULL;
    qn_status status = qn_pool_new(job->workers, &pool, err);
    if (status != QN_OK)
        return status;
    crew c = {.job = job,
              .shards = shards,
              .count = count,
              .finished = finished,
              .context = context,
              .status = QN_OK,
              .err = err};
    pthread_mutex_init(&c.lock, NULL);
    qn_pool_run(pool, job->workers, run_worker, &c);
    qn_pool_free(pool);
    pthread_mutex_destroy(&c.lock);
    while (c.all) {
        open_shard *shard = c.all;
        c.all = shard->link;
        close_shard(shard);
    }
    if (c.status == QN_OK && is_stopped(&c))
        return qn_fail(err, QN_CANCELLED, "convert: stopped: run the same command again to go on");
    return c.status;
}
