/* What a call has to compute and to read at least, by part: the measure that times are held against. Of rows that are
 * not wanted (qn_segment) the last layer has to do what their caches need. */
#ifndef QN_MODEL_WORK_H
#define QN_MODEL_WORK_H

#include <stddef.h>

#include "model/model.h"
#include "model/parts.h"

typedef struct qn_part_work {
    double flops; /* of products alone, a multiply-add being two */
    double bytes; /* of weights, each that is needed once, and of cached rows: of a segment's, each that its rows take.
                     Where rows of one segment choose their keys, the union is not known: counted as if they never chose
                     the same, up to all there are */
    double unpacked_bytes; /* the same if packed weights were BF16 */
} qn_part_work;

/* Adds the work of qn_model_forward on these segments and of qn_model_logits for logit_rows rows. `experts`: as the
 * call's clock counted them (qn_part_clock_experts). */
void qn_model_add_work(const qn_model *model, const qn_segment *segments, size_t segment_count, size_t experts,
                       size_t logit_rows, qn_part_work work[QN_PARTS]);

#endif
