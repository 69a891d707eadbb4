/* model.safetensors.index.json: which tensor lies in which shard. */
#ifndef QN_CHECKPOINT_INDEX_H
#define QN_CHECKPOINT_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/json.h"

/* 300,000 tensors take some 32 MiB, three times what the largest release has. */
enum { QN_MAX_SHARDS = 4096, QN_INDEX_LIMIT_BYTES = 32 << 20 };

/* Start from {0}. Strings live until qn_index_close. */
typedef struct qn_index {
    json_t *root, *weight_map;
    const char **files; /* each once, ascending: plain names, checked */
    size_t file_count;
    bool has_total;      /* metadata.total_size is given ... */
    uint64_t total_size; /* ... as this: bytes of all tensors */
} qn_index;

qn_status qn_index_open(const char *path, qn_index *out, qn_error *err);
void qn_index_close(qn_index *index);

size_t qn_index_count(const qn_index *index);                                 /* of tensors */
const char *qn_index_file_of(const qn_index *index, const char *tensor_name); /* NULL: not listed */

#endif
