/* Long prompts beside running answers: do those that decode wait, and for how long?
 *
 * Some clients decode steadily, one request after the other. Once all of them get tokens, the long prompts are sent,
 * all at once. When the last of these is answered the decoding clients finish the request they are at. Nothing is cut
 * off.
 *
 * A gap is the time between two chunks with text of one answer, so a token without text (half a character, a special
 * token) makes it longer by a step; the wait for an answer's first chunk is none, it is its time to the first token. */
#ifndef QN_BENCH_SERVE_STRESS_H
#define QN_BENCH_SERVE_STRESS_H

#include <jansson.h>

#include "base/histogram.h"
#include "bench/serve_load.h"

enum { QN_SERVE_MAX_LONG = 16, QN_STRESS_LONG_ANSWER = 16 };

typedef struct qn_stress_options {
    qn_serve_workload workload;            /* of the decoding clients; requests is not used */
    size_t decodes;                        /* clients that decode; at least 1 */
    size_t long_tokens[QN_SERVE_MAX_LONG]; /* of each long prompt; its answer has QN_STRESS_LONG_ANSWER tokens */
    size_t long_count;
} qn_stress_options;

typedef struct qn_stress_long {
    qn_call_outcome outcome;
    size_t prompt_tokens; /* as the server counted; 0 when it did not finish */
    double first_ms, whole_ms;
} qn_stress_long;

/* Start from {0}. */
typedef struct qn_stress_result {
    qn_serve_tally decodes, longs;
    qn_samples long_gap_ms; /* of the decodes' gaps, those that overlap the time of the long prompts */
    qn_histogram gaps;      /* all gaps of the decodes, ms */
    qn_stress_long each[QN_SERVE_MAX_LONG];
    size_t long_done;                  /* how many of them have ended */
    uint64_t long_from_us, long_to_us; /* the first sent, the last ended; 0: not yet */
} qn_stress_result;

/* Adds to *out also when it fails or is stopped. Failed requests are counted there, they are no error. */
qn_status qn_stress_run(const qn_serve_target *target, const qn_serve_calibration *calibration,
                        const qn_stress_options *options, const atomic_bool *stop, qn_stress_result *out,
                        qn_error *err);

json_t *qn_stress_json(qn_stress_result *result);
void qn_stress_free(qn_stress_result *result); /* back to {0} */

#endif
