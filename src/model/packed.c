/* One region per dtype of the set, rows at multiples of 64 bytes. */
#include "model/packed.h"

#include <assert.h>

enum { ALIGNMENT = 64 };

qn_dtype_set qn_dtype_set_of(const qn_matrix *w)
{
    return 1u << qn_activations_for(w->dtype);
}

static size_t row_bytes(const qn_kernels *kernels, size_t cols, qn_dtype dtype)
{
    return (kernels->packed_bytes(cols, dtype) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

size_t qn_packed_size(const qn_kernels *kernels, size_t rows, size_t cols, qn_dtype_set dtypes, size_t *pointers)
{
    size_t bytes = 0;
    *pointers = 0;
    for (unsigned dtype = 0; dtype < QN_DTYPE_COUNT; dtype++) {
        if (dtypes >> dtype & 1) {
            bytes += rows * row_bytes(kernels, cols, (qn_dtype)dtype);
            *pointers += rows;
        }
    }
    return bytes;
}

qn_packed qn_packed_make(const qn_kernels *kernels, size_t rows, size_t cols, qn_dtype_set dtypes, uint8_t *bytes,
                         void **pointers)
{
    qn_packed packed = {.kernels = kernels, .cols = cols, .dtypes = dtypes};
    for (unsigned dtype = 0; dtype < QN_DTYPE_COUNT; dtype++) {
        if (!(dtypes >> dtype & 1))
            continue;
        size_t stride = row_bytes(kernels, cols, (qn_dtype)dtype);
        packed.rows[dtype] = pointers;
        for (size_t r = 0; r < rows; r++, bytes += stride)
            *pointers++ = bytes;
    }
    return packed;
}

void qn_packed_put(const qn_packed *packed, size_t row, const float *x)
{
    for (unsigned dtype = 0; dtype < QN_DTYPE_COUNT; dtype++)
        if (packed->dtypes >> dtype & 1)
            packed->kernels->pack(packed->rows[dtype][row], x, packed->cols, (qn_dtype)dtype);
}

const void *const *qn_packed_rows(const qn_packed *packed, const qn_matrix *w)
{
    qn_dtype dtype = qn_activations_for(w->dtype);
    assert(packed->cols == w->cols && packed->rows[dtype]);
    return (const void *const *)packed->rows[dtype];
}
