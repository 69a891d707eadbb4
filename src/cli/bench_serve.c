/* `quern bench serve`: for each setting a server, a calibration, and then the table, the stress or the overload.
 *
 * A signal ends it with what was measured so far: the requests under way are cut off, the server is stopped. */
#include <stdio.h>

#include "base/json.h"
#include "cli/bench.h"
#include "cli/bench_serve.h"
#include "cli/command.h"
#include "cli/json_result.h"
#include "cli/stop.h"

typedef struct bench_run {
    const qn_serve_bench *bench;
    const atomic_bool *stop;
    json_t *settings;  /* array: what each gave */
    bool json_failed;  /* no memory for a part of the document */
    qn_status verdict; /* QN_FAILED when a request failed or a bound was broken: */
    qn_error why;      /* the first time */
} bench_run;

static void judge_failures(bench_run *r, const qn_serve_tally *t, const char *what)
{
    if (t->failed > 0 && r->verdict == QN_OK)
        r->verdict = qn_fail(&r->why, QN_FAILED, "%s: %zu failed: the first: %s", what, t->failed,
                             t->first_error.message);
}

static void append(bench_run *r, json_t *list, json_t *value)
{
    if (!value || json_array_append_new(list, value) != 0)
        r->json_failed = true;
}

static void set(bench_run *r, json_t *object, const char *name, json_t *value)
{
    if (!value || json_object_set_new(object, name, value) != 0)
        r->json_failed = true;
}

/* ---- the three modes: each prints, and adds to the setting's object ---- */

typedef struct point {
    const qn_serve_target *target;
    const qn_serve_calibration *calibration;
    json_t *object;
    pid_t server; /* 0: not its own */
} point;

static qn_status run_table(bench_run *r, const point *p, qn_error *err)
{
    const qn_serve_bench *b = r->bench;
    json_t *cells = json_array();
    qn_status status = QN_OK;
    if (!b->json)
        qn_bench_print_head();
    for (size_t i = 0; i < b->concurrency_count && status == QN_OK && !atomic_load(r->stop); i++) {
        qn_serve_tally tally = {0};
        status = qn_serve_measure(p->target, p->calibration, &b->workload, (uint32_t)i, b->concurrency[i], r->stop,
                                  &tally, err);
        if (!b->json)
            qn_bench_print_cell(b->concurrency[i], &tally);
        json_t *cell = qn_serve_tally_json(&tally);
        set(r, cell, "concurrency", json_integer((json_int_t)b->concurrency[i]));
        append(r, cells, cell);
        judge_failures(r, &tally, "requests");
        qn_serve_tally_free(&tally);
    }
    set(r, p->object, "cells", cells);
    return status;
}

static qn_status run_stress(bench_run *r, const point *p, qn_error *err)
{
    const qn_serve_bench *b = r->bench;
    qn_stress_result result = {0};
    qn_status status = qn_stress_run(p->target, p->calibration, &b->stress, r->stop, &result, err);
    if (!b->json)
        qn_bench_print_stress(b, &result);
    set(r, p->object, "stress", qn_stress_json(&result));
    judge_failures(r, &result.longs, "long prompts");
    judge_failures(r, &result.decodes, "decodes");
    /* chunks need text, which not every token gives: where the server tells of tokens, that counts */
    double longest_ms = result.decodes.has_longest_gap ? result.decodes.longest_gap_ms
                                                       : qn_samples_max(&result.decodes.gap_ms);
    if (b->max_gap_ms > 0 && longest_ms > 2 * b->max_gap_ms && r->verdict == QN_OK)
        r->verdict = qn_fail(&r->why, QN_FAILED, "decodes: a gap of %.1f ms is longer than twice %g ms", longest_ms,
                             b->max_gap_ms);
    qn_stress_free(&result);
    return status;
}

static qn_status run_overload(bench_run *r, const point *p, qn_error *err)
{
    const qn_serve_bench *b = r->bench;
    qn_overload_result result = {0};
    qn_overload_options options = b->overload;
    options.server = p->server;
    qn_status status = qn_overload_run(p->target, p->calibration, &options, r->stop, &result, err);
    if (!b->json)
        qn_bench_print_overload(b, &result);
    set(r, p->object, "overload", qn_overload_json(&result));
    judge_failures(r, &result.tally, "requests");
    if (!qn_overload_passed(&result.tally) && r->verdict == QN_OK)
        r->verdict = qn_fail(&r->why, QN_FAILED, "refusals: %zu had no Retry-After: see the server's log",
                             result.tally.refusals_untimed);
    qn_serve_tally_free(&result.tally);
    return status;
}

/* ---- one setting ---- */

static json_t *setting_json(const qn_serve_setting *s, const qn_serve_target *t, const qn_serve_calibration *c)
{
    json_t *caching = s->prefix_caching == QN_SETTING_DEFAULT ? json_null() : json_boolean(s->prefix_caching);
    json_t *drafts = s->speculation == QN_SETTING_DEFAULT ? json_null() : json_integer(s->speculation);
    return json_pack("{s:o, s:o, s:s, s:s, s:f, s:f}", "prefix_caching", caching, "num_speculative_tokens", drafts,
                     "url", t->url, "model", t->model, "tokens_per_word", c->tokens_per_word, "template_tokens",
                     c->base_tokens);
}

static qn_status measure_target(bench_run *r, const qn_serve_setting *setting, const qn_serve_target *target,
                                pid_t server, qn_error *err)
{
    static qn_status (*const modes[])(bench_run *, const point *, qn_error *) = {run_table, run_stress, run_overload};
    const qn_serve_bench *b = r->bench;
    qn_serve_calibration calibration;
    qn_status status = qn_serve_calibrate(target, r->stop, &calibration, err);
    if (status != QN_OK)
        return status;
    const point p = {target, &calibration, setting_json(setting, target, &calibration), server};
    if (!b->json) {
        char text[QN_SETTING_TEXT_BYTES];
        qn_bench_print_workload(b, target);
        if (!b->base_url)
            printf("%s\n", qn_bench_setting_text(setting, text));
        fflush(stdout);
    }
    status = modes[b->mode](r, &p, err);
    append(r, r->settings, p.object);
    return status;
}

static qn_status measure_url(bench_run *r, const qn_serve_setting *setting, const char *base_url, pid_t server,
                             qn_error *err)
{
    qn_serve_target target;
    qn_status status = qn_serve_target_open(base_url, r->bench->model, r->bench->patience_s, &target, err);
    return status == QN_OK ? measure_target(r, setting, &target, server, err) : status;
}

static qn_status measure_setting(bench_run *r, const qn_serve_setting *setting, qn_error *err)
{
    const qn_serve_bench *b = r->bench;
    if (b->base_url)
        return measure_url(r, setting, b->base_url, 0, err);
    qn_serve_process process;
    qn_status status = qn_serve_setting_start(setting, b->model_dir, b->server_flags, b->server_flag_count, r->stop,
                                              &process, err);
    if (status != QN_OK)
        return status;
    status = measure_url(r, setting, process.base_url, process.pid, err);
    qn_error end_err;
    if (qn_serve_process_stop(&process, &end_err) != QN_OK && status == QN_OK) {
        *err = end_err;
        status = end_err.status;
    }
    return status;
}

/* ---- the document ---- */

static qn_status write_document(bench_run *r, qn_error *err)
{
    static const char *const modes[] = {"table", "stress", "overload"};
    const qn_serve_bench *b = r->bench;
    const qn_serve_workload *w = &b->workload;
    json_t *root = json_pack("{s:s, s:s, s:b, s:{s:I, s:I, s:I, s:I, s:f, s:I}, s:O}", "form", "quern-serve-1", "mode",
                             modes[b->mode], "stopped", (int)atomic_load(r->stop), "workload", "requests",
                             (json_int_t)w->requests, "prompt_tokens", (json_int_t)w->prompt_tokens, "max_tokens",
                             (json_int_t)w->max_tokens, "shared_prefix_tokens", (json_int_t)w->shared_prefix_tokens,
                             "temperature", w->temperature, "seed", (json_int_t)w->seed, "settings", r->settings);
    if (r->json_failed) {
        json_decref(root);
        root = NULL;
    }
    return qn_tell_figures(root, b->json, b->out, err);
}

/* What was measured before a failure or a stop is written all the same. */
static qn_status run(const qn_serve_bench *b, qn_error *err)
{
    bench_run r = {.bench = b, .stop = qn_stop_on_signals(), .settings = json_array()};
    if (!r.settings)
        return qn_fail_memory(err, "figures as JSON", sizeof *r.settings);
    qn_status status = QN_OK;
    for (size_t i = 0; i < b->setting_count && status == QN_OK && !atomic_load(r.stop); i++) {
        if (i > 0 && !b->json)
            printf("\n");
        status = measure_setting(&r, &b->settings[i], err);
    }
    qn_error write_err;
    if ((b->json || b->out) && write_document(&r, &write_err) != QN_OK && status == QN_OK) {
        *err = write_err;
        status = write_err.status;
    }
    json_decref(r.settings);
    if (status == QN_OK && atomic_load(r.stop))
        status = qn_fail(err, QN_FAILED, "bench: stopped by a signal: the figures are of what was done until then");
    if (status == QN_OK && r.verdict != QN_OK) {
        *err = r.why;
        status = r.verdict;
    }
    return status;
}

int qn_bench_serve(int argc, char **argv)
{
    qn_serve_bench bench;
    qn_error err;
    qn_status status = qn_bench_serve_parse(argc, argv, &bench, &err);
    if (status == QN_OK && !bench.help_shown)
        status = run(&bench, &err);
    return status == QN_OK ? QN_OK : qn_command_fail(&err);
}
