/* One kernel on one shape of GLM-5.3, through the loops that the model runs it in, so often that it can be timed.
 *
 * Weights are cold: products walk through a region larger than the caches. Keys of attention and of the indexer are in
 * cache as far as they fit there: in a step they are few bytes beside its weights, and many queries share them. */
#ifndef QN_BENCH_KERNEL_CASE_H
#define QN_BENCH_KERNEL_CASE_H

#include <stddef.h>

#include "base/error.h"
#include "base/pool.h"
#include "bench/region.h"
#include "kernels/kernels.h"

typedef enum qn_kernel_kind {
    QN_KERNEL_MATMUL_MXFP4,
    QN_KERNEL_MATMUL_BF16,
    QN_KERNEL_MATMUL_PACKED, /* of BF16 weights in 12 bits */
    QN_KERNEL_TRANSPOSED,    /* matmul_transposed of 64 heads' W_k */
    QN_KERNEL_ATTEND,        /* 64 heads */
    QN_KERNEL_INDEX_SCORES,  /* 32 heads */
    QN_KERNEL_TOPK,          /* 2048 of the keys, on one thread */
    QN_KERNEL_KINDS
} qn_kernel_kind;

/* As JSON and the option spell it: "matmul_mxfp4". */
const char *qn_kernel_kind_name(qn_kernel_kind kind);

typedef struct qn_kernel_case {
    qn_kernel_kind kind;
    size_t cols, outputs; /* of the matrix (of attend and index_scores: values of a key, heads) */
    size_t rows;          /* of activations; queries together of index_scores; 1 for attend, topk */
    size_t keys;          /* 0 for products */
} qn_kernel_case;

/* All cases for products with these rows (each at most QN_KERNEL_MAX_ROWS; transposed: those up to 64). The list is
 * static data put together in `out`; returns how many, at most QN_KERNEL_MAX_CASES. */
enum { QN_KERNEL_MAX_CASES = 128, QN_KERNEL_MAX_ROW_POINTS = 8, QN_KERNEL_MAX_ROWS = 512 };
size_t qn_kernel_cases(const size_t *rows, size_t row_count, qn_kernel_case out[QN_KERNEL_MAX_CASES]);

typedef struct qn_kernel_rig qn_kernel_rig;

/* Pool and region outlive it. Takes some 90 MB. */
qn_status qn_kernel_rig_new(qn_pool *pool, const qn_region *region, qn_kernel_rig **out, qn_error *err);
void qn_kernel_rig_free(qn_kernel_rig *rig); /* NULL is fine */

/* What was done in one sample. */
typedef struct qn_kernel_sample {
    double seconds;
    double flops; /* a multiply-add being two; 0 for topk */
    double bytes; /* of weights; 0 for kernels that have none */
    double keys;  /* of topk: scores looked through */
} qn_kernel_sample;

/* Prepares for a table and a case. *units is how much a sample does: 0 has it found out for some `milliseconds`, and
 * told. Products are whole matrices where one takes no longer than 25 times that. */
void qn_kernel_rig_use(qn_kernel_rig *rig, const qn_kernels *kernels, const qn_kernel_case *which, double milliseconds,
                       size_t *units);
qn_kernel_sample qn_kernel_rig_sample(qn_kernel_rig *rig);

#endif
