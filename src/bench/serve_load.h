/* Measuring a chat server under a steady load: so many clients, each with one request at a time, until all are
 * answered.
 *
 * What is measured of a request: time to the first token (the first chunk with text), the gaps between chunks with
 * text, the time between tokens (a gap shared by the tokens of an average chunk of its answer), and its whole time; all
 * from the first sending, refusals included. */
#ifndef QN_BENCH_SERVE_LOAD_H
#define QN_BENCH_SERVE_LOAD_H

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "bench/serve_client.h"
#include "bench/serve_prompt.h"
#include "bench/serve_samples.h"

enum { QN_SERVE_MAX_TOKENS = 1 << 22, QN_SERVE_MAX_REQUESTS = 1 << 20 };

typedef struct qn_serve_workload {
    size_t requests;                  /* of a cell */
    size_t prompt_tokens, max_tokens; /* of a request, at most QN_SERVE_MAX_TOKENS */
    size_t shared_prefix_tokens;      /* of prompt_tokens, below them */
    double temperature;
    uint64_t seed; /* below 2^53; request i samples with seed + i */
} qn_serve_workload;

/* How many tokens made-up text has for this server's model, its chat template's own included. */
typedef struct qn_serve_calibration {
    double base_tokens, tokens_per_word;
} qn_serve_calibration;

/* Asks with each word once and with each word twice. QN_FAILED: a request failed; QN_CANCELLED: stopped. */
qn_status qn_serve_calibrate(const qn_serve_target *target, const atomic_bool *stop, qn_serve_calibration *out,
                             qn_error *err);

/* The request `index` of cell `cell`: appends its body. */
void qn_serve_request_text(const qn_serve_target *target, const qn_serve_calibration *calibration,
                           const qn_serve_workload *workload, uint32_t cell, uint32_t index, qn_buffer *out);

/* Sums and samples over calls. Start from {0}. */
typedef struct qn_serve_tally {
    size_t finished, refused, failed, cut_off; /* calls by their outcome */
    size_t refusals, refusals_untimed;         /* answers 503, also of calls that were sent again */
    size_t prompt_tokens, completion_tokens;   /* of finished calls */
    size_t cached_tokens, cached_of_tokens;    /* of those that told it: cached, and in the prompt */
    size_t drafts, drafts_accepted;
    bool has_drafts, has_longest_gap;
    double longest_gap_ms; /* between two tokens, as the server told */
    qn_samples first_ms, gap_ms, token_ms, whole_ms;
    uint64_t begin_us, end_us; /* the first sending, the last end */
    qn_error first_error;      /* of the first call that failed */
} qn_serve_tally;

void qn_serve_tally_add(qn_serve_tally *tally, const qn_call *call);
double qn_serve_tally_seconds(const qn_serve_tally *tally);

/* Of what finished. NULL: no memory. */
json_t *qn_serve_tally_json(qn_serve_tally *tally);
void qn_serve_tally_free(qn_serve_tally *tally); /* back to {0} */

/* One cell: workload->requests by `clients` clients. Adds to *out also when it fails or is stopped. */
qn_status qn_serve_measure(const qn_serve_target *target, const qn_serve_calibration *calibration,
                           const qn_serve_workload *workload, uint32_t cell, size_t clients, const atomic_bool *stop,
                           qn_serve_tally *out, qn_error *err);

#endif
