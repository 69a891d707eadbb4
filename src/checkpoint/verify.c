/* One file after the other, so that few are open and what is told comes in the order of the manifest; within a file of
 * weights each tensor is an item of the pool, since a checksum cannot be split. */
#include "checkpoint/verify.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/direct_reader.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/pool.h"
#include "base/progress.h"
#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"

enum { READ_BYTES = 4 << 20 };

typedef struct worker {
    void *buffer;
    qn_hasher *hasher;
    qn_status status; /* its first failure to read, with the error */
    qn_error err;
} worker;

typedef struct verification {
    const char *dir;
    const qn_verify_options *options;
    qn_pool *pool;
    worker *workers;
    qn_progress progress;
    qn_verify_result *result;
    qn_buffer first; /* where the first mismatch is */
    _Atomic uint64_t read_bytes;
    atomic_bool failed; /* a worker could not read: the others need not go on */
} verification;

/* A run of bytes of a file with the hash that it must have. */
typedef struct stretch {
    uint64_t offset, bytes;
    qn_hash expected;
    bool differs;
} stretch;

typedef struct file_check {
    verification *v; /* to count what was read; NULL: nobody asks */
    const char *what;
    const atomic_bool *stop; /* may be NULL */
    qn_direct_reader *reader;
    stretch *stretches;
} file_check;

/* "DIR/file: [tensor NAME: ]reason". Where the first is, is kept for the error. */
static void tell_mismatch(verification *v, const char *file, const char *tensor, const char *reason)
{
    qn_buffer place = {0};
    qn_buffer_format(&place, "%s/%s%s%s", v->dir, file, tensor ? ": tensor " : "", tensor ? tensor : "");
    if (v->result->mismatches < QN_VERIFY_LINES)
        qn_log("%s: %s", qn_buffer_string(&place), reason);
    if (v->result->mismatches == QN_VERIFY_LINES)
        qn_log("%s: more mismatches are counted but not told", v->dir);
    if (v->result->mismatches++ == 0)
        v->first = place;
    else
        qn_buffer_free(&place);
}

static qn_status hash_stretch(file_check *c, stretch *s, worker *w)
{
    qn_hasher_reset(w->hasher);
    for (uint64_t done = 0; done < s->bytes;) {
        size_t bytes = s->bytes - done < READ_BYTES ? (size_t)(s->bytes - done) : READ_BYTES;
        const uint8_t *data = NULL;
        if (c->stop && atomic_load_explicit(c->stop, memory_order_relaxed))
            return qn_fail(&w->err, QN_CANCELLED, "%s: the verification was stopped: run it again", c->what);
        qn_status status = qn_direct_read(c->reader, s->offset + done, bytes, w->buffer, &data, &w->err);
        if (status != QN_OK)
            return status;
        qn_hasher_update(w->hasher, data, bytes);
        done += bytes;
        if (c->v) {
            atomic_fetch_add(&c->v->read_bytes, bytes);
            qn_progress_add(&c->v->progress, bytes);
        }
    }
    s->differs = !qn_hash_equal(qn_hasher_finish(w->hasher), s->expected);
    return QN_OK;
}

static void run_stretch(void *context, size_t item, size_t number)
{
    file_check *c = context;
    worker *w = &c->v->workers[number];
    if (atomic_load(&c->v->failed))
        return;
    w->status = hash_stretch(c, &c->stretches[item], w);
    if (w->status != QN_OK)
        atomic_store(&c->v->failed, true);
}

/* The failure of the first worker that has one. */
static qn_status take_failure(const verification *v, qn_error *err)
{
    for (size_t i = 0; i < qn_pool_threads(v->pool); i++) {
        if (v->workers[i].status != QN_OK) {
            *err = v->workers[i].err;
            return err->status;
        }
    }
    return QN_OK;
}

/* Hashes all stretches of the file; mismatches are told, anything worse is returned. */
static qn_status check_stretches(verification *v, const qn_manifest_file *file, const char *path, stretch *stretches,
                                 size_t count, qn_error *err)
{
    file_check c = {.v = v, .what = v->dir, .stop = v->options->stop, .stretches = stretches};
    qn_status status = qn_direct_reader_open(path, &c.reader, err);
    if (status != QN_OK)
        return status;
    if (count > 0)
        qn_pool_run(v->pool, count, run_stretch, &c);
    qn_direct_reader_close(c.reader);
    status = take_failure(v, err);
    for (size_t i = 0; i < count && status == QN_OK; i++) {
        if (stretches[i].differs)
            tell_mismatch(v, file->name, file->tensors ? file->tensors[i].name : NULL,
                          "its bytes are not those that were written: restore or convert it again");
    }
    return status;
}

/* Where the file's tensors lie; false: they are not those of the manifest. The header's hash covers every name, shape
 * and offset, so that can only be if the manifest was written by hand. */
static bool place_tensors(const qn_manifest_file *file, const qn_safetensors *header, stretch *stretches)
{
    if (qn_safetensors_count(header) != file->tensor_count)
        return false;
    for (size_t i = 0; i < file->tensor_count; i++) {
        const qn_tensor *t = qn_safetensors_find(header, file->tensors[i].name);
        if (!t)
            return false;
        stretches[i] = (stretch){.offset = t->offset, .bytes = t->bytes, .expected = file->tensors[i].hash};
    }
    return true;
}

static qn_status check_tensors(verification *v, const qn_manifest_file *file, const char *path,
                               const qn_safetensors *header, qn_error *err)
{
    stretch *stretches = qn_alloc_zero(file->tensor_count, sizeof *stretches);
    if (!stretches)
        return qn_fail_memory(err, path, file->tensor_count * sizeof *stretches);
    bool same = place_tensors(file, header, stretches);
    qn_status status = QN_OK;
    if (same)
        status = check_stretches(v, file, path, stretches, file->tensor_count, err);
    else
        tell_mismatch(v, file->name, NULL, "has other tensors than the manifest: one of the two was changed");
    qn_free(stretches);
    return status;
}

static qn_status check_weights(verification *v, const qn_manifest_file *file, const char *path, qn_error *err)
{
    qn_safetensors *header = NULL;
    qn_status status = qn_safetensors_open_header(path, &header, err);
    if (status == QN_BAD_INPUT) {
        tell_mismatch(v, file->name, NULL, "its header is damaged: restore or convert it again");
        return QN_OK;
    }
    if (status != QN_OK)
        return status;
    if (!qn_hash_equal(qn_safetensors_header_hash(header), file->hash))
        tell_mismatch(v, file->name, NULL, "its header is not the one that was written: restore or convert it again");
    else
        status = check_tensors(v, file, path, header, err);
    qn_safetensors_close(header);
    return status;
}

static qn_status check_file(verification *v, const qn_manifest_file *file, const char *path, qn_error *err)
{
    struct stat info;
    if (stat(path, &info) != 0) {
        if (errno != ENOENT)
            return qn_fail_errno(err, path, "examine", errno);
        tell_mismatch(v, file->name, NULL, "is missing: restore or convert it again");
    } else if (!S_ISREG(info.st_mode)) {
        tell_mismatch(v, file->name, NULL, "is not a regular file: restore or convert it again");
    } else if ((uint64_t)info.st_size != file->bytes) {
        char reason[128];
        snprintf(reason, sizeof reason, "has %lld bytes, and the manifest says %llu: restore or convert it again",
                 (long long)info.st_size, (unsigned long long)file->bytes);
        tell_mismatch(v, file->name, NULL, reason);
    } else if (file->tensors) {
        return check_weights(v, file, path, err);
    } else {
        stretch whole = {.bytes = file->bytes, .expected = file->hash};
        return check_stretches(v, file, path, &whole, 1, err);
    }
    return QN_OK;
}

static qn_status check_all(verification *v, const qn_manifest *manifest, qn_error *err)
{
    qn_status status = QN_OK;
    for (size_t i = 0; i < qn_manifest_count(manifest) && status == QN_OK; i++) {
        const qn_manifest_file *file = qn_manifest_at(manifest, i);
        char *path = qn_path_join(v->dir, file->name);
        status = path ? check_file(v, file, path, err) : qn_fail_memory(err, v->dir, strlen(v->dir));
        qn_free(path);
    }
    return status;
}

static void free_workers(worker *workers, size_t count)
{
    for (size_t i = 0; workers && i < count; i++) {
        qn_direct_buffer_free(workers[i].buffer, qn_direct_buffer_bytes(READ_BYTES));
        qn_hasher_free(workers[i].hasher);
    }
    qn_free(workers);
}

static qn_status make_workers(size_t count, worker **out, qn_error *err)
{
    worker *workers = qn_alloc_zero(count, sizeof *workers);
    bool whole = workers != NULL;
    for (size_t i = 0; i < count && whole; i++) {
        workers[i].buffer = qn_direct_buffer_new(qn_direct_buffer_bytes(READ_BYTES));
        workers[i].hasher = qn_hasher_new();
        whole = workers[i].buffer && workers[i].hasher;
    }
    if (!whole) {
        free_workers(workers, count);
        return qn_fail_memory(err, "verification", count * READ_BYTES);
    }
    *out = workers;
    return QN_OK;
}

static qn_status read_manifest(const char *dir, qn_manifest **out, qn_error *err)
{
    char *path = qn_path_join(dir, QN_MANIFEST_NAME);
    if (!path)
        return qn_fail_memory(err, dir, strlen(dir));
    struct stat info;
    qn_status status;
    if (stat(dir, &info) != 0 || !S_ISDIR(info.st_mode))
        status = qn_fail(err, QN_BAD_INPUT, "%s: is no folder: name the folder of a converted checkpoint", dir);
    else if (lstat(path, &info) != 0 && errno == ENOENT)
        status = qn_fail(err, QN_BAD_INPUT,
                         "%s: there is no such file, and without it nothing can be verified: only `quern convert` "
                         "writes it, as one of its last steps",
                         path);
    else
        status = qn_manifest_read(path, out, err);
    qn_free(path);
    return status;
}

static void begin_progress(verification *v, const qn_manifest *manifest)
{
    qn_progress_setup setup = {.label = "verifying", .unit = "bytes", .json = v->options->progress_json};
    for (size_t i = 0; i < qn_manifest_count(manifest); i++) {
        const qn_manifest_file *file = qn_manifest_at(manifest, i);
        setup.total += file->bytes;
        v->result->files++;
        v->result->tensors += file->tensor_count;
    }
    qn_progress_begin(&v->progress, &setup);
}

static qn_status run(verification *v, const qn_manifest *manifest, qn_error *err)
{
    qn_status status = qn_pool_new(v->options->threads, &v->pool, err);
    if (status != QN_OK)
        return status;
    size_t threads = qn_pool_threads(v->pool);
    status = make_workers(threads, &v->workers, err);
    if (status == QN_OK) {
        begin_progress(v, manifest);
        status = check_all(v, manifest, err);
        qn_progress_finish(&v->progress);
        free_workers(v->workers, threads);
    }
    qn_pool_free(v->pool);
    return status;
}

qn_status qn_verify(const char *dir, const qn_verify_options *options, qn_verify_result *out, qn_error *err)
{
    *out = (qn_verify_result){0};
    uint64_t started_us = qn_now_us();
    qn_manifest *manifest = NULL;
    verification v = {.dir = dir, .options = options, .result = out};
    qn_status status = read_manifest(dir, &manifest, err);
    if (status == QN_OK)
        status = run(&v, manifest, err);
    qn_manifest_free(manifest);
    out->bytes = atomic_load(&v.read_bytes);
    out->us = qn_now_us() - started_us;
    if (status == QN_OK && out->mismatches > 0)
        status = qn_fail(err, QN_FAILED,
                         "%s: %zu mismatch%s with its manifest, the first in %s: restore these files, or convert anew",
                         dir, out->mismatches, out->mismatches == 1 ? "" : "es", qn_buffer_string(&v.first));
    qn_buffer_free(&v.first);
    return status;
}

/* One stretch after the other; the first that differs fails. */
static qn_status compare_stretches(file_check *c, const qn_manifest_file *file, worker *w, qn_error *err)
{
    for (size_t i = 0; i < file->tensor_count; i++) {
        if (hash_stretch(c, &c->stretches[i], w) != QN_OK) {
            *err = w->err;
            return err->status;
        }
        if (c->stretches[i].differs)
            return qn_fail(err, QN_FAILED,
                           "%s: tensor %s: the disk gives other bytes than were written: check the disk, then remove "
                           "the file, and it will be made anew",
                           c->what, file->tensors[i].name);
    }
    return QN_OK;
}

static qn_status verify_weights(const char *path, const qn_manifest_file *file, const qn_safetensors *header,
                                const atomic_bool *stop, qn_error *err)
{
    file_check c = {.what = path, .stop = stop};
    worker *w = NULL;
    c.stretches = qn_alloc_zero(file->tensor_count, sizeof *c.stretches);
    qn_status status = c.stretches ? QN_OK : qn_fail_memory(err, path, file->tensor_count * sizeof *c.stretches);
    if (status == QN_OK &&
        (!qn_hash_equal(qn_safetensors_header_hash(header), file->hash) || !place_tensors(file, header, c.stretches)))
        status = qn_fail(err, QN_FAILED,
                         "%s: its header is not the one that was written: check the disk, then remove the file, and it "
                         "will be made anew",
                         path);
    if (status == QN_OK)
        status = make_workers(1, &w, err);
    if (status == QN_OK)
        status = qn_direct_reader_open(path, &c.reader, err);
    if (status == QN_OK)
        status = compare_stretches(&c, file, w, err);
    qn_direct_reader_close(c.reader);
    free_workers(w, 1);
    qn_free(c.stretches);
    return status;
}

qn_status qn_verify_weights(const char *path, const qn_manifest_file *file, const atomic_bool *stop, qn_error *err)
{
    qn_safetensors *header = NULL;
    qn_status status = qn_safetensors_open_header(path, &header, err); /* which holds its size against the header */
    if (status == QN_OK)
        status = verify_weights(path, file, header, stop, err);
    qn_safetensors_close(header);
    return status;
}
