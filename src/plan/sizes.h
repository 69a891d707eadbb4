/* What a config stands for, counted from its tensors (checkpoint/catalogue.h): parameters, bytes, bytes of a token in
 * the KV cache. Formulae: docs/plan.md. */
#ifndef QN_PLAN_SIZES_H
#define QN_PLAN_SIZES_H

#include <stdint.h>

#include "base/error.h"
#include "checkpoint/config.h"
#include "checkpoint/summary.h"

typedef enum qn_plan_form { QN_PLAN_BF16, QN_PLAN_MXFP4, QN_PLAN_FORMS } qn_plan_form; /* of the routed experts */

const char *qn_plan_form_name(qn_plan_form form); /* "BF16", "MXFP4 experts" */

typedef struct qn_plan_kind {
    uint64_t tensors, parameters;
    uint64_t bytes[QN_PLAN_FORMS];
} qn_plan_kind;

typedef struct qn_plan_sizes {
    qn_plan_kind kind[QN_TENSOR_KINDS]; /* all of the MTP layer counts as QN_KIND_MTP */
    qn_plan_kind total;                 /* the MTP layer included */
    uint64_t weights;                   /* parameters without the routers' biases */
    uint64_t router_biases;
    uint64_t active_parameters; /* that one token meets: all but the MTP layer, the embedding and unchosen experts */
    uint64_t active_bytes[QN_PLAN_FORMS];
    uint64_t kv_values_per_token, kv_values_per_token_with_mtp; /* latent + RoPE of each layer, index keys */
    size_t indexer_layers; /* with an indexer of their own, the MTP layer left out */
} qn_plan_sizes;

/* A routed expert whose columns are no multiple of 32 has no MXFP4 form: QN_BAD_INPUT. */
qn_status qn_plan_count(const qn_config *config, qn_plan_sizes *out, qn_error *err);

#endif
