/* A worker that cannot read makes the others stop; its error is the file's. */
#include "checkpoint/checksum.h"

#include <stdbool.h>

#include "base/direct_reader.h"
#include "base/memory.h"
#include "base/pool.h"

enum { READ_BYTES = 4 << 20 };

typedef struct worker {
    void *buffer;
    qn_hasher *hasher;
    qn_status status; /* its first failure to read, with the error */
    qn_error err;
} worker;

struct qn_checksummer {
    qn_pool *pool;
    worker *workers;
    qn_progress *progress;
    const atomic_bool *stop;
    _Atomic uint64_t read_bytes;
    atomic_bool failed; /* a worker could not read: the others need not go on */
};

typedef struct job {
    qn_checksummer *c;
    const char *path;
    qn_direct_reader *reader;
    qn_stretch *stretches;
} job;

static bool is_stopped(const qn_checksummer *c)
{
    return c->stop && atomic_load_explicit(c->stop, memory_order_relaxed);
}

static qn_status hash_stretch(job *j, qn_stretch *s, worker *w)
{
    qn_checksummer *c = j->c;
    qn_hasher_reset(w->hasher);
    for (uint64_t done = 0; done < s->bytes;) {
        size_t bytes = s->bytes - done < READ_BYTES ? (size_t)(s->bytes - done) : READ_BYTES;
        const uint8_t *data = NULL;
        if (is_stopped(c))
            return qn_fail(&w->err, QN_CANCELLED, "%s: its checksums were stopped: run it again", j->path);
        qn_status status = qn_direct_read(j->reader, s->offset + done, bytes, w->buffer, &data, &w->err);
        if (status != QN_OK)
            return status;
        qn_hasher_update(w->hasher, data, bytes);
        done += bytes;
        atomic_fetch_add(&c->read_bytes, bytes);
        if (c->progress)
            qn_progress_add(c->progress, bytes);
    }
    s->hash = qn_hasher_finish(w->hasher);
    return QN_OK;
}

static void run_stretch(void *context, size_t item, size_t number)
{
    job *j = context;
    worker *w = &j->c->workers[number];
    if (atomic_load(&j->c->failed))
        return;
    w->status = hash_stretch(j, &j->stretches[item], w);
    if (w->status != QN_OK)
        atomic_store(&j->c->failed, true);
}

/* The failure of the first worker that has one; what it was is forgotten then, so that another file may be read. */
static qn_status take_failure(qn_checksummer *c, qn_error *err)
{
    qn_status status = QN_OK;
    for (size_t i = 0; i < qn_pool_threads(c->pool); i++) {
        if (c->workers[i].status != QN_OK && status == QN_OK) {
            *err = c->workers[i].err;
            status = err->status;
        }
        c->workers[i].status = QN_OK;
    }
    atomic_store(&c->failed, false);
    return status;
}

qn_status qn_checksummer_run(qn_checksummer *checksummer, const char *path, qn_stretch *stretches, size_t count,
                             qn_error *err)
{
    job j = {.c = checksummer, .path = path, .stretches = stretches};
    qn_status status = qn_direct_reader_open(path, &j.reader, err);
    if (status != QN_OK)
        return status;
    if (count > 0)
        qn_pool_run(checksummer->pool, count, run_stretch, &j);
    qn_direct_reader_close(j.reader);
    return take_failure(checksummer, err);
}

uint64_t qn_checksummer_bytes(const qn_checksummer *checksummer)
{
    return atomic_load(&checksummer->read_bytes);
}

static qn_status make_workers(qn_checksummer *c, qn_error *err)
{
    size_t count = qn_pool_threads(c->pool);
    c->workers = qn_alloc_zero(count, sizeof *c->workers);
    bool whole = c->workers != NULL;
    for (size_t i = 0; i < count && whole; i++) {
        c->workers[i].buffer = qn_direct_buffer_new(qn_direct_buffer_bytes(READ_BYTES));
        c->workers[i].hasher = qn_hasher_new();
        whole = c->workers[i].buffer && c->workers[i].hasher;
    }
    return whole ? QN_OK : qn_fail_memory(err, "checksums", count * READ_BYTES);
}

qn_status qn_checksummer_new(size_t threads, qn_progress *progress, const atomic_bool *stop, qn_checksummer **out,
                             qn_error *err)
{
    qn_checksummer *c = qn_alloc_zero(1, sizeof *c);
    if (!c)
        return qn_fail_memory(err, "checksums", sizeof *c);
    c->progress = progress;
    c->stop = stop;
    qn_status status = qn_pool_new(threads, &c->pool, err);
    if (status == QN_OK)
        status = make_workers(c, err);
    if (status != QN_OK) {
        qn_checksummer_free(c);
        return status;
    }
    *out = c;
    return QN_OK;
}

void qn_checksummer_free(qn_checksummer *checksummer)
{
    if (!checksummer)
        return;
    for (size_t i = 0; checksummer->workers && i < qn_pool_threads(checksummer->pool); i++) {
        qn_direct_buffer_free(checksummer->workers[i].buffer, qn_direct_buffer_bytes(READ_BYTES));
        qn_hasher_free(checksummer->workers[i].hasher);
    }
    qn_free(checksummer->workers);
    qn_pool_free(checksummer->pool);
    qn_free(checksummer);
}
