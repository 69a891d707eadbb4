/* More clients than a server can take, for a time: does each request get an answer? */
#ifndef QN_BENCH_SERVE_OVERLOAD_H
#define QN_BENCH_SERVE_OVERLOAD_H

#include <jansson.h>
#include <sys/types.h>

#include "bench/serve_load.h"

typedef struct qn_overload_options {
    qn_serve_workload workload; /* of each request; how many there are the time decides */
    size_t clients;
    double seconds; /* so long requests are sent; those under way then are waited for */
    pid_t server;   /* whose memory is looked at, on this machine; 0: none */
} qn_overload_options;

/* Start from {0}. */
typedef struct qn_overload_result {
    qn_serve_tally tally;
    /* The server's resident memory when a quarter of the time was over, and at the end. 0: not known. */
    size_t early_bytes, late_bytes;
} qn_overload_result;

/* Each client sends its next request as soon as the last one was answered, refused or failed; but after a failure of a
 * connection it waits a moment, since a server that is gone would else be tried a million times. Adds to *out also when
 * it fails or is stopped. */
qn_status qn_overload_run(const qn_serve_target *target, const qn_serve_calibration *calibration,
                          const qn_overload_options *options, const atomic_bool *stop, qn_overload_result *out,
                          qn_error *err);

/* Did every request get an answer, and every refusal tell when to come again? Requests cut off count for neither. */
bool qn_overload_passed(const qn_serve_tally *tally);

json_t *qn_overload_json(qn_overload_result *result); /* NULL: no memory */

#endif
