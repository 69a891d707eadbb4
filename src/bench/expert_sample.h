/* What the expert cache did in some steps. */
#ifndef QN_BENCH_EXPERT_SAMPLE_H
#define QN_BENCH_EXPERT_SAMPLE_H

#include "model/model.h"

typedef enum qn_expert_count {
    QN_EXPERTS_NEEDED,     /* that steps took */
    QN_EXPERTS_HIT,        /* those of them that were in memory */
    QN_EXPERTS_GUESSED,    /* forecast, whether they were in memory or not */
    QN_EXPERTS_RIGHT,      /* those of them that were then taken */
    QN_EXPERTS_AHEAD,      /* read because of a forecast */
    QN_EXPERTS_AHEAD_USED, /* those of them that were then taken */
    QN_EXPERTS_BYTES_READ,
    QN_EXPERTS_BYTES_MISSED, /* of experts that were taken and had to be read for it, in time or not */
    QN_EXPERTS_WAITED_NS,    /* for experts */
    QN_EXPERT_COUNTS
} qn_expert_count;

typedef struct qn_expert_counts {
    double of[QN_EXPERT_COUNTS];
} qn_expert_counts;

/* Since the model was opened; all 0 without an expert cache. */
qn_expert_counts qn_expert_counts_now(const qn_model *model);

/* a + factor * b */
qn_expert_counts qn_expert_counts_add(qn_expert_counts a, double factor, qn_expert_counts b);

#endif
