/* Matrix products of the scalar reference.
 *
 * A weight row is widened to float32 one 128-group at a time and met by every row of activations before the next group
 * is touched, so that a prompt pays the widening once. Each (weight row, activation row) pair owns 32 lanes that grow
 * group by group: the order of a sum is the same for one row and for sixty-four. */
#include "kernels/ref/ref.h"

#include <string.h>

#include "base/packed_bf16.h"
#include "base/size.h"

static void add_full_group(float *restrict lanes, const float *restrict w, const float *restrict x)
{
    for (size_t l = 0; l < QN_REF_LANES; l++)
        lanes[l] += w[l] * x[l] + w[l + 32] * x[l + 32] + w[l + 64] * x[l + 64] + w[l + 96] * x[l + 96];
}

void qn_ref_add_group(float lanes[QN_REF_LANES], const float *w, const float *x, size_t count)
{
    if (count == QN_GROUP) {
        add_full_group(lanes, w, x);
        return;
    }
    /* The zeros that would fill the group change nothing: skipped. */
    float sums[QN_REF_LANES] = {0};
    size_t at = 0;
    for (; at + QN_REF_LANES <= count; at += QN_REF_LANES)
        for (size_t l = 0; l < QN_REF_LANES; l++)
            sums[l] += w[at + l] * x[at + l];
    for (size_t l = 0; l < count - at; l++)
        sums[l] += w[at + l] * x[at + l];
    for (size_t l = 0; l < QN_REF_LANES; l++)
        lanes[l] += sums[l];
}

float qn_ref_reduce(float lanes[QN_REF_LANES])
{
    for (size_t half = QN_REF_LANES / 2; half > 0; half /= 2)
        for (size_t l = 0; l < half; l++)
            lanes[l] += lanes[l + half];
    return lanes[0];
}

float qn_ref_dot(const float *w, const float *x, size_t count)
{
    float lanes[QN_REF_LANES] = {0};
    for (size_t at = 0; at < count; at += QN_GROUP)
        qn_ref_add_group(lanes, w + at, x + at, qn_min_size(QN_GROUP, count - at));
    return qn_ref_reduce(lanes);
}

static void widen_mxfp4(float *out, const uint8_t *codes, const uint8_t *scales, size_t count)
{
    static const float values[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                     -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};
    for (size_t block = 0; block < count / QN_MXFP4_BLOCK; block++) {
        float scale = scales[block] < 2 ? 0.0f : qn_e8m0_value(scales[block]);
        for (size_t i = 0; i < QN_MXFP4_BLOCK / 2; i++) {
            uint8_t pair = *codes++;
            *out++ = values[pair & 15] * scale;
            *out++ = values[pair >> 4] * scale;
        }
    }
}

/* `at` is the start of a group. */
static void widen_packed(float *out, const qn_matrix *w, size_t n, size_t at, size_t count)
{
    uint16_t group[QN_PACKED_GROUP];
    for (size_t done = 0; done < count; done += QN_PACKED_GROUP) {
        size_t piece = qn_min_size(QN_PACKED_GROUP, count - done);
        qn_packed_row_to_bf16(w, n, at + done, piece, group);
        for (size_t i = 0; i < piece; i++)
            out[done + i] = qn_bf16_to_f32(group[i]);
    }
}

/* The data may lie at any address, so every element is copied out. */
void qn_ref_widen(float *restrict out, const qn_matrix *w, size_t n, size_t at, size_t count)
{
    size_t element = n * w->cols + at;
    switch (w->dtype) {
    case QN_DTYPE_F32:
        memcpy(out, w->data + element * 4, count * 4);
        break;
    case QN_DTYPE_BF16: {
        const uint8_t *data = w->data + element * 2;
        for (size_t i = 0; i < count; i++) {
            uint16_t bits;
            memcpy(&bits, data + 2 * i, 2);
            out[i] = qn_bf16_to_f32(bits);
        }
        break;
    }
    case QN_DTYPE_F16: {
        const uint8_t *data = w->data + element * 2;
        for (size_t i = 0; i < count; i++) {
            uint16_t bits;
            memcpy(&bits, data + 2 * i, 2);
            out[i] = qn_f16_to_f32(bits);
        }
        break;
    }
    case QN_DTYPE_PACKED_BF16:
        widen_packed(out, w, n, at, count);
        break;
    default:
        widen_mxfp4(out, w->data + element / 2, w->scales + element / QN_MXFP4_BLOCK, count);
        break;
    }
}

size_t qn_ref_packed_bytes(size_t cols, qn_dtype weight_dtype)
{
    (void)weight_dtype;
    return (cols + QN_GROUP - 1) / QN_GROUP * QN_GROUP * sizeof(float);
}

void qn_ref_pack(void *packed, const float *x, size_t cols, qn_dtype weight_dtype)
{
    size_t bytes = qn_ref_packed_bytes(cols, weight_dtype);
    memcpy(packed, x, cols * sizeof(float));
    memset((char *)packed + cols * sizeof(float), 0, bytes - cols * sizeof(float));
}

void qn_ref_matmul_f32(const qn_matrix *w, size_t first, size_t last, const float *const *x, size_t rows,
                       float *const *y)
{
    float lanes[QN_MATMUL_MAX_ROWS][QN_REF_LANES];
    float group[QN_GROUP];
    for (size_t n = first; n < last; n++) {
        memset(lanes, 0, rows * sizeof lanes[0]);
        for (size_t at = 0; at < w->cols; at += QN_GROUP) {
            size_t count = qn_min_size(QN_GROUP, w->cols - at);
            qn_ref_widen(group, w, n, at, count);
            for (size_t r = 0; r < rows; r++)
                qn_ref_add_group(lanes[r], group, x[r] + at, count);
        }
        for (size_t r = 0; r < rows; r++)
            y[r][n - first] = qn_ref_reduce(lanes[r]);
    }
}

void qn_ref_matmul(const qn_matrix *w, size_t first, size_t last, const void *const *x, size_t rows, float *const *y)
{
    const float *unpacked[QN_MATMUL_MAX_ROWS];
    for (size_t r = 0; r < rows; r++)
        unpacked[r] = x[r];
    qn_ref_matmul_f32(w, first, last, unpacked, rows, y);
}

static void add_multiple(float *restrict y, float a, const float *restrict x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        y[i] += a * x[i];
}

void qn_ref_matmul_transposed(const qn_matrix *w, size_t first, size_t last, const float *const *x, size_t rows,
                              float *const *y)
{
    float piece[QN_GROUP];
    for (size_t r = 0; r < rows; r++)
        memset(y[r], 0, w->cols * sizeof(float));
    for (size_t n = first; n < last; n++)
        for (size_t at = 0; at < w->cols; at += QN_GROUP) {
            size_t count = qn_min_size(QN_GROUP, w->cols - at);
            qn_ref_widen(piece, w, n, at, count);
            for (size_t r = 0; r < rows; r++)
                add_multiple(y[r] + at, x[r][n - first], piece, count);
        }
}
