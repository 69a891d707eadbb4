/* One safetensors file, mapped: its header parsed and checked, its tensors as views.
 *
 * Format: 8 bytes little-endian header length, a JSON object name -> {dtype, shape, data_offsets [begin, end]} with an
 * optional "__metadata__" of strings, then the data (https://github.com/huggingface/safetensors). Checked at open:
 * header length against the file and a bound, every dtype, shape product against the byte range, ranges inside the
 * data, without overlap or holes, number and length of names. Nothing is copied: views point into the mapping. */
#ifndef QN_CHECKPOINT_SAFETENSORS_H
#define QN_CHECKPOINT_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"

enum {
    QN_TENSOR_MAX_DIMS = 8,
    QN_TENSOR_NAME_BYTES = 256,
    QN_SAFETENSORS_MAX_TENSORS = 1 << 20,        /* of one file */
    QN_SAFETENSORS_MAX_HEADER_BYTES = 100000000, /* the format's own bound */
    QN_TENSOR_DESCRIPTION_BYTES = 224
};

typedef struct qn_tensor {
    const char *name; /* owned by the file; printable UTF-8 */
    qn_dtype dtype;
    size_t dims, shape[QN_TENSOR_MAX_DIMS];
    const uint8_t *data; /* not aligned to anything; for 0 bytes not to be read; NULL when only the header was opened */
    size_t bytes;
    size_t offset; /* of the data, from the start of the file */
} qn_tensor;

/* "BF16 [96, 64]", for messages. Returns out. */
const char *qn_tensor_describe(qn_dtype dtype, size_t dims, const size_t *shape, char out[QN_TENSOR_DESCRIPTION_BYTES]);

typedef struct qn_safetensors qn_safetensors;

qn_status qn_safetensors_open(const char *path, qn_safetensors **out, qn_error *err);
/* Reads the header and maps nothing: the tensors have no `data`, and the file may be cut off or removed later. */
qn_status qn_safetensors_open_header(const char *path, qn_safetensors **out, qn_error *err);
/* The same for a file that may have tensors of F8_E4M3, which all other readers refuse. */
qn_status qn_safetensors_open_fp8_header(const char *path, qn_safetensors **out, qn_error *err);
/* The same over bytes in memory that the caller keeps alive; `what` names them in errors. */
qn_status qn_safetensors_parse(const uint8_t *data, size_t bytes, const char *what, qn_safetensors **out,
                               qn_error *err);
void qn_safetensors_close(qn_safetensors *file); /* NULL is fine */

/* When it was mapped; all zero for a file that was not. */
const qn_file_identity *qn_safetensors_identity(const qn_safetensors *file);

size_t qn_safetensors_count(const qn_safetensors *file);
const qn_tensor *qn_safetensors_at(const qn_safetensors *file, size_t i); /* in ascending order of data offset */
const qn_tensor *qn_safetensors_find(const qn_safetensors *file, const char *name); /* NULL: not there */

/* The eight bytes of length and the text behind them, hashed: what a header says, and the way it says it. */
qn_hash qn_safetensors_header_hash(const qn_safetensors *file);

#endif
