/* One decoder block on a step's residual stream:
 *     x += attention(RMSNorm(x; input_layernorm));  x += mlp(RMSNorm(x; post_attention_layernorm)) */
#ifndef QN_MODEL_LAYER_H
#define QN_MODEL_LAYER_H

#include "model/step.h"
#include "model/weights.h"

/* Cosines and sines of the step's rows, and no faults yet. */
void qn_layers_begin(const qn_step *step);

/* ws->x through the block; in the last layer, of the rows that are wanted (qn_step_drops_rows), which are the step's
 * from then on. QN_FAILED, naming the layer, when a value is not finite, and what an expert cache fails with
 * (QN_RESOURCE, QN_BAD_INPUT): the rows' caches are then void. */
qn_status qn_layer_run(qn_step *step, const qn_layer_weights *weights, size_t layer, qn_error *err);

#endif
