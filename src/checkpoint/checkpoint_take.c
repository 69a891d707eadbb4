/* What the model takes of a checkpoint, each tensor held to what it expects, and marked: in the end what was not taken
 * is an error as well. */
#include <math.h>
#include <stdio.h>

#include "base/buffer.h"
#include "base/memory.h"
#include "checkpoint/checkpoint_parts.h"
#include "checkpoint/layout.h"

/* "BF16, F16 or F32 [96, 64]" */
static void describe_expected(const qn_expected *expected, qn_buffer *out)
{
    static const qn_dtype order[] = {QN_DTYPE_BF16, QN_DTYPE_F16, QN_DTYPE_F32, QN_DTYPE_U8, QN_DTYPE_I32};
    unsigned left = expected->dtypes;
    for (size_t i = 0; left; i++) {
        if (!(left & 1u << order[i]))
            continue;
        left &= ~(1u << order[i]);
        qn_buffer_format(out, "%s%s", qn_dtype_name(order[i]), !left ? " [" : left & (left - 1) ? ", " : " or ");
    }
    for (size_t i = 0; i < expected->dims; i++)
        qn_buffer_format(out, "%s%zu", i ? ", " : "", expected->shape[i]);
    qn_buffer_char(out, ']');
}

static qn_status fail_missing(const qn_checkpoint *checkpoint, const char *name, const qn_expected *expected,
                              qn_error *err)
{
    char packed[QN_NAME_BUFFER_BYTES];
    snprintf(packed, sizeof packed, "%s_packed", name);
    const qn_entry *e = qn_entry_find(checkpoint, packed);
    if (e)
        return qn_entry_fail(err, e,
                             "is quantised, and quern takes MXFP4 for routed experts only: use a checkpoint with "
                             "the rest in BF16");
    qn_buffer text = {0};
    describe_expected(expected, &text);
    qn_status status = qn_fail(err, QN_BAD_INPUT, "%s: tensor %s: is missing (expected %s): fetch the checkpoint again",
                               checkpoint->dir, name, qn_buffer_string(&text));
    qn_buffer_free(&text);
    return status;
}

static qn_status fail_unlike(const qn_entry *e, const qn_expected *expected, qn_error *err)
{
    char found[QN_TENSOR_DESCRIPTION_BYTES];
    qn_tensor_describe(e->tensor->dtype, e->tensor->dims, e->tensor->shape, found);
    bool quantised = e->tensor->dtype == QN_DTYPE_U8 && expected->dtypes == QN_WEIGHT_DTYPES;
    qn_buffer text = {0};
    describe_expected(expected, &text);
    qn_status status = qn_fail(err, QN_BAD_INPUT, "%s: tensor %s: is %s, expected %s: %s", e->shard->path,
                               e->tensor->name, found, qn_buffer_string(&text),
                               quantised
                                   ? "quern takes MXFP4 for routed experts only, use a checkpoint with the rest in BF16"
                                   : "use the config.json that came with the weights");
    qn_buffer_free(&text);
    return status;
}

qn_status qn_checkpoint_take_tensor(qn_checkpoint *checkpoint, const char *name, const qn_expected *expected,
                                    const qn_tensor **out, qn_error *err)
{
    qn_entry *e = qn_entry_find(checkpoint, name);
    if (!e)
        return fail_missing(checkpoint, name, expected, err);
    const qn_tensor *t = e->tensor;
    bool same = (expected->dtypes & 1u << t->dtype) && t->dims == expected->dims;
    for (size_t i = 0; i < expected->dims && same; i++)
        same = t->shape[i] == expected->shape[i];
    if (!same)
        return fail_unlike(e, expected, err);
    e->taken = true;
    *out = t;
    return QN_OK;
}

qn_status qn_checkpoint_take_matrix(qn_checkpoint *checkpoint, const char *name, size_t rows, size_t cols,
                                    qn_matrix *out, qn_error *err)
{
    qn_expected expected = {.dtypes = QN_WEIGHT_DTYPES, .dims = 2, .shape = {rows, cols}};
    const qn_tensor *t = NULL;
    qn_status status = qn_checkpoint_take_tensor(checkpoint, name, &expected, &t, err);
    if (status == QN_OK)
        *out = (qn_matrix){.dtype = t->dtype, .rows = rows, .cols = cols, .data = t->data};
    return status;
}

qn_status qn_checkpoint_take_vector(qn_checkpoint *checkpoint, const char *name, size_t count, float **out,
                                    qn_error *err)
{
    qn_expected expected = {.dtypes = QN_WEIGHT_DTYPES, .dims = 1, .shape = {count}};
    const qn_tensor *t = NULL;
    qn_status status = qn_checkpoint_take_tensor(checkpoint, name, &expected, &t, err);
    if (status != QN_OK)
        return status;
    float *values = qn_alloc(count, sizeof *values);
    if (!values)
        return qn_fail_memory(err, name, count * sizeof *values);
    qn_matrix row = {.dtype = t->dtype, .rows = 1, .cols = count, .data = t->data};
    qn_matrix_row_to_f32(&row, 0, values);
    for (size_t i = 0; i < count; i++) {
        if (isfinite(values[i]))
            continue;
        qn_free(values);
        return qn_fail(err, QN_BAD_INPUT,
                       "%s: tensor %s: its value at index %zu is not a finite number: fetch the checkpoint again",
                       qn_entry_find(checkpoint, name)->shard->path, name, i);
    }
    *out = values;
    return QN_OK;
}

qn_status qn_checkpoint_finish(qn_checkpoint *checkpoint, qn_error *err)
{
    const qn_entry *first = NULL;
    size_t left = 0;
    for (size_t i = 0; i < checkpoint->count; i++) {
        const qn_entry *e = &checkpoint->entries[i];
        if (e->taken)
            continue;
        left++;
        if (!first)
            first = e;
    }
    if (!first)
        return QN_OK;
    char found[QN_TENSOR_DESCRIPTION_BYTES], more[64] = "";
    qn_tensor_describe(first->tensor->dtype, first->tensor->dims, first->tensor->shape, found);
    if (left > 1)
        snprintf(more, sizeof more, " (nor %zu others)", left - 1);
    return qn_fail(err, QN_BAD_INPUT,
                   "%s: tensor %s: is %s and has no place in the model of config.json%s: use the config.json that came "
                   "with the weights",
                   first->shard->path, first->tensor->name, found, more);
}
