/* Two passes over the source's tensors, one for the rest and one for the experts, each filling files up to the limit.
 */
#include "convert/shard_plan.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/matrix.h"
#include "base/memory.h"
#include "checkpoint/index.h"

struct qn_shard_plan {
    size_t *tensors; /* of all files, one behind the other */
    size_t tensor_count;
    qn_planned_shard *shards;
    size_t count, capacity;
    uint64_t bytes;
};

/* Elements of the source's tensor. */
static uint64_t elements(const qn_source_tensor *t)
{
    return (uint64_t)t->shape[0] * (t->dims == 2 ? t->shape[1] : 1);
}

static bool is_expert(const qn_source_tensor *t)
{
    return t->expert != QN_NO_INDEX;
}

uint64_t qn_planned_source_bytes(const qn_source_tensor *t)
{
    return elements(t) * (qn_dtype_bits(t->dtype) / 8);
}

/* Codes of half a byte and a scale a block. */
uint64_t qn_planned_output_bytes(const qn_source_tensor *t)
{
    return is_expert(t) ? elements(t) / 2 + elements(t) / QN_MXFP4_BLOCK : qn_planned_source_bytes(t);
}

static qn_status add_shard(qn_shard_plan *plan, size_t layer, qn_error *err)
{
    if (plan->count == QN_MAX_SHARDS)
        return qn_fail_field(err, QN_USAGE, "max-shard-size",
                             "--max-shard-size: more than %d files would be needed: give a larger size", QN_MAX_SHARDS);
    if (plan->count == plan->capacity) {
        size_t capacity = plan->capacity ? 2 * plan->capacity : 64;
        qn_planned_shard *grown = qn_realloc(plan->shards, capacity, sizeof *grown);
        if (!grown)
            return qn_fail_memory(err, "plan of shards", capacity * sizeof *grown);
        plan->shards = grown;
        plan->capacity = capacity;
    }
    plan->shards[plan->count++] = (qn_planned_shard){.layer = layer, .tensors = plan->tensors + plan->tensor_count};
    return QN_OK;
}

/* Puts a tensor into the last file, or into a new one when it is of another layer or would not fit. */
static qn_status add_tensor(qn_shard_plan *plan, const qn_source *source, size_t i, uint64_t limit, qn_error *err)
{
    const qn_source_tensor *t = qn_source_at(source, i);
    size_t layer = is_expert(t) ? t->layer : QN_NO_INDEX;
    uint64_t bytes = qn_planned_output_bytes(t);
    qn_planned_shard *last = plan->count > 0 ? &plan->shards[plan->count - 1] : NULL;
    if (!last || last->layer != layer || last->bytes + bytes > limit) {
        qn_status status = add_shard(plan, layer, err);
        if (status != QN_OK)
            return status;
        last = &plan->shards[plan->count - 1];
    }
    plan->tensors[plan->tensor_count++] = i;
    last->count++;
    last->bytes += bytes;
    last->source_bytes += qn_planned_source_bytes(t);
    plan->bytes += bytes;
    return QN_OK;
}

static qn_status check_cols(const qn_source *source, const qn_source_tensor *t, qn_error *err)
{
    if (!is_expert(t) || t->shape[1] % QN_MXFP4_BLOCK == 0)
        return QN_OK;
    return qn_fail(
        err, QN_BAD_INPUT,
        "%s: tensor %s: has %zu columns, and MXFP4 takes blocks of %d of them: this model cannot be converted",
        qn_source_dir(source), t->name, t->shape[1], QN_MXFP4_BLOCK);
}

static qn_status fill(qn_shard_plan *plan, const qn_source *source, uint64_t limit, qn_error *err)
{
    for (int experts = 0; experts < 2; experts++) {
        for (size_t i = 0; i < qn_source_count(source); i++) {
            const qn_source_tensor *t = qn_source_at(source, i);
            if (is_expert(t) != (experts == 1))
                continue;
            qn_status status = check_cols(source, t, err);
            if (status == QN_OK)
                status = add_tensor(plan, source, i, limit, err);
            if (status != QN_OK)
                return status;
        }
    }
    return QN_OK;
}

qn_status qn_shard_plan_new(const qn_source *source, uint64_t max_shard_bytes, qn_shard_plan **out, qn_error *err)
{
    qn_shard_plan *plan = qn_alloc_zero(1, sizeof *plan);
    if (!plan)
        return qn_fail_memory(err, "plan of shards", sizeof *plan);
    plan->tensors = qn_alloc(qn_source_count(source), sizeof *plan->tensors);
    qn_status status = plan->tensors ? fill(plan, source, max_shard_bytes, err)
                                     : qn_fail_memory(err, "plan of shards", qn_source_count(source) * sizeof(size_t));
    if (status != QN_OK) {
        qn_shard_plan_free(plan);
        return status;
    }
    for (size_t i = 0; i < plan->count; i++)
        snprintf(plan->shards[i].name, sizeof plan->shards[i].name, "model-%05zu-of-%05zu.safetensors", i + 1,
                 plan->count);
    *out = plan;
    return QN_OK;
}

void qn_shard_plan_free(qn_shard_plan *plan)
{
    if (!plan)
        return;
    qn_free(plan->tensors);
    qn_free(plan->shards);
    qn_free(plan);
}

size_t qn_shard_plan_count(const qn_shard_plan *plan)
{
    return plan->count;
}

const qn_planned_shard *qn_shard_plan_at(const qn_shard_plan *plan, size_t i)
{
    assert(i < plan->count);
    return &plan->shards[i];
}

uint64_t qn_shard_plan_bytes(const qn_shard_plan *plan)
{
    return plan->bytes;
}

size_t qn_shard_plan_find(const qn_shard_plan *plan, const char *name)
{
    for (size_t i = 0; i < plan->count; i++) {
        if (strcmp(plan->shards[i].name, name) == 0)
            return i;
    }
    return QN_NO_INDEX;
}
