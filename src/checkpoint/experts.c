/* Which layout a layer's experts have is read off their tensors, layer by layer: a release may leave some layers
 * (MTP's) in BF16. config.json has the last word on what codes mean, so MXFP4 tensors must be the kind that it claims.
 */
#include <stdio.h>

#include "checkpoint/layout.h"

static const qn_expert_layout *const LAYOUTS[] = {
    &qn_layout_compressed_tensors, &qn_layout_gpt_oss, &qn_layout_quark, &qn_layout_plain, &qn_layout_fused,
};

static const char *const PROJECTIONS[] = {"gate_proj", "up_proj", "down_proj"};

qn_status qn_layout_each_projection(const qn_expert_request *request, qn_take_projection take, qn_error *err)
{
    for (size_t e = 0; e < request->experts; e++) {
        qn_matrix *const outs[] = {&request->gate[e], &request->up[e], &request->down[e]};
        for (size_t p = 0; p < 3; p++) {
            char base[QN_NAME_BUFFER_BYTES];
            snprintf(base, sizeof base, "%s.%zu.%s", request->prefix, e, PROJECTIONS[p]);
            size_t rows = p == 2 ? request->hidden : request->inner, cols = p == 2 ? request->inner : request->hidden;
            qn_status status = take(request, base, rows, cols, outs[p], err);
            if (status != QN_OK)
                return status;
        }
    }
    return QN_OK;
}

const qn_tensor *qn_layout_first_projection(const qn_checkpoint *checkpoint, const char *prefix, const char *suffix)
{
    const qn_tensor *found = NULL;
    for (size_t p = 0; p < 3 && !found; p++) {
        char name[QN_NAME_BUFFER_BYTES];
        snprintf(name, sizeof name, "%s.0.%s%s", prefix, PROJECTIONS[p], suffix);
        found = qn_checkpoint_find(checkpoint, name);
    }
    return found;
}

static const qn_expert_layout *layout_of(const qn_checkpoint *checkpoint, const char *prefix)
{
    for (size_t i = 0; i < sizeof LAYOUTS / sizeof *LAYOUTS; i++) {
        if (LAYOUTS[i]->present(checkpoint, prefix))
            return LAYOUTS[i];
    }
    return NULL;
}

/* The layout to name in errors when no tensor is there: the one that config.json claims. */
static const qn_expert_layout *claimed(const qn_checkpoint *checkpoint)
{
    for (size_t i = 0; i < sizeof LAYOUTS / sizeof *LAYOUTS; i++) {
        if (LAYOUTS[i]->format == qn_checkpoint_config(checkpoint)->expert_format)
            return LAYOUTS[i];
    }
    return &qn_layout_plain;
}

/* gpt-oss names leave no doubt, and several tools write them; the others share names with other formats. */
static qn_status check_claim(const qn_expert_request *request, const qn_expert_layout *layout, qn_error *err)
{
    qn_expert_format claim = qn_checkpoint_config(request->checkpoint)->expert_format;
    bool same = layout->format == claim || layout->format == QN_EXPERTS_PLAIN ||
                (layout->format == QN_EXPERTS_GPT_OSS && claim != QN_EXPERTS_PLAIN);
    if (same)
        return QN_OK;
    return qn_fail(err, QN_BAD_INPUT,
                   "%s: tensors %s.*: are MXFP4 as %s names it, and config.json's quantization_config says %s: use the "
                   "config.json that came with the weights",
                   qn_checkpoint_dir(request->checkpoint), request->prefix, layout->name,
                   claim == QN_EXPERTS_PLAIN ? "nothing of it" : claimed(request->checkpoint)->name);
}

/* One activation serves all experts of a layer, packed for one dtype. */
static qn_status check_one_dtype(const qn_expert_request *r, qn_error *err)
{
    for (size_t e = 0; e < r->experts; e++) {
        const qn_matrix *const matrices[] = {&r->gate[e], &r->up[e], &r->down[e]};
        for (size_t p = 0; p < 3; p++) {
            if (matrices[p]->dtype != r->gate[0].dtype)
                return qn_fail(err, QN_BAD_INPUT,
                               "%s: tensor %s.%zu.%s.weight: is %s, and gate_proj of expert 0 is %s: use a checkpoint "
                               "with one dtype for the experts of a layer",
                               qn_checkpoint_dir(r->checkpoint), r->prefix, e, PROJECTIONS[p],
                               qn_dtype_name(matrices[p]->dtype), qn_dtype_name(r->gate[0].dtype));
        }
    }
    return QN_OK;
}

qn_status qn_checkpoint_take_experts(qn_checkpoint *checkpoint, const char *prefix, qn_matrix *gate, qn_matrix *up,
                                     qn_matrix *down, qn_error *err)
{
    const qn_config *config = qn_checkpoint_config(checkpoint);
    qn_expert_request request = {.checkpoint = checkpoint,
                                 .prefix = prefix,
                                 .experts = config->n_routed_experts,
                                 .hidden = config->hidden_size,
                                 .inner = config->moe_intermediate_size,
                                 .gate = gate,
                                 .up = up,
                                 .down = down};
    const qn_expert_layout *layout = layout_of(checkpoint, prefix);
    if (!layout)
        layout = claimed(checkpoint); /* which tells what is missing */
    qn_status status = check_claim(&request, layout, err);
    if (status == QN_OK)
        status = layout->take(&request, err);
    return status == QN_OK ? check_one_dtype(&request, err) : status;
}
