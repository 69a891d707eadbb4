/* Rows of activations in the forms that the weights they will meet want: packed once per input and weight dtype. */
#ifndef QN_MODEL_PACKED_H
#define QN_MODEL_PACKED_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"

/* A set of weight dtypes: bit d stands for dtype d. Packed BF16 counts as BF16, which takes the same activations. */
typedef unsigned qn_dtype_set;

qn_dtype_set qn_dtype_set_of(const qn_matrix *w);

typedef struct qn_packed {
    const qn_kernels *kernels;
    size_t cols;
    qn_dtype_set dtypes;
    void **rows[QN_DTYPE_COUNT]; /* of the dtypes in the set: where each packed row lies */
} qn_packed;

/* Bytes that `rows` rows of `cols` values take in all forms of the set; *pointers: how many row pointers. Sizes come
 * from a checked config and cannot overflow. */
size_t qn_packed_size(const qn_kernels *kernels, size_t rows, size_t cols, qn_dtype_set dtypes, size_t *pointers);

/* Lays the rows out in `bytes` (64-byte aligned) and `pointers`, as large as qn_packed_size says. */
qn_packed qn_packed_make(const qn_kernels *kernels, size_t rows, size_t cols, qn_dtype_set dtypes, uint8_t *bytes,
                         void **pointers);

/* Packs x [cols] as row `row`. Different rows may be packed by different threads. */
void qn_packed_put(const qn_packed *packed, size_t row, const float *x);

/* The rows as matmul with w wants them. */
const void *const *qn_packed_rows(const qn_packed *packed, const qn_matrix *w);

#endif
