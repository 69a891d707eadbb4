/* The parts of config.json that have a file each. Internal to this room. All take their fields out of the reader. */
#ifndef QN_CHECKPOINT_CONFIG_PARTS_H
#define QN_CHECKPOINT_CONFIG_PARTS_H

#include "checkpoint/config.h"
#include "checkpoint/config_fields.h"

/* out->rope from rope_parameters, or from rope_theta and rope_scaling; max_position_embeddings is read already. */
void qn_config_read_rope(qn_fields *f, qn_config *out);

/* layer_is_sparse and layer_has_indexer; num_hidden_layers is read already. */
void qn_config_read_layers(qn_fields *f, qn_config *out);

/* expert_format from quantization_config. */
void qn_config_read_quantization(qn_fields *f, qn_config *out);

#endif
