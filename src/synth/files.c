#include "synth/files.h"

#include <stdio.h>
#include <string.h>

#include "base/matrix.h"
#include "base/memory.h"
#include "checkpoint/index.h"

bool qn_synth_is_mxfp4(const qn_synth_files *files, const qn_catalogue_tensor *tensor)
{
    return files->mxfp4 && tensor->kind == QN_KIND_ROUTED_EXPERTS;
}

uint64_t qn_synth_bytes(const qn_synth_files *files, const qn_catalogue_tensor *tensor)
{
    return qn_synth_is_mxfp4(files, tensor) ? qn_catalogue_mxfp4_bytes(tensor) : qn_catalogue_bytes(tensor);
}

static qn_status check_columns(const qn_synth_files *files, const qn_catalogue_tensor *tensor, qn_error *err)
{
    if (!qn_synth_is_mxfp4(files, tensor) || tensor->shape[1] % QN_MXFP4_BLOCK == 0)
        return QN_OK;
    return qn_fail_field(err, QN_USAGE, "format",
                         "--format mxfp4: %s has %zu inputs, which are no blocks of %d: write bf16", tensor->name,
                         tensor->shape[1], QN_MXFP4_BLOCK);
}

/* Counts the files, and where first is not NULL tells where each starts. */
static size_t cut_files(const qn_synth_files *files, uint64_t max_bytes, size_t *first)
{
    size_t count = 0, tensors = qn_catalogue_count(files->catalogue);
    uint64_t filled = 0;
    for (size_t i = 0; i < tensors; i++) {
        uint64_t bytes = qn_synth_bytes(files, qn_catalogue_at(files->catalogue, i));
        if (i == 0 || bytes > max_bytes || filled > max_bytes - bytes) {
            if (first)
                first[count] = i;
            count++;
            filled = 0;
        }
        filled += bytes;
    }
    if (first)
        first[count] = tensors;
    return count;
}

qn_status qn_synth_files_plan(const qn_catalogue *catalogue, bool mxfp4, uint64_t max_bytes, qn_synth_files *out,
                              qn_error *err)
{
    qn_synth_files files = {.catalogue = catalogue, .mxfp4 = mxfp4};
    qn_status status = QN_OK;
    for (size_t i = 0; i < qn_catalogue_count(catalogue) && status == QN_OK; i++) {
        status = check_columns(&files, qn_catalogue_at(catalogue, i), err);
        files.bytes += qn_synth_bytes(&files, qn_catalogue_at(catalogue, i));
    }
    if (status != QN_OK)
        return status;
    files.count = cut_files(&files, max_bytes, NULL);
    if (files.count > QN_MAX_SHARDS)
        return qn_fail_field(
            err, QN_USAGE, "max-shard-size",
            "--max-shard-size %llu: makes %zu files, more than the %d a checkpoint may have: give more",
            (unsigned long long)max_bytes, files.count, QN_MAX_SHARDS);
    files.first = qn_alloc(files.count + 1, sizeof *files.first);
    if (!files.first)
        return qn_fail_memory(err, "list of files", (files.count + 1) * sizeof *files.first);
    cut_files(&files, max_bytes, files.first);
    *out = files;
    return QN_OK;
}

void qn_synth_files_free(qn_synth_files *files)
{
    qn_free(files->first);
    *files = (qn_synth_files){0};
}

const char *qn_synth_file_name(const qn_synth_files *files, size_t file, char out[QN_SYNTH_FILE_NAME_BYTES])
{
    if (files->count == 1)
        snprintf(out, QN_SYNTH_FILE_NAME_BYTES, "model.safetensors");
    else
        snprintf(out, QN_SYNTH_FILE_NAME_BYTES, "model-%05u-of-%05u.safetensors", (unsigned)file + 1,
                 (unsigned)files->count);
    return out;
}

size_t qn_synth_parts(const qn_synth_files *files, const qn_catalogue_tensor *tensor,
                      qn_synth_part out[QN_SYNTH_MAX_PARTS])
{
    if (!qn_synth_is_mxfp4(files, tensor)) {
        out[0] = (qn_synth_part){.dtype = tensor->dtype,
                                 .dims = tensor->dims,
                                 .shape = {tensor->shape[0], tensor->shape[1]}};
        snprintf(out[0].name, sizeof out[0].name, "%s", tensor->name);
        return 1;
    }
    static const size_t elements_a_byte[] = {2, QN_MXFP4_BLOCK};
    static const char *const suffixes[] = {"_packed", "_scale"};
    for (size_t i = 0; i < 2; i++) {
        out[i] = (qn_synth_part){.dtype = QN_DTYPE_U8,
                                 .dims = 2,
                                 .shape = {tensor->shape[0], tensor->shape[1] / elements_a_byte[i]}};
        snprintf(out[i].name, sizeof out[i].name, "%s%s", tensor->name, suffixes[i]);
    }
    return 2;
}
