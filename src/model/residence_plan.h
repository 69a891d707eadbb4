/* What a load of the weights into memory has to read, where it goes, and which matrix is whole after what.
 *
 * The ranges of the files in which the matrices lie are read in order of file and offset, in large requests,
 * straight to where they stay: in memory a range keeps its place within the pages of 4 KiB, as reads past the page
 * cache want it. What lies between two matrices of one file (norms, biases) is read along when it is small. A matrix
 * that is to be packed (base/packed_bf16.h) is read by requests of its own, of whole rows, each into a buffer; what
 * becomes of it has a block in the memory. Nothing is read or allocated but the plan itself. */
#ifndef QN_MODEL_RESIDENCE_PLAN_H
#define QN_MODEL_RESIDENCE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "checkpoint/view_map.h"
#include "model/weights.h"

#define QN_NOT_PACKED SIZE_MAX

typedef struct qn_load_request {
    size_t file;               /* of the view map */
    uint64_t offset;           /* a multiple of QN_DIRECT_ALIGNMENT, if not of a packing */
    size_t bytes;              /* at most request_bytes; only the last of a range is no multiple of the alignment */
    size_t at;                 /* in the memory, a multiple too; it has room up to the next multiple behind the bytes */
    size_t packing;            /* or QN_NOT_PACKED */
    size_t first_row, row_end; /* of a packing, for which a row may be more than request_bytes, and `at` says nothing */
} qn_load_request;

typedef struct qn_load_packing {
    qn_matrix from; /* BF16, as it is in the files */
    size_t at;      /* of its block in the memory: a multiple of QN_DIRECT_ALIGNMENT, as large as it can get */
    size_t request_count;
} qn_load_packing;

typedef struct qn_load_move {
    qn_matrix *matrix;
    qn_matrix from;            /* as it is in the files */
    size_t packing;            /* that it becomes: two matrices may be one tensor; or QN_NOT_PACKED, and then: */
    size_t data_at, scales_at; /* in the memory; scales_at of MXFP4 only */
    size_t needs;              /* it is whole when the first `needs` requests are done */
} qn_load_move;

typedef struct qn_load_wishes {
    size_t request_bytes; /* a multiple of QN_DIRECT_ALIGNMENT */
    bool without_experts; /* routed experts are left out */
    bool pack_dense;      /* as far as qn_load_packs says */
} qn_load_wishes;

typedef struct qn_load_plan {
    qn_load_request *requests;
    size_t request_count;
    qn_load_move *moves; /* in ascending order of `needs` */
    size_t move_count;
    qn_load_packing *packings;
    size_t packing_count;
    uint64_t read_bytes; /* of all requests */
    size_t memory_bytes;
    size_t piece_bytes; /* of the largest request of a packing; 0: there is none */
} qn_load_plan;

/* Whether a matrix of this kind is to be packed, if all that is: BF16 of a shape that pays. Of an embedding single rows
 * are taken, so packing it would win nothing; one that is also the head's matrix is packed as that. */
bool qn_load_packs(const qn_matrix *matrix, qn_matrix_kind kind);

/* How many bytes less the weights take in memory at least when they are packed and not one has too many exceptions. */
size_t qn_load_saving(qn_weights *weights);

/* The plan points to the matrices of `weights`, which all are views that `map` finds. QN_RESOURCE when out of memory.
 */
qn_status qn_load_plan_make(qn_weights *weights, const qn_view_map *map, qn_load_wishes wishes, qn_load_plan *out,
                            qn_error *err);
void qn_load_plan_free(qn_load_plan *plan); /* {0} is fine */

#endif
