/* Writes one safetensors file: tensors are declared first, then their bytes appended in that order. The header alone is
 * for those who write the data by themselves. */
#ifndef QN_CHECKPOINT_SAFETENSORS_WRITER_H
#define QN_CHECKPOINT_SAFETENSORS_WRITER_H

#include <stddef.h>

#include "base/buffer.h"
#include "base/dtype.h"
#include "base/error.h"
#include "checkpoint/safetensors.h"

typedef struct qn_tensor_declaration {
    const char *name;
    qn_dtype dtype;
    size_t dims, shape[QN_TENSOR_MAX_DIMS];
    size_t bytes; /* of its data; filled in by qn_tensor_declare */
} qn_tensor_declaration;

/* Checks one declaration and fills in its bytes. QN_USAGE for a name, dtype or shape that has no place in a file. */
qn_status qn_tensor_declare(qn_tensor_declaration *tensor, qn_error *err);

/* The length and the text of a header for such tensors, one behind the other, padded with spaces so that the data start
 * at a multiple of `alignment`. Appends to *out. QN_USAGE when it would be larger than a header may be. */
qn_status qn_safetensors_format_header(const qn_tensor_declaration *tensors, size_t count, size_t alignment,
                                       const char *what, qn_buffer *out, qn_error *err);

typedef struct qn_safetensors_writer qn_safetensors_writer;

qn_status qn_safetensors_writer_new(qn_safetensors_writer **out, qn_error *err);
qn_status qn_safetensors_writer_declare(qn_safetensors_writer *w, const char *name, qn_dtype dtype, size_t dims,
                                        const size_t *shape, qn_error *err);
/* Opens a temporary file beside path and writes the header (padded so that the data start at a multiple of 64). */
qn_status qn_safetensors_writer_begin(qn_safetensors_writer *w, const char *path, qn_error *err);
/* The next bytes of the data section, in the order of declaration; any split. */
qn_status qn_safetensors_writer_append(qn_safetensors_writer *w, const void *data, size_t bytes, qn_error *err);
/* Checks that exactly the declared bytes came, syncs and renames the file to its path. */
qn_status qn_safetensors_writer_finish(qn_safetensors_writer *w, qn_error *err);
/* Releases everything; a file that was begun and not finished is removed. NULL is fine. */
void qn_safetensors_writer_free(qn_safetensors_writer *w);

#endif
