/* What a run will hold, told before it is allocated; and how many tokens of context fit.
 *
 * A run holds the weights (in memory or mapped from the checkpoint, plus what was converted), the KV cache of one
 * sequence of max_model_len tokens or more, and the buffers of a step. All of it is allocated at start, so the sum is
 * the peak (docs/engine.md tells what the 100 MB beyond it are for). */
#ifndef QN_ENGINE_MEMORY_H
#define QN_ENGINE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

typedef struct qn_memory_plan {
    size_t weight_bytes; /* wherever they lie; of routed experts the cache's alone where there is one */
    size_t cache_bytes;  /* of them, the expert cache's; 0: there is none */
    size_t cached_experts, experts;
    size_t kv_bytes, kv_tokens, kv_block_tokens;
    size_t max_model_len;         /* tokens of a sequence */
    size_t step_bytes, step_rows; /* the model's buffers and the engine's */
    size_t available_bytes;       /* 0: unknown */
} qn_memory_plan;

/* Logs the plan, a line a part and one for the sum; warns where it exceeds what is available. */
void qn_memory_plan_log(const qn_memory_plan *plan);

/* Does all of it fit what is available, with the weights in memory of their own? Not told where that is not known. */
bool qn_memory_plan_fits(const qn_memory_plan *plan);

/* What a context of `tokens` costs beyond the weights: non-decreasing in tokens. False: too large to count. */
typedef bool (*qn_memory_cost)(void *context, size_t tokens, size_t *bytes);

/* The largest multiple of `granule`, at most `wanted`, whose cost fits the share of `available` that a KV cache and the
 * step's buffers may take beside the weights; at least one granule. Weights that don't fit themselves leave a quarter
 * of what is available: they are read from disk again and again then. wanted is returned when it fits, whatever the
 * granule.
 */
size_t qn_memory_fit(size_t wanted, size_t granule, size_t weight_bytes, size_t available_bytes, qn_memory_cost cost,
                     void *context);

#endif
