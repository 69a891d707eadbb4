/* The counting. Each entry point adds under the mutex; the text is made elsewhere, from a copy. */
#include "engine/metrics.h"

#include <string.h>

#include "base/memory.h"
#include "engine/metrics_internal.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

const char *const qn_metrics_reasons[QN_METRICS_REASONS] = {"stop", "length", "abort", "error", "repetition"};

enum { REASON_ERROR = 3 };

/* How much of the estimate of seconds_per_request each new request is. */
static const double newest_share = 1.0 / 16;

/* vLLM's bounds. */
static const double first_token_bounds[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
                                            1,     2.5,   5,    7.5,  10,   20,   40,   80,  160,  640, 2560};
static const double gap_bounds[] = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5,
                                    0.75, 1,     2.5,  5,     7.5, 10,   20,  40,  80};
static const double latency_bounds[] = {0.3, 0.5, 0.8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                        30,  40,  50,  60, 120, 240, 480, 960, 1920, 7680};
static const double token_bounds[] = {1,    2,    5,     10,    20,    50,     100,    200,    500,    1000,
                                      2000, 5000, 10000, 20000, 50000, 100000, 200000, 500000, 1000000};
static const double step_token_bounds[] = {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};
/* quern's own. */
static const double at_once_bounds[] = {1, 2, 3, 4, 5, 6, 8, 12, 17};
static const double step_bounds[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
                                     1,     2.5,    5,     10,   25,    50,   100, 250,  600};

typedef struct bounds {
    const double *values;
    size_t count;
} bounds;

static bounds bounds_of(qn_metrics_histogram which)
{
    switch (which) {
    case QN_HIST_FIRST_TOKEN:
        return (bounds){first_token_bounds, COUNT(first_token_bounds)};
    case QN_HIST_TOKEN_GAP:
    case QN_HIST_PER_OUTPUT_TOKEN:
        return (bounds){gap_bounds, COUNT(gap_bounds)};
    case QN_HIST_TOKENS_AT_ONCE:
        return (bounds){at_once_bounds, COUNT(at_once_bounds)};
    case QN_HIST_PROMPT_TOKENS:
    case QN_HIST_GENERATION_TOKENS:
    case QN_HIST_MAX_TOKENS:
        return (bounds){token_bounds, COUNT(token_bounds)};
    case QN_HIST_STEP_TOKENS:
        return (bounds){step_token_bounds, COUNT(step_token_bounds)};
    case QN_HIST_STEP:
        return (bounds){step_bounds, COUNT(step_bounds)};
    case QN_HIST_E2E:
    case QN_HIST_QUEUE:
    case QN_HIST_PREFILL:
    case QN_HIST_DECODE:
    case QN_HIST_INFERENCE:
    case QN_METRICS_HISTOGRAMS:
        break;
    }
    return (bounds){latency_bounds, COUNT(latency_bounds)};
}

qn_status qn_metrics_new(qn_metrics **out, qn_error *err)
{
    qn_metrics *metrics = qn_alloc_zero(1, sizeof *metrics);
    if (metrics == NULL) {
        return qn_fail_memory(err, "metrics", sizeof *metrics);
    }
    pthread_mutex_init(&metrics->mutex, NULL);
    for (size_t i = 0; i < QN_METRICS_HISTOGRAMS; i++) {
        bounds b = bounds_of((qn_metrics_histogram)i);
        qn_histogram_init(&metrics->state.histograms[i], b.values, b.count);
    }
    *out = metrics;
    return QN_OK;
}

void qn_metrics_free(qn_metrics *metrics)
{
    if (metrics != NULL) {
        pthread_mutex_destroy(&metrics->mutex);
        qn_free(metrics);
    }
}

static qn_metrics_state *lock(qn_metrics *metrics)
{
    pthread_mutex_lock(&metrics->mutex);
    return &metrics->state;
}

static void unlock(qn_metrics *metrics)
{
    pthread_mutex_unlock(&metrics->mutex);
}

static double seconds(uint64_t us)
{
    return (double)us * 1e-6;
}

static void observe(qn_metrics_state *state, qn_metrics_histogram which, double value)
{
    qn_histogram_add(&state->histograms[which], value);
}

void qn_metrics_describe(qn_metrics *metrics, const qn_metrics_config *config)
{
    qn_metrics_state *state = lock(metrics);
    state->config = *config;
    state->described = true;
    unlock(metrics);
}

static void set_load(qn_metrics_state *state, size_t running, size_t waiting, double kv_usage)
{
    state->running = running;
    state->waiting = waiting;
    state->kv_usage = kv_usage;
}

void qn_metrics_on_step(qn_metrics *metrics, const qn_metrics_step *step)
{
    qn_metrics_state *state = lock(metrics);
    set_load(state, step->running, step->waiting, step->kv_usage);
    state->counters[QN_COUNT_STEPS]++;
    state->counters[QN_COUNT_PREFILL_ROWS] += step->prefill_tokens;
    state->counters[QN_COUNT_DECODE_ROWS] += step->decode_rows;
    state->counters[QN_COUNT_GENERATION_TOKENS] += step->emitted_tokens;
    state->counters[QN_COUNT_DRAFTS] += step->drafting_requests;
    state->counters[QN_COUNT_DRAFT_TOKENS] += step->draft_rows;
    for (size_t i = 0; i < QN_MAX_SPECULATIVE_TOKENS; i++) {
        state->accepted_at[i] += step->accepted_at[i];
        state->counters[QN_COUNT_ACCEPTED_TOKENS] += step->accepted_at[i];
    }
    state->host_seconds += seconds(step->host_us);
    state->busy_seconds += seconds(step->step_us);
    observe(state, QN_HIST_STEP, seconds(step->step_us));
    observe(state, QN_HIST_STEP_TOKENS, (double)(step->prefill_tokens + step->emitted_tokens));
    unlock(metrics);
}

void qn_metrics_on_load(qn_metrics *metrics, size_t running, size_t waiting, double kv_usage)
{
    set_load(lock(metrics), running, waiting, kv_usage);
    unlock(metrics);
}

void qn_metrics_on_admission(qn_metrics *metrics, size_t prompt_tokens, size_t cached_tokens, size_t stored_tokens,
                             uint64_t queue_us)
{
    qn_metrics_state *state = lock(metrics);
    state->counters[QN_COUNT_PROMPT_TOKENS] += prompt_tokens;
    if (!state->described || state->config.prefix_caching) {
        state->counters[QN_COUNT_PREFIX_QUERIES] += prompt_tokens;
    }
    state->counters[QN_COUNT_PREFIX_HITS] += cached_tokens;
    state->counters[QN_COUNT_STORE_HITS] += stored_tokens;
    observe(state, QN_HIST_QUEUE, seconds(queue_us));
    unlock(metrics);
}

static void count_one(qn_metrics *metrics, qn_metrics_counter counter)
{
    lock(metrics)->counters[counter]++;
    unlock(metrics);
}

void qn_metrics_on_preemption(qn_metrics *metrics)
{
    count_one(metrics, QN_COUNT_PREEMPTIONS);
}

void qn_metrics_on_refusal(qn_metrics *metrics)
{
    count_one(metrics, QN_COUNT_REFUSALS);
}

void qn_metrics_on_first_token(qn_metrics *metrics, uint64_t since_submit_us)
{
    observe(lock(metrics), QN_HIST_FIRST_TOKEN, seconds(since_submit_us));
    unlock(metrics);
}

void qn_metrics_on_token_gap(qn_metrics *metrics, uint64_t gap_us, size_t tokens)
{
    qn_metrics_state *state = lock(metrics);
    observe(state, QN_HIST_TOKEN_GAP, seconds(gap_us)); /* once for all of them, as vLLM has it */
    observe(state, QN_HIST_TOKENS_AT_ONCE, (double)tokens);
    unlock(metrics);
}

static size_t find_reason(const char *name)
{
    for (size_t i = 0; i < QN_METRICS_REASONS; i++) {
        if (strcmp(qn_metrics_reasons[i], name) == 0) {
            return i;
        }
    }
    return REASON_ERROR;
}

/* Steps since the last end, so that idle time counts for nothing. */
static void learn_rate(qn_metrics_state *state)
{
    double *estimate = &state->seconds_per_request;
    bool first = *estimate == 0;
    *estimate = first ? state->busy_seconds : *estimate + newest_share * (state->busy_seconds - *estimate);
    state->busy_seconds = 0;
}

void qn_metrics_on_finish(qn_metrics *metrics, const qn_metrics_request *request)
{
    qn_metrics_state *state = lock(metrics);
    state->finished[find_reason(request->finished_reason)]++;
    observe(state, QN_HIST_E2E, seconds(request->e2e_us));
    observe(state, QN_HIST_PREFILL, seconds(request->prefill_us));
    observe(state, QN_HIST_DECODE, seconds(request->decode_us));
    observe(state, QN_HIST_INFERENCE, seconds(request->prefill_us + request->decode_us));
    observe(state, QN_HIST_PROMPT_TOKENS, (double)request->prompt_tokens);
    observe(state, QN_HIST_GENERATION_TOKENS, (double)request->completion_tokens);
    observe(state, QN_HIST_MAX_TOKENS, (double)request->max_tokens);
    if (request->completion_tokens > 1) {
        double after_first = (double)(request->completion_tokens - 1);
        observe(state, QN_HIST_PER_OUTPUT_TOKEN, seconds(request->decode_us) / after_first);
    }
    learn_rate(state);
    unlock(metrics);
}

qn_metrics_load qn_metrics_read_load(const qn_metrics *metrics)
{
    qn_metrics *shared = (qn_metrics *)(uintptr_t)metrics; /* to hold its mutex only */
    const qn_metrics_state *state = lock(shared);
    qn_metrics_load load = {.running = state->running,
                            .waiting = state->waiting,
                            .seconds_per_request = state->seconds_per_request};
    unlock(shared);
    return load;
}
