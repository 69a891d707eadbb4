/* Writes model.safetensors.index.json. */
#ifndef QN_CHECKPOINT_INDEX_WRITER_H
#define QN_CHECKPOINT_INDEX_WRITER_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/json.h"

/* `weight_map`: an object, tensor's name -> file's name ("model-00001-of-00002.safetensors"), as json_object_set_new
 * builds it; it stays the caller's. total_size: bytes of all tensors. The text depends on these alone, not on the order
 * of entries; the file is replaced as a whole. */
qn_status qn_index_write(const char *path, json_t *weight_map, uint64_t total_size, qn_error *err);

#endif
