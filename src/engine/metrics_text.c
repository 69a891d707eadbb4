/* Prometheus's text format, version 0.0.4: HELP and TYPE once a name, then its series. Written from a copy of the
 * numbers, so that a reader never holds the engine's thread up for longer than that copy takes. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/metrics_internal.h"

enum { NUMBER_BYTES = 40 };

/* A text being written. */
typedef struct text {
    qn_buffer *out;
    const qn_metrics_state *state;
    qn_buffer labels; /* of every series: model_name and engine, without braces */
} text;

typedef struct counter_line {
    qn_metrics_counter counter;
    const char *name, *help;
} counter_line;

static const counter_line counter_lines[] = {
    {QN_COUNT_PREEMPTIONS, "vllm:num_preemptions_total",
     "Requests that gave their KV blocks up and were computed anew"},
    {QN_COUNT_PROMPT_TOKENS, "vllm:prompt_tokens_total", "Prompt tokens of the requests started, cached ones too"},
    {QN_COUNT_GENERATION_TOKENS, "vllm:generation_tokens_total", "Tokens of answers"},
    {QN_COUNT_PREFIX_QUERIES, "vllm:prefix_cache_queries_total", "Prompt tokens looked for in the prefix cache"},
    {QN_COUNT_PREFIX_HITS, "vllm:prefix_cache_hits_total", "Prompt tokens found in the prefix cache or the KV store"},
    {QN_COUNT_DRAFTS, "vllm:spec_decode_num_drafts_total", "Times that a request's drafts were verified"},
    {QN_COUNT_DRAFT_TOKENS, "vllm:spec_decode_num_draft_tokens_total", "Tokens drafted"},
    {QN_COUNT_ACCEPTED_TOKENS, "vllm:spec_decode_num_accepted_tokens_total", "Drafted tokens that were accepted"},
    {QN_COUNT_STORE_HITS, "quern:kv_store_hits_total", "Prompt tokens read from the KV store"},
    {QN_COUNT_REFUSALS, "quern:requests_refused_total", "Requests refused because the queue was full"},
    {QN_COUNT_STEPS, "quern:steps_total", "Steps of the engine"},
    {QN_COUNT_PREFILL_ROWS, "quern:prefill_tokens_total", "Prompt tokens computed, again after a preemption too"},
    {QN_COUNT_DECODE_ROWS, "quern:decode_rows_total", "Rows computed for answers, drafts not counted"},
};

typedef struct histogram_line {
    qn_metrics_histogram histogram;
    bool of_tokens; /* buckets end at max_model_len */
    const char *name, *help;
} histogram_line;

static const histogram_line histogram_lines[] = {
    {QN_HIST_FIRST_TOKEN, false, "vllm:time_to_first_token_seconds", "From a request's arrival to its first token"},
    {QN_HIST_TOKEN_GAP, false, "vllm:inter_token_latency_seconds", "Between tokens of an answer"},
    {QN_HIST_PER_OUTPUT_TOKEN, false, "vllm:request_time_per_output_token_seconds",
     "A request's time for each token after the first"},
    {QN_HIST_E2E, false, "vllm:e2e_request_latency_seconds", "From a request's arrival to its end"},
    {QN_HIST_QUEUE, false, "vllm:request_queue_time_seconds", "A request's time until it was started"},
    {QN_HIST_INFERENCE, false, "vllm:request_inference_time_seconds", "A request's time from its start to its end"},
    {QN_HIST_PREFILL, false, "vllm:request_prefill_time_seconds", "A request's time from its start to its first token"},
    {QN_HIST_DECODE, false, "vllm:request_decode_time_seconds", "A request's time from its first token to its last"},
    {QN_HIST_PROMPT_TOKENS, true, "vllm:request_prompt_tokens", "Tokens of a request's prompt"},
    {QN_HIST_GENERATION_TOKENS, true, "vllm:request_generation_tokens", "Tokens of a request's answer"},
    {QN_HIST_MAX_TOKENS, true, "vllm:request_params_max_tokens",
     "Tokens that a request's answer might have: max_tokens, or what the context left"},
    {QN_HIST_STEP_TOKENS, false, "vllm:iteration_tokens_total",
     "Tokens of a step: of prompts computed, of answers made"},
    {QN_HIST_STEP, false, "quern:step_seconds", "A step of the engine"},
    {QN_HIST_TOKENS_AT_ONCE, false, "quern:tokens_at_once",
     "Tokens that a request's step brought after its first token"},
};

/* Shortest form that reads back as the number, with a point, as Python's client spells it in `le`. */
static const char *spell(double value, char out[NUMBER_BYTES])
{
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(out, NUMBER_BYTES, "%.*g", digits, value);
        if (strchr(out, 'e') == NULL && strtod(out, NULL) == value) {
            break;
        }
    }
    if (strpbrk(out, ".en") == NULL) { /* a whole number; not inf, nan or an exponent */
        strcat(out, ".0");
    }
    return out;
}

/* Escapes what the format asks for in a label's value. */
static void write_escaped(qn_buffer *out, const char *value)
{
    for (const char *at = value; *at != '\0'; at++) {
        if (*at == '\n') {
            qn_buffer_text(out, "\\n");
        } else {
            if (*at == '\\' || *at == '"') {
                qn_buffer_char(out, '\\');
            }
            qn_buffer_char(out, *at);
        }
    }
}

static void write_head(text *t, const char *name, const char *type, const char *help)
{
    qn_buffer_format(t->out, "# HELP %s %s.\n# TYPE %s %s\n", name, help, name, type);
}

/* more: further labels, each with a comma before it; "": none. */
static void write_series(text *t, const char *name, const char *suffix, const char *more)
{
    qn_buffer_format(t->out, "%s%s{%s%s} ", name, suffix, qn_buffer_string(&t->labels), more);
}

static void write_double(text *t, double value)
{
    char number[NUMBER_BYTES];
    qn_buffer_format(t->out, "%s\n", spell(value, number));
}

static void write_count(text *t, uint64_t value)
{
    qn_buffer_format(t->out, "%" PRIu64 "\n", value);
}

static void write_gauge(text *t, const char *name, const char *help, double value)
{
    write_head(t, name, "gauge", help);
    write_series(t, name, "", "");
    write_double(t, value);
}

static void write_histogram(text *t, const histogram_line *line)
{
    const qn_histogram *h = &t->state->histograms[line->histogram];
    char more[NUMBER_BYTES + 8], number[NUMBER_BYTES];
    write_head(t, line->name, "histogram", line->help);
    for (size_t i = 0; i < h->bound_count; i++) {
        if (line->of_tokens && t->state->described && h->bounds[i] > (double)t->state->config.max_model_len) {
            break;
        }
        snprintf(more, sizeof more, ",le=\"%s\"", spell(h->bounds[i], number));
        write_series(t, line->name, "_bucket", more);
        write_count(t, qn_histogram_at_most(h, i));
    }
    write_series(t, line->name, "_bucket", ",le=\"+Inf\"");
    write_count(t, h->count);
    write_series(t, line->name, "_sum", "");
    write_double(t, h->sum);
    write_series(t, line->name, "_count", "");
    write_count(t, h->count);
}

static void write_accepted_at(text *t)
{
    static const char name[] = "vllm:spec_decode_num_accepted_tokens_per_pos_total";
    char more[NUMBER_BYTES];
    write_head(t, name, "counter", "Accepted drafts by their place among a request's drafts, from 0");
    for (size_t i = 0; i < QN_MAX_SPECULATIVE_TOKENS; i++) {
        snprintf(more, sizeof more, ",position=\"%zu\"", i);
        write_series(t, name, "", more);
        write_count(t, t->state->accepted_at[i]);
    }
}

static void write_finished(text *t)
{
    static const char name[] = "vllm:request_success_total";
    char more[NUMBER_BYTES];
    write_head(t, name, "counter", "Requests that ended, by reason");
    for (size_t i = 0; i < QN_METRICS_REASONS; i++) {
        snprintf(more, sizeof more, ",finished_reason=\"%s\"", qn_metrics_reasons[i]);
        write_series(t, name, "", more);
        write_count(t, t->state->finished[i]);
    }
}

static void write_config(text *t)
{
    static const char name[] = "vllm:cache_config_info";
    const qn_metrics_config *c = &t->state->config;
    char more[256];
    snprintf(more, sizeof more,
             ",block_size=\"%zu\",num_gpu_blocks=\"%zu\",enable_prefix_caching=\"%s\",max_model_len=\"%zu\","
             "max_num_seqs=\"%zu\"",
             c->block_size, c->blocks, c->prefix_caching ? "True" : "False", c->max_model_len, c->max_num_seqs);
    write_head(t, name, "gauge", "The KV cache; num_gpu_blocks are blocks in memory");
    write_series(t, name, "", more);
    write_double(t, 1);
}

static void write_all(text *t)
{
    const qn_metrics_state *state = t->state;
    write_gauge(t, "vllm:num_requests_running", "Requests being computed", (double)state->running);
    write_gauge(t, "vllm:num_requests_waiting", "Requests that wait to be computed", (double)state->waiting);
    write_gauge(t, "vllm:kv_cache_usage_perc", "Share of the KV cache that requests hold, 0 to 1", state->kv_usage);
    for (size_t i = 0; i < sizeof counter_lines / sizeof counter_lines[0]; i++) {
        write_head(t, counter_lines[i].name, "counter", counter_lines[i].help);
        write_series(t, counter_lines[i].name, "", "");
        write_count(t, state->counters[counter_lines[i].counter]);
    }
    write_accepted_at(t);
    write_finished(t);
    write_head(t, "quern:host_seconds_total", "counter", "Time of steps spent neither in the model nor in sampling");
    write_series(t, "quern:host_seconds_total", "", "");
    write_double(t, state->host_seconds);
    for (size_t i = 0; i < sizeof histogram_lines / sizeof histogram_lines[0]; i++) {
        write_histogram(t, &histogram_lines[i]);
    }
    if (state->described) {
        write_config(t);
    }
}

/* False: out of memory, which *out knows. */
static bool start_text(text *t, const char *model_name)
{
    qn_buffer_text(&t->labels, "engine=\"0\",model_name=\"");
    write_escaped(&t->labels, model_name);
    qn_buffer_char(&t->labels, '"');
    t->out->failed = t->out->failed || t->labels.failed;
    return !t->labels.failed;
}

void qn_metrics_write(const qn_metrics *metrics, const char *model_name, qn_buffer *out)
{
    qn_metrics *shared = (qn_metrics *)(uintptr_t)metrics; /* to hold its mutex only */
    pthread_mutex_lock(&shared->mutex);
    qn_metrics_state copy = shared->state;
    pthread_mutex_unlock(&shared->mutex);
    text t = {.out = out, .state = &copy};
    if (start_text(&t, model_name)) {
        write_all(&t);
    }
    qn_buffer_free(&t.labels);
}

void qn_metrics_write_numbers(const qn_metrics_number *numbers, size_t count, const char *model_name, qn_buffer *out)
{
    text t = {.out = out};
    bool started = start_text(&t, model_name);
    for (size_t i = 0; i < count && started; i++) {
        write_head(&t, numbers[i].name, numbers[i].type, numbers[i].help);
        write_series(&t, numbers[i].name, "", "");
        write_count(&t, numbers[i].value);
    }
    qn_buffer_free(&t.labels);
}
