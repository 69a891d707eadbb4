/* How much each input of the routed experts matters: second moments that `quern eval ppl --collect` measured, read for
 * the weighted rule of `quern convert --importance`.
 *
 * The output of a linear layer changes by sum_j d_j x_j when its weights change by d, so the expected squared change is
 * about sum_j d_j^2 E[x_j^2]: an error of a weight counts as much as the mean square of its input. Each token's inputs
 * are first scaled to a mean square of 1, so that tokens count alike: unscaled, a few with huge activations would
 * decide for all (docs/quantisation.md has what that costs). The file is safetensors with, for each sparse layer L (the
 * MTP layer has the index num_hidden_layers), E experts, hidden size H, intermediate size I:
 *   model.layers.L.mlp.experts.gate_up.input_sq_sum  F32 [E, H]  sum of the squares of what enters gate and up
 *   model.layers.L.mlp.experts.down.input_sq_sum     F32 [E, I]  the same of what enters down: silu(gate) * up
 *   model.layers.L.mlp.experts.tokens                F32 [E]     tokens routed to the expert: terms of those sums
 *
 * An expert that few tokens took has sums that say little, so they are filled up with QN_IMPORTANCE_PRIOR_TOKENS tokens
 * as the layer's experts have them on average: with S_e the expert's sums, n_e its tokens and k that number,
 *   w = (S_e + k * sum_e' S_e' / sum_e' n_e') / (n_e + k), divided by its mean over the inputs.
 * An expert without any token has the layer's average. */
#ifndef QN_CHECKPOINT_IMPORTANCE_H
#define QN_CHECKPOINT_IMPORTANCE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/hash.h"
#include "checkpoint/config.h"

enum { QN_IMPORTANCE_PRIOR_TOKENS = 32, QN_IMPORTANCE_NAME_BYTES = 80 };

typedef enum qn_importance_tensor {
    QN_IMPORTANCE_GATE_UP,
    QN_IMPORTANCE_DOWN,
    QN_IMPORTANCE_TOKENS,
    QN_IMPORTANCE_TENSORS
} qn_importance_tensor;

/* Its name in the file, and its columns: 0 for the vector of tokens. Returns name. */
const char *qn_importance_name(size_t layer, qn_importance_tensor which, char name[QN_IMPORTANCE_NAME_BYTES]);
size_t qn_importance_cols(const qn_config *config, qn_importance_tensor which);

typedef struct qn_importance qn_importance;

/* Maps and reads the whole file, with a line of progress. Refused (QN_BAD_INPUT, naming file and tensor): a tensor
 * missing, unknown, misshapen or of another dtype; a value that is negative or not finite; a layer that no token
 * reached. Only the MTP layer may be absent, as in a file collected without it: a log line says that its errors then
 * count all alike. */
qn_status qn_importance_open(const char *path, const qn_config *config, qn_importance **out, qn_error *err);
void qn_importance_close(qn_importance *importance); /* NULL is fine */

/* Of the file's bytes, for whoever has to know that it is the same file. */
qn_hash qn_importance_hash(const qn_importance *importance);

/* The weights of the inputs of an expert's gate and up (QN_IMPORTANCE_GATE_UP, out [hidden_size]) or down
 * (QN_IMPORTANCE_DOWN, out [moe_intermediate_size]): finite, >= 0, their mean 1. All 1 for an absent MTP layer. The
 * layer is a sparse one. Any thread. */
void qn_importance_weights(const qn_importance *importance, size_t layer, size_t expert, qn_importance_tensor which,
                           float *out);

#endif
