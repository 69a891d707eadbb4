/* AMD Quark: the codes take the place of NAME.weight (as U8 [out, in / 2]), the scales are NAME.weight_scale. Only the
 * dtype tells them from plain weights. */
#include <stdio.h>

#include "checkpoint/mxfp4.h"

static bool present(const qn_checkpoint *checkpoint, const char *prefix)
{
    const qn_tensor *first = qn_layout_first_projection(checkpoint, prefix, ".weight");
    return first && first->dtype == QN_DTYPE_U8;
}

static qn_status take_projection(const qn_expert_request *request, const char *base, size_t rows, size_t cols,
                                 qn_matrix *out, qn_error *err)
{
    char codes[QN_NAME_BUFFER_BYTES], scales[QN_NAME_BUFFER_BYTES];
    snprintf(codes, sizeof codes, "%s.weight", base);
    snprintf(scales, sizeof scales, "%s.weight_scale", base);
    return qn_mxfp4_take_pair(request->checkpoint, codes, scales, rows, cols, out, err);
}

static qn_status take(const qn_expert_request *request, qn_error *err)
{
    return qn_layout_each_projection(request, take_projection, err);
}

const qn_expert_layout qn_layout_quark = {
    .name = "quark", .format = QN_EXPERTS_QUARK, .present = present, .take = take};
