/* How fast a model decodes and takes prompts on this machine, by part, beside the machine's own limits.
 *
 * Everything is measured in rounds, as bench/hardware.h does: in a round each point gives one sample, and right before
 * and behind it memory is read plainly and arithmetic is done out of registers, so that a machine whose speed drifts
 * moves all of them alike. The first round is not counted. Caches hold random rows (bench/model_rig.h). */
#ifndef QN_BENCH_MODEL_SPEED_H
#define QN_BENCH_MODEL_SPEED_H

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/numa.h"
#include "bench/expert_sample.h"
#include "bench/hardware.h"
#include "bench/statistic.h"
#include "model/parts.h"
#include "model/residence.h"

enum { QN_SPEED_MAX_POINTS = 64, QN_SPEED_MAX_REPEATS = 64, QN_SPEED_MAX_SEQUENCES = 1024 };

typedef enum qn_speed_kind {
    QN_SPEED_DECODE, /* a step of one token, and drafts, for each of some sequences, with logits for each */
    QN_SPEED_PREFILL /* a prompt of one sequence, in steps of max_rows tokens at most; logits of the last one */
} qn_speed_kind;

typedef struct qn_speed_point {
    size_t context; /* tokens in the cache before */
    size_t count;   /* sequences (decode), tokens of the prompt (prefill) */
} qn_speed_point;

typedef struct qn_model_speed_options {
    qn_speed_kind kind;
    const char *model_dir;
    const qn_speed_point *points;
    size_t point_count;      /* 1 .. QN_SPEED_MAX_POINTS */
    bool leaves_out;         /* points beyond the model's context are left out with a line, but for the first */
    size_t repeats;          /* samples of a point, 1 .. QN_SPEED_MAX_REPEATS */
    size_t threads;          /* 0: all CPUs */
    const char *cpu_binding; /* as bench/model_rig.h has it */
    qn_numa numa;
    size_t max_rows;           /* prefill: tokens of a step */
    size_t expert_cache_bytes; /* 0: all experts in memory */
    qn_load load;              /* as bench/model_rig.h has them */
    qn_pack_dense pack_dense;
    size_t drafts; /* decode: that a step verifies of each sequence, with logits for each; 0: none */
    uint64_t seed; /* of the tokens */
    bool show_progress;
    const atomic_bool *stop; /* set by a signal's handler: stop soon; may be NULL */
} qn_model_speed_options;

/* Work is that of one sample, in the mean (which experts are taken differs); rates are work by the median of times. */
typedef struct qn_part_speed {
    qn_statistic ms;
    double flops, bytes;
    double read_share, peak_share; /* medians, as of a point; 0 where there is no such work */
} qn_part_speed;

typedef struct qn_point_speed {
    qn_speed_point point;
    size_t steps;        /* calls of a sample */
    qn_statistic ms;     /* of a sample */
    qn_statistic tokens; /* a second; of decoding, one of each sequence a step: drafts, where taken, come on top */
    double flops, bytes;
    double unpacked_bytes;   /* if packed weights were BF16 */
    double experts;          /* that were read in a sparse layer of a step, in the mean; 0: there is no such layer */
    qn_statistic read_share; /* bytes a second by the plain reads around it, of the pages that the weights are in */
    qn_statistic peak_share; /* the same of arithmetic */
    qn_part_speed part[QN_PARTS];
    /* in the mean: loops of a step that threads share, the part of its time outside of them, the part of the threads'
     * time inside of them without an item, and how often one slept for want of work, before the step too */
    double loops, alone_share, idle_share, sleeps;
    /* Of the expert cache: its counts in the mean of a sample. What the disk takes for the bytes missed, at the rate
     * measured around the sample. What the same steps, of the same tokens, take when memory has all of their experts:
     * they are done again right behind; where the cache can't hold all of a sample's experts that is not to be had, and
     * `memory_estimates` samples have the step less its waiting in place of it. And how many times the longer of the
     * two a sample takes. */
    qn_expert_counts experts_mean;
    qn_statistic disk_ms, memory_ms, over_longer;
    size_t memory_estimates;
} qn_point_speed;

typedef struct qn_model_speed {
    qn_speed_kind kind;
    char cpu[QN_CPU_NAME_BYTES], isa[QN_ISA_NAME_BYTES];
    size_t threads, layers, sparse_layers, max_rows, drafts;
    size_t weight_bytes, cache_bytes, region_bytes; /* region: that the plain reads read */
    size_t expert_room, experts;                    /* of an expert cache, and of the model; 0: there is none */
    bool resident, packed;              /* the weights: in 2 MiB pages, else in 4 KiB pages; dense ones in 12 bits */
    bool bf16_peak;                     /* BF16 dot products are faster than float32 FMA: the peak is theirs */
    qn_statistic disk;                  /* GB/s at random places, with an expert cache */
    qn_statistic read_small, read_huge; /* GB/s from 4 KiB and 2 MiB pages */
    qn_statistic fp32, bf16;            /* GFLOP/s out of registers; bf16 0: the kernels have no such products */
    qn_point_speed point[QN_SPEED_MAX_POINTS];
    size_t point_count;
} qn_model_speed;

/* QN_USAGE: a point is beyond the model's context (field "context"). QN_RESOURCE: no memory for the caches.
 * QN_CANCELLED.
 */
qn_status qn_model_speed_measure(const qn_model_speed_options *options, qn_model_speed *out, qn_error *err);

/* json_decref frees; NULL when out of memory. */
json_t *qn_model_speed_to_json(const qn_model_speed *speed);

#endif
