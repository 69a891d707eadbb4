/* What a checkpoint holds, counted by kind and by layer: for `quern inspect` and whoever wants sizes. */
#ifndef QN_CHECKPOINT_SUMMARY_H
#define QN_CHECKPOINT_SUMMARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "checkpoint/listing.h"

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

typedef struct qn_dtype_share {
    const char *name; /* as the header spells it; codes and scales of MXFP4 experts are "MXFP4" */
    uint64_t bytes, parameters;
} qn_dtype_share;

enum { QN_SUMMARY_DTYPES = 10 };

typedef struct qn_kind_summary {
    size_t tensors;
    uint64_t parameters;                     /* scales are none */
    uint64_t bytes;                          /* scales included */
    qn_dtype_share dtype[QN_SUMMARY_DTYPES]; /* descending bytes; what is beyond the room is one of them, "other" */
    size_t dtypes;
} qn_kind_summary;

typedef struct qn_layer_summary {
    qn_kind_summary all, experts; /* the second: of the routed ones */
    size_t missing;               /* tensors that the index places in a file which is not there */
    bool sparse, indexer, mtp;    /* as the config has it; without one, what the names tell */
} qn_layer_summary;

/* Start from {0}. Strings are the listing's. */
typedef struct qn_summary {
    qn_kind_summary kind[QN_TENSOR_KINDS], total;
    qn_layer_summary *layers; /* the MTP layer is the last */
    size_t layer_count;
    size_t files; /* that hold tensors */
    /* A token in the KV cache, in BF16: latent and RoPE part of all layers, index keys of those with an indexer. 0 when
     * there is no config. */
    uint64_t latent_bytes_per_token, index_bytes_per_token;
} qn_summary;

const char *qn_tensor_kind_name(qn_tensor_kind kind); /* "routed experts" */

/* By name alone. config NULL: no layer is the MTP layer. */
qn_tensor_kind qn_tensor_kind_of(const qn_config *config, const char *name);

/* Counts what the listing's headers tell, whether the bytes are there or not. */
qn_status qn_listing_summarise(const qn_listing *listing, qn_summary *out, qn_error *err);
void qn_summary_free(qn_summary *summary);

/* Part of `whole` that is MXFP4, 0 to 1: of its bytes, of its parameters. 0 of nothing. */
double qn_mxfp4_share_of_bytes(const qn_kind_summary *whole);
double qn_mxfp4_share_of_parameters(const qn_kind_summary *whole);

#endif
