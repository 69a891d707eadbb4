#include "bench/model_speed.h"

static const char FORM[] = "quern-model-speed-1";

static void set(json_t *object, const char *name, json_t *value, bool *failed)
{
    if (json_object_set_new(object, name, value) != 0)
        *failed = true;
}

static json_t *statistic(const qn_statistic *s)
{
    return json_pack("{s:f, s:f, s:f, s:I}", "min", s->min, "median", s->median, "max", s->max, "samples",
                     (json_int_t)s->samples);
}

/* A part's rates by its median time; 0 where no time went by. */
static json_t *part_json(const qn_part_speed *part, double whole_ms)
{
    double gflops = part->ms.median > 0 ? part->flops / part->ms.median / 1e6 : 0;
    double gbps = part->ms.median > 0 ? part->bytes / part->ms.median / 1e6 : 0;
    return json_pack("{s:o, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "ms", statistic(&part->ms), "time_share",
                     part->ms.median / whole_ms, "flops", part->flops, "bytes", part->bytes, "gflops", gflops,
                     "peak_share", part->peak_share, "gbps", gbps, "read_share", part->read_share);
}

static json_t *experts_json(const qn_point_speed *p)
{
    static const char *const names[QN_EXPERT_COUNTS] = {
        [QN_EXPERTS_NEEDED] = "needed",         [QN_EXPERTS_HIT] = "hits",
        [QN_EXPERTS_GUESSED] = "guessed",       [QN_EXPERTS_RIGHT] = "guessed_right",
        [QN_EXPERTS_AHEAD] = "ahead",           [QN_EXPERTS_AHEAD_USED] = "ahead_used",
        [QN_EXPERTS_BYTES_READ] = "read_bytes", [QN_EXPERTS_BYTES_MISSED] = "missed_bytes",
        [QN_EXPERTS_WAITED_NS] = "wait_ns",
    };
    bool failed = false;
    json_t *out = json_pack("{s:o, s:o, s:o, s:I}", "disk_ms", statistic(&p->disk_ms), "memory_ms",
                            statistic(&p->memory_ms), "over_longer", statistic(&p->over_longer), "memory_estimates",
                            (json_int_t)p->memory_estimates);
    for (size_t i = 0; i < QN_EXPERT_COUNTS; i++)
        set(out, names[i], json_real(p->experts_mean.of[i]), &failed);
    if (failed) {
        json_decref(out);
        return NULL;
    }
    return out;
}

static json_t *point_json(const qn_point_speed *p, const qn_model_speed *speed)
{
    bool failed = false;
    json_t *parts = json_object();
    for (qn_model_part i = 0; i < QN_PARTS; i++)
        set(parts, qn_part_name(i), part_json(&p->part[i], p->ms.median), &failed);
    json_t *out = json_pack("{s:I, s:I, s:I, s:o, s:o, s:f, s:f, s:f, s:f, s:f, s:f, s:o, s:o, s:o}", "context",
                            (json_int_t)p->point.context, speed->kind == QN_SPEED_DECODE ? "batch" : "prompt",
                            (json_int_t)p->point.count, "steps", (json_int_t)p->steps, "ms", statistic(&p->ms),
                            "tokens_per_second", statistic(&p->tokens), "experts_per_layer", p->experts, "flops",
                            p->flops, "bytes", p->bytes, "bytes_unpacked", p->unpacked_bytes, "gflops",
                            p->flops / p->ms.median / 1e6, "gbps", p->bytes / p->ms.median / 1e6, "peak_share",
                            statistic(&p->peak_share), "read_share", statistic(&p->read_share), "parts", parts);
    set(out, "pool",
        json_pack("{s:f, s:f, s:f, s:f}", "loops", p->loops, "alone_share", p->alone_share, "idle_share", p->idle_share,
                  "sleeps", p->sleeps),
        &failed);
    if (speed->experts > 0)
        set(out, "expert_cache", experts_json(p), &failed);
    if (failed) {
        json_decref(out);
        return NULL;
    }
    return out;
}

static json_t *limits_json(const qn_model_speed *s)
{
    return json_pack("{s:o, s:o, s:I, s:o, s:o, s:s}", "read_small_pages_gbps", statistic(&s->read_small),
                     "read_huge_pages_gbps", statistic(&s->read_huge), "read_bytes", (json_int_t)s->region_bytes,
                     "fp32_gflops", statistic(&s->fp32), "bf16_gflops", statistic(&s->bf16), "peak_of",
                     s->bf16_peak ? "bf16" : "fp32");
}

json_t *qn_model_speed_to_json(const qn_model_speed *s)
{
    bool failed = false;
    json_t *points = json_array();
    for (size_t i = 0; i < s->point_count; i++)
        failed |= json_array_append_new(points, point_json(&s->point[i], s)) != 0;
    json_t *root = json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:b, s:b, s:I, s:I, s:I, s:s, s:o, s:o}", "form",
                             FORM, "bench", s->kind == QN_SPEED_DECODE ? "decode" : "prefill", "cpu", s->cpu, "isa",
                             s->isa, "threads", (json_int_t)s->threads, "layers", (json_int_t)s->layers,
                             "sparse_layers", (json_int_t)s->sparse_layers, "weight_bytes", (json_int_t)s->weight_bytes,
                             "resident", s->resident, "packed", s->packed, "cache_bytes", (json_int_t)s->cache_bytes,
                             "max_rows", (json_int_t)s->max_rows, "drafts", (json_int_t)s->drafts, "cache",
                             "random rows", "limits", limits_json(s), "points", points);
    if (s->experts > 0)
        set(root, "expert_cache",
            json_pack("{s:I, s:I, s:o}", "room", (json_int_t)s->expert_room, "experts", (json_int_t)s->experts,
                      "disk_gbps", statistic(&s->disk)),
            &failed);
    if (failed) {
        json_decref(root);
        return NULL;
    }
    return root;
}
