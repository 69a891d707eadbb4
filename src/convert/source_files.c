/* Headers and readers of the source's files, opened when they are first needed. One lock holds them all: what is done
 * under it is rare and short beside the reading. */
#include <assert.h>
#include <string.h>

#include "base/log.h"
#include "base/size.h"
#include "convert/source_internal.h"

/* The header has what the index says of this file, and nothing else. */
static qn_status check_header(const qn_source *source, const qn_source_file *f, qn_error *err)
{
    for (size_t i = 0; source->index.root && i < qn_safetensors_count(f->header); i++) {
        const char *name = qn_safetensors_at(f->header, i)->name;
        const char *listed = qn_index_file_of(&source->index, name);
        if (!listed || strcmp(listed, f->name) != 0)
            return qn_fail(err, QN_BAD_INPUT, "%s: tensor %s: the index %s%s: fetch file and index of one release",
                           f->path, name, listed ? "places it in " : "does not list it", listed ? listed : "");
    }
    return QN_OK;
}

qn_status qn_source_open_header(const qn_source *source, qn_source_file *f, qn_error *err)
{
    return source->fp8 ? qn_safetensors_open_fp8_header(f->path, &f->header, err)
                       : qn_safetensors_open_header(f->path, &f->header, err);
}

/* With source->lock held. */
static qn_status need_header(qn_source *source, qn_source_file *f, qn_error *err)
{
    if (f->header)
        return QN_OK;
    qn_status status = qn_source_open_header(source, f, err);
    if (status == QN_OK)
        status = check_header(source, f, err);
    if (status != QN_OK) {
        qn_safetensors_close(f->header);
        f->header = NULL;
    }
    return status;
}

static qn_status fail_unlike(const qn_source_file *f, const qn_tensor *found, const size_t *shape, size_t dims,
                             qn_error *err)
{
    char is[QN_TENSOR_DESCRIPTION_BYTES], expected[QN_TENSOR_DESCRIPTION_BYTES];
    qn_tensor_describe(found->dtype, found->dims, found->shape, is);
    qn_tensor_describe(QN_DTYPE_BF16, dims, shape, expected);
    return qn_fail(err, QN_BAD_INPUT,
                   "%s: tensor %s: is %s, expected %s, or F16 or F32: use the config.json that came with the weights",
                   f->path, found->name, is, expected);
}

/* The slice of `t` in `found`, the tensor that holds it. */
static qn_status place(const qn_source *source, const qn_source_tensor *t, const qn_tensor *found, qn_slice *out,
                       qn_error *err)
{
    const qn_source_file *f = &source->files[t->file];
    bool up = strstr(t->name, ".up_proj.") != NULL;
    size_t experts = source->config.n_routed_experts, shape[3], dims = 0, skipped = 0;
    if (t->layout == QN_SOURCE_WHOLE) {
        for (; dims < t->dims; dims++)
            shape[dims] = t->shape[dims];
    } else {
        size_t parts = t->layout == QN_SOURCE_FUSED_GATE_UP ? 2 : 1;
        shape[0] = experts;
        shape[1] = parts * t->shape[0];
        shape[2] = t->shape[1];
        dims = 3;
        skipped = (t->expert * parts + (parts == 2 && up)) * t->shape[0] * t->shape[1];
    }
    bool same = found->dims == dims && (t->scale ? found->dtype == QN_DTYPE_F8_E4M3
                                                 : found->dtype == QN_DTYPE_BF16 || found->dtype == QN_DTYPE_F16 ||
                                                       found->dtype == QN_DTYPE_F32);
    if (same != (found->dims == dims) && (t->scale != NULL) != (found->dtype == QN_DTYPE_F8_E4M3))
        return qn_fail(err, QN_BAD_INPUT, "%s: tensor %s: %s: fetch the files of one release", f->path, found->name,
                       t->scale ? "has scales and is not F8_E4M3" : "is F8_E4M3 and has no weight_scale_inv");
    for (size_t i = 0; i < dims && same; i++)
        same = found->shape[i] == shape[i];
    if (!same)
        return fail_unlike(f, found, shape, dims, err);
    size_t element_bytes = qn_dtype_bits(found->dtype) / 8;
    *out = (qn_slice){.offset = found->offset + skipped * element_bytes,
                      .bytes = t->shape[0] * (t->dims == 2 ? t->shape[1] : 1) * element_bytes,
                      .dtype = found->dtype};
    return QN_OK;
}

qn_status qn_source_check_file(qn_source *source, size_t file, qn_error *err)
{
    pthread_mutex_lock(&source->lock);
    qn_status status = need_header(source, &source->files[file], err);
    pthread_mutex_unlock(&source->lock);
    return status;
}

/* Where the scales of `t` lie. */
static qn_status place_scale(qn_source *source, const qn_source_tensor *t, qn_slice *out, qn_error *err)
{
    qn_source_file *f = &source->files[t->scale_file];
    pthread_mutex_lock(&source->lock);
    qn_status status = need_header(source, f, err);
    pthread_mutex_unlock(&source->lock);
    if (status != QN_OK)
        return status;
    const qn_tensor *found = qn_safetensors_find(f->header, t->scale);
    if (!found || found->dtype != QN_DTYPE_F32 || found->dims != 2 ||
        found->shape[0] != qn_ceil_div(t->shape[0], QN_FP8_BLOCK) ||
        found->shape[1] != qn_ceil_div(t->shape[1], QN_FP8_BLOCK))
        return qn_fail(err, QN_BAD_INPUT,
                       "%s: tensor %s: is missing or no F32 [%zu, %zu]: fetch the files of one release", f->path,
                       t->scale, qn_ceil_div(t->shape[0], QN_FP8_BLOCK), qn_ceil_div(t->shape[1], QN_FP8_BLOCK));
    out->scale_offset = found->offset;
    return QN_OK;
}

qn_status qn_source_locate(qn_source *source, size_t i, qn_slice *out, qn_error *err)
{
    const qn_source_tensor *t = qn_source_at(source, i);
    qn_source_file *f = &source->files[t->file];
    pthread_mutex_lock(&source->lock);
    qn_status status = need_header(source, f, err);
    pthread_mutex_unlock(&source->lock);
    if (status != QN_OK)
        return status;
    const qn_tensor *found = qn_safetensors_find(f->header, t->stored_as);
    if (!found)
        return qn_fail(err, QN_BAD_INPUT,
                       "%s: tensor %s: is missing, though the index places it there: fetch the file again", f->path,
                       t->stored_as);
    status = place(source, t, found, out, err);
    return status == QN_OK && t->scale ? place_scale(source, t, out, err) : status;
}

/* A file that is not the one whose header was read would give bytes of other tensors. */
static qn_status check_size(const qn_source_file *f, const qn_direct_reader *reader, qn_error *err)
{
    size_t count = qn_safetensors_count(f->header);
    const qn_tensor *last = count > 0 ? qn_safetensors_at(f->header, count - 1) : NULL;
    if (!last || qn_direct_reader_bytes(reader) == last->offset + last->bytes)
        return QN_OK;
    return qn_fail(err, QN_BAD_INPUT,
                   "%s: has %llu bytes, and had %zu before: it was changed or truncated, fetch it again", f->path,
                   (unsigned long long)qn_direct_reader_bytes(reader), last->offset + last->bytes);
}

/* With source->lock held. */
static qn_status open_reader(qn_source *source, qn_source_file *f, qn_error *err)
{
    qn_status status = need_header(source, f, err);
    if (status == QN_OK)
        status = qn_direct_reader_open(f->path, &f->reader, err);
    if (status == QN_OK)
        status = check_size(f, f->reader, err);
    if (status != QN_OK) {
        qn_direct_reader_close(f->reader);
        f->reader = NULL;
        return status;
    }
    if (qn_direct_reader_is_buffered(f->reader) && !source->told_buffered) {
        source->told_buffered = true;
        qn_log("%s: the file system takes no direct reads: reading through the page cache", source->dir);
    }
    return QN_OK;
}

qn_status qn_source_acquire(qn_source *source, size_t file, qn_direct_reader **out, qn_error *err)
{
    qn_source_file *f = &source->files[file];
    pthread_mutex_lock(&source->lock);
    qn_status status = f->reader ? QN_OK : open_reader(source, f, err);
    if (status == QN_OK) {
        f->users++;
        *out = f->reader;
    }
    pthread_mutex_unlock(&source->lock);
    return status;
}

void qn_source_release(qn_source *source, size_t file)
{
    qn_source_file *f = &source->files[file];
    pthread_mutex_lock(&source->lock);
    assert(f->users > 0);
    if (--f->users == 0) {
        qn_direct_reader_close(f->reader);
        f->reader = NULL;
    }
    pthread_mutex_unlock(&source->lock);
}
