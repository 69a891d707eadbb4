#include "bench/serve_stress.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/progress.h"

enum { DECODE_CELL = 1, LONG_CELL = 2, STEADY_CHUNKS = 2 };

static const double bounds_ms[] = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 30000};

typedef enum decode_state { STARTING, STEADY, OVER } decode_state;

typedef struct stress {
    const qn_serve_target *target;
    const qn_serve_calibration *calibration;
    const qn_stress_options *options;
    decode_state *decodes; /* [options->decodes] */
    bool sent[QN_SERVE_MAX_LONG];
    uint32_t index;
    qn_stress_result *result;
    qn_progress progress;
} stress;

static bool all_steady(const stress *s)
{
    for (size_t i = 0; i < s->options->decodes; i++) {
        if (s->decodes[i] == STARTING)
            return false;
    }
    return true;
}

static qn_order_state next_long(stress *s, size_t number, qn_order *out)
{
    if (s->sent[number])
        return QN_ORDER_NONE;
    if (!all_steady(s))
        return QN_ORDER_LATER;
    qn_serve_workload workload = s->options->workload;
    workload.prompt_tokens = s->options->long_tokens[number];
    workload.max_tokens = QN_STRESS_LONG_ANSWER;
    workload.shared_prefix_tokens = 0;
    out->id = number;
    out->retry = true;
    qn_serve_request_text(s->target, s->calibration, &workload, LONG_CELL, (uint32_t)number, &out->body);
    s->sent[number] = true;
    if (s->result->long_from_us == 0)
        s->result->long_from_us = qn_now_us();
    return QN_ORDER_SEND;
}

/* A client whose request failed sends no other: a server that is gone would have it fail for ever. */
static qn_order_state next(void *context, size_t client, qn_order *out)
{
    stress *s = context;
    if (client >= s->options->decodes)
        return next_long(s, client - s->options->decodes, out);
    if (s->decodes[client] == OVER || s->result->long_done == s->options->long_count)
        return QN_ORDER_NONE;
    out->id = s->index;
    out->retry = true;
    qn_serve_request_text(s->target, s->calibration, &s->options->workload, DECODE_CELL, s->index++, &out->body);
    return QN_ORDER_SEND;
}

static void heard(void *context, size_t client, const qn_serve_answer *answer)
{
    stress *s = context;
    if (client < s->options->decodes && s->decodes[client] == STARTING && answer->chunks >= STEADY_CHUNKS)
        s->decodes[client] = STEADY;
}

static void add_gaps(qn_stress_result *r, const qn_serve_answer *a)
{
    for (size_t i = 1; i < a->chunks; i++) {
        uint64_t from_us = a->chunk_us[i - 1], to_us = a->chunk_us[i];
        double gap_ms = (double)(to_us - from_us) / 1e3;
        bool before = r->long_from_us == 0 || to_us < r->long_from_us;
        bool after = r->long_to_us != 0 && from_us > r->long_to_us;
        qn_histogram_add(&r->gaps, gap_ms);
        if (!before && !after)
            qn_samples_add(&r->long_gap_ms, gap_ms);
    }
}

static void done_long(stress *s, size_t number, const qn_call *call)
{
    qn_stress_result *r = s->result;
    qn_stress_long *entry = &r->each[number];
    *entry = (qn_stress_long){.outcome = call->outcome};
    entry->whole_ms = (double)(call->ended_us - call->sent_us) / 1e3;
    if (call->outcome == QN_CALL_FINISHED) {
        entry->prompt_tokens = call->answer.prompt_tokens;
        entry->first_ms = call->answer.chunks ? (double)(call->answer.chunk_us[0] - call->sent_us) / 1e3 : 0;
    }
    qn_serve_tally_add(&r->longs, call);
    qn_progress_add(&s->progress, 1);
    if (++r->long_done == s->options->long_count)
        r->long_to_us = call->ended_us;
}

static void done(void *context, const qn_call *call)
{
    stress *s = context;
    if (call->client >= s->options->decodes) {
        done_long(s, call->client - s->options->decodes, call);
        return;
    }
    s->decodes[call->client] = call->outcome == QN_CALL_FINISHED ? STEADY : OVER;
    qn_serve_tally_add(&s->result->decodes, call);
    add_gaps(s->result, &call->answer);
}

qn_status qn_stress_run(const qn_serve_target *target, const qn_serve_calibration *calibration,
                        const qn_stress_options *options, const atomic_bool *stop, qn_stress_result *out, qn_error *err)
{
    stress s = {.target = target, .calibration = calibration, .options = options, .result = out};
    qn_histogram_init(&out->gaps, bounds_ms, sizeof bounds_ms / sizeof *bounds_ms);
    s.decodes = qn_alloc_zero(options->decodes, sizeof *s.decodes);
    if (!s.decodes)
        return qn_fail_memory(err, "clients", options->decodes * sizeof *s.decodes);
    const qn_orders orders = {.context = &s, .next = next, .heard = heard, .done = done};
    qn_progress_start(&s.progress, "long prompts", "prompts", options->long_count);
    qn_status status = qn_serve_clients_run(target, options->decodes + options->long_count, &orders, stop, err);
    qn_progress_finish(&s.progress);
    qn_free(s.decodes);
    return status;
}

static const char *outcome_name(qn_call_outcome outcome)
{
    static const char *const names[] = {"finished", "refused", "failed", "cut_off"};
    return names[outcome];
}

static json_t *longs_json(const qn_stress_result *r)
{
    json_t *list = json_array();
    int failed = list == NULL;
    for (size_t i = 0; i < QN_SERVE_MAX_LONG; i++) {
        const qn_stress_long *e = &r->each[i];
        if (e->whole_ms > 0)
            failed |= json_array_append_new(list, json_pack("{s:s, s:I, s:f, s:f}", "outcome", outcome_name(e->outcome),
                                                            "prompt_tokens", (json_int_t)e->prompt_tokens,
                                                            "first_token_ms", e->first_ms, "whole_ms", e->whole_ms));
    }
    if (failed) {
        json_decref(list);
        return NULL;
    }
    return list;
}

/* The number of gaps up to each bound, as Prometheus counts: the last, without a bound, is all. */
static json_t *histogram_json(const qn_histogram *h)
{
    json_t *list = json_array();
    int failed = list == NULL;
    for (size_t i = 0; i <= h->bound_count; i++) {
        json_t *bound = i < h->bound_count ? json_real(h->bounds[i]) : json_null();
        failed |= json_array_append_new(list, json_pack("{s:o, s:I}", "at_most_ms", bound, "gaps",
                                                        (json_int_t)qn_histogram_at_most(h, i)));
    }
    if (failed) {
        json_decref(list);
        return NULL;
    }
    return list;
}

json_t *qn_stress_json(qn_stress_result *r)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "decodes", qn_serve_tally_json(&r->decodes), "long_prompts",
                     qn_serve_tally_json(&r->longs), "each_long_prompt", longs_json(r), "gap_ms_during_long_prompts",
                     qn_samples_json(&r->long_gap_ms), "gap_histogram", histogram_json(&r->gaps));
}

void qn_stress_free(qn_stress_result *r)
{
    qn_serve_tally_free(&r->decodes);
    qn_serve_tally_free(&r->longs);
    qn_samples_free(&r->long_gap_ms);
    *r = (qn_stress_result){0};
}
