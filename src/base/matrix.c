/* Decoding goes block by block: one scale, sixteen bytes. A product of an E2M1 value and a power of two of scale bytes
 * up to 252 is exact in float32, subnormal results of scale bytes 0 and 1 included (their last bit is 2^-128). */
#include "base/matrix.h"

#include <assert.h>
#include <stdbool.h>

#include "base/packed_bf16.h"
#include "base/size.h"

size_t qn_matrix_row_bytes(const qn_matrix *m)
{
    if (m->dtype == QN_DTYPE_PACKED_BF16)
        return qn_packed_row_bytes(m->cols);
    return m->cols * qn_dtype_bits(m->dtype) / 8;
}

size_t qn_matrix_data_bytes(const qn_matrix *m)
{
    return m->rows * qn_matrix_row_bytes(m);
}

size_t qn_matrix_scale_bytes(const qn_matrix *m)
{
    return m->dtype == QN_DTYPE_MXFP4 ? m->rows * (m->cols / QN_MXFP4_BLOCK) : 0;
}

static size_t packed_bytes(const qn_matrix *m)
{
    size_t exceptions = 0;
    for (size_t row = 0; row < m->rows; row++)
        exceptions += m->sides[row].count;
    return qn_matrix_data_bytes(m) + m->rows * sizeof *m->sides + exceptions * sizeof(qn_packed_exception);
}

size_t qn_matrix_bytes(const qn_matrix *m)
{
    if (m->dtype == QN_DTYPE_PACKED_BF16)
        return packed_bytes(m);
    return qn_matrix_data_bytes(m) + qn_matrix_scale_bytes(m);
}

qn_matrix qn_matrix_rows(const qn_matrix *m, size_t first, size_t count)
{
    assert(first <= m->rows && count <= m->rows - first);
    qn_matrix part = *m;
    part.rows = count;
    part.data = m->data + first * qn_matrix_row_bytes(m);
    if (m->scales)
        part.scales = m->scales + first * (m->cols / QN_MXFP4_BLOCK);
    if (m->sides)
        part.sides = m->sides + first;
    return part;
}

static uint16_t load_u16(const uint8_t *data, size_t i)
{
    uint16_t bits;
    memcpy(&bits, data + 2 * i, sizeof bits);
    return bits;
}

static void mxfp4_row_to_f32(const uint8_t *codes, const uint8_t *scales, size_t cols, float *out)
{
    for (size_t i = 0; i < cols; i += QN_MXFP4_BLOCK) {
        float scale = qn_e8m0_value(scales[i / QN_MXFP4_BLOCK]);
        for (size_t k = i; k < i + QN_MXFP4_BLOCK; k += 2) {
            unsigned pair = codes[k / 2];
            out[k] = qn_e2m1_value(pair & 15) * scale;
            out[k + 1] = qn_e2m1_value(pair >> 4) * scale;
        }
    }
}

static void packed_row_to_f32(const qn_matrix *m, size_t row, float *out)
{
    uint16_t group[QN_PACKED_GROUP];
    for (size_t at = 0; at < m->cols; at += QN_PACKED_GROUP) {
        size_t count = qn_min_size(QN_PACKED_GROUP, m->cols - at);
        qn_packed_row_to_bf16(m, row, at, count, group);
        for (size_t i = 0; i < count; i++)
            out[at + i] = qn_bf16_to_f32(group[i]);
    }
}

void qn_matrix_row_to_f32(const qn_matrix *m, size_t row, float *out)
{
    assert(row < m->rows);
    const uint8_t *data = m->data + row * qn_matrix_row_bytes(m);
    switch (m->dtype) {
    case QN_DTYPE_F32:
        memcpy(out, data, m->cols * sizeof *out);
        return;
    case QN_DTYPE_BF16:
        for (size_t i = 0; i < m->cols; i++)
            out[i] = qn_bf16_to_f32(load_u16(data, i));
        return;
    case QN_DTYPE_F16:
        for (size_t i = 0; i < m->cols; i++)
            out[i] = qn_f16_to_f32(load_u16(data, i));
        return;
    case QN_DTYPE_MXFP4:
        mxfp4_row_to_f32(data, m->scales + row * (m->cols / QN_MXFP4_BLOCK), m->cols, out);
        return;
    case QN_DTYPE_PACKED_BF16:
        packed_row_to_f32(m, row, out);
        return;
    default:
        assert(false);
    }
}
