#include "engine/memory.h"

#include "base/amounts.h"
#include "base/log.h"
#include "base/size.h"
#include "base/system_memory.h"

static const double SHARE_BESIDE_TOO_LARGE_WEIGHTS = 0.25;

void qn_memory_plan_log(const qn_memory_plan *plan)
{
    char a[QN_MEMORY_TEXT_BYTES], b[QN_MEMORY_TEXT_BYTES];
    size_t sum = plan->weight_bytes + plan->kv_bytes + plan->step_bytes;
    qn_log("memory: weights %s", qn_memory_text(plan->weight_bytes - plan->cache_bytes, a));
    if (plan->cache_bytes > 0) {
        qn_log("memory: expert cache %s, %zu of %zu routed experts at a time; the others are read from the disk",
               qn_memory_text(plan->cache_bytes, a), plan->cached_experts, plan->experts);
    }
    qn_log("memory: KV cache %s, %zu tokens in blocks of %zu, %.2f requests of max_model_len %zu",
           qn_memory_text(plan->kv_bytes, a), plan->kv_tokens, plan->kv_block_tokens,
           (double)plan->kv_tokens / (double)plan->max_model_len, plan->max_model_len);
    qn_log("memory: step buffers %s, %zu rows", qn_memory_text(plan->step_bytes, a), plan->step_rows);
    if (plan->available_bytes == 0) {
        qn_log("memory: in all %s (%zu bytes)", qn_memory_text(sum, a), sum);
        return;
    }
    qn_log("memory: in all %s (%zu bytes) of %s available", qn_memory_text(sum, a), sum,
           qn_memory_text(plan->available_bytes, b));
    if (sum > plan->available_bytes) {
        qn_log("memory: the run needs more than is available: weights will be read from disk again and again: close "
               "other programs or give a smaller --max-model-len");
    }
}

bool qn_memory_plan_fits(const qn_memory_plan *plan)
{
    size_t usable = (size_t)((double)plan->available_bytes * QN_USABLE_MEMORY_SHARE);
    return plan->weight_bytes <= usable && plan->kv_bytes <= usable - plan->weight_bytes &&
           plan->step_bytes <= usable - plan->weight_bytes - plan->kv_bytes;
}

size_t qn_memory_fit(size_t wanted, size_t granule, size_t weight_bytes, size_t available_bytes, qn_memory_cost cost,
                     void *context)
{
    size_t usable = (size_t)((double)available_bytes * QN_USABLE_MEMORY_SHARE);
    size_t budget = usable > weight_bytes ? usable - weight_bytes : 0;
    size_t least = (size_t)((double)available_bytes * SHARE_BESIDE_TOO_LARGE_WEIGHTS);
    size_t bytes;
    if (usable < weight_bytes && budget < least) {
        budget = least;
    }
    if (cost(context, wanted, &bytes) && bytes <= budget) {
        return wanted;
    }
    size_t fits = 0, too_many = wanted / granule + 1; /* in granules */
    while (too_many - fits > 1) {
        size_t middle = fits + (too_many - fits) / 2;
        if (cost(context, middle * granule, &bytes) && bytes <= budget) {
            fits = middle;
        } else {
            too_many = middle;
        }
    }
    return fits == 0 ? qn_min_size(granule, wanted) : fits * granule;
}
