/* What the counting and the writing of metrics share. */
#ifndef QN_ENGINE_METRICS_INTERNAL_H
#define QN_ENGINE_METRICS_INTERNAL_H

#include <pthread.h>

#include "base/histogram.h"
#include "engine/metrics.h"

enum { QN_METRICS_REASONS = 5 };

/* The values of finished_reason. */
extern const char *const qn_metrics_reasons[QN_METRICS_REASONS];

typedef enum qn_metrics_counter {
    QN_COUNT_PROMPT_TOKENS,
    QN_COUNT_GENERATION_TOKENS,
    QN_COUNT_PREFIX_QUERIES,
    QN_COUNT_PREFIX_HITS,
    QN_COUNT_STORE_HITS,
    QN_COUNT_PREEMPTIONS,
    QN_COUNT_DRAFTS,
    QN_COUNT_DRAFT_TOKENS,
    QN_COUNT_ACCEPTED_TOKENS,
    QN_COUNT_REFUSALS,
    QN_COUNT_STEPS,
    QN_COUNT_PREFILL_ROWS,
    QN_COUNT_DECODE_ROWS,
    QN_METRICS_COUNTERS
} qn_metrics_counter;

typedef enum qn_metrics_histogram {
    QN_HIST_FIRST_TOKEN,
    QN_HIST_TOKEN_GAP,
    QN_HIST_TOKENS_AT_ONCE,
    QN_HIST_PER_OUTPUT_TOKEN,
    QN_HIST_E2E,
    QN_HIST_QUEUE,
    QN_HIST_PREFILL,
    QN_HIST_DECODE,
    QN_HIST_INFERENCE,
    QN_HIST_PROMPT_TOKENS,
    QN_HIST_GENERATION_TOKENS,
    QN_HIST_MAX_TOKENS,
    QN_HIST_STEP_TOKENS,
    QN_HIST_STEP,
    QN_METRICS_HISTOGRAMS
} qn_metrics_histogram;

/* All the numbers: a plain value, so that a reader takes a copy under the mutex and writes text without it. */
typedef struct qn_metrics_state {
    qn_metrics_config config;
    bool described;
    size_t running, waiting;
    double kv_usage;
    uint64_t counters[QN_METRICS_COUNTERS];
    uint64_t accepted_at[QN_MAX_SPECULATIVE_TOKENS];
    uint64_t finished[QN_METRICS_REASONS];
    double host_seconds;
    qn_histogram histograms[QN_METRICS_HISTOGRAMS];
    double busy_seconds; /* of steps, since the last request ended */
    double seconds_per_request;
} qn_metrics_state;

struct qn_metrics {
    pthread_mutex_t mutex; /* of the state */
    qn_metrics_state state;
};

#endif
