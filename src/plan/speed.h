/* How fast a model would run here, from the figures of bench/hardware.h: the time of a step is the sum of its parts,
 * each its bytes or operations over the rate that the kernel of that part was measured at. docs/plan.md has the
 * formulae and how far they hold. */
#ifndef QN_PLAN_SPEED_H
#define QN_PLAN_SPEED_H

#include "bench/hardware.h"
#include "checkpoint/config.h"
#include "plan/sizes.h"

/* Seconds of one step, by part. */
typedef struct qn_step_time {
    double projections;    /* attention's and the indexer's matrices, router, eh_proj */
    double routed, shared; /* experts; dense MLPs count as shared */
    double absorbed;       /* W_k and W_v */
    double attention;      /* the core over the cached keys */
    double indexer;        /* scores and choice */
    double head, row_work, loops;
    double total;
} qn_step_time;

typedef struct qn_speed {
    const qn_config *config;
    const qn_hardware *hardware;
    qn_plan_form form;
} qn_speed;

/* False, with the first that is missing in *missing: the hardware lacks a figure that predictions need. */
bool qn_speed_possible(const qn_hardware *hardware, qn_figure *missing);

/* Expected number of distinct experts that `rows` rows of a layer choose, each uniformly num_experts_per_tok of all:
 * E (1 - (1 - k / E)^rows). */
double qn_distinct_experts(const qn_config *config, double rows);

/* One decode step of `sequences` sequences, each with `context` tokens in the cache. With `drafts` > 0 the MTP layer
 * drafts so many tokens each and the step verifies them. */
qn_step_time qn_speed_decode(const qn_speed *speed, size_t sequences, size_t context, size_t drafts);

/* Tokens per sequence that a step with drafts yields: 1 + a + a^2 + ... + a^drafts. */
double qn_tokens_per_step(double acceptance, size_t drafts);

/* A whole prompt of `tokens`, computed in chunks of `chunk` rows. */
qn_step_time qn_speed_prefill(const qn_speed *speed, size_t tokens, size_t chunk);

#endif
