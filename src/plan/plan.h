/* A model's needs and this machine's means, put together: what fits, how it could be cut, how fast it would run. From a
 * config alone, before any download. docs/plan.md has every formula. */
#ifndef QN_PLAN_PLAN_H
#define QN_PLAN_PLAN_H

#include <jansson.h>
#include <stdbool.h>

#include "base/buffer.h"
#include "base/error.h"
#include "bench/hardware.h"
#include "plan/machine.h"
#include "plan/ranks.h"
#include "plan/sizes.h"
#include "plan/speed.h"

enum {
    QN_PLAN_CONTEXTS = 4,
    QN_PLAN_BATCHES = 2,
    QN_PLAN_PROMPTS = 3,
    QN_PLAN_RANK_LAYOUTS = 4 * QN_PLAN_MAX_RANKS,
    QN_PLAN_BATCH_CONTEXT = 4096,
    QN_PLAN_PATH_BYTES = 4096
};

extern const size_t qn_plan_contexts[QN_PLAN_CONTEXTS]; /* 0, 4K, 32K, 128K: tokens in the cache */
extern const size_t qn_plan_batches[QN_PLAN_BATCHES];   /* 4, 16 sequences of 4K each */
extern const size_t qn_plan_prompts[QN_PLAN_PROMPTS];   /* 512, 2048, 8192 tokens */

typedef struct qn_plan_options {
    const char *path;            /* config.json, or a folder with one */
    const char *root;            /* "" but in tests: before /proc and /sys */
    const char *disk;            /* a folder on the disk for the weights; NULL: that of `path` */
    const qn_hardware *hardware; /* NULL: no predictions */
    const qn_kernels *kernels;   /* whose step buffers count */
    uint64_t memory_bytes;       /* to plan for; 0: what is available here */
    size_t threads;              /* whose buffers count */
    size_t max_model_len;        /* tokens of a request; 0: max_position_embeddings */
    size_t max_num_batched_tokens;
    size_t ranks;      /* 0: any number */
    double acceptance; /* of a draft */
} qn_plan_options;

/* What is left beside the weights, for one form of the experts. */
typedef struct qn_plan_fit {
    uint64_t weight_bytes, step_bytes;
    bool fits;             /* weights, a step's buffers and one block of KV */
    uint64_t kv_tokens;    /* that fit beside them */
    double requests;       /* of max_model_len tokens */
    double resident_share; /* of the weights that stay in memory when they don't fit; else 1 */
} qn_plan_fit;

typedef struct qn_plan_speed {
    qn_step_time decode[QN_PLAN_CONTEXTS], batch[QN_PLAN_BATCHES], mtp, prefill[QN_PLAN_PROMPTS];
    double
        disk_bound_tokens; /* decode tokens/s that the disk allows when the weights don't fit; 0: unknown or no bound */
} qn_plan_speed;

typedef struct qn_plan {
    qn_config config;
    qn_plan_sizes sizes;
    qn_machine machine;
    qn_disk_space disk;
    char disk_folder[QN_PLAN_PATH_BYTES];
    uint64_t memory_bytes; /* planned for: 0 when unknown */
    uint64_t usable_bytes; /* nine tenths of it */
    size_t max_model_len, max_rows;
    uint64_t kv_block_bytes; /* 128 tokens, MTP layer included when there is one */
    qn_plan_fit fit[QN_PLAN_FORMS];
    qn_rank_layout layout[QN_PLAN_FORMS][QN_PLAN_RANK_LAYOUTS];
    uint64_t layout_kv_tokens[QN_PLAN_FORMS][QN_PLAN_RANK_LAYOUTS]; /* 0: does not fit */
    size_t layout_count[QN_PLAN_FORMS];
    bool predicts;
    qn_plan_speed speed[QN_PLAN_FORMS];
    double acceptance;
} qn_plan;

enum { QN_PLAN_BLOCK_TOKENS = 128 };

/* *out is some 100 KB: allocate it. QN_BAD_INPUT for a config that is none, QN_USAGE where options contradict it. */
qn_status qn_plan_make(const qn_plan_options *options, qn_plan *out, qn_error *err);

/* Index of the layout of fewest ranks that fits, or SIZE_MAX. */
size_t qn_plan_smallest(const qn_plan *plan, qn_plan_form form);

/* Predictions for contexts and prompts beyond max_model_len are left out. NULL: out of memory. */
json_t *qn_plan_to_json(const qn_plan *plan);

/* The same as tables and bars. */
void qn_plan_to_text(const qn_plan *plan, qn_buffer *out);

#endif
