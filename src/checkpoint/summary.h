/* What a checkpoint holds, counted: for `quern inspect` and whoever wants sizes by kind. */
#ifndef QN_CHECKPOINT_SUMMARY_H
#define QN_CHECKPOINT_SUMMARY_H

#include <stddef.h>
#include <stdint.h>

#include "checkpoint/checkpoint.h"

typedef enum qn_tensor_kind {
    QN_KIND_EMBEDDING,
    QN_KIND_ATTENTION, /* its two inner norms included */
    QN_KIND_INDEXER,
    QN_KIND_DENSE_MLP,
    QN_KIND_ROUTER,
    QN_KIND_ROUTED_EXPERTS,
    QN_KIND_SHARED_EXPERTS,
    QN_KIND_NORMS,
    QN_KIND_HEAD,
    QN_KIND_MTP, /* all of the MTP layer */
    QN_KIND_OTHER,
    QN_TENSOR_KINDS
} qn_tensor_kind;

typedef struct qn_kind_summary {
    size_t tensors;
    uint64_t parameters;            /* MXFP4 scales are none */
    uint64_t bytes;                 /* scales included */
    uint64_t dtype[QN_DTYPE_COUNT]; /* of these, by dtype; codes and scales of experts count as MXFP4 */
} qn_kind_summary;

typedef struct qn_checkpoint_summary {
    qn_kind_summary kind[QN_TENSOR_KINDS], total;
    size_t files;
    /* A token in the KV cache, in BF16: latent and RoPE part of all layers, index keys of those with an indexer. */
    uint64_t latent_bytes_per_token, index_bytes_per_token;
} qn_checkpoint_summary;

const char *qn_tensor_kind_name(qn_tensor_kind kind); /* "routed experts" */

/* By name alone. */
qn_tensor_kind qn_tensor_kind_of(const qn_config *config, const char *name);

void qn_checkpoint_summarise(const qn_checkpoint *checkpoint, qn_checkpoint_summary *out);

#endif
