#include "plan/plan.h"

static json_t *integer(uint64_t value)
{
    return json_integer((json_int_t)value);
}

static json_t *kind_json(const qn_plan_kind *k)
{
    return json_pack("{s:o, s:o, s:o, s:o}", "tensors", integer(k->tensors), "parameters", integer(k->parameters),
                     "bytes_bf16", integer(k->bytes[QN_PLAN_BF16]), "bytes_mxfp4", integer(k->bytes[QN_PLAN_MXFP4]));
}

static json_t *sizes_json(const qn_plan *p)
{
    const qn_plan_sizes *s = &p->sizes;
    json_t *kinds = json_object();
    int failed = kinds == NULL;
    for (qn_tensor_kind kind = 0; kind < QN_TENSOR_KINDS; kind++)
        if (s->kind[kind].tensors > 0)
            failed |= json_object_set_new(kinds, qn_tensor_kind_name(kind), kind_json(&s->kind[kind]));
    if (failed) {
        json_decref(kinds);
        return NULL;
    }
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "weights", integer(s->weights), "router_biases",
                     integer(s->router_biases), "active_parameters", integer(s->active_parameters), "active_bytes_bf16",
                     integer(s->active_bytes[QN_PLAN_BF16]), "active_bytes_mxfp4",
                     integer(s->active_bytes[QN_PLAN_MXFP4]), "total", kind_json(&s->total), "kinds", kinds);
}

static json_t *kv_json(const qn_plan *p)
{
    const qn_plan_sizes *s = &p->sizes;
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "values_per_token", integer(s->kv_values_per_token),
                     "bytes_per_token", integer(2 * s->kv_values_per_token), "values_per_token_with_mtp",
                     integer(s->kv_values_per_token_with_mtp), "bytes_per_token_with_mtp",
                     integer(2 * s->kv_values_per_token_with_mtp), "block_tokens", integer(QN_PLAN_BLOCK_TOKENS),
                     "block_bytes", integer(p->kv_block_bytes));
}

/* A path may be no UTF-8, which JSON can't say. */
static json_t *path_json(const char *path)
{
    json_t *text = json_string(path);
    return text ? text : json_null();
}

static json_t *machine_json(const qn_plan *p)
{
    json_t *nodes = json_array();
    int failed = nodes == NULL;
    for (size_t i = 0; i < p->machine.node_count; i++) {
        const qn_numa_node *n = &p->machine.node[i];
        failed |= json_array_append_new(nodes, json_pack("{s:i, s:o, s:o, s:o}", "id", (int)n->id, "cpus",
                                                         integer(n->cpus), "total_bytes", integer(n->total_bytes),
                                                         "free_bytes", integer(n->free_bytes)));
    }
    if (failed) {
        json_decref(nodes);
        return NULL;
    }
    return json_pack("{s:o, s:o, s:o, s:o, s:{s:o, s:o, s:o}}", "available_bytes", integer(p->machine.available_bytes),
                     "planned_bytes", integer(p->memory_bytes), "usable_bytes", integer(p->usable_bytes), "numa_nodes",
                     nodes, "disk", "folder", path_json(p->disk_folder), "total_bytes", integer(p->disk.total_bytes),
                     "free_bytes", integer(p->disk.free_bytes));
}

static json_t *layouts_json(const qn_plan *p, qn_plan_form form)
{
    json_t *list = json_array();
    int failed = list == NULL;
    for (size_t i = 0; i < p->layout_count[form]; i++) {
        const qn_rank_layout *l = &p->layout[form][i];
        failed |= json_array_append_new(
            list, json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:b}", "ranks", integer(l->ranks), "expert_groups",
                            integer(l->expert_groups), "expert_parts", integer(l->expert_parts), "bytes_per_rank",
                            integer(l->bytes), "replicated_bytes", integer(l->replicated_bytes), "kv_tokens",
                            integer(p->layout_kv_tokens[form][i]), "fits", p->layout_kv_tokens[form][i] > 0));
    }
    if (failed) {
        json_decref(list);
        return NULL;
    }
    return list;
}

static json_t *time_json(const qn_step_time *t, double tokens)
{
    return json_pack("{s:f, s:f, s:{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}}", "tokens_per_second",
                     tokens / t->total, "seconds", t->total, "parts", "projections", t->projections, "routed",
                     t->routed, "shared", t->shared, "absorbed", t->absorbed, "attention", t->attention, "indexer",
                     t->indexer, "head", t->head, "row_work", t->row_work, "loops", t->loops);
}

/* {"key": value, ...the time} */
static int append_time(json_t *list, const char *key, size_t value, json_t *time)
{
    return json_object_set_new(time, key, integer(value)) | json_array_append_new(list, time);
}

static json_t *speed_json(const qn_plan *p, qn_plan_form form)
{
    const qn_plan_speed *s = &p->speed[form];
    json_t *decode = json_array(), *batch = json_array(), *prefill = json_array(), *mtp = json_null();
    int failed = 0;
    for (size_t i = 0; i < QN_PLAN_CONTEXTS; i++)
        if (qn_plan_contexts[i] < p->max_model_len)
            failed |= append_time(decode, "context", qn_plan_contexts[i], time_json(&s->decode[i], 1));
    for (size_t i = 0; i < QN_PLAN_BATCHES; i++)
        failed |= append_time(batch, "sequences", qn_plan_batches[i],
                              time_json(&s->batch[i], (double)qn_plan_batches[i]));
    for (size_t i = 0; i < QN_PLAN_PROMPTS; i++)
        if (qn_plan_prompts[i] <= p->max_model_len)
            failed |= append_time(prefill, "tokens", qn_plan_prompts[i],
                                  time_json(&s->prefill[i], (double)qn_plan_prompts[i]));
    if (p->config.num_nextn_predict_layers > 0) {
        mtp = time_json(&s->mtp, qn_tokens_per_step(p->acceptance, 1));
        failed |= json_object_set_new(mtp, "acceptance", json_real(p->acceptance));
    }
    if (failed) {
        json_decref(decode);
        json_decref(batch);
        json_decref(prefill);
        json_decref(mtp);
        return NULL;
    }
    return json_pack("{s:o, s:o, s:i, s:o, s:o, s:o}", "decode", decode, "batch", batch, "batch_context",
                     QN_PLAN_BATCH_CONTEXT, "mtp", mtp, "prefill", prefill, "disk_bound_tokens_per_second",
                     s->disk_bound_tokens > 0 ? json_real(s->disk_bound_tokens) : json_null());
}

static json_t *form_json(const qn_plan *p, qn_plan_form form)
{
    const qn_plan_fit *f = &p->fit[form];
    size_t smallest = qn_plan_smallest(p, form);
    return json_pack("{s:o, s:o, s:b, s:o, s:f, s:f, s:o, s:o, s:o}", "weight_bytes", integer(f->weight_bytes),
                     "step_bytes", integer(f->step_bytes), "fits", f->fits, "kv_tokens", integer(f->kv_tokens),
                     "requests", f->requests, "resident_share", f->resident_share, "smallest_ranks",
                     smallest != SIZE_MAX ? integer(p->layout[form][smallest].ranks) : json_null(), "layouts",
                     layouts_json(p, form), "speed", p->predicts ? speed_json(p, form) : json_null());
}

json_t *qn_plan_to_json(const qn_plan *p)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "sizes", sizes_json(p), "kv", kv_json(p), "machine",
                     machine_json(p), "max_model_len", integer(p->max_model_len), "max_num_batched_tokens",
                     integer(p->max_rows), "conversion_bytes",
                     integer(p->sizes.total.bytes[QN_PLAN_BF16] + p->sizes.total.bytes[QN_PLAN_MXFP4]), "bf16",
                     form_json(p, QN_PLAN_BF16), "mxfp4", form_json(p, QN_PLAN_MXFP4));
}
