/* What an engine has done, in numbers: counters, gauges and histograms, written out as Prometheus text.
 *
 * The engine's thread tells of its steps and requests; whoever serves /metrics reads. All functions may be called from
 * any thread: a mutex inside is held for the time of a few additions.
 *
 * Names are vLLM's (vllm:...) where the meaning is, so that its dashboards and routers read them, with its labels
 * model_name and engine and its bounds of buckets; quern:... for the rest. docs/metrics.md lists them all. */
#ifndef QN_ENGINE_METRICS_H
#define QN_ENGINE_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "engine/request.h"

typedef struct qn_metrics qn_metrics;

qn_status qn_metrics_new(qn_metrics **out, qn_error *err);
void qn_metrics_free(qn_metrics *metrics); /* NULL is fine */

/* What vllm:cache_config_info tells, and the longest count of tokens that buckets need. Once, before the engine runs;
 * an engine that was not described has no such line. */
typedef struct qn_metrics_config {
    size_t block_size, blocks; /* tokens; blocks in the pool */
    size_t max_model_len, max_num_seqs;
    bool prefix_caching;
} qn_metrics_config;
void qn_metrics_describe(qn_metrics *metrics, const qn_metrics_config *config);

/* One step of the engine's thread, told after it. */
typedef struct qn_metrics_step {
    uint64_t step_us, host_us;      /* the whole step; of it, what was neither in the model nor in sampling */
    size_t prefill_tokens;          /* prompt tokens computed */
    size_t decode_rows, draft_rows; /* rows computed for answers: of decided tokens; of drafts */
    size_t emitted_tokens;          /* of answers */
    size_t running, waiting;        /* requests, after the step */
    size_t drafting_requests;       /* requests whose drafts were verified in it */
    size_t accepted_at[QN_MAX_SPECULATIVE_TOKENS]; /* of those, how many accepted their draft number d, from 0 */
    double kv_usage;                               /* share of the pool's blocks that requests hold, after the step */
} qn_metrics_step;
void qn_metrics_on_step(qn_metrics *metrics, const qn_metrics_step *step);

/* The gauges between steps: before the engine's thread goes to sleep, when a request came or went without a step. */
void qn_metrics_on_load(qn_metrics *metrics, size_t running, size_t waiting, double kv_usage);

/* A request starts for the first time (not again after a preemption). stored_tokens came from the KV store and are part
 * of cached_tokens. */
void qn_metrics_on_admission(qn_metrics *metrics, size_t prompt_tokens, size_t cached_tokens, size_t stored_tokens,
                             uint64_t queue_us);
void qn_metrics_on_preemption(qn_metrics *metrics);
void qn_metrics_on_first_token(qn_metrics *metrics, uint64_t since_submit_us);

/* A running request got `tokens` at once, gap_us after those before. */
void qn_metrics_on_token_gap(qn_metrics *metrics, uint64_t gap_us, size_t tokens);

typedef struct qn_metrics_request {
    const char *finished_reason; /* "stop", "length", "abort" (the client left, or its time was over), "error",
                                    "repetition"; anything else counts as an error */
    uint64_t e2e_us, prefill_us, decode_us;
    size_t prompt_tokens, completion_tokens;
    size_t max_tokens; /* that the answer might have had: as asked, or what the context left */
} qn_metrics_request;
void qn_metrics_on_finish(qn_metrics *metrics, const qn_metrics_request *request);

void qn_metrics_on_refusal(qn_metrics *metrics); /* the queue was full */

typedef struct qn_metrics_load {
    size_t running, waiting;
    double seconds_per_request; /* between ends of requests while the engine was at work, of late; 0: none ended yet */
} qn_metrics_load;
qn_metrics_load qn_metrics_read_load(const qn_metrics *metrics);

/* Appends all of it in Prometheus's text format, version 0.0.4. model_name: UTF-8, escaped here. */
void qn_metrics_write(const qn_metrics *metrics, const char *model_name, qn_buffer *out);

/* A number that is not the engine's, with the labels that all series have. */
typedef struct qn_metrics_number {
    const char *name, *type, *help; /* type: "counter" or "gauge" */
    uint64_t value;
} qn_metrics_number;
void qn_metrics_write_numbers(const qn_metrics_number *numbers, size_t count, const char *model_name, qn_buffer *out);

#endif
