/* An engine in miniature: requests arrive, are admitted, prefill and decode on a synthetic machine, driven by cost and
 * fairness as the engine drives them. Time is simulated. */
#ifndef QN_TESTS_SCHEDULE_SIMULATOR_H
#define QN_TESTS_SCHEDULE_SIMULATOR_H

#include <stdbool.h>

#include "schedule/fairness.h"
#include "synthetic.h"

enum { SIMULATOR_REQUESTS = 512, SIMULATOR_RUNNING = 64 };

typedef struct sim_request {
    uint64_t arrival_us;
    size_t prompt_tokens, answer_tokens;
    int32_t priority;
    size_t computed, generated;
    uint64_t first_token_us, last_token_us, done_us; /* 0: not yet */
    bool running;
    unsigned last_step; /* that gave it a token */
} sim_request;

typedef struct simulator {
    machine m;
    qn_fairness fairness;
    qn_cost cost;
    noise source;
    size_t max_num_seqs;
    uint64_t host_us; /* of a step outside of the model */
    sim_request requests[SIMULATOR_REQUESTS];
    size_t count;
    uint64_t now_us;
    unsigned steps, last_outlier;
    /* What came of it: */
    uint64_t largest_gap_us;                /* between tokens of a request, outside of outliers */
    uint64_t largest_model_us;              /* of a step with decodes, outside of outliers */
    double busy_us, decoding_us, long_us;   /* steps; those with decodes; of which long prompts' rows, without noise */
    size_t prefill_rows, gaps, gaps_beyond; /* gaps_beyond: longer than max_decode_gap_us */
    size_t watched, watched_rows, rows_beside; /* prompt rows of request `watched`, and of all while it had some left */
} simulator;

void simulator_start(simulator *sim, const machine *m, const qn_fairness_limits *limits, uint64_t seed);
sim_request *simulator_add(simulator *sim, uint64_t arrival_us, size_t prompt_tokens, size_t answer_tokens);

/* One step, or a wait for the next arrival. False: everything is done. */
bool simulator_step(simulator *sim);
void simulator_run(simulator *sim, unsigned most_steps); /* fails the test if that isn't enough */

#endif
