#include "checkpoint/mxfp4.h"

#include <stdio.h>
#include <string.h>

enum { LARGEST_SCALE = 252 };

static bool ends_with(const char *text, const char *suffix)
{
    size_t bytes = strlen(text), suffix_bytes = strlen(suffix);
    return bytes >= suffix_bytes && strcmp(text + bytes - suffix_bytes, suffix) == 0;
}

bool qn_mxfp4_is_scales(const qn_tensor *tensor)
{
    return tensor->dtype == QN_DTYPE_U8 && (ends_with(tensor->name, "_scale") || ends_with(tensor->name, "_scales"));
}

static uint8_t largest(const uint8_t *data, size_t bytes)
{
    uint8_t most = 0;
    for (size_t i = 0; i < bytes; i++)
        most = data[i] > most ? data[i] : most;
    return most;
}

static qn_status fail_scale(const char *file_name, const qn_tensor *t, size_t at, qn_error *err)
{
    size_t block = t->dims > 0 && t->shape[t->dims - 1] > 0 ? t->shape[t->dims - 1] : 1;
    return qn_fail(err, QN_BAD_INPUT,
                   "%s: tensor %s: its scale byte at row %zu, block %zu is %u, and with 253 to 255 values are not "
                   "finite: fetch or quantise the checkpoint again",
                   file_name, t->name, at / block, at % block, t->data[at]);
}

static qn_status fail_zero(const char *file_name, const qn_tensor *t, size_t part, bool of_many, qn_error *err)
{
    char which[48] = "";
    if (of_many)
        snprintf(which, sizeof which, " of expert %zu", part);
    return qn_fail(err, QN_BAD_INPUT,
                   "%s: tensor %s: the scales%s are all zero, as if never written: fetch or quantise the checkpoint "
                   "again",
                   file_name, t->name, which);
}

qn_status qn_mxfp4_check_scales(const char *file_name, const qn_tensor *scales, qn_error *err)
{
    size_t parts = scales->dims == 3 ? scales->shape[0] : 1;
    for (size_t part = 0; part < parts && scales->bytes > 0; part++) {
        size_t bytes = scales->bytes / parts, first = part * bytes;
        uint8_t most = largest(scales->data + first, bytes);
        if (most > LARGEST_SCALE) {
            size_t at = first;
            while (scales->data[at] <= LARGEST_SCALE)
                at++;
            return fail_scale(file_name, scales, at, err);
        }
        if (most == 0)
            return fail_zero(file_name, scales, part, parts > 1, err);
    }
    return QN_OK;
}

qn_status qn_mxfp4_check_cols(const qn_checkpoint *checkpoint, const char *name, size_t cols, qn_error *err)
{
    if (cols % QN_MXFP4_BLOCK == 0)
        return QN_OK;
    return qn_fail(err, QN_BAD_INPUT,
                   "%s: tensor %s: it has %zu inputs by config.json, and MXFP4 needs a multiple of %d: use the BF16 "
                   "release",
                   qn_checkpoint_dir(checkpoint), name, cols, QN_MXFP4_BLOCK);
}

qn_status qn_mxfp4_take_pair(qn_checkpoint *checkpoint, const char *codes_name, const char *scales_name, size_t rows,
                             size_t cols, qn_matrix *out, qn_error *err)
{
    qn_expected codes_expected = {.dtypes = 1 << QN_DTYPE_U8, .dims = 2, .shape = {rows, cols / 2}};
    qn_expected scales_expected = {.dtypes = 1 << QN_DTYPE_U8, .dims = 2, .shape = {rows, cols / QN_MXFP4_BLOCK}};
    const qn_tensor *codes = NULL, *scales = NULL;
    qn_status status = qn_mxfp4_check_cols(checkpoint, codes_name, cols, err);
    if (status == QN_OK)
        status = qn_checkpoint_take_tensor(checkpoint, codes_name, &codes_expected, &codes, err);
    if (status == QN_OK)
        status = qn_checkpoint_take_tensor(checkpoint, scales_name, &scales_expected, &scales, err);
    if (status != QN_OK)
        return status;
    *out = (qn_matrix){
        .dtype = QN_DTYPE_MXFP4, .rows = rows, .cols = cols, .data = codes->data, .scales = scales->data};
    return QN_OK;
}
