/* BF16 matrices on their way into 12 bits (base/packed_bf16.h) while a load goes on.
 *
 * Each request of a packing brings whole rows into a buffer of the thread that reads them, which packs them at once
 * into the matrix's block of the load's memory; whoever brings the last rows finishes the matrix. One with too many
 * exponents that are rare in their row is not worth it: it is read again as it is, into memory of its own, and its
 * block is given back to the system; where there is no memory for that it stays where it is mapped. */
#ifndef QN_MODEL_RESIDENCE_PACKING_H
#define QN_MODEL_RESIDENCE_PACKING_H

#include <stddef.h>
#include <stdint.h>

#include "base/direct_reader.h"
#include "base/error.h"
#include "model/residence_plan.h"

typedef struct qn_load_packer qn_load_packer;

/* Plan, readers (as its requests number the files) and memory outlive the packer; so many threads use it. QN_RESOURCE:
 * no memory for their buffers. */
qn_status qn_load_packer_new(const qn_load_plan *plan, qn_direct_reader *const *readers, uint8_t *memory,
                             size_t threads, qn_load_packer **out, qn_error *err);
/* Matrices of memory of their own are gone with it. NULL is fine. */
void qn_load_packer_free(qn_load_packer *packer);

/* The threads' buffers, when no more requests will come. */
void qn_load_packer_free_buffers(qn_load_packer *packer);

/* Does a request of a packing; every one once. thread: which of the threads this is. Fails as reads do. */
qn_status qn_load_packer_do(qn_load_packer *packer, const qn_load_request *request, size_t thread, qn_error *err);

/* What has become of a matrix whose requests are all done, and whose threads have told so: packed, BF16 in memory, or
 * as it was. */
const qn_matrix *qn_load_packer_result(const qn_load_packer *packer, size_t packing);

typedef struct qn_load_packer_figures {
    size_t packed, unpacked;               /* matrices that are done: packed, or not, for too many exceptions */
    uint64_t from_bytes, bytes;            /* of the packed ones, as BF16 and packed */
    uint64_t unpacked_bytes, mapped_bytes; /* of the others; of them, what stays where it is mapped */
} qn_load_packer_figures;
/* When no request is being done. */
qn_load_packer_figures qn_load_packer_get_figures(const qn_load_packer *packer);

#endif
