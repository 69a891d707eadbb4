/* compressed-tensors, format mxfp4-pack-quantized: NAME.weight_packed and NAME.weight_scale in place of NAME.weight. */
#include <stdio.h>

#include "checkpoint/mxfp4.h"

static bool present(const qn_checkpoint *checkpoint, const char *prefix)
{
    return qn_layout_first_projection(checkpoint, prefix, ".weight_packed") != NULL;
}

static qn_status take_projection(const qn_expert_request *request, const char *base, size_t rows, size_t cols,
                                 qn_matrix *out, qn_error *err)
{
    char codes[QN_NAME_BUFFER_BYTES], scales[QN_NAME_BUFFER_BYTES];
    snprintf(codes, sizeof codes, "%s.weight_packed", base);
    snprintf(scales, sizeof scales, "%s.weight_scale", base);
    return qn_mxfp4_take_pair(request->checkpoint, codes, scales, rows, cols, out, err);
}

static qn_status take(const qn_expert_request *request, qn_error *err)
{
    return qn_layout_each_projection(request, take_projection, err);
}

const qn_expert_layout qn_layout_compressed_tensors = {
    .name = "compressed-tensors", .format = QN_EXPERTS_COMPRESSED_TENSORS, .present = present, .take = take};
