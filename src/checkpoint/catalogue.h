/* Every tensor that a config stands for, without a checkpoint: names, dtypes and shapes as the BF16 release has them.
 *
 * Matrices and norms are BF16, router biases F32, routed experts one tensor per expert and projection. The order is
 * that of the forward pass: embedding, layers ascending (the MTP layer is the last), final norm, head; within a layer
 * that of docs/checkpoints.md. An MTP layer's own embed_tokens and shared_head.head, which a checkpoint may have beside
 * those of the model, are not listed; with tie_word_embeddings neither is lm_head. */
#ifndef QN_CHECKPOINT_CATALOGUE_H
#define QN_CHECKPOINT_CATALOGUE_H

#include <stddef.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/error.h"
#include "checkpoint/config.h"
#include "checkpoint/summary.h"

#define QN_NO_INDEX ((size_t)-1)

typedef struct qn_catalogue_tensor {
    const char *name; /* "model.layers.3.mlp.experts.0.gate_proj.weight" */
    qn_dtype dtype;   /* BF16 or F32 */
    size_t dims, shape[2];
    qn_tensor_kind kind; /* in the MTP layer too that of the part; QN_KIND_MTP is what only that layer has */
    size_t layer;        /* num_hidden_layers for the MTP layer; QN_NO_INDEX outside of the layers */
    size_t expert;       /* of a routed expert, else QN_NO_INDEX */
} qn_catalogue_tensor;

typedef struct qn_catalogue qn_catalogue;

/* The catalogue copies what it needs of the config. QN_RESOURCE when out of memory. */
qn_status qn_catalogue_new(const qn_config *config, qn_catalogue **out, qn_error *err);
void qn_catalogue_free(qn_catalogue *catalogue); /* NULL is fine */

size_t qn_catalogue_count(const qn_catalogue *catalogue);
const qn_catalogue_tensor *qn_catalogue_at(const qn_catalogue *catalogue, size_t i);
const qn_catalogue_tensor *qn_catalogue_find(const qn_catalogue *catalogue, const char *name); /* NULL: not listed */

uint64_t qn_catalogue_elements(const qn_catalogue_tensor *tensor);
/* Of the tensor as it is; and, `cols` a multiple of 32, with its elements in MXFP4 (codes and scales). */
uint64_t qn_catalogue_bytes(const qn_catalogue_tensor *tensor);
uint64_t qn_catalogue_mxfp4_bytes(const qn_catalogue_tensor *tensor);

#endif
