/* gpt-oss: all experts of a layer in one tensor, blocks of 32 inputs as 16 bytes of their own dimension. The rows of
 * gate_up are gate's, then up's: transformers' order for this model (gpt-oss itself interleaves them). */
#include <stdio.h>

#include "checkpoint/mxfp4.h"

typedef struct fused {
    const qn_tensor *blocks, *scales;
} fused;

static bool present(const qn_checkpoint *checkpoint, const char *prefix)
{
    char up[QN_NAME_BUFFER_BYTES], down[QN_NAME_BUFFER_BYTES];
    snprintf(up, sizeof up, "%s.gate_up_proj_blocks", prefix);
    snprintf(down, sizeof down, "%s.down_proj_blocks", prefix);
    return qn_checkpoint_find(checkpoint, up) || qn_checkpoint_find(checkpoint, down);
}

static qn_status take_fused(const qn_expert_request *request, const char *projection, size_t rows, size_t cols,
                            fused *out, qn_error *err)
{
    char name[QN_NAME_BUFFER_BYTES];
    snprintf(name, sizeof name, "%s.%s_blocks", request->prefix, projection);
    size_t blocks = cols / QN_MXFP4_BLOCK;
    qn_expected codes = {.dtypes = 1 << QN_DTYPE_U8,
                         .dims = 4,
                         .shape = {request->experts, rows, blocks, QN_MXFP4_BLOCK / 2}};
    qn_expected scales = {.dtypes = 1 << QN_DTYPE_U8, .dims = 3, .shape = {request->experts, rows, blocks}};
    qn_status status = qn_mxfp4_check_cols(request->checkpoint, name, cols, err);
    if (status == QN_OK)
        status = qn_checkpoint_take_tensor(request->checkpoint, name, &codes, &out->blocks, err);
    snprintf(name, sizeof name, "%s.%s_scales", request->prefix, projection);
    if (status == QN_OK)
        status = qn_checkpoint_take_tensor(request->checkpoint, name, &scales, &out->scales, err);
    return status;
}

/* Expert e's [rows, cols]. */
static qn_matrix expert_of(const fused *f, size_t e, size_t rows, size_t cols)
{
    return (qn_matrix){.dtype = QN_DTYPE_MXFP4,
                       .rows = rows,
                       .cols = cols,
                       .data = f->blocks->data + e * rows * (cols / 2),
                       .scales = f->scales->data + e * rows * (cols / QN_MXFP4_BLOCK)};
}

static qn_status take(const qn_expert_request *request, qn_error *err)
{
    size_t hidden = request->hidden, inner = request->inner;
    fused gate_up, down;
    qn_status status = take_fused(request, "gate_up_proj", 2 * inner, hidden, &gate_up, err);
    if (status == QN_OK)
        status = take_fused(request, "down_proj", hidden, inner, &down, err);
    for (size_t e = 0; e < request->experts && status == QN_OK; e++) {
        qn_matrix both = expert_of(&gate_up, e, 2 * inner, hidden);
        request->gate[e] = qn_matrix_rows(&both, 0, inner);
        request->up[e] = qn_matrix_rows(&both, inner, inner);
        request->down[e] = expert_of(&down, e, hidden, inner);
    }
    return status;
}

const qn_expert_layout qn_layout_gpt_oss = {
    .name = "gpt-oss", .format = QN_EXPERTS_GPT_OSS, .present = present, .take = take};
