/* A view of a weight matrix as it lies in a checkpoint, or packed in memory: what the kernels multiply.
 *
 * Row-major [rows, cols], rows contiguous: row r of BF16/F16/F32 starts at data + r * cols * size; of MXFP4 at
 * data + r * cols / 2 (two E2M1 codes a byte, the low nibble is the even element), its E8M0 scales at
 * scales + r * cols / 32; packed BF16 is laid out by packed_bf16.h. The data need not be aligned to its element size
 * (packed: 64 bytes). The view owns nothing: it lives as long as the checkpoint (or whoever made it). */
#ifndef QN_BASE_MATRIX_H
#define QN_BASE_MATRIX_H

#include <stddef.h>
#include <stdint.h>

#include "base/dtype.h"

enum { QN_MXFP4_BLOCK = 32 }; /* elements that share one scale */

typedef struct qn_packed_side qn_packed_side; /* packed_bf16.h */

typedef struct qn_matrix {
    qn_dtype dtype; /* F32, F16, BF16, MXFP4 or PACKED_BF16 */
    size_t rows, cols;
    const uint8_t *data;
    const uint8_t *scales;       /* MXFP4 only, else NULL */
    const qn_packed_side *sides; /* PACKED_BF16 only, else NULL */
} qn_matrix;

/* Rows first..first+count-1 of m as a matrix of its own. */
qn_matrix qn_matrix_rows(const qn_matrix *m, size_t first, size_t count);

size_t qn_matrix_row_bytes(const qn_matrix *m);   /* of data, scales and sides not counted */
size_t qn_matrix_data_bytes(const qn_matrix *m);  /* of all rows, scales and sides not counted */
size_t qn_matrix_scale_bytes(const qn_matrix *m); /* of MXFP4; else 0 */
size_t qn_matrix_bytes(const qn_matrix *m);       /* data, scales and sides; a packed matrix's exceptions too */

/* Row r as float32, exactly (scale bytes 0 and 1 included; contract 3.1's "counts as zero" is about dot products). */
void qn_matrix_row_to_f32(const qn_matrix *m, size_t row, float *out);

#endif
