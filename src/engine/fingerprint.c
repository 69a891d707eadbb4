#include "engine/fingerprint.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/memory.h"

enum { CONFIG_LIMIT_BYTES = 1 << 24 };

static const char OWN_PROGRAM[] = "/proc/self/exe";

/* A string with its length before it, so that two never run together. */
static void add_text(qn_hasher *hasher, const char *text)
{
    size_t bytes = strlen(text);
    qn_hasher_update(hasher, &bytes, sizeof bytes);
    qn_hasher_update(hasher, text, bytes);
}

static qn_status add_contents(qn_hasher *hasher, const char *path, size_t limit, qn_error *err)
{
    char *text;
    size_t bytes;
    qn_status status = qn_file_read(path, limit, &text, &bytes, err);
    if (status == QN_OK) {
        qn_hasher_update(hasher, &bytes, sizeof bytes);
        qn_hasher_update(hasher, text, bytes);
        qn_free(text);
    }
    return status;
}

/* The program itself: a rebuilt one may round elsewhere. */
static qn_status add_program(qn_hasher *hasher, qn_error *err)
{
    FILE *file = fopen(OWN_PROGRAM, "rb");
    char piece[1 << 14];
    size_t bytes;
    if (file == NULL) {
        return qn_fail(err, QN_RESOURCE, "%s: %s: mount /proc, or leave --kv-store out", OWN_PROGRAM, strerror(errno));
    }
    while ((bytes = fread(piece, 1, sizeof piece, file)) > 0) {
        qn_hasher_update(hasher, piece, bytes);
    }
    bool failed = ferror(file) != 0;
    fclose(file);
    return failed ? qn_fail(err, QN_RESOURCE, "%s: it can't be read: leave --kv-store out", OWN_PROGRAM) : QN_OK;
}

static qn_status add_file(qn_hasher *hasher, const char *dir, const char *name, qn_error *err)
{
    char *path = qn_path_join(dir, name);
    struct stat seen;
    if (path == NULL) {
        return qn_fail_memory(err, "a file's name", strlen(dir) + strlen(name));
    }
    if (stat(path, &seen) != 0) {
        qn_status status = qn_fail(err, QN_RESOURCE, "%s: %s", path, strerror(errno));
        qn_free(path);
        return status;
    }
    const int64_t facts[] = {seen.st_size, seen.st_mtim.tv_sec, seen.st_mtim.tv_nsec};
    add_text(hasher, name);
    qn_hasher_update(hasher, facts, sizeof facts);
    qn_free(path);
    return QN_OK;
}

static qn_status add_weights(qn_hasher *hasher, const qn_checkpoint *checkpoint, qn_error *err)
{
    const char *last = NULL;
    for (size_t i = 0; i < qn_checkpoint_tensor_count(checkpoint); i++) {
        const char *file;
        const qn_tensor *tensor = qn_checkpoint_tensor(checkpoint, i, &file);
        if (last == NULL || strcmp(last, file) != 0) {
            qn_status status = add_file(hasher, qn_checkpoint_dir(checkpoint), file, err);
            if (status != QN_OK) {
                return status;
            }
            last = file;
        }
        add_text(hasher, tensor->name);
        qn_hasher_update(hasher, &tensor->dtype, sizeof tensor->dtype);
        qn_hasher_update(hasher, tensor->shape, tensor->dims * sizeof *tensor->shape);
    }
    return QN_OK;
}

static qn_status add_all(qn_hasher *hasher, const qn_checkpoint *checkpoint, const qn_kernels *kernels,
                         const qn_engine_options *options, size_t block_tokens, qn_error *err)
{
    const uint64_t numbers[] = {block_tokens, options->dsa_dense_below, options->num_speculative_tokens > 0};
    qn_hasher_update(hasher, numbers, sizeof numbers);
    qn_hasher_update(hasher, &options->mla_norm_eps, sizeof options->mla_norm_eps);
    add_text(hasher, kernels->name);
    qn_status status = add_program(hasher, err);
    char *config = status == QN_OK ? qn_path_join(qn_checkpoint_dir(checkpoint), "config.json") : NULL;
    if (status == QN_OK) {
        status = config == NULL ? qn_fail_memory(err, "a file's name", strlen(qn_checkpoint_dir(checkpoint)))
                                : add_contents(hasher, config, CONFIG_LIMIT_BYTES, err);
    }
    qn_free(config);
    return status == QN_OK ? add_weights(hasher, checkpoint, err) : status;
}

qn_status qn_fingerprint(const qn_checkpoint *checkpoint, const qn_kernels *kernels, const qn_engine_options *options,
                         size_t block_tokens, qn_hash *out, qn_error *err)
{
    qn_hasher *hasher = qn_hasher_new();
    if (hasher == NULL) {
        return qn_fail_memory(err, "fingerprint", 1);
    }
    qn_status status = add_all(hasher, checkpoint, kernels, options, block_tokens, err);
    *out = qn_hasher_finish(hasher);
    qn_hasher_free(hasher);
    return status;
}
