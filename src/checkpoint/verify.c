/* One file after the other, so that few are open and what is told comes in the order of the manifest; within a file of
 * weights the tensors are read side by side. */
#include "checkpoint/verify.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/progress.h"
#include "checkpoint/checksum.h"
#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"

typedef struct verification {
    const char *dir;
    const qn_verify_options *options;
    qn_checksummer *checksummer;
    qn_progress progress;
    qn_verify_result *result;
    qn_buffer first; /* where the first mismatch is */
} verification;

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

/* Tells the stretches that have other hashes than `expected`; anything worse is returned. */
static qn_status check_stretches(verification *v, const qn_manifest_file *file, const char *path, qn_stretch *stretches,
                                 size_t count, qn_error *err)
{
    qn_status status = qn_checksummer_run(v->checksummer, path, stretches, count, err);
    for (size_t i = 0; i < count && status == QN_OK; i++) {
        if (!qn_hash_equal(stretches[i].hash, file->tensors ? file->tensors[i].hash : file->hash))
            tell_mismatch(v, file->name, file->tensors ? file->tensors[i].name : NULL,
                          "its bytes are not those that were written: restore or convert it again");
    }
    return status;
}

/* Where the file's tensors lie; false: they are not those of the manifest. The header's hash covers every name, shape
 * and offset, so that can only be if the manifest was written by hand. */
static bool place_tensors(const qn_manifest_file *file, const qn_safetensors *header, qn_stretch *stretches)
{
    if (qn_safetensors_count(header) != file->tensor_count)
        return false;
    for (size_t i = 0; i < file->tensor_count; i++) {
        const qn_tensor *t = qn_safetensors_find(header, file->tensors[i].name);
        if (!t)
            return false;
        stretches[i] = (qn_stretch){.offset = t->offset, .bytes = t->bytes};
    }
    return true;
}

static qn_status check_tensors(verification *v, const qn_manifest_file *file, const char *path,
                               const qn_safetensors *header, qn_error *err)
{
    qn_stretch *stretches = qn_alloc_zero(file->tensor_count, sizeof *stretches);
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
        qn_stretch whole = {.bytes = file->bytes};
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
    qn_status status = qn_checksummer_new(v->options->threads, &v->progress, v->options->stop, &v->checksummer, err);
    if (status != QN_OK)
        return status;
    begin_progress(v, manifest);
    status = check_all(v, manifest, err);
    qn_progress_finish(&v->progress);
    v->result->bytes = qn_checksummer_bytes(v->checksummer);
    qn_checksummer_free(v->checksummer);
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
    out->us = qn_now_us() - started_us;
    if (status == QN_OK && out->mismatches > 0)
        status = qn_fail(err, QN_FAILED,
                         "%s: %zu mismatch%s with its manifest, the first in %s: restore these files, or convert anew",
                         dir, out->mismatches, out->mismatches == 1 ? "" : "es", qn_buffer_string(&v.first));
    qn_buffer_free(&v.first);
    return status;
}

/* The first that differs fails. */
static qn_status compare_tensors(const char *path, const qn_manifest_file *file, const qn_stretch *stretches,
                                 qn_error *err)
{
    for (size_t i = 0; i < file->tensor_count; i++) {
        if (!qn_hash_equal(stretches[i].hash, file->tensors[i].hash))
            return qn_fail(err, QN_FAILED,
                           "%s: tensor %s: the disk gives other bytes than were written: check the disk, then remove "
                           "the file, and it will be made anew",
                           path, file->tensors[i].name);
    }
    return QN_OK;
}

static qn_status verify_weights(const char *path, const qn_manifest_file *file, const qn_safetensors *header,
                                const atomic_bool *stop, qn_error *err)
{
    qn_checksummer *checksummer = NULL;
    qn_stretch *stretches = qn_alloc_zero(file->tensor_count, sizeof *stretches);
    qn_status status = stretches ? QN_OK : qn_fail_memory(err, path, file->tensor_count * sizeof *stretches);
    if (status == QN_OK &&
        (!qn_hash_equal(qn_safetensors_header_hash(header), file->hash) || !place_tensors(file, header, stretches)))
        status = qn_fail(err, QN_FAILED,
                         "%s: its header is not the one that was written: check the disk, then remove the file, and it "
                         "will be made anew",
                         path);
    if (status == QN_OK)
        status = qn_checksummer_new(1, NULL, stop, &checksummer, err);
    if (status == QN_OK)
        status = qn_checksummer_run(checksummer, path, stretches, file->tensor_count, err);
    if (status == QN_OK)
        status = compare_tensors(path, file, stretches, err);
    qn_checksummer_free(checksummer);
    qn_free(stretches);
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
