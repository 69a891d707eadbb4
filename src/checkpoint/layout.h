/* How routed experts lie on disk: one file per layout, which maps names to views. Internal to this room.
 *
 * To add a layout: write layout_NAME.c, declare it here, and add it to the table in experts.c. */
#ifndef QN_CHECKPOINT_LAYOUT_H
#define QN_CHECKPOINT_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>

#include "checkpoint/checkpoint.h"

/* Room for a prefix and what a layout puts behind it. */
enum { QN_NAME_BUFFER_BYTES = 2 * QN_TENSOR_NAME_BYTES };

/* What a tensor has to be. */
typedef struct qn_expected {
    unsigned dtypes; /* bits 1 << qn_dtype */
    size_t dims, shape[4];
} qn_expected;

enum { QN_WEIGHT_DTYPES = 1 << QN_DTYPE_BF16 | 1 << QN_DTYPE_F16 | 1 << QN_DTYPE_F32 };

/* Takes and marks a tensor of any kind. Missing or other than expected: an error. */
qn_status qn_checkpoint_take_tensor(qn_checkpoint *checkpoint, const char *name, const qn_expected *expected,
                                    const qn_tensor **out, qn_error *err);

const qn_tensor *qn_checkpoint_find(const qn_checkpoint *checkpoint, const char *name); /* NULL: not there */

/* One layer's experts: gate and up are [inner, hidden] each, down is [hidden, inner]. */
typedef struct qn_expert_request {
    qn_checkpoint *checkpoint;
    const char *prefix; /* "model.layers.3.mlp.experts" */
    size_t experts, hidden, inner;
    qn_matrix *gate, *up, *down; /* [experts] each, to be filled */
} qn_expert_request;

typedef struct qn_expert_layout {
    const char *name;        /* for messages */
    qn_expert_format format; /* what config.json calls it */
    /* Whether tensors under the prefix bear this layout's names and dtypes. */
    bool (*present)(const qn_checkpoint *checkpoint, const char *prefix);
    qn_status (*take)(const qn_expert_request *request, qn_error *err);
} qn_expert_layout;

extern const qn_expert_layout qn_layout_plain;              /* prefix.E.gate_proj.weight, BF16, F16 or F32 */
extern const qn_expert_layout qn_layout_fused;              /* prefix.gate_up_proj [E, 2I, H], prefix.down_proj */
extern const qn_expert_layout qn_layout_compressed_tensors; /* prefix.E.gate_proj.weight_packed, .weight_scale */
extern const qn_expert_layout qn_layout_quark;              /* prefix.E.gate_proj.weight U8, .weight_scale */
extern const qn_expert_layout qn_layout_gpt_oss;            /* prefix.gate_up_proj_blocks, _scales, ... */

/* For layouts with one tensor per expert and projection: calls `take` for each, with "prefix.E.PROJECTION" as base. */
typedef qn_status (*qn_take_projection)(const qn_expert_request *request, const char *base, size_t rows, size_t cols,
                                        qn_matrix *out, qn_error *err);
qn_status qn_layout_each_projection(const qn_expert_request *request, qn_take_projection take, qn_error *err);

/* Finds prefix.0.PROJECTION followed by `suffix` for any of the three projections; NULL if none is there. */
const qn_tensor *qn_layout_first_projection(const qn_checkpoint *checkpoint, const char *prefix, const char *suffix);

#endif
