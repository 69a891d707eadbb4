/* Which tensor goes into which file of the output, decided from config and index alone.
 *
 * So every worker, on whatever machine, makes the same plan, and the output's bytes do not depend on how the work was
 * split, on threads or on interruptions. A file holds either routed experts of one layer (two tensors each: codes and
 * scales) or others, copied as they are. Files of the rest come first; tensors follow the order of the source's; a file
 * is closed before it would exceed the given size, counted with the dtypes of the catalogue and without its header. A
 * tensor larger than that has a file of its own. */
#ifndef QN_CONVERT_SHARD_PLAN_H
#define QN_CONVERT_SHARD_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "convert/source.h"

#define QN_DEFAULT_SHARD_BYTES UINT64_C(6000000000) /* a layer of GLM-5.3's experts, 5.13 GB, is one file */
#define QN_MIN_SHARD_BYTES UINT64_C(65536)

enum { QN_SHARD_NAME_BYTES = 64 };

typedef struct qn_planned_shard {
    char name[QN_SHARD_NAME_BYTES]; /* "model-00001-of-00085.safetensors" */
    size_t layer;                   /* whose experts it holds; QN_NO_INDEX: the rest */
    const size_t *tensors;          /* [count] indices of the source's tensors, in the order of the file */
    size_t count;
    uint64_t bytes;        /* of data, if the source has the catalogue's dtypes */
    uint64_t source_bytes; /* the same of what is read for it */
} qn_planned_shard;

/* A tensor's bytes in the source and in the output, with the catalogue's dtypes. */
uint64_t qn_planned_source_bytes(const qn_source_tensor *tensor);
uint64_t qn_planned_output_bytes(const qn_source_tensor *tensor);

typedef struct qn_shard_plan qn_shard_plan;

/* QN_BAD_INPUT when experts' columns are no multiple of 32; QN_USAGE when there would be more than QN_MAX_SHARDS files
 * (checkpoint/index.h). The plan refers to nothing of the source afterwards. */
qn_status qn_shard_plan_new(const qn_source *source, uint64_t max_shard_bytes, qn_shard_plan **out, qn_error *err);
void qn_shard_plan_free(qn_shard_plan *plan); /* NULL is fine */

size_t qn_shard_plan_count(const qn_shard_plan *plan);
const qn_planned_shard *qn_shard_plan_at(const qn_shard_plan *plan, size_t i);
uint64_t qn_shard_plan_bytes(const qn_shard_plan *plan); /* of data of all files */

/* The plan's file of this name, or QN_NO_INDEX. */
size_t qn_shard_plan_find(const qn_shard_plan *plan, const char *name);

#endif
