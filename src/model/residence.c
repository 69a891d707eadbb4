/* Threads take requests in the order of the plan and finish them in any order; `whole` counts those at its beginning
 * that are all done. Matrices are sorted by how many that takes, so what can be taken over is always a front part of
 * the list of moves: the loader raises one number, the publisher another, and neither waits for the other.
 *
 * One thread is the main one: it reads like its helpers, gives back the mapping's pages behind what was published,
 * tells the end, and closes the files when all that was read has been published. */
#include "model/residence.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "base/amounts.h"
#include "base/clock.h"
#include "base/direct_reader.h"
#include "base/huge_memory.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/packed_bf16.h"
#include "base/progress.h"
#include "base/size.h"
#include "base/thread.h"
#include "checkpoint/view_map.h"
#include "model/residence_packing.h"
#include "model/residence_plan.h"

enum { DEPTH = 4 /* requests in flight */, REQUEST_BYTES = 16 << 20 };

struct qn_residence {
    qn_view_map map;
    qn_load_plan plan;
    qn_direct_reader **readers; /* [map.count]; NULL once the load's threads have no more use for them */
    qn_huge_memory memory;
    qn_load_packer *packer; /* NULL: nothing is packed */
    qn_residence_options options;
    qn_progress progress;
    uint64_t started_us;
    pthread_t main;
    bool main_runs;

    _Atomic size_t threads;      /* that have come to read */
    _Atomic size_t next_request; /* to be taken */
    _Atomic size_t whole;        /* requests [0, whole) are done */
    _Atomic uint64_t loaded_bytes;
    atomic_bool stopping; /* no more requests are taken */
    _Atomic size_t published;

    pthread_mutex_t mutex;
    pthread_cond_t changed; /* published, ended, closing */
    bool *done;             /* [request_count] */
    bool failed, ended, closing;
    qn_error failure; /* the first */

    size_t dropped; /* moves, of those published: the main thread's */
};

/* ---- reading ---- */

static void fail(qn_residence *r, const qn_error *err)
{
    pthread_mutex_lock(&r->mutex);
    if (!r->failed)
        r->failure = *err;
    r->failed = true;
    pthread_mutex_unlock(&r->mutex);
    atomic_store(&r->stopping, true);
}

static void note_done(qn_residence *r, size_t request)
{
    pthread_mutex_lock(&r->mutex);
    r->done[request] = true;
    size_t whole = atomic_load(&r->whole);
    while (whole < r->plan.request_count && r->done[whole])
        whole++;
    atomic_store(&r->whole, whole);
    pthread_mutex_unlock(&r->mutex);
}

static qn_status do_request(qn_residence *r, const qn_load_request *request, size_t thread, qn_error *err)
{
    if (request->packing != QN_NOT_PACKED)
        return qn_load_packer_do(r->packer, request, thread, err);
    const uint8_t *data;
    return qn_direct_read(r->readers[request->file], request->offset, request->bytes, r->memory.data + request->at,
                          &data, err);
}

/* False: there is nothing more to read. */
static bool read_one(qn_residence *r, size_t thread)
{
    if (atomic_load(&r->stopping) || (r->options.stop && atomic_load(r->options.stop)))
        return false;
    size_t i = atomic_fetch_add(&r->next_request, 1);
    if (i >= r->plan.request_count)
        return false;
    const qn_load_request *request = &r->plan.requests[i];
    qn_error err;
    if (do_request(r, request, thread, &err) != QN_OK) {
        fail(r, &err);
        return false;
    }
    note_done(r, i);
    atomic_fetch_add(&r->loaded_bytes, request->bytes);
    qn_progress_add(&r->progress, request->bytes);
    return true;
}

/* ---- giving back ---- */

/* Whole pages of the mapping only: the others are shared with a neighbour that may still be in use. */
static void drop_range(qn_residence *r, const uint8_t *data, size_t bytes)
{
    size_t file;
    uint64_t offset;
    if (!qn_view_map_find(&r->map, data, &file, &offset))
        return;
    uint64_t first = (offset + QN_DIRECT_ALIGNMENT - 1) / QN_DIRECT_ALIGNMENT * QN_DIRECT_ALIGNMENT;
    uint64_t last = (offset + bytes) / QN_DIRECT_ALIGNMENT * QN_DIRECT_ALIGNMENT;
    if (last <= first)
        return;
    (void)madvise((void *)((uintptr_t)r->map.files[file].start + first), last - first, MADV_DONTNEED);
    qn_direct_reader_drop(r->readers[file], first, last - first);
}

static void drop_published(qn_residence *r)
{
    size_t published = atomic_load(&r->published);
    for (; r->dropped < published; r->dropped++) {
        const qn_load_move *move = &r->plan.moves[r->dropped];
        if (move->packing != QN_NOT_PACKED && qn_load_packer_result(r->packer, move->packing)->data == move->from.data)
            continue; /* it stayed */
        drop_range(r, move->from.data, qn_matrix_data_bytes(&move->from));
        if (move->from.scales)
            drop_range(r, move->from.scales, qn_matrix_scale_bytes(&move->from));
    }
}

/* ---- the threads ---- */

static void *help(void *context)
{
    qn_residence *r = context;
    size_t thread = atomic_fetch_add(&r->threads, 1);
    while (read_one(r, thread)) {
    }
    return NULL;
}

/* As many threads as there are requests to have in flight; fewer where the system has no more. */
static void read_all(qn_residence *r)
{
    pthread_t helper[DEPTH - 1];
    assert(r->plan.request_count > 0); /* a model has an embedding at least */
    size_t wanted = qn_min_size(DEPTH, r->plan.request_count) - 1, count = 0;
    qn_error err;
    while (count < wanted && qn_thread_start(&helper[count], "quern-load", help, r, &err) == QN_OK)
        count++;
    if (count < wanted)
        qn_log("load: goes on with %zu threads instead of %zu: %s", count + 1, wanted + 1, err.message);
    size_t thread = atomic_fetch_add(&r->threads, 1);
    while (read_one(r, thread))
        drop_published(r);
    for (size_t i = 0; i < count; i++)
        pthread_join(helper[i], NULL);
    if (r->packer)
        qn_load_packer_free_buffers(r->packer);
}

static void tell_packing(const qn_residence *r)
{
    char from[QN_MEMORY_TEXT_BYTES], to[QN_MEMORY_TEXT_BYTES], saved[QN_MEMORY_TEXT_BYTES];
    const qn_load_packer_figures f = qn_load_packer_get_figures(r->packer);
    if (f.packed > 0)
        qn_log("pack-dense: %zu matrices of %s packed to %s: %s saved", f.packed,
               qn_memory_text((size_t)f.from_bytes, from), qn_memory_text((size_t)f.bytes, to),
               qn_memory_text((size_t)(f.from_bytes - f.bytes), saved));
    if (f.unpacked > 0)
        qn_log("pack-dense: %zu matrices of %s stay BF16: more than one exponent in %d is rare in its row", f.unpacked,
               qn_memory_text((size_t)f.unpacked_bytes, from), QN_PACKED_RARE);
    if (f.mapped_bytes > 0)
        qn_log("pack-dense: of them %s stay where their files are mapped: memory does not suffice",
               qn_memory_text((size_t)f.mapped_bytes, from));
}

static void tell_end(const qn_residence *r)
{
    char text[QN_MEMORY_TEXT_BYTES], huge[QN_MEMORY_TEXT_BYTES];
    double seconds = (double)(qn_now_us() - r->started_us) / 1e6;
    size_t loaded = (size_t)atomic_load(&r->loaded_bytes);
    if (r->failed) {
        qn_log("load: %s", r->failure.message);
        qn_log("load: ended after %s of weights: the others are used where their files are mapped",
               qn_memory_text(loaded, text));
    } else if (loaded == r->plan.read_bytes) {
        qn_log("load: %s of weights in memory after %.1f s, %.2f GB/s; %s in 2 MiB pages", qn_memory_text(loaded, text),
               seconds, (double)loaded / 1e9 / (seconds > 1e-6 ? seconds : 1e-6),
               qn_memory_text(qn_huge_memory_in_huge_pages(&r->memory), huge));
    }
    if (r->packer)
        tell_packing(r);
}

static bool all_published(const qn_residence *r)
{
    size_t published = atomic_load(&r->published), whole = atomic_load(&r->whole);
    return published == r->plan.move_count || r->plan.moves[published].needs > whole;
}

static void *load_main(void *context)
{
    qn_residence *r = context;
    read_all(r);
    qn_progress_finish(&r->progress);
    tell_end(r);
    pthread_mutex_lock(&r->mutex);
    r->ended = true;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->mutex);
    if (r->options.wake)
        r->options.wake(r->options.wake_context);
    pthread_mutex_lock(&r->mutex);
    while (!all_published(r) && !r->closing)
        pthread_cond_wait(&r->changed, &r->mutex);
    pthread_mutex_unlock(&r->mutex);
    drop_published(r);
    qn_view_map_close_files(&r->map, r->readers);
    r->readers = NULL;
    return NULL;
}

/* ---- start and end ---- */

static qn_status prepare(qn_residence *r, const qn_checkpoint *checkpoint, qn_weights *weights, qn_error *err)
{
    size_t bytes = r->options.request_bytes;
    const qn_load_wishes wishes = {.request_bytes = bytes > 0 ? bytes : REQUEST_BYTES,
                                   .without_experts = r->options.without_experts,
                                   .pack_dense = r->options.pack_dense};
    qn_status status = qn_view_map_make(checkpoint, &r->map, err);
    if (status == QN_OK)
        status = qn_load_plan_make(weights, &r->map, wishes, &r->plan, err);
    if (status == QN_OK)
        status = qn_view_map_open_files(&r->map, "load", &r->readers, err);
    if (status != QN_OK)
        return status;
    r->done = qn_alloc_zero(r->plan.request_count, sizeof *r->done);
    if (!r->done)
        return qn_fail_memory(err, "plan of the load", r->plan.request_count);
    status = qn_huge_memory_new(r->plan.memory_bytes, true, "weights in memory", &r->memory, err);
    if (status == QN_OK && r->plan.packing_count > 0)
        status = qn_load_packer_new(&r->plan, r->readers, r->memory.data, DEPTH, &r->packer, err);
    return status;
}

bool qn_load_packs_dense(qn_load load, qn_pack_dense pack_dense, const qn_kernels *kernels)
{
    return load != QN_LOAD_MAPPED && (pack_dense == QN_PACK_ON || (pack_dense == QN_PACK_AUTO && kernels->packed_pays));
}

qn_status qn_residence_start(const qn_checkpoint *checkpoint, qn_weights *weights, const qn_residence_options *options,
                             qn_residence **out, qn_error *err)
{
    qn_residence *r = qn_alloc_zero(1, sizeof *r);
    if (!r)
        return qn_fail_memory(err, "load of the weights", sizeof *r);
    r->options = *options;
    r->started_us = qn_now_us();
    pthread_mutex_init(&r->mutex, NULL);
    pthread_cond_init(&r->changed, NULL);
    qn_status status = prepare(r, checkpoint, weights, err);
    if (status == QN_OK) {
        qn_progress_begin(&r->progress,
                          &(qn_progress_setup){.label = "loading weights",
                                               .unit = "bytes",
                                               .total = r->plan.read_bytes,
                                               .style = options->in_background ? QN_PROGRESS_LINES : QN_PROGRESS_AUTO});
        status = qn_thread_start(&r->main, "quern-load", load_main, r, err);
        r->main_runs = status == QN_OK;
        if (status != QN_OK)
            qn_progress_finish(&r->progress);
    }
    if (status != QN_OK) {
        qn_residence_free(r);
        return status;
    }
    *out = r;
    return QN_OK;
}

void qn_residence_free(qn_residence *r)
{
    if (!r)
        return;
    atomic_store(&r->stopping, true);
    pthread_mutex_lock(&r->mutex);
    r->closing = true;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->mutex);
    if (r->main_runs)
        pthread_join(r->main, NULL);
    qn_view_map_close_files(&r->map, r->readers);
    qn_free(r->done);
    qn_load_packer_free(r->packer);
    qn_huge_memory_free(&r->memory);
    qn_load_plan_free(&r->plan);
    qn_view_map_free(&r->map);
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->mutex);
    qn_free(r);
}

void qn_residence_publish(qn_residence *r)
{
    size_t whole = atomic_load(&r->whole), before = atomic_load(&r->published), at = before;
    for (; at < r->plan.move_count && r->plan.moves[at].needs <= whole; at++) {
        const qn_load_move *move = &r->plan.moves[at];
        if (move->packing != QN_NOT_PACKED) {
            *move->matrix = *qn_load_packer_result(r->packer, move->packing);
            continue;
        }
        move->matrix->data = r->memory.data + move->data_at;
        if (move->matrix->scales)
            move->matrix->scales = r->memory.data + move->scales_at;
    }
    if (at == before)
        return;
    pthread_mutex_lock(&r->mutex); /* free but at the end, when the main thread may be about to sleep */
    atomic_store(&r->published, at);
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->mutex);
}

void qn_residence_wait(qn_residence *r)
{
    pthread_mutex_lock(&r->mutex);
    while (!r->ended)
        pthread_cond_wait(&r->changed, &r->mutex);
    pthread_mutex_unlock(&r->mutex);
}

qn_residence_state qn_residence_get_state(const qn_residence *residence)
{
    qn_residence *r = (qn_residence *)(uintptr_t)residence; /* to hold its mutex only */
    pthread_mutex_lock(&r->mutex);
    qn_residence_state state = {.total_bytes = r->plan.read_bytes,
                                .loaded_bytes = atomic_load(&r->loaded_bytes),
                                .ended = r->ended};
    pthread_mutex_unlock(&r->mutex);
    return state;
}
