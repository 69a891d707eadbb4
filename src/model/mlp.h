/* Gated MLPs, down(silu(gate h) * up h): a dense layer's, the shared experts, and the routed experts.
 *
 * All of a layer's MLPs run together: first gate and up of each with the rows that take it, then down, where a row
 * adds its experts in ascending id and the shared expert last. A dense layer is one expert that every row takes.
 *
 * With an expert cache the shared expert and those that are in memory begin while the others are read, and each of
 * these as it arrives; what a row adds up, and in which order, stays the same. */
#ifndef QN_MODEL_MLP_H
#define QN_MODEL_MLP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/step.h"
#include "model/tiles.h"
#include "model/weights.h"

/* Which rows an expert works on: pairs of (row, weight), grouped by expert, rows ascending within. */
typedef struct qn_grouping {
    size_t *first; /* [experts + 1]: pairs of expert e are [first[e], first[e + 1]) */
    int32_t *row;  /* [rows * taken] */
    float *weight;
} qn_grouping;

/* taken [rows, per_row] expert ids, weights likewise -> *out, whose arrays the caller gives. */
void qn_group_by_expert(const int32_t *taken, const float *weights, size_t rows, size_t per_row, size_t experts,
                        qn_grouping *out);

struct qn_mlp_group {
    const qn_matrix *gate, *up, *down; /* with an expert cache, of the present wave's groups alone */
    const int32_t *row;                /* [rows]; NULL: every row of the step */
    const float *weight;               /* [rows]; NULL: 1 */
    size_t rows, inner;
    float *activations;  /* [rows, inner] */
    size_t first_packed; /* row of packed_down, or of packed_shared_down when `row` is NULL */
    qn_tiles tiles;      /* of gate and up */
    size_t end;          /* items of the first phase, groups before it in the batch included */
    bool activated;      /* the activations are there: the first phase is done */
};

/* ws->h, normed, is the input; the result is in ws->branch. Fails only with an expert cache, and as that does. */
qn_status qn_mlp(const qn_step *step, const qn_layer_weights *weights, size_t layer, qn_error *err);

#endif
