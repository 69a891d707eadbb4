/* Synthetic machines whose steps cost what a formula says, with reproducible noise. */
#ifndef QN_TESTS_SCHEDULE_SYNTHETIC_H
#define QN_TESTS_SCHEDULE_SYNTHETIC_H

#include <stdint.h>

#include "schedule/cost.h"

typedef struct noise {
    uint64_t seed, drawn;
} noise;

double noise_uniform(noise *source); /* [0, 1) */
uint64_t noise_below(noise *source, uint64_t bound);

typedef struct machine {
    double fixed_us, row_us, experts_us; /* experts: read by the share of them that some row touches */
    double touched;                      /* share of the experts that one row touches */
    double decode_row_us, key_us;
    double memory_us; /* the rows' arithmetic is free up to this time: it hides behind the reading of weights */
    double jitter;    /* +- this part */
    double outliers;  /* probability of a step ten times as long */
    double slowness;  /* factor on everything */
} machine;

extern const machine test_cpu;    /* arithmetic dear: 40 ms, 2 ms a row, experts concave */
extern const machine test_server; /* memory-bound: rows free up to some thirty */

double machine_us(const machine *m, const qn_step_shape *shape); /* without noise */
uint64_t machine_step_us(const machine *m, const qn_step_shape *shape, noise *source);

#endif
