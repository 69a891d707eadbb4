/* The weights' way from the mapped files into memory of their own, while the model computes.
 *
 * A mapped file has pages of 4 KiB, and the system may drop them at any time. Loader threads read the matrices by large
 * requests past the page cache into anonymous memory of 2 MiB pages; the model meanwhile computes from the mapping.
 * What has been read whole is taken over by qn_residence_publish, which the thread that computes calls between two
 * calls of the model: it exchanges pointers, so that no call ever sees half of a change and none takes a lock. The
 * pages of the mapping behind what was taken over are given back to the system, and when all is taken over the files
 * are closed. On their way BF16 matrices may be packed to 12 bits (pack_dense): a change that no product's bits show.
 *
 * A read that fails ends the load with a line; what was read before stays, the rest goes on being used where it is
 * mapped. The bits are the same wherever they lie. */
#ifndef QN_MODEL_RESIDENCE_H
#define QN_MODEL_RESIDENCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "kernels/kernels.h"
#include "model/weights.h"

/* Where the weights are: in memory of their own where that suffices for them and all else (AUTO), or in any case; or in
 * the mapped files, from which the system reads them as they are used, and may drop them. */
typedef enum qn_load { QN_LOAD_AUTO, QN_LOAD_RESIDENT, QN_LOAD_MAPPED } qn_load;

/* Whether dense BF16 weights are packed to 12 bits as they are loaded, which changes no bit of any answer: only
 * resident weights can be. AUTO: if this table's kernels are faster with them. */
typedef enum qn_pack_dense { QN_PACK_AUTO, QN_PACK_ON, QN_PACK_OFF } qn_pack_dense;
/* Whether they are packed if they come to be resident. */
bool qn_load_packs_dense(qn_load load, qn_pack_dense pack_dense, const qn_kernels *kernels);

typedef struct qn_residence qn_residence;

typedef struct qn_residence_options {
    bool in_background;          /* progress is told in lines at long intervals, not drawn */
    void (*wake)(void *context); /* all has been read that will be: publish. On a loader's thread; NULL: not wanted */
    void *wake_context;
    bool without_experts;    /* routed experts stay where they are: an expert cache has them */
    bool pack_dense;         /* as qn_load_packs says (model/residence_plan.h) */
    const atomic_bool *stop; /* ends the load when set, after the requests in flight; outlives it. NULL: never set */
    size_t request_bytes;    /* a multiple of QN_DIRECT_ALIGNMENT; 0: 16 MiB, which disks take well */
} qn_residence_options;

/* Opens the files, allocates the memory and starts the threads; tells lines about what is unusual. The checkpoint and
 * the weights, whose matrices are its views, outlive the load. QN_RESOURCE: out of memory, descriptors or threads. */
qn_status qn_residence_start(const qn_checkpoint *checkpoint, qn_weights *weights, const qn_residence_options *options,
                             qn_residence **out, qn_error *err);

/* Ends a load that still goes on, after the requests in flight, and releases the memory: the weights must not be used
 * any more. NULL is fine. */
void qn_residence_free(qn_residence *residence);

/* Takes over what has been read; cheap when that is nothing. On the thread that computes. */
void qn_residence_publish(qn_residence *residence);

/* Returns when all has been read that will be; qn_residence_publish then takes it over. Any thread. */
void qn_residence_wait(qn_residence *residence);

typedef struct qn_residence_state {
    uint64_t total_bytes, loaded_bytes; /* to read; read so far */
    bool ended;                         /* no more will be read */
} qn_residence_state;
qn_residence_state qn_residence_get_state(const qn_residence *residence); /* any thread */

#endif
