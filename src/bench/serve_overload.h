/* More clients than a server can take, for a time: does each request get an answer? */
#ifndef QN_BENCH_SERVE_OVERLOAD_H
#define QN_BENCH_SERVE_OVERLOAD_H

#include <jansson.h>

#include "bench/serve_load.h"

typedef struct qn_overload_options {
    qn_serve_workload workload; /* of each request; how many there are the time decides */
    size_t clients;
    double seconds; /* so long requests are sent; those under way then are waited for */
} qn_overload_options;

/* Each client sends its next request as soon as the last one was answered, refused or failed; but after a failure of a
 * connection it waits a moment, since a server that is gone would else be tried a million times. Adds to *out also when
 * it fails or is stopped. */
qn_status qn_overload_run(const qn_serve_target *target, const qn_serve_calibration *calibration,
                          const qn_overload_options *options, const atomic_bool *stop, qn_serve_tally *out,
                          qn_error *err);

/* Did every request get an answer, and every refusal tell when to come again? Requests cut off count for neither. */
bool qn_overload_passed(const qn_serve_tally *tally);

#endif
