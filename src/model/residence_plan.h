/* What a load of the weights into memory has to read, where it goes, and which matrix is whole after what.
 *
 * The ranges of the files in which the matrices lie are read in order of file and offset, in large requests,
 * straight to where they stay: in memory a range keeps its place within the pages of 4 KiB, as reads past the page
 * cache want it. What lies between two matrices of one file (norms, biases) is read along when it is small. Nothing is
 * read or allocated but the plan itself. */
#ifndef QN_MODEL_RESIDENCE_PLAN_H
#define QN_MODEL_RESIDENCE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "checkpoint/view_map.h"
#include "model/weights.h"

typedef struct qn_load_request {
    size_t file;     /* of the view map */
    uint64_t offset; /* a multiple of QN_DIRECT_ALIGNMENT */
    size_t bytes;    /* at most request_bytes; only the last of a range is no multiple of the alignment */
    size_t at;       /* in the memory, a multiple too; it has room up to the next multiple behind the bytes */
} qn_load_request;

typedef struct qn_load_move {
    qn_matrix *matrix;
    qn_matrix from;            /* as it is in the files */
    size_t data_at, scales_at; /* in the memory; scales_at of MXFP4 only */
    size_t needs;              /* it is whole when the first `needs` requests are done */
} qn_load_move;

typedef struct qn_load_wishes {
    size_t request_bytes; /* a multiple of QN_DIRECT_ALIGNMENT */
    bool without_experts; /* routed experts are left out */
} qn_load_wishes;

typedef struct qn_load_plan {
    qn_load_request *requests;
    size_t request_count;
    qn_load_move *moves; /* in ascending order of `needs` */
    size_t move_count;
    uint64_t read_bytes; /* of all requests */
    size_t memory_bytes;
} qn_load_plan;

/* The plan points to the matrices of `weights`, which all are views that `map` finds. QN_RESOURCE when out of memory.
 */
qn_status qn_load_plan_make(qn_weights *weights, const qn_view_map *map, qn_load_wishes wishes, qn_load_plan *out,
                            qn_error *err);
void qn_load_plan_free(qn_load_plan *plan); /* {0} is fine */

#endif
