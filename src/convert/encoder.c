/* Elements go through a buffer of a few thousand float32 values that stays in the first cache, from the piece that was
 * read to the codes and scales that are written; the kernel sees nothing of dtypes and pieces. */
#include "convert/encoder.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/dtype.h"
#include "base/hash.h"
#include "base/matrix.h"
#include "base/memory.h"
#include "base/size.h"

enum { RUN_ELEMENTS = 2048 }; /* a multiple of QN_MXFP4_BLOCK */

struct qn_encoder {
    const qn_encoding *shared;
    void *input;
    size_t input_bytes;
    float *run;              /* [RUN_ELEMENTS] */
    float *importance;       /* [cols] of the current expert's projection, NULL: not weighted */
    uint8_t *codes, *scales; /* of a piece */
    float *block_scales;     /* of the current FP8 tensor ... */
    size_t block_scale_room; /* ... and how many there is room for */
    qn_hasher *hashers[QN_MAX_OUTPUTS];
    qn_direct_reader *reader; /* of file `file` of the source, NULL: none is held */
    size_t file;
};

/* The elements of a piece are the most for the smallest dtype, of one byte. */
static size_t code_bytes(size_t piece_bytes)
{
    return piece_bytes / 2;
}

static size_t scale_bytes(size_t piece_bytes)
{
    return piece_bytes / QN_MXFP4_BLOCK;
}

size_t qn_encoder_bytes(size_t piece_bytes)
{
    return qn_direct_buffer_bytes(piece_bytes) + code_bytes(piece_bytes) + scale_bytes(piece_bytes) +
           RUN_ELEMENTS * sizeof(float);
}

size_t qn_encoding_outputs(const qn_source_tensor *tensor)
{
    return tensor->expert == QN_NO_INDEX ? 1 : 2;
}

static qn_status declare(qn_tensor_declaration *out, const char *name, const char *suffix, qn_dtype dtype,
                         qn_arena *names, qn_error *err)
{
    char text[QN_TENSOR_NAME_BYTES + 16];
    size_t bytes = (size_t)snprintf(text, sizeof text, "%s%s", name, suffix);
    *out = (qn_tensor_declaration){.name = qn_arena_strndup(names, text, bytes), .dtype = dtype};
    return out->name ? QN_OK : qn_fail_memory(err, name, bytes);
}

qn_status qn_encoding_declare(qn_source *source, size_t i, qn_arena *names, qn_tensor_declaration *out, qn_error *err)
{
    const qn_source_tensor *t = qn_source_at(source, i);
    qn_slice slice;
    qn_status status = qn_source_locate(source, i, &slice, err);
    if (status != QN_OK)
        return status;
    if (t->expert == QN_NO_INDEX) {
        qn_dtype dtype = slice.dtype == QN_DTYPE_F8_E4M3 ? QN_DTYPE_BF16 : slice.dtype;
        status = declare(out, t->name, "", dtype, names, err);
        out->dims = t->dims;
        memcpy(out->shape, t->shape, t->dims * sizeof *t->shape);
        return status;
    }
    static const char *const suffixes[] = {"_packed", "_scale"}; /* behind "weight" */
    static const size_t divisors[] = {2, QN_MXFP4_BLOCK};
    for (size_t k = 0; k < 2 && status == QN_OK; k++) {
        status = declare(&out[k], t->name, suffixes[k], QN_DTYPE_U8, names, err);
        out[k].dims = 2;
        out[k].shape[0] = t->shape[0];
        out[k].shape[1] = t->shape[1] / divisors[k];
    }
    return status;
}

qn_status qn_encoder_new(const qn_encoding *shared, qn_encoder **out, qn_error *err)
{
    size_t inner = qn_source_config(shared->source)->moe_intermediate_size;
    size_t cols = qn_max_size(inner, qn_source_config(shared->source)->hidden_size);
    qn_encoder *e = qn_alloc_zero(1, sizeof *e);
    if (!e)
        return qn_fail_memory(err, "encoder", sizeof *e);
    e->shared = shared;
    e->input_bytes = qn_direct_buffer_bytes(shared->piece_bytes);
    e->input = qn_direct_buffer_new(e->input_bytes);
    e->run = qn_alloc_aligned(RUN_ELEMENTS, sizeof *e->run);
    e->codes = qn_alloc_aligned(code_bytes(shared->piece_bytes), 1);
    e->scales = qn_alloc_aligned(scale_bytes(shared->piece_bytes), 1);
    e->importance = shared->importance ? qn_alloc_aligned(cols, sizeof *e->importance) : NULL;
    bool whole = e->input && e->run && e->codes && e->scales && (e->importance || !shared->importance);
    for (size_t i = 0; i < QN_MAX_OUTPUTS && whole; i++)
        whole = (e->hashers[i] = qn_hasher_new()) != NULL;
    if (!whole) {
        qn_encoder_free(e);
        return qn_fail_memory(err, "encoder", qn_encoder_bytes(shared->piece_bytes));
    }
    *out = e;
    return QN_OK;
}

static void release_reader(qn_encoder *e)
{
    if (e->reader)
        qn_source_release(e->shared->source, e->file);
    e->reader = NULL;
}

void qn_encoder_free(qn_encoder *e)
{
    if (!e)
        return;
    release_reader(e);
    for (size_t i = 0; i < QN_MAX_OUTPUTS; i++)
        qn_hasher_free(e->hashers[i]);
    qn_free(e->block_scales);
    qn_free(e->importance);
    qn_free(e->scales);
    qn_free(e->codes);
    qn_free(e->run);
    qn_direct_buffer_free(e->input, e->input_bytes);
    qn_free(e);
}

/* Tensors of one file mostly follow each other, so its reader is kept until another file is needed. */
static qn_status need_reader(qn_encoder *e, size_t file, qn_error *err)
{
    if (e->reader && e->file == file)
        return QN_OK;
    release_reader(e);
    qn_status status = qn_source_acquire(e->shared->source, file, &e->reader, err);
    e->file = file;
    return status;
}

/* count elements at `data`, not aligned to anything, as float32. */
static void widen(float *out, const uint8_t *data, qn_dtype dtype, size_t count)
{
    if (dtype == QN_DTYPE_F32) {
        memcpy(out, data, count * sizeof *out);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        uint16_t bits;
        memcpy(&bits, data + 2 * i, sizeof bits);
        out[i] = dtype == QN_DTYPE_BF16 ? qn_bf16_to_f32(bits) : qn_f16_to_f32(bits);
    }
}

/* A run of FP8 values of one row, from `column` on, times the scales of their blocks. */
static void widen_fp8(const qn_encoder *e, float *out, const uint8_t *data, size_t count, const qn_source_tensor *t,
                      uint64_t first)
{
    size_t row = (size_t)(first / t->shape[1]), column = (size_t)(first % t->shape[1]);
    const float *scales = e->block_scales + row / QN_FP8_BLOCK * qn_ceil_div(t->shape[1], QN_FP8_BLOCK);
    for (size_t i = 0; i < count; i++)
        out[i] = qn_f8_e4m3_to_f32(data[i]) * scales[(column + i) / QN_FP8_BLOCK];
}

static qn_status fail_value(const qn_encoder *e, const qn_source_tensor *t, uint64_t index, qn_error *err)
{
    const char *path = qn_source_file_path(e->shared->source, t->file);
    if (t->dims == 2)
        return qn_fail(err, QN_BAD_INPUT,
                       "%s: tensor %s: its value at row %llu, column %llu is NaN or infinite: fetch the file again",
                       path, t->name, (unsigned long long)(index / t->shape[1]),
                       (unsigned long long)(index % t->shape[1]));
    return qn_fail(err, QN_BAD_INPUT, "%s: tensor %s: its value at index %llu is NaN or infinite: fetch the file again",
                   path, t->name, (unsigned long long)index);
}

/* A tensor on its way. */
typedef struct passage {
    const qn_source_tensor *tensor;
    qn_slice slice;
    qn_shard_file *file;
    size_t first;        /* of its outputs in the file */
    uint64_t done;       /* elements */
    uint8_t scale_union; /* all scale bytes or-ed */
} passage;

/* Quantises a piece of `count` elements into codes and scales, in runs that end where rows do. */
static qn_status quantise(qn_encoder *e, passage *p, const uint8_t *data, size_t count, qn_error *err)
{
    size_t cols = p->tensor->shape[1], element_bytes = qn_dtype_bits(p->slice.dtype) / 8;
    for (size_t at = 0; at < count;) {
        size_t column = (size_t)((p->done + at) % cols);
        size_t run = qn_min_size(qn_min_size(RUN_ELEMENTS, cols - column), count - at);
        if (p->slice.dtype == QN_DTYPE_F8_E4M3)
            widen_fp8(e, e->run, data + at, run, p->tensor, p->done + at);
        else
            widen(e->run, data + at * element_bytes, p->slice.dtype, run);
        size_t bad = e->shared->kernels->quantise_mxfp4(e->codes + at / 2, e->scales + at / QN_MXFP4_BLOCK, e->run,
                                                        e->importance ? e->importance + column : NULL,
                                                        run / QN_MXFP4_BLOCK, e->shared->rule);
        if (bad != QN_ALL_FINITE)
            return fail_value(e, p->tensor, p->done + at + bad, err);
        at += run;
    }
    for (size_t i = 0; i < count / QN_MXFP4_BLOCK; i++)
        p->scale_union |= e->scales[i];
    return QN_OK;
}

static qn_status write_quantised(qn_encoder *e, passage *p, const uint8_t *data, size_t count, qn_error *err)
{
    qn_status status = quantise(e, p, data, count, err);
    const uint8_t *const parts[] = {e->codes, e->scales};
    static const size_t divisors[] = {2, QN_MXFP4_BLOCK};
    for (size_t k = 0; k < 2 && status == QN_OK; k++) {
        size_t bytes = count / divisors[k];
        qn_hasher_update(e->hashers[k], parts[k], bytes);
        status = qn_shard_file_write(p->file, p->first + k, p->done / divisors[k], parts[k], bytes, err);
    }
    return status;
}

/* The first of `count` values that is NaN or infinite; count when there is none. Their exponents are all ones. */
static size_t find_non_finite(const uint8_t *data, qn_dtype dtype, size_t count)
{
    size_t bytes = qn_dtype_bits(dtype) / 8, top = bytes - 1;
    uint16_t mask = dtype == QN_DTYPE_F16 ? 0x7c00 : dtype == QN_DTYPE_BF16 ? 0x7f80 : 0;
    size_t found = 0;
    if (mask != 0) {
        for (size_t i = 0; i < count; i++) {
            uint16_t bits;
            memcpy(&bits, data + 2 * i, sizeof bits);
            found += (bits & mask) == mask;
        }
    } else {
        for (size_t i = 0; i < count; i++) {
            uint32_t bits;
            memcpy(&bits, data + 4 * i, sizeof bits);
            found += (bits & 0x7f800000) == 0x7f800000;
        }
    }
    if (found == 0)
        return count;
    for (size_t i = 0; i < count; i++) { /* once, for a message */
        const uint8_t *at = data + i * bytes;
        unsigned exponent = (unsigned)(at[top] & 0x7f) << 8 | at[top - 1];
        unsigned ones = dtype == QN_DTYPE_F16 ? 0x7c00 : 0x7f80;
        if ((exponent & ones) == ones)
            return i;
    }
    return count;
}

static qn_status write_copied(qn_encoder *e, passage *p, const uint8_t *data, size_t count, qn_error *err)
{
    size_t element_bytes = qn_dtype_bits(p->slice.dtype) / 8, bad = find_non_finite(data, p->slice.dtype, count);
    if (bad < count)
        return fail_value(e, p->tensor, p->done + bad, err);
    qn_hasher_update(e->hashers[0], data, count * element_bytes);
    return qn_shard_file_write(p->file, p->first, p->done * element_bytes, data, count * element_bytes, err);
}

/* FP8 that stays no expert becomes BF16, in the buffer for codes. */
static qn_status write_as_bf16(qn_encoder *e, passage *p, const uint8_t *data, size_t count, qn_error *err)
{
    size_t cols = p->tensor->shape[1], room = code_bytes(e->shared->piece_bytes) / sizeof(uint16_t);
    qn_status status = QN_OK;
    for (size_t at = 0; at < count && status == QN_OK;) {
        uint64_t first = p->done + at;
        size_t filled = 0;
        while (filled < room && at < count) {
            size_t run = qn_min_size(RUN_ELEMENTS, cols - (size_t)((p->done + at) % cols));
            run = qn_min_size(run, qn_min_size(count - at, room - filled));
            widen_fp8(e, e->run, data + at, run, p->tensor, p->done + at);
            for (size_t i = 0; i < run; i++) {
                uint16_t bits = qn_f32_to_bf16(e->run[i]);
                if ((bits & 0x7f80) == 0x7f80)
                    return fail_value(e, p->tensor, p->done + at + i, err);
                memcpy(e->codes + 2 * (filled + i), &bits, sizeof bits);
            }
            filled += run;
            at += run;
        }
        qn_hasher_update(e->hashers[0], e->codes, 2 * filled);
        status = qn_shard_file_write(p->file, p->first, 2 * first, e->codes, 2 * filled, err);
    }
    return status;
}

static qn_status write_piece(qn_encoder *e, passage *p, const uint8_t *data, size_t count, qn_error *err)
{
    if (p->tensor->expert != QN_NO_INDEX)
        return write_quantised(e, p, data, count, err);
    return p->slice.dtype == QN_DTYPE_F8_E4M3 ? write_as_bf16(e, p, data, count, err)
                                              : write_copied(e, p, data, count, err);
}

static qn_status pass_through(qn_encoder *e, passage *p, qn_error *err)
{
    size_t element_bytes = qn_dtype_bits(p->slice.dtype) / 8;
    uint64_t elements = p->slice.bytes / element_bytes;
    bool expert = p->tensor->expert != QN_NO_INDEX;
    qn_status status = QN_OK;
    while (p->done < elements && status == QN_OK) {
        if (atomic_load_explicit(e->shared->stop, memory_order_relaxed))
            return qn_fail(err, QN_CANCELLED, "convert: stopped: run the same command again to go on");
        uint64_t left = elements - p->done;
        size_t most = e->shared->piece_bytes / element_bytes, count = left < most ? (size_t)left : most;
        const uint8_t *data = NULL;
        status = qn_direct_read(e->reader, p->slice.offset + p->done * element_bytes, count * element_bytes, e->input,
                                &data, err);
        if (status == QN_OK)
            status = write_piece(e, p, data, count, err);
        p->done += count;
    }
    if (status == QN_OK && expert && p->scale_union == 0)
        return qn_fail(err, QN_BAD_INPUT,
                       "%s: tensor %s: is all zero, as one that was never written: fetch the file again",
                       qn_source_file_path(e->shared->source, p->tensor->file), p->tensor->name);
    return status;
}

/* All scales of an FP8 tensor: of the largest, an embedding of 155,000 by 6,144, some 230 kB. */
static qn_status load_scales(qn_encoder *e, const passage *p, qn_error *err)
{
    const qn_source_tensor *t = p->tensor;
    if (p->slice.dtype != QN_DTYPE_F8_E4M3)
        return QN_OK;
    size_t count = qn_ceil_div(t->shape[0], QN_FP8_BLOCK) * qn_ceil_div(t->shape[1], QN_FP8_BLOCK);
    if (count > e->block_scale_room) {
        qn_free(e->block_scales);
        e->block_scales = qn_alloc(count, sizeof *e->block_scales);
        e->block_scale_room = e->block_scales ? count : 0;
        if (!e->block_scales)
            return qn_fail_memory(err, t->scale, count * sizeof *e->block_scales);
    }
    qn_status status = need_reader(e, t->scale_file, err);
    size_t bytes = count * sizeof *e->block_scales;
    for (size_t at = 0; at < bytes && status == QN_OK;) {
        size_t piece = qn_min_size(bytes - at, e->shared->piece_bytes);
        const uint8_t *data = NULL;
        status = qn_direct_read(e->reader, p->slice.scale_offset + at, piece, e->input, &data, err);
        if (status == QN_OK)
            memcpy((uint8_t *)e->block_scales + at, data, piece);
        at += piece;
    }
    return status;
}

static void load_importance(qn_encoder *e, const qn_source_tensor *t)
{
    if (!e->importance || t->expert == QN_NO_INDEX)
        return;
    bool down = strstr(t->name, ".down_proj.") != NULL;
    qn_importance_weights(e->shared->importance, t->layer, t->expert, down ? QN_IMPORTANCE_DOWN : QN_IMPORTANCE_GATE_UP,
                          e->importance);
}

qn_status qn_encoder_run(qn_encoder *e, size_t i, qn_shard_file *file, size_t first, qn_error *err)
{
    passage p = {.tensor = qn_source_at(e->shared->source, i), .file = file, .first = first};
    size_t outputs = qn_encoding_outputs(p.tensor);
    qn_status status = qn_source_locate(e->shared->source, i, &p.slice, err);
    if (status == QN_OK)
        status = load_scales(e, &p, err);
    if (status == QN_OK)
        status = need_reader(e, p.tensor->file, err);
    if (status != QN_OK)
        return status;
    load_importance(e, p.tensor);
    for (size_t k = 0; k < outputs; k++)
        qn_hasher_reset(e->hashers[k]);
    status = pass_through(e, &p, err);
    if (status != QN_OK)
        return status;
    qn_hash hashes[QN_MAX_OUTPUTS];
    for (size_t k = 0; k < outputs; k++)
        hashes[k] = qn_hasher_finish(e->hashers[k]);
    return qn_shard_file_commit(file, first, outputs, hashes, err);
}

qn_status qn_encoder_check(qn_encoder *e, size_t i, qn_shard_file *file, size_t first, bool *same, qn_error *err)
{
    size_t outputs = qn_encoding_outputs(qn_source_at(e->shared->source, i));
    qn_status status = QN_OK;
    *same = true;
    for (size_t k = 0; k < outputs && *same && status == QN_OK; k++) {
        *same = qn_shard_file_has(file, first + k);
        if (*same)
            status = qn_shard_file_check(file, first + k, e->input, e->input_bytes, same, err);
    }
    return status;
}
