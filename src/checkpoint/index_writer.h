/* Writes model.safetensors.index.json. */
#ifndef QN_CHECKPOINT_INDEX_WRITER_H
#define QN_CHECKPOINT_INDEX_WRITER_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

typedef struct qn_placed_tensor {
    const char *name, *file; /* "lm_head.weight", "model-00002-of-00002.safetensors"; borrowed */
} qn_placed_tensor;

/* Appends the text, as transformers has it: sorted by the tensors' names (`placed` is, afterwards), two spaces a level.
 * total_size: bytes of all tensors. Out of memory: out->failed. */
void qn_index_format(qn_placed_tensor *placed, size_t count, uint64_t total_size, qn_buffer *out);

#endif
